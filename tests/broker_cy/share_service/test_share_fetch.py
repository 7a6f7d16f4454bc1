"""ShareFetch and ShareAcknowledge over a whole broker, by members that nothing but their requests know. The file is
long because the two requests have one session, whose rules each test sees from another side.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from uuid import UUID

import pytest

from broker_cy.core.errors import ErrorCode
from broker_cy.metadata import features
from tests.broker_cy.coordinator_services.group_broker import run, until
from tests.broker_cy.share_service.share_broker import (
    ACCEPT,
    GAP,
    NONE,
    REJECT,
    RELEASE,
    RENEW,
    Range,
    ShareBroker,
)

UNKNOWN_ID = UUID(int=77)
WAIT_MS = 20_000
Work = Callable[[ShareBroker, UUID], Awaitable[None]]


def with_broker(path: Path, work: Work, settings: dict[str, str] | None = None, start_offset: int = 0) -> None:
    async def start() -> None:
        async with ShareBroker(path, settings) as broker:
            await work(broker, await broker.topic(start_offset=start_offset))

    run(start)


def test_members_share_the_records_of_a_partition(tmp_path: Path) -> None:
    """If this fails, two members of a share group get the same record, or one of them gets nothing."""

    async def work(broker: ShareBroker, topic: UUID) -> None:
        await broker.produce(10, batches=3)
        a, b = await broker.consumer("a"), await broker.consumer("b")
        # The first fetch of a group waits until the state of the share partition is loaded.
        assert await a.fetch(topic, wait_ms=WAIT_MS, max_records=5) == [Range(0, 9, 1)]
        assert a.offsets() == list(range(10))
        assert a.last.acquisition_lock_timeout_ms == 1000
        assert await b.fetch(topic) == [Range(10, 29, 1)]
        assert b.offsets() == list(range(10, 30)), "batches that others hold are not sent"
        assert await a.fetch() == []
        assert a.part(0) is None, "a later answer names only partitions with news"
        other = await broker.consumer("c", group_id="h")
        await broker.initialize("h", topic, 0, 0)
        assert await other.fetch(topic, wait_ms=WAIT_MS) == [Range(0, 29, 1)]

    with_broker(tmp_path, work)


def test_acknowledged_records_are_done_and_released_ones_come_again(tmp_path: Path) -> None:
    """If this fails, records are delivered again after their acknowledgement, or are lost."""

    async def work(broker: ShareBroker, topic: UUID) -> None:
        await broker.produce(10)
        a, b = await broker.consumer("a"), await broker.consumer("b", version=1)
        await a.fetch(topic, wait_ms=WAIT_MS)
        kinds = [ACCEPT] * 3 + [RELEASE] * 2 + [REJECT] * 2 + [GAP] + [ACCEPT] * 2
        assert await a.acknowledge(topic, (0, 9, kinds)) == NONE
        assert a.last.acquisition_lock_timeout_ms == 1000
        assert await b.fetch(topic) == [Range(3, 4, 2)]
        assert b.offsets() == list(range(10)), "a batch is sent as a whole"
        assert await a.acknowledge(topic, (3, 4, [ACCEPT])) == ErrorCode.INVALID_RECORD_STATE
        assert await b.fetch(topic, acks=[(3, 4, [ACCEPT])]) == []
        assert b.part(0).acknowledge_error_code == NONE
        (share,) = broker.shares()
        assert (share.start_offset, share.in_flight()) == (10, [])
        counts = broker.share.counts
        assert list(counts.acknowledgements.values()) == [1, 7, 2, 2, 0]
        assert (counts.deliveries, counts.redeliveries) == (12, 2)

    with_broker(tmp_path, work)


def test_the_state_survives_a_restart(tmp_path: Path) -> None:
    """If this fails, the broker forgets acknowledgements when it restarts."""

    async def before(broker: ShareBroker, topic: UUID) -> None:
        await broker.produce(10)
        a = await broker.consumer("a")
        await a.fetch(topic, wait_ms=WAIT_MS)
        assert await a.acknowledge(topic, (0, 3, [ACCEPT]), (6, 7, [ACCEPT]), epoch=-1) == NONE
        await until(lambda: not broker.shares())

    with_broker(tmp_path, before)

    async def after() -> None:
        async with ShareBroker(tmp_path) as broker:
            found = broker.server.broker.image.topics.by_name("t")
            assert found is not None
            a = await broker.consumer("a")
            assert await a.fetch(found.topic_id, wait_ms=WAIT_MS) == [Range(4, 5, 2), Range(8, 9, 2)]

    run(after)


def test_a_fetch_waits_for_new_records(tmp_path: Path) -> None:
    """If this fails, a consumer gets new records only with its next request, or asks in a busy loop."""

    async def work(broker: ShareBroker, topic: UUID) -> None:
        a = await broker.consumer("a")
        waiting = asyncio.create_task(a.fetch(topic, wait_ms=WAIT_MS))
        await until(lambda: broker.is_waiting("g"))
        await broker.produce(2)
        assert await waiting == [Range(0, 1, 1)]
        waiting = asyncio.create_task(a.fetch(wait_ms=WAIT_MS, min_bytes=1000))
        await until(lambda: broker.is_waiting("g"))
        await broker.produce(1)
        await broker.produce(1, size=1000)
        assert await waiting == [Range(2, 3, 1)]
        assert await a.fetch(wait_ms=50) == []

    with_broker(tmp_path, work)


@pytest.mark.parametrize("end", ["acknowledge", "piggyback", "close", "disconnect", "timeout"])
def test_a_fetch_waits_for_records_of_others(tmp_path: Path, end: str) -> None:
    """If this fails, records that became available again wait for new ones (KAFKA-19227)."""

    async def work(broker: ShareBroker, topic: UUID) -> None:
        await broker.produce(4)
        a, b = await broker.consumer("a"), await broker.consumer("b")
        await a.fetch(topic, wait_ms=WAIT_MS)
        waiting = asyncio.create_task(b.fetch(topic, wait_ms=WAIT_MS))
        await until(lambda: broker.is_waiting("g"))
        if end == "acknowledge":
            assert await a.acknowledge(topic, (0, 3, [RELEASE])) == NONE
        elif end == "piggyback":
            await a.fetch(topic, acks=[(0, 3, [RELEASE])], max_records=0)
        elif end == "close":
            assert await a.acknowledge(topic, epoch=-1) == NONE
        elif end == "disconnect":
            a.connection.writer.close()
        assert await waiting == [Range(0, 3, 2)]
        counts = broker.share.counts
        assert counts.expired_locks == (4 if end == "timeout" else 0)
        assert counts.released_by_sessions == (4 if end in ("close", "disconnect") else 0)

    with_broker(tmp_path, work)


def test_a_record_is_given_up_at_its_limit(tmp_path: Path) -> None:
    """If this fails, a record that no consumer can process is delivered for ever, or is lost too early."""

    async def work(broker: ShareBroker, topic: UUID) -> None:
        await broker.produce(1)
        a = await broker.consumer("a")
        for count in (1, 2):
            assert await a.fetch(topic, wait_ms=WAIT_MS) == [Range(0, 0, count)]
            assert await a.acknowledge(topic, (0, 0, [RELEASE])) == NONE
        assert await a.fetch() == []
        assert broker.share.counts.archived_at_limit == 1

    with_broker(tmp_path, work, {"group.share.delivery.count.limit": "2"})


def test_limits_of_one_fetch(tmp_path: Path) -> None:
    """If this fails, a consumer gets more than it asked for."""

    async def work(broker: ShareBroker, topic: UUID) -> None:
        await broker.produce(4, batches=5)
        a = await broker.consumer("a")
        assert await a.fetch(topic, wait_ms=WAIT_MS, max_records=3, mode=1) == [Range(0, 2, 1)]
        assert await a.fetch(max_records=5, mode=1) == [Range(3, 3, 1), Range(4, 7, 1)]
        size = len(a.part(0).records) // 2
        assert await a.fetch(max_bytes=size, batch_size=2) == [Range(8, 11, 1)]
        assert await a.fetch(batch_size=4) == [Range(12, 15, 1), Range(16, 19, 1)]
        await a.fetch(mode=2)
        assert a.last.error_code == ErrorCode.UNKNOWN_SERVER_ERROR

    with_broker(tmp_path, work)


def test_a_negative_number_of_bytes_acquires_nothing(tmp_path: Path) -> None:
    """If this fails, records are locked by a request that Kafka answers with an error of each partition."""

    async def work(broker: ShareBroker, topic: UUID) -> None:
        await broker.produce(10)
        a = await broker.consumer("a")
        assert await a.fetch(topic, wait_ms=WAIT_MS, max_bytes=-1) == []
        assert a.part(0).error_code == ErrorCode.UNKNOWN_SERVER_ERROR
        assert await a.fetch(wait_ms=WAIT_MS) == [Range(0, 9, 1)]

    with_broker(tmp_path, work)


def test_the_locks_of_a_partition_are_limited(tmp_path: Path) -> None:
    """If this fails, one group holds any number of records in memory."""

    async def work(broker: ShareBroker, topic: UUID) -> None:
        await broker.produce(50, batches=4)
        a = await broker.consumer("a")
        assert await a.fetch(topic, wait_ms=WAIT_MS) == [Range(0, 99, 1)]
        waiting = asyncio.create_task(a.fetch(wait_ms=WAIT_MS))
        await until(lambda: broker.is_waiting("g"))
        await broker.produce(1)
        b = await broker.consumer("b")
        await b.fetch(topic)
        assert not waiting.done()
        await b.acknowledge(topic, epoch=-1)
        a.connection.writer.close()
        with pytest.raises(asyncio.IncompleteReadError):
            await waiting

    locks = {"group.share.partition.max.record.locks": "100", "group.share.record.lock.duration.ms": "60000"}
    with_broker(tmp_path, work, locks)


def test_a_lock_can_be_renewed(tmp_path: Path) -> None:
    """If this fails, a record that takes long to process is delivered to another member meanwhile."""

    async def work(broker: ShareBroker, topic: UUID) -> None:
        await broker.produce(2)
        a = await broker.consumer("a")
        await a.fetch(topic, wait_ms=WAIT_MS)
        assert await a.acknowledge(topic, (0, 1, [RENEW])) == ErrorCode.INVALID_REQUEST
        assert await a.acknowledge(topic, (0, 0, [RENEW]), renew=True) == NONE
        nothing = {"max_records": 0, "min_bytes": 0, "max_bytes": 0}
        await a.fetch(topic, acks=[(0, 0, [RENEW])], renew=True, **nothing)  # type: ignore[arg-type]
        assert (a.last.error_code, a.part(0).acknowledge_error_code) == (NONE, NONE)
        await a.fetch(topic, renew=True)
        assert a.last.error_code == ErrorCode.INVALID_REQUEST

    with_broker(tmp_path, work)


def test_sessions_have_kafkas_errors(tmp_path: Path) -> None:
    """If this fails, a consumer does not open its session again when it has to, or a request counts twice."""

    async def work(broker: ShareBroker, topic: UUID) -> None:
        a = await broker.consumer("a")
        for epoch, code in ((1, ErrorCode.SHARE_SESSION_NOT_FOUND), (-1, ErrorCode.SHARE_SESSION_NOT_FOUND)):
            await a.fetch(topic, epoch=epoch)
            assert a.last.error_code == code
            assert await a.acknowledge(topic, epoch=epoch) == code
        assert await a.acknowledge(topic, epoch=0) == ErrorCode.INVALID_SHARE_SESSION_EPOCH
        await a.fetch(topic, acks=[(0, 0, [ACCEPT])])
        assert a.last.error_code == ErrorCode.INVALID_REQUEST
        await a.fetch(topic)
        await a.fetch(topic, epoch=7)
        assert a.last.error_code == ErrorCode.INVALID_SHARE_SESSION_EPOCH
        await a.fetch(epoch=-1)
        assert a.last.error_code == NONE
        await a.fetch(epoch=1)
        assert a.last.error_code == ErrorCode.SHARE_SESSION_NOT_FOUND
        for name in ("", "x" * 37):
            member = await broker.consumer(name)
            await member.fetch(topic)
            assert member.last.error_code == ErrorCode.INVALID_REQUEST
            assert await member.acknowledge(topic) == ErrorCode.INVALID_REQUEST

    with_broker(tmp_path, work)


def test_waits_end_when_the_broker_stops(tmp_path: Path) -> None:
    """If this fails, a share consumer delays the stop of the broker, or does not get its last answer."""

    async def work(broker: ShareBroker, topic: UUID) -> None:
        a, b = await broker.consumer("a"), await broker.consumer("b")
        fetching = asyncio.create_task(a.fetch(topic, wait_ms=2**31 - 1))
        await until(lambda: broker.is_waiting("g"))
        refused = asyncio.create_task(b.fetch(topic, wait_ms=2**31 - 1))
        await until(lambda: len(broker.server._core.tasks) == 2)
        broker.share.stop()
        assert (await fetching, a.last.error_code) == ([], NONE)
        await refused
        assert b.last.error_code == ErrorCode.SHARE_SESSION_LIMIT_REACHED

    with_broker(tmp_path, work, {"group.share.max.share.sessions": "1", "group.share.max.size": "1"})


def test_the_number_of_sessions_is_limited(tmp_path: Path) -> None:
    """If this fails, clients exhaust the memory of the broker, or ask again at once."""

    async def work(broker: ShareBroker, topic: UUID) -> None:
        await (await broker.consumer("a")).fetch(topic)
        b = await broker.consumer("b")
        began_s = asyncio.get_running_loop().time()
        await b.fetch(topic, wait_ms=60)
        assert b.last.error_code == ErrorCode.SHARE_SESSION_LIMIT_REACHED
        assert asyncio.get_running_loop().time() - began_s >= 0.05

    with_broker(tmp_path, work, {"group.share.max.share.sessions": "1", "group.share.max.size": "1"})


@pytest.mark.parametrize(
    "batch",
    [(3, 2, [ACCEPT]), (0, 3, []), (0, 3, [ACCEPT, ACCEPT]), (0, 0, [5]), (0, 0, [-1]), (0, 0, [RENEW])],
)
def test_malformed_acknowledgements_are_refused(tmp_path: Path, batch: tuple[int, int, list[int]]) -> None:
    """If this fails, a broken client changes records that it does not mean."""

    async def work(broker: ShareBroker, topic: UUID) -> None:
        await broker.produce(4)
        a = await broker.consumer("a")
        await a.fetch(topic, wait_ms=WAIT_MS)
        assert await a.acknowledge(topic, batch) == ErrorCode.INVALID_REQUEST
        assert await a.acknowledge(topic, (2, 3, [ACCEPT]), (1, 1, [ACCEPT])) == ErrorCode.INVALID_REQUEST
        assert await a.acknowledge(topic, (0, 9, [ACCEPT])) == ErrorCode.INVALID_REQUEST
        assert await a.acknowledge(topic, (0, 3, [ACCEPT])) == NONE

    with_broker(tmp_path, work)


def test_unknown_topics_and_partitions_have_kafkas_errors(tmp_path: Path) -> None:
    """If this fails, a consumer does not learn that its topic is gone."""

    async def work(broker: ShareBroker, topic: UUID) -> None:
        a = await broker.consumer("a")
        await a.fetch(UNKNOWN_ID)
        assert a.part(0).error_code == ErrorCode.UNKNOWN_TOPIC_ID
        assert await a.acknowledge(UNKNOWN_ID, (0, 0, [ACCEPT])) == ErrorCode.UNKNOWN_TOPIC_ID
        b = await broker.consumer("b")
        await b.fetch(topic, partitions=[0, 9])
        assert b.part(9).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert await b.acknowledge(topic, (0, 0, [ACCEPT])) == ErrorCode.INVALID_RECORD_STATE
        c = await broker.consumer("c", group_id="other")
        await c.fetch(topic, epoch=0, max_bytes=0)
        assert await c.acknowledge(topic, (0, 0, [ACCEPT]), epoch=1) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    with_broker(tmp_path, work)


def test_a_group_without_state_is_refused(tmp_path: Path) -> None:
    """If this fails, a fetch for a share partition that was never initialized waits for ever, or begins anywhere."""

    async def work(broker: ShareBroker, topic: UUID) -> None:
        a = await broker.consumer("a", group_id="unknown")
        await a.fetch(topic, wait_ms=WAIT_MS)
        assert a.part(0).error_code == ErrorCode.UNKNOWN_SERVER_ERROR
        assert list(broker.share.table) == []

    with_broker(tmp_path, work)


@pytest.mark.parametrize(("policy", "first"), [("latest", 4), ("earliest", 0), ("by_duration:PT1H", 4)])
def test_a_group_begins_where_its_setting_says(tmp_path: Path, policy: str, first: int) -> None:
    """If this fails, a new group misses records, or gets old ones. The records have the timestamp 0."""

    async def work(broker: ShareBroker, topic: UUID) -> None:
        await broker.configure_group("g", "share.auto.offset.reset", policy)
        await broker.produce(4)
        a = await broker.consumer("a")
        waiting = asyncio.create_task(a.fetch(topic, wait_ms=WAIT_MS))
        if first:
            await until(lambda: broker.is_waiting("g"))
            await until(lambda: all(share.is_active for share in broker.shares()))
            await broker.produce(2)
        assert (await waiting)[0].first == first

    with_broker(tmp_path, work, start_offset=-1)


def test_share_groups_need_their_feature(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, a cluster serves share groups before all of its brokers can."""
    monkeypatch.setitem(features.SUPPORTED, features.SHARE_VERSION, (0, 0))

    async def work() -> None:
        async with ShareBroker(tmp_path) as broker:
            a = await broker.consumer("a")
            await a.fetch(UNKNOWN_ID)
            assert a.last.error_code == ErrorCode.UNSUPPORTED_VERSION
            assert await a.acknowledge(UNKNOWN_ID) == ErrorCode.UNSUPPORTED_VERSION

    run(work)


def test_large_records_are_sent_from_their_file(tmp_path: Path) -> None:
    """If this fails, records that do not fit into the answer itself arrive damaged."""

    async def work(broker: ShareBroker, topic: UUID) -> None:
        await broker.produce(1, batches=6, size=100_000)
        a, b = await broker.consumer("a"), await broker.consumer("b")
        assert await a.fetch(topic, wait_ms=WAIT_MS, max_records=2) == [Range(0, 1, 1)]
        assert await b.fetch(topic, max_records=1) == [Range(2, 2, 1)]
        assert await a.acknowledge(topic, (0, 1, [RELEASE])) == NONE
        assert await a.fetch(batch_size=1) == [Range(0, 1, 2), *(Range(each, each, 1) for each in (3, 4, 5))]
        assert a.offsets() == [0, 1, 3, 4, 5], "the batch between them is held by another member"
        assert len(a.part(0).records) > 5 * 100_000

    with_broker(tmp_path, work)


def test_one_fetch_has_records_of_several_partitions(tmp_path: Path) -> None:
    """If this fails, partitions of one broker are read one after the other, or one of them never gets its turn."""

    async def work(broker: ShareBroker, topic: UUID) -> None:
        await broker.produce(3, index=0, batches=10)
        await broker.produce(3, index=1, batches=10)
        a = await broker.consumer("a")
        await a.fetch(topic, partitions=[0, 1], wait_ms=WAIT_MS, max_records=3)
        first = [index for index in range(2) if a.part(index) is not None and a.part(index).acquired_records]
        await a.fetch(max_records=3)
        second = [index for index in range(2) if a.part(index) is not None and a.part(index).acquired_records]
        assert sorted(first + second) == [0, 1], "each fetch begins with another partition"
        await a.fetch()
        assert all(a.part(index).acquired_records for index in range(2))
        await a.fetch(topic, partitions=[], forget=[0])
        await broker.produce(1, index=0)
        await broker.produce(1, index=1)
        await a.fetch(wait_ms=WAIT_MS)
        assert a.part(0) is None, "the partition was forgotten"
        assert a.offsets(1) == [30]

    with_broker(tmp_path, work)


def test_settings_of_a_group_take_effect_with_its_next_fetch(tmp_path: Path) -> None:
    """If this fails, an operator has to end all members of a group to change its settings."""

    async def work(broker: ShareBroker, topic: UUID) -> None:
        await broker.produce(1)
        a = await broker.consumer("a")
        await a.fetch(topic, wait_ms=WAIT_MS)
        await broker.configure_group("g", "share.delivery.count.limit", "2")
        await broker.configure_group("g", "share.record.lock.duration.ms", "5000")
        assert await a.acknowledge(topic, (0, 0, [RELEASE])) == NONE
        assert a.last.acquisition_lock_timeout_ms == 5000
        assert await a.fetch() == [Range(0, 0, 2)]
        assert await a.acknowledge(topic, (0, 0, [RELEASE])) == NONE
        assert await a.fetch() == []
        await broker.configure_group("g", "share.renew.acknowledge.enable", "false")
        await broker.produce(1)
        assert await a.fetch() == [Range(1, 1, 1)]
        assert await a.acknowledge(topic, (1, 1, [RENEW]), renew=True) == ErrorCode.INVALID_RECORD_STATE

    with_broker(tmp_path, work)


def test_share_groups_end_with_their_feature(tmp_path: Path) -> None:
    """If this fails, fetches wait, and share partitions stay, although the cluster no longer has share groups."""

    async def work(broker: ShareBroker, topic: UUID) -> None:
        a = await broker.consumer("a")
        waiting = asyncio.create_task(a.fetch(topic, wait_ms=WAIT_MS))
        await until(lambda: broker.is_waiting("g"))
        await broker.set_share_version(0)
        await waiting
        assert (len(broker.share.sessions), list(broker.share.table)) == (0, [])
        await a.fetch(epoch=0)
        assert a.last.error_code == ErrorCode.UNSUPPORTED_VERSION
        await broker.set_share_version(1)
        await broker.produce(1)
        b = await broker.consumer("b")
        assert await b.fetch(topic, wait_ms=WAIT_MS) == [Range(0, 0, 1)]

    with_broker(tmp_path, work)


def test_a_quota_throttles_share_fetches_before_they_acquire(tmp_path: Path) -> None:
    """If this fails, share consumers ignore their quota, or records are locked whose answer is not sent."""

    async def work(broker: ShareBroker, topic: UUID) -> None:
        await broker.limit_fetches(100_000)
        await broker.produce(1, batches=50, size=100_000)
        a = await broker.consumer("a")
        await a.fetch(topic, wait_ms=WAIT_MS, max_bytes=1 << 24)
        got = len(a.offsets())
        # The unused quota of some seconds.
        assert 1 <= got < 50
        for _ in range(20):
            acquired = await a.fetch(max_bytes=1 << 24)
            if a.last.throttle_time_ms:
                break
            got += len(a.offsets())
        assert a.last.throttle_time_ms > 0
        assert acquired == []
        assert broker.share.counts.deliveries == got

    with_broker(tmp_path, work)
