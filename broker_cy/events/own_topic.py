"""A topic that this broker itself writes. It is created with the first record, and writing to it never delays a client.

If another broker leads it, records are sent to that broker; they wait while the topic has no leader. They are sent
again if an answer is lost, so they are written at least once. Records that cannot be written are dropped, with one log
line: no client waits for them.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from broker_cy.control.topics.internal_topics import creatable_topic
from broker_cy.controller.create_topics import CreateTopics
from broker_cy.core.errors import ErrorCode, KafkaError
from broker_cy.core.logs import facts
from broker_cy.core.supervision import keep_running
from broker_cy.events.own_topic_leader import NO_LEADER
from broker_cy.replica.replica import Role
from broker_cy.storage.errors import StorageError
from broker_cy.wire import messages
from broker_cy.wire import records as wire_records
from broker_cy.wire.compression import Codec

if TYPE_CHECKING:
    from broker_cy.config import BrokerConfig
    from broker_cy.core.clock import Clock
    from broker_cy.events.own_topic_leader import OwnTopicLeader
    from broker_cy.replica.partition import Partition
    from broker_cy.replica.partition_table import PartitionTable

LOGGER = logging.getLogger("broker_cy.server.own_topics")

# Records that wait for the topic; beyond it the oldest are dropped.
WAITING_MAX = 10_000
# Size of one batch before compression; the topic accepts max.message.bytes.
BATCH_BYTES = 512 << 10
# The least size of a batch that is worth compressing: more than what a broker at rest writes, because the library takes
# 2.5 MB.
COMPRESS_BYTES = 1024
# Until records are sent again whose leader is not known, or does not take them.
RETRY_S = 0.5
# How long the topic is not created because there are fewer brokers than it shall have replicas: others may be starting.
BROKERS_WAIT_S = 30.0
# How long the broker waits for its own metadata to show a topic that was created; after it the next record tries again.
VISIBLE_WAIT_S = 30.0


class OwnTopic:
    """Writes records of partition 0 of `name`, those of one turn of the loop in as few batches as possible."""

    def __init__(
        self,
        name: str,
        config: BrokerConfig,
        clock: Clock,
        loop: asyncio.AbstractEventLoop,
        partitions: PartitionTable,
        submit: Callable[[Any], Awaitable[Any]],
        leader: OwnTopicLeader,
    ) -> None:
        self.name = name
        self.dropped = 0
        self._config = config
        self._clock = clock
        self._loop = loop
        self._partitions = partitions
        self._submit = submit
        self._leader = leader
        self._sending: asyncio.Task[None] | None = None
        self._waiting: deque[wire_records.Record] = deque()
        self._creating: asyncio.Task[None] | None = None
        self._scheduled = False
        self._stopped = False

    def write(self, key: bytes, value: bytes, time_ms: int) -> None:
        """Queue a record, which is appended soon."""
        if self._stopped:
            return
        if len(self._waiting) >= WAITING_MAX:
            self._waiting.popleft()
            self._drop(1, "too many wait to be written")
        self._waiting.append(wire_records.Record(timestamp=time_ms, key=key, value=value))
        if not self._scheduled:
            self._scheduled = True
            self._loop.call_soon(self.flush)

    def flush(self) -> None:
        """Append the waiting records, or send them to the leader, if the topic exists; else request its creation."""
        self._scheduled = False
        if not self._waiting or self._stopped:
            return
        partition = self._partitions.get(self.name, 0)
        if partition is not None and partition.replica.role == Role.LEADER:
            while self._waiting:
                self._append(partition)
        elif partition is not None or self._leader.exists(self.name):
            if self._sending is None or self._sending.done():
                self._sending = keep_running(self._loop, self._send, f"records for {self.name}")
        elif self._creating is None or self._creating.done():
            self._creating = self._loop.create_task(self._create())

    async def _send(self) -> None:
        """Send the waiting records to the leader, until all are sent, or this broker leads."""
        while self._waiting:
            leader = self._leader.elsewhere(self.name)
            if leader == NO_LEADER:
                partition = self._partitions.get(self.name, 0)
                if partition is not None and partition.replica.role == Role.LEADER:
                    self.flush()
                    return
                await asyncio.sleep(RETRY_S)
                continue
            chunk, batch = self._next_batch()
            try:
                await self._leader.write(leader, self.name, batch)
            except KafkaError as error:
                if error.code is ErrorCode.TOPIC_AUTHORIZATION_FAILED:
                    # Each further attempt would be one more refusal that is reported.
                    self._drop(len(chunk), str(error))
                    continue
                LOGGER.debug("events or samples wait", extra=facts(topic=self.name, reason=str(error)))
                self._waiting.extendleft(reversed(chunk))
                await asyncio.sleep(RETRY_S)

    def _next_batch(self) -> tuple[list[wire_records.Record], bytes]:
        chunk: list[wire_records.Record] = []
        size = 0
        while self._waiting and (not chunk or size + len(self._waiting[0].value or b"") < BATCH_BYTES):
            record = self._waiting.popleft()
            size += len(record.value or b"")
            chunk.append(record)
        codec = Codec.ZSTD if size >= COMPRESS_BYTES else Codec.NONE
        return chunk, wire_records.encode_batch(chunk, codec=codec)

    def _append(self, partition: Partition) -> None:
        chunk, batch = self._next_batch()
        try:
            written = partition.append_records(batch, self._clock.wall_ms())
        except (KafkaError, StorageError) as error:
            self._drop(len(chunk), str(error))
            return

        def done(future: asyncio.Future[int]) -> None:
            if not future.cancelled() and future.exception() is not None:
                self._drop(len(chunk), str(future.exception()))

        written.add_done_callback(done)

    async def _create(self) -> None:
        await self._wait_while(lambda: self._leader.may_grow, BROKERS_WAIT_S)
        if self._leader.exists(self.name):
            self._loop.call_soon(self.flush)
            return
        topic = creatable_topic(self.name, self._config)
        topic.replication_factor = self._leader.replicas()
        request = messages.CreateTopicsRequest(topics=[topic])
        try:
            response = await self._submit(CreateTopics(request))
        except KafkaError as error:
            self._drop(len(self._waiting), str(error))
            self._waiting.clear()
            return
        result = response.topics[0]
        if result.error_code not in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS):
            self._drop(len(self._waiting), f"{ErrorCode(result.error_code).name}: {result.error_message}")
            self._waiting.clear()
            return
        # The metadata of this broker may show it a little later, and no other record may come that would look again.
        await self._wait_while(lambda: not self._leader.exists(self.name), VISIBLE_WAIT_S)
        if self._leader.exists(self.name):
            self.flush()

    async def _wait_while(self, condition: Callable[[], bool], most_s: float) -> None:
        deadline_s = self._loop.time() + most_s
        while condition() and self._loop.time() < deadline_s:
            await asyncio.sleep(RETRY_S)

    def _drop(self, count: int, reason: str) -> None:
        if self.dropped == 0:
            LOGGER.warning("could not write events or samples", extra=facts(topic=self.name, reason=reason))
        self.dropped += count

    async def stop(self) -> None:
        """Append the waiting records; later ones are not accepted."""
        self.flush()
        self._stopped = True
        for task in (self._creating, self._sending):
            if task is None or task.done():
                continue
            if task is self._sending:
                await asyncio.wait([task], timeout=RETRY_S)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
