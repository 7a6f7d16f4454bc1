"""The time at which a follower fetches again: after it has written all that it has received."""

from __future__ import annotations

import asyncio
import errno
import uuid
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, cast

import pytest

from broker_cy.core.clock import ManualClock
from broker_cy.metadata.image import PartitionImage
from broker_cy.replica import follower_log
from broker_cy.replica.flush_group import FlushGroup
from broker_cy.replica.partition import Partition
from broker_cy.replica.throttle import ReplicaThrottle
from broker_cy.replication import fetcher as fetcher_module
from broker_cy.replication.fetch_session_handler import FetchSessionHandler
from broker_cy.replication.fetcher import FetcherId, Follower, LeaderFetcher
from broker_cy.replication.links import Asking
from broker_cy.storage import disk, log_truncation
from broker_cy.storage.log import Log
from broker_cy.storage.log_config import LogConfig
from broker_cy.wire import codec, messages
from broker_cy.wire.records import Record, encode_batch

VERSION = 17
LEADER_EPOCH = 7
WAIT_MS = 500
CONFIG = {
    "replica.fetch.max.bytes": 1 << 20,
    "replica.fetch.wait.max.ms": WAIT_MS,
    "replica.fetch.min.bytes": 1,
    "replica.fetch.response.max.bytes": 10 << 20,
    "replica.fetch.backoff.ms": 1000,
    "replica.socket.timeout.ms": 30_000,
}


def batch(offset: int) -> bytes:
    found = bytearray(encode_batch([Record(0, 1_000, b"k", b"v", [])]))
    found[0:8], found[12:16] = offset.to_bytes(8), LEADER_EPOCH.to_bytes(4)
    return bytes(found)


def follower(group: FlushGroup, path: Path, index: int, records: int) -> Partition:
    """A follower with `records` records that does not know yet that they are committed."""
    log = Log.create(str(path / f"t-{index}"), "t", index, LogConfig(), 0)
    for offset in range(records):
        log.append(batch(offset), 0)
    partition = Partition(group, "t", index, uuid.UUID(int=1), None, 0, replication_factor=2)
    partition.assign(PartitionImage((1, 2), (1, 2), 1, LEADER_EPOCH, 0), False, cast(Any, None), -1)
    partition.come_online(log)
    assert partition.high_watermark == 0
    return partition


def part(index: int, high_watermark: int, records: bytes | None = None) -> messages.FetchResponse.PartitionData:
    return messages.FetchResponse.PartitionData(
        partition_index=index, high_watermark=high_watermark, log_start_offset=0, records=records
    )


class Logs:
    """The truncations of a log manager, which are never checkpointed."""

    def __init__(self) -> None:
        self.truncations: list[Log] = []

    def truncate_to(self, log: Log, offset: int, now_ms: int, done: object) -> bool:
        self.truncations.append(log)
        return log_truncation.truncate_to(log, offset, now_ms)


class Leader:
    """Answers the first requests, and none after them."""

    def __init__(self, parts: list[messages.FetchResponse.PartitionData], answers: int = 1) -> None:
        self.answers = answers
        topic = messages.FetchResponse.FetchableTopicResponse(topic_id=uuid.UUID(int=1), partitions=parts)
        self.answer = messages.FetchResponse(session_id=5, responses=[topic])
        self.requests: list[messages.FetchRequest] = []
        self.is_asked_twice = asyncio.Event()

    async def connect(self, broker_id: int) -> Leader:
        return self

    def ask(self, api_key: int, version: int, body: bytes, asking: Asking) -> None:
        self.requests.append(codec.decode(messages.FetchRequest, VERSION, body))
        if len(self.requests) <= self.answers:
            answer = memoryview(codec.encode(self.answer, VERSION))
            asyncio.get_running_loop().call_soon(asking.answered, answer)
        else:
            self.is_asked_twice.set()

    def close(self) -> None:
        pass


def test_the_next_request_has_what_came_beside_a_high_watermark(tmp_path: Path) -> None:
    """If this fails, acks=all waits up to replica.fetch.wait.max.ms for what a follower has already written."""

    async def work() -> None:
        loop, clock = asyncio.get_running_loop(), ManualClock()
        group = FlushGroup(loop, clock)
        known, behind = follower(group, tmp_path, 0, 3), follower(group, tmp_path, 1, 2)
        leader = Leader([part(0, 3), part(1, 2, batch(2))])
        throttle = ReplicaThrottle(11, 1000)
        everything = Follower(
            2, lambda: 9, cast(Any, CONFIG), clock, loop, cast(Any, leader), cast(Any, Logs()), group.flush, throttle
        )
        fetcher = LeaderFetcher(everything, FetcherId(1, is_far_behind=False), lambda found: None)
        fetcher.add(known)
        fetcher.add(behind)
        try:
            async with asyncio.timeout(30):
                await leader.is_asked_twice.wait()
        finally:
            fetcher.close()
        assert (known.high_watermark, behind.log.written_end_offset) == (3, 3)
        second = leader.requests[1]
        assert not second.forgotten_topics_data
        asked = {each.partition: each.fetch_offset for topic in second.topics for each in topic.partitions}
        assert asked == {1: 3}

    asyncio.run(work())


def test_a_request_without_what_is_not_written_yet_waits_for_little(tmp_path: Path) -> None:
    """If this fails, acks=all with flush.messages waits up to replica.fetch.wait.max.ms: the leader holds a request of
    the other partitions, and the next one waits for its answer.
    """

    async def work() -> None:
        group = FlushGroup(asyncio.get_running_loop(), ManualClock())
        session = FetchSessionHandler(2, cast(Any, CONFIG), ReplicaThrottle(11, 1000))
        first, second = follower(group, tmp_path, 0, 1), follower(group, tmp_path, 1, 1)
        for each in (first, second):
            session.add(each)

        def request() -> tuple[bool, dict[int, int], int]:
            """Whether the leader waits for long, the fetch offsets, and the number of forgotten partitions."""
            body = session.request(9, 0)
            assert body is not None
            found = codec.decode(messages.FetchRequest, VERSION, body)
            session.take(memoryview(codec.encode(messages.FetchResponse(session_id=5), VERSION)))
            offsets = {each.partition: each.fetch_offset for topic in found.topics for each in topic.partitions}
            return found.max_wait_ms == WAIT_MS, offsets, len(found.forgotten_topics_data)

        assert request() == (True, {0: 1, 1: 1}, 0)
        follower_log.append_fetched(second, batch(1), 1, 0)
        session.note(second)
        assert request() == (False, {}, 1)
        assert request() == (False, {}, 0)
        group.flush()
        session.note(second)
        assert request() == (True, {1: 2}, 0)

    asyncio.run(work())


class Holding:
    """Answers the first request, which has no session yet, and holds the next ones."""

    def __init__(self) -> None:
        self.requests: list[messages.FetchRequest] = []
        self.has_come = asyncio.Event()

    async def connect(self, broker_id: int) -> Holding:
        return self

    def ask(self, api_key: int, version: int, body: bytes, asking: Asking) -> None:
        self.requests.append(codec.decode(messages.FetchRequest, VERSION, body))
        self.has_come.set()
        if len(self.requests) == 1:
            answer = memoryview(codec.encode(messages.FetchResponse(session_id=5), VERSION))
            asyncio.get_running_loop().call_soon(asking.answered, answer)

    async def asked(self, count: int) -> None:
        while len(self.requests) < count:
            self.has_come.clear()
            await self.has_come.wait()

    def close(self) -> None:
        pass


def test_a_partition_that_is_fetched_from_now_on_waits_for_no_answer(tmp_path: Path) -> None:
    """If this fails, acks=all waits up to replica.fetch.wait.max.ms after an election, or for a replica that joins."""

    async def work() -> None:
        loop, clock = asyncio.get_running_loop(), ManualClock()
        group = FlushGroup(loop, clock)
        one, two, three = (follower(group, tmp_path, each, each + 1) for each in range(3))
        leader = Holding()
        throttle = ReplicaThrottle(11, 1000)
        everything = Follower(
            2, lambda: 9, cast(Any, CONFIG), clock, loop, cast(Any, leader), cast(Any, Logs()), group.flush, throttle
        )
        fetcher = LeaderFetcher(everything, FetcherId(1, is_far_behind=False), lambda found: None)
        fetcher.add(one)
        try:
            async with asyncio.timeout(30):
                await leader.asked(2)
                fetcher.add(two)
                await leader.asked(3)
                # Not more than two have no answer: this one is part of the next request.
                fetcher.add(three)
        finally:
            fetcher.close()
        assert len(leader.requests) == 3
        assert [(each.session_id, each.session_epoch) for each in leader.requests] == [(0, 0), (5, 1), (5, 2)]
        asked = [
            {part.partition: part.fetch_offset for part in topic.partitions} for topic in leader.requests[2].topics
        ]
        assert asked == [{1: 2}]

    asyncio.run(work())


def test_an_answer_cuts_few_logs_and_nothing_is_fetched_into_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If this fails, a failover after which a thousand partitions diverge blocks the event loop of a follower for half
    a second, or the follower appends to logs whose truncation a power loss would undo.
    """
    monkeypatch.setattr(fetcher_module, "CUT_MAX", 2)

    async def work() -> None:
        loop, clock = asyncio.get_running_loop(), ManualClock()
        group = FlushGroup(loop, clock)
        diverged = [follower(group, tmp_path, each, 3) for each in range(3)]
        parts = [part(each, 0) for each in range(3)]
        for found in parts:
            found.diverging_epoch = messages.FetchResponse.EpochEndOffset(epoch=LEADER_EPOCH, end_offset=1)
        leader, logs = Leader(parts), Logs()
        everything = Follower(
            2,
            lambda: 9,
            cast(Any, CONFIG),
            clock,
            loop,
            cast(Any, leader),
            cast(Any, logs),
            group.flush,
            ReplicaThrottle(11, 1000),
        )
        fetcher = LeaderFetcher(everything, FetcherId(1, is_far_behind=False), lambda found: None)
        for each in diverged:
            fetcher.add(each)
        try:
            async with asyncio.timeout(30):
                await leader.is_asked_twice.wait()
        finally:
            fetcher.close()
        assert logs.truncations == [each.log for each in diverged[:2]]
        assert [each.log.log_end_offset for each in diverged] == [1, 1, 3]
        asked = {part.partition: part.fetch_offset for topic in leader.requests[-1].topics for part in topic.partitions}
        assert asked.get(2, 3) == 3
        assert not {0, 1} & set(asked), "a log that was cut is fetched before that is on disk"

    asyncio.run(work())


class Timers:
    """The running loop, whose timers wait until they are called."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self.waiting: list[tuple[float, Callable[[], object]]] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loop, name)

    def call_later(self, delay_s: float, callback: Callable[..., object], *arguments: object) -> asyncio.Handle:
        self.waiting.append((delay_s, partial(callback, *arguments)))
        return asyncio.Handle(callback, arguments, self._loop)


def test_a_follower_with_a_full_disk_waits_before_it_fetches_again(tmp_path: Path) -> None:
    """If this fails, a follower with a full disk fetches up to a megabyte hundreds of times a second, which costs half
    a core.
    """

    async def work() -> None:
        loop, clock = Timers(), ManualClock()
        group = FlushGroup(cast(Any, loop), clock)
        full = follower(group, tmp_path, 0, 2)
        leader = Leader([part(0, 2, batch(2))], answers=1_000)
        everything = Follower(
            2, lambda: 9, cast(Any, CONFIG), clock, cast(Any, loop), cast(Any, leader), cast(Any, Logs()), group.flush,
            ReplicaThrottle(11, 1000),
        )  # fmt: skip
        fetcher = LeaderFetcher(everything, FetcherId(1, is_far_behind=False), lambda found: None)
        disk.set_write_budget(0, errno.ENOSPC)
        try:
            fetcher.add(full)
            for _ in range(100):
                await asyncio.sleep(0)
            assert full.replica.error == errno.ENOSPC
            assert [len(request.topics) for request in leader.requests] == [1]
            ((delay_s, fetch_again),) = loop.waiting
            assert delay_s == CONFIG["replica.fetch.backoff.ms"] / 1000
            disk.set_write_budget(-1, 0)
            fetch_again()
            async with asyncio.timeout(30):
                while full.log.written_end_offset < 3:
                    await asyncio.sleep(0)
        finally:
            disk.set_write_budget(-1, 0)
            fetcher.close()
        assert [each.fetch_offset for each in leader.requests[1].topics[0].partitions] == [2]

    asyncio.run(work())
