"""Fetches the partitions that follow one leader: one connection, one session, one request at a time.

What an answer says is done in the order of following.Step. Everything that it appends is written at the end of this
turn of the loop, and the next request is made after that. An error of one partition does not hold the others: it is
fetched again after replica.fetch.backoff.ms. Memory is bounded by one answer (replica.fetch.response.max.bytes).
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING

from broker_cy.core.errors import ErrorCode, KafkaError, WireError
from broker_cy.core.logs import facts
from broker_cy.replica import following
from broker_cy.replica.following import Answer, Step
from broker_cy.server.replication.fetch_session import Fetched, FetchSession
from broker_cy.server.replication.links import Link, LinkFailed, Links
from broker_cy.storage.errors import CorruptSegment, OffsetOutOfRange, StorageError
from broker_cy.wire import codec, messages
from broker_cy.wire.frame import ApiKey

if TYPE_CHECKING:
    from collections.abc import Callable

    from broker_cy.config import BrokerConfig
    from broker_cy.core.clock import Clock
    from broker_cy.replica.partition import Partition
    from broker_cy.storage.log_manager import LogManager

LOGGER = logging.getLogger("broker_cy.server.replication")

FETCH_VERSION = 17
LIST_OFFSETS_VERSION = 7
EARLIEST = -2
LATEST = -1
NO_EPOCH = -1


@dataclass(frozen=True)
class Follower:
    """What all fetchers of a broker share. `broker_epoch` is that of its registration now."""

    node_id: int
    broker_epoch: Callable[[], int]
    config: BrokerConfig
    clock: Clock
    loop: asyncio.AbstractEventLoop
    links: Links
    logs: LogManager
    flush: Callable[[], int]


class LeaderFetcher:
    """The partitions whose leader is the broker `leader_id`. `close` ends it."""

    def __init__(self, follower: Follower, leader_id: int) -> None:
        self._follower = follower
        self._leader_id = leader_id
        self._session = FetchSession(follower.config)
        self._news = asyncio.Event()
        self._task = follower.loop.create_task(self._run())

    @property
    def is_idle(self) -> bool:
        return not self._session.partitions

    def add(self, partition: Partition) -> None:
        partition.on_written = self._written
        self._session.add(partition)
        self._news.set()

    def remove(self, partition: Partition) -> None:
        partition.on_written = None
        self._session.remove(partition)
        self._news.set()

    def close(self) -> None:
        self._task.cancel()

    def _written(self, partition: Partition) -> None:
        self._session.note(partition)
        self._news.set()

    @property
    def _backoff_s(self) -> float:
        return float(self._follower.config["replica.fetch.backoff.ms"]) / 1000

    # --- the course of it

    async def _run(self) -> None:
        """Fetch for as long as there are partitions; connect again whenever the connection fails."""
        while True:
            if self.is_idle:
                self._news.clear()
                await self._news.wait()
            link: Link | None = None
            try:
                link = await self._follower.links.connect(self._leader_id)
                self._session.restart()
                while not self.is_idle:
                    await self._round(link)
            except (LinkFailed, WireError) as error:
                LOGGER.debug("fetching failed", extra=facts(leader=self._leader_id, reason=str(error)))
                await asyncio.sleep(self._backoff_s)
            finally:
                if link is not None:
                    link.close()

    async def _round(self, link: Link) -> None:
        """One fetch. Raises LinkFailed, WireError."""
        self._news.clear()
        request = self._session.request(self._follower.node_id, self._follower.broker_epoch())
        if request is None:
            await self._news.wait()
            return
        body = codec.encode(request, FETCH_VERSION)
        data = await link.exchange(ApiKey.FETCH, FETCH_VERSION, body, self._timeout_s)
        response = codec.decode(messages.FetchResponse, FETCH_VERSION, data)
        out_of_range = []
        for found in self._session.take(response):
            if found.data.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
                out_of_range.append(found)
            else:
                self._guarded(found.partition, lambda found=found: self._take(found))  # type: ignore[misc]
        if out_of_range:
            await self._look_up(link, out_of_range)
        if response.error_code and not self._session.ended(response):
            await asyncio.sleep(self._backoff_s)
        # Lets the turn end, which writes what was staged: the next request acknowledges it.
        await asyncio.sleep(0)

    @property
    def _timeout_s(self) -> float:
        return float(self._follower.config["replica.socket.timeout.ms"]) / 1000

    def _guarded(self, partition: Partition, work: Callable[[], None]) -> None:
        """Do what concerns one partition; if that fails, fetch it again after a while."""
        try:
            work()
        except (KafkaError, StorageError, CorruptSegment, OffsetOutOfRange) as error:
            LOGGER.warning(
                "cannot replicate a partition; will retry",
                extra=facts(partition=f"{partition.topic}-{partition.index}", reason=str(error)),
            )
            self._retry_later(partition)

    def _retry_later(self, partition: Partition) -> None:
        self._session.pause(partition)
        self._follower.loop.call_later(self._backoff_s, self._retry, partition)

    def _retry(self, partition: Partition) -> None:
        if (partition.topic_id, partition.index) in self._session.partitions and not partition.closed:
            self.add(partition)

    # --- answers

    def _take(self, found: Fetched) -> None:
        partition, data = found.partition, found.data
        if data.error_code != ErrorCode.NONE:
            # It is not leading, or one of us has newer metadata: that comes by itself.
            self._retry_later(partition)
            return
        diverging = data.diverging_epoch
        records = data.records or b""
        answer = Answer(
            data.high_watermark,
            data.log_start_offset,
            (diverging.epoch, diverging.end_offset) if diverging.epoch != NO_EPOCH else None,
            partition.spans(records),
        )
        self._carry_out(
            partition, following.take(partition.replica, found.asked, answer, partition.log.epochs), records
        )

    def _carry_out(self, partition: Partition, step: Step, records: bytes) -> None:
        """Do what a step says, in its order. Raises KafkaError, StorageError."""
        if step.is_ignored:
            return
        now_ms = self._follower.clock.wall_ms()
        if step.truncate_to != following.NONE or step.restart_at != following.NONE:
            self._follower.flush()
        if step.truncate_to != following.NONE:
            offset = max(step.truncate_to, partition.log.log_start_offset)
            LOGGER.info(
                "truncating a log to what its leader has",
                extra=facts(partition=f"{partition.topic}-{partition.index}", offset=offset),
            )
            self._follower.logs.truncate_to(partition.log, offset, now_ms)
            partition.was_truncated()
        if step.restart_at != following.NONE:
            self._follower.logs.restart_at(partition.log, step.restart_at, now_ms)
            partition.was_restarted()
        if step.append:
            partition.append_fetched(records, step.append, now_ms)
        if step.high_watermark != following.NONE:
            partition.learn(step.high_watermark, step.log_start_offset)
        self._session.note(partition)

    async def _look_up(self, link: Link, found: list[Fetched]) -> None:
        """Ask where the logs of the leader begin and end that do not have what was asked for. Raises LinkFailed,
        WireError.
        """
        starts = await self._offsets(link, found, EARLIEST)
        ends = await self._offsets(link, found, LATEST)
        for each in found:
            key = (each.partition.topic, each.partition.index)
            if key in starts and key in ends:
                self._guarded(each.partition, lambda each=each, key=key: self._resume(each, starts[key], ends[key]))  # type: ignore[misc]
            else:
                self._retry_later(each.partition)

    def _resume(self, found: Fetched, leader_start: int, leader_end: int) -> None:
        partition = found.partition
        if following.is_expected(partition.replica, found.asked, partition.log.epochs):
            step = following.out_of_range(partition.log.log_end_offset, leader_start, leader_end)
            self._carry_out(partition, step, b"")

    async def _offsets(self, link: Link, found: list[Fetched], timestamp: int) -> dict[tuple[str, int], int]:
        topics: dict[str, list[messages.ListOffsetsRequest.ListOffsetsPartition]] = {}
        for each in found:
            topics.setdefault(each.partition.topic, []).append(
                messages.ListOffsetsRequest.ListOffsetsPartition(
                    partition_index=each.partition.index,
                    current_leader_epoch=each.asked.leader_epoch,
                    timestamp=timestamp,
                )
            )
        request = messages.ListOffsetsRequest(
            replica_id=self._follower.node_id,
            topics=[
                messages.ListOffsetsRequest.ListOffsetsTopic(name=name, partitions=each)
                for name, each in topics.items()
            ],
        )
        body = codec.encode(request, LIST_OFFSETS_VERSION)
        data = await link.exchange(ApiKey.LIST_OFFSETS, LIST_OFFSETS_VERSION, body, self._timeout_s)
        response = codec.decode(messages.ListOffsetsResponse, LIST_OFFSETS_VERSION, data)
        return {
            (topic.name, each.partition_index): each.offset
            for topic in response.topics
            for each in topic.partitions
            if each.error_code == ErrorCode.NONE
        }
