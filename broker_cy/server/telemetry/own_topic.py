"""A topic that this broker itself writes. It is created with the first record, and writing to it never delays a client.

Records that cannot be written are dropped, with one log line: no client waits for them.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from broker_cy.controller.create_topics import CreateTopics
from broker_cy.core.errors import ErrorCode, KafkaError
from broker_cy.core.logs import facts
from broker_cy.server.metadata.internal_topics import creatable_topic
from broker_cy.storage.errors import StorageError
from broker_cy.wire import messages
from broker_cy.wire import records as wire_records
from broker_cy.wire.compression import Codec

if TYPE_CHECKING:
    from broker_cy.config import BrokerConfig
    from broker_cy.core.clock import Clock
    from broker_cy.replica.partition import Partition
    from broker_cy.replica.partition_table import PartitionTable

LOGGER = logging.getLogger("broker_cy.server.own_topics")

# Records that wait for the topic; beyond it the oldest are dropped.
WAITING_MAX = 10_000
# Size of one batch before compression; the topic accepts max.message.bytes.
BATCH_BYTES = 512 << 10
# Bytes from which a batch is worth compressing.
COMPRESS_BYTES = 512


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
    ) -> None:
        self.name = name
        self.dropped = 0
        self._config = config
        self._clock = clock
        self._loop = loop
        self._partitions = partitions
        self._submit = submit
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
        """Append the waiting records if the topic exists; otherwise request its creation."""
        self._scheduled = False
        if not self._waiting or self._stopped:
            return
        partition = self._partitions.get(self.name, 0)
        if partition is None:
            if self._creating is None or self._creating.done():
                self._creating = self._loop.create_task(self._create())
            return
        while self._waiting:
            self._append(partition)

    def _append(self, partition: Partition) -> None:
        chunk: list[wire_records.Record] = []
        size = 0
        while self._waiting and (not chunk or size + len(self._waiting[0].value or b"") < BATCH_BYTES):
            record = self._waiting.popleft()
            size += len(record.value or b"")
            chunk.append(record)
        codec = Codec.ZSTD if size >= COMPRESS_BYTES else Codec.NONE
        try:
            written = partition.append_records(wire_records.encode_batch(chunk, codec=codec), self._clock.wall_ms())
        except (KafkaError, StorageError) as error:
            self._drop(len(chunk), str(error))
            return

        def done(future: asyncio.Future[int]) -> None:
            if not future.cancelled() and future.exception() is not None:
                self._drop(len(chunk), str(future.exception()))

        written.add_done_callback(done)

    async def _create(self) -> None:
        request = messages.CreateTopicsRequest(topics=[creatable_topic(self.name, self._config)])
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
        if self._partitions.get(self.name, 0) is not None:
            self.flush()

    def _drop(self, count: int, reason: str) -> None:
        if self.dropped == 0:
            LOGGER.warning("could not write events or samples", extra=facts(topic=self.name, reason=reason))
        self.dropped += count

    async def stop(self) -> None:
        """Append the waiting records; later ones are not accepted."""
        self.flush()
        self._stopped = True
        if self._creating is not None and not self._creating.done():
            self._creating.cancel()
            await asyncio.gather(self._creating, return_exceptions=True)
