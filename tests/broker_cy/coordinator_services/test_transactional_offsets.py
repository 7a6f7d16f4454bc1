"""TxnOffsetCommit, WriteTxnMarkers and DescribeProducers over a whole broker, with a simulated coordinator."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from broker_cy.core.errors import ErrorCode
from broker_cy.storage import disk
from broker_cy.wire import messages
from broker_cy.wire.records import Record, decode_batches, encode_batch
from tests.broker_cy.coordinator_services.group_broker import GROUP, GroupBroker, run

PRODUCER = 77
Place = tuple[str, int]
FetchGroup = messages.OffsetFetchRequest.OffsetFetchRequestGroup
FetchTopics = messages.OffsetFetchRequest.OffsetFetchRequestTopics


class Verifier:
    """Answers with `code`; `calls` has its requests."""

    def __init__(self, code: ErrorCode = ErrorCode.NONE) -> None:
        self.code = code
        self.calls: list[tuple[str, int, int, tuple[Place, ...], bool]] = []

    def verify(
        self, transactional_id: str, producer_id: int, producer_epoch: int, partitions: Sequence[Place], *, add: bool
    ) -> asyncio.Future[dict[Place, ErrorCode]]:
        self.calls.append((transactional_id, producer_id, producer_epoch, tuple(partitions), add))
        future: asyncio.Future[dict[Place, ErrorCode]] = asyncio.get_running_loop().create_future()
        future.set_result(dict.fromkeys(partitions, self.code))
        return future


def started(broker: GroupBroker, code: ErrorCode = ErrorCode.NONE) -> Verifier:
    verifier = Verifier(code)
    broker.server.broker.transactions.verify = verifier.verify  # type: ignore[method-assign]
    return verifier


def offsets_index(broker: GroupBroker) -> int:
    return broker.server.broker.groups.partition_for(GROUP)


async def commit(
    broker: GroupBroker, offset: int, *, version: int = 5, epoch: int = 0, topic: str = "t", index: int = 0, **how: Any
) -> ErrorCode:
    """Commit one offset in a transaction; returns its error code."""
    partition = messages.TxnOffsetCommitRequest.TxnOffsetCommitRequestPartition(
        partition_index=index, committed_offset=offset, committed_metadata=""
    )
    request = messages.TxnOffsetCommitRequest(
        transactional_id="x",
        group_id=GROUP,
        producer_id=PRODUCER,
        producer_epoch=epoch,
        topics=[messages.TxnOffsetCommitRequest.TxnOffsetCommitRequestTopic(name=topic, partitions=[partition])],
    )
    for name, value in how.items():
        setattr(request, name, value)
    answer = await broker.call(request, version)
    (found,) = answer.topics
    assert (found.name, found.partitions[0].partition_index) == (topic, index)
    return ErrorCode(found.partitions[0].error_code)


async def end(
    broker: GroupBroker,
    committed: bool,
    *places: Place,
    epoch: int = 0,
    coordinator_epoch: int = 0,
    version: int = 1,
    transaction_version: int = 0,
) -> list[ErrorCode]:
    """Write markers as an administrator does; returns the error codes in the order of `places`."""
    marker = messages.WriteTxnMarkersRequest.WritableTxnMarker(
        producer_id=PRODUCER,
        producer_epoch=epoch,
        transaction_result=committed,
        topics=[
            messages.WriteTxnMarkersRequest.WritableTxnMarkerTopic(name=topic, partition_indexes=[index])
            for topic, index in places
        ],
        coordinator_epoch=coordinator_epoch,
        transaction_version=transaction_version,
    )
    answer = await broker.call(messages.WriteTxnMarkersRequest(markers=[marker]), version)
    (result,) = answer.markers
    assert result.producer_id == PRODUCER
    codes = {
        (topic.name, partition.partition_index): ErrorCode(partition.error_code)
        for topic in result.topics
        for partition in topic.partitions
    }
    return [codes[place] for place in places]


async def stable(broker: GroupBroker, index: int = 0) -> tuple[int, ErrorCode]:
    """Return the committed offset as a consumer that reads committed records requests it."""
    group = FetchGroup(group_id=GROUP, topics=[FetchTopics(name="t", partition_indexes=[index])])
    answer = await broker.call(messages.OffsetFetchRequest(groups=[group], require_stable=True), 9)
    found = answer.groups[0].topics[0].partitions[0]
    return found.committed_offset, ErrorCode(found.error_code)


UNSTABLE = (-1, ErrorCode.UNSTABLE_OFFSET_COMMIT)


@pytest.mark.parametrize("version", range(6))
@pytest.mark.parametrize("committed", [True, False])
def test_offsets_count_when_the_transaction_is_committed(tmp_path: Path, version: int, committed: bool) -> None:
    """If this fails, input is processed twice, or not at all, although the output was written exactly once."""

    async def work() -> None:
        async with GroupBroker(tmp_path) as broker:
            await broker.prepare("t")
            verifier = started(broker)
            assert await broker.commit(5) is ErrorCode.NONE
            assert await commit(broker, 9, version=version) is ErrorCode.NONE
            place = ("__consumer_offsets", offsets_index(broker))
            assert verifier.calls == [("x", PRODUCER, 0, (place,), version >= 5)]
            assert await stable(broker) == UNSTABLE
            assert await broker.committed() == 5
            # The transaction is open in the partition now: it is not verified again.
            assert await commit(broker, 10, version=version) is ErrorCode.NONE
            assert len(verifier.calls) == 1
            assert await end(broker, committed, place) == [ErrorCode.NONE]
            assert await stable(broker) == (10 if committed else 5, ErrorCode.NONE)

    run(work)


def test_the_youngest_commit_counts(tmp_path: Path) -> None:
    """If this fails, after a restart, or a compaction, another offset is the committed one."""

    async def work() -> None:
        async with GroupBroker(tmp_path) as broker:
            await broker.prepare("t")
            started(broker)
            place = ("__consumer_offsets", offsets_index(broker))
            assert await commit(broker, 9) is ErrorCode.NONE
            # All of them concurrently: the record of the plain commit precedes the marker.
            plain, ended = await asyncio.gather(broker.commit(7), end(broker, True, place))
            assert (plain, ended) == (ErrorCode.NONE, [ErrorCode.NONE])
            assert await stable(broker) == (7, ErrorCode.NONE)
        async with GroupBroker(tmp_path) as broker:
            await broker.prepare()
            assert await stable(broker) == (7, ErrorCode.NONE)

    run(work)


def test_pending_offsets_survive_a_restart(tmp_path: Path) -> None:
    """If this fails, a transaction that is committed after a restart commits no offsets, and its input is processed
    again.
    """

    async def work() -> None:
        async with GroupBroker(tmp_path) as broker:
            await broker.prepare("t")
            started(broker)
            assert await commit(broker, 9) is ErrorCode.NONE
        async with GroupBroker(tmp_path) as broker:
            await broker.prepare()
            started(broker)
            assert await stable(broker) == UNSTABLE
            assert await end(broker, True, ("__consumer_offsets", offsets_index(broker))) == [ErrorCode.NONE]
            assert await stable(broker) == (9, ErrorCode.NONE)

    run(work)


@pytest.mark.parametrize(
    ("said", "version", "told"),
    [
        (ErrorCode.PRODUCER_FENCED, 3, ErrorCode.INVALID_PRODUCER_EPOCH),
        (ErrorCode.TRANSACTION_ABORTABLE, 3, ErrorCode.INVALID_TXN_STATE),
        (ErrorCode.TRANSACTION_ABORTABLE, 4, ErrorCode.TRANSACTION_ABORTABLE),
        (ErrorCode.CONCURRENT_TRANSACTIONS, 5, ErrorCode.CONCURRENT_TRANSACTIONS),
        (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, 1, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, 2, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS),
        (ErrorCode.INVALID_PRODUCER_ID_MAPPING, 5, ErrorCode.INVALID_PRODUCER_ID_MAPPING),
    ],
)
def test_the_transaction_coordinator_says_no(tmp_path: Path, said: ErrorCode, version: int, told: ErrorCode) -> None:
    """If this fails, offsets of a fenced producer are committed, or it gets an error that it cannot handle."""

    async def work() -> None:
        async with GroupBroker(tmp_path) as broker:
            await broker.prepare("t")
            started(broker, said)
            assert await commit(broker, 9, version=version) is told
            assert await stable(broker) == (-1, ErrorCode.NONE)

    run(work)


def test_who_may_commit(tmp_path: Path) -> None:
    """If this fails, a member that was removed from its group commits offsets of partitions that others own now."""

    async def work() -> None:
        async with GroupBroker(tmp_path) as broker:
            await broker.prepare("t")
            started(broker)
            assert await commit(broker, 1, generation_id=1, member_id="m") is ErrorCode.ILLEGAL_GENERATION
            assert await commit(broker, 1, group_id="") is ErrorCode.INVALID_GROUP_ID
            assert await commit(broker, 1, topic="none") is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            assert await commit(broker, 1, index=2) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            member = await broker.member()
            who = {"generation_id": member.generation_id, "member_id": member.member_id}
            # The group waits for its leader's assignment, which does not matter here.
            assert await commit(broker, 1, **who) is ErrorCode.NONE
            assert await commit(broker, 1, **{**who, "generation_id": 7}) is ErrorCode.ILLEGAL_GENERATION
            assert await commit(broker, 1, **{**who, "member_id": "other"}) is ErrorCode.UNKNOWN_MEMBER_ID
            # Clients before version 3 do not identify themselves.
            assert await commit(broker, 1, version=2) is ErrorCode.NONE

    run(work)


def test_metadata_has_a_limit(tmp_path: Path) -> None:
    """If this fails, `offset.metadata.max.bytes` is only enforced for plain commits."""

    async def work() -> None:
        async with GroupBroker(tmp_path) as broker:
            await broker.prepare("t")
            started(broker)
            partition = messages.TxnOffsetCommitRequest.TxnOffsetCommitRequestPartition(
                partition_index=0, committed_offset=1, committed_metadata="m" * 5000
            )
            topics = [messages.TxnOffsetCommitRequest.TxnOffsetCommitRequestTopic(name="t", partitions=[partition])]
            assert await commit(broker, 1, topics=topics) is ErrorCode.OFFSET_METADATA_TOO_LARGE
            assert await stable(broker) == (-1, ErrorCode.NONE)

    run(work)


def test_what_a_marker_may_not_do(tmp_path: Path) -> None:
    """If this fails, a coordinator that was replaced, or a late marker, ends the current transaction."""

    async def work() -> None:
        async with GroupBroker(tmp_path) as broker:
            await broker.prepare("t")
            started(broker)
            offsets = ("__consumer_offsets", offsets_index(broker))
            for place in (offsets, ("t", 0)):
                if place is offsets:
                    assert await commit(broker, 9, epoch=3) is ErrorCode.NONE
                else:
                    await produce(broker, epoch=3)
                assert await end(broker, True, place, epoch=2) == [ErrorCode.INVALID_PRODUCER_EPOCH]
                # Version 2 of transactions ends each with a higher epoch than its records have.
                codes = await end(broker, True, place, epoch=3, version=2, transaction_version=2)
                assert codes == [ErrorCode.INVALID_PRODUCER_EPOCH]
                for _ in range(2):
                    # The second repeats one that was written: its response may have been lost.
                    codes = await end(
                        broker, True, place, epoch=4, coordinator_epoch=5, version=2, transaction_version=2
                    )
                    assert codes == [ErrorCode.NONE]
                codes = await end(broker, True, place, epoch=5, coordinator_epoch=4)
                assert codes == [ErrorCode.TRANSACTION_COORDINATOR_FENCED]
            assert await stable(broker) == (9, ErrorCode.NONE)
            unknown = await end(broker, True, ("none", 0), ("t", 9), ("t", 1), epoch=4)
            assert unknown == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION] * 2 + [ErrorCode.NONE]

    run(work)


def test_a_marker_that_cannot_be_written(tmp_path: Path) -> None:
    """If this fails, the offsets of a transaction whose end is not in the log become visible, and disappear at a
    restart.
    """

    async def work() -> None:
        async with GroupBroker(tmp_path) as broker:
            await broker.prepare("t")
            started(broker)
            place = ("__consumer_offsets", offsets_index(broker))
            assert await commit(broker, 9) is ErrorCode.NONE
            disk.set_write_budget(20, errno.EIO)
            try:
                assert await end(broker, True, place) == [ErrorCode.KAFKA_STORAGE_ERROR]
                assert await commit(broker, 10) is ErrorCode.NOT_COORDINATOR
            finally:
                disk.set_write_budget(-1, 0)
            assert await stable(broker) == UNSTABLE
            assert await end(broker, True, place) == [ErrorCode.NONE]
            assert await stable(broker) == (9, ErrorCode.NONE)

    run(work)


def test_what_is_written_is_a_transaction_of_the_producer(tmp_path: Path) -> None:
    """If this fails, Kafka, or this broker after a restart, reads the offsets as committed, or never as such."""

    async def work() -> None:
        async with GroupBroker(tmp_path) as broker:
            await broker.prepare("t")
            started(broker)
            index = offsets_index(broker)
            assert await commit(broker, 9, epoch=2) is ErrorCode.NONE
            assert await end(broker, True, ("__consumer_offsets", index), epoch=2) == [ErrorCode.NONE]
            log = broker.server.broker.partitions.get("__consumer_offsets", index).log  # type: ignore[union-attr]
            part = log.read_slice(0, None, 1 << 20)
            assert part is not None
            found = [
                (each.is_transactional, each.is_control, each.producer_id, each.producer_epoch, each.base_sequence)
                for each in decode_batches(part.read())
            ]
            assert found[-2:] == [(True, False, PRODUCER, 2, 0), (True, True, PRODUCER, 2, -1)]

    run(work)


async def produce(broker: GroupBroker, *, epoch: int, index: int = 0) -> None:
    """Append a transactional batch to a partition."""
    batch = encode_batch(
        [Record(0, 1, None, b"v", [])], producer_id=PRODUCER, producer_epoch=epoch, base_sequence=-1, transactional=True
    )
    partition = broker.server.broker.partitions.get("t", index)
    assert partition is not None
    verification = partition.verify_producer(PRODUCER, epoch, adds=False)
    await partition.append_transactional(batch, 1, verification)


def test_producers_are_described(tmp_path: Path) -> None:
    """If this fails, an administrator cannot find the transaction that blocks readers of committed records."""

    async def work() -> None:
        async with GroupBroker(tmp_path) as broker:
            await broker.prepare("t")
            started(broker)
            await produce(broker, epoch=3)
            assert await described(broker, "t", 0) == (ErrorCode.NONE, [(PRODUCER, 3, -1, 1, -1, 0)])
            assert await end(broker, False, ("t", 0), epoch=3, coordinator_epoch=8) == [ErrorCode.NONE]
            code, ((*_, coordinator_epoch, first_offset),) = await described(broker, "t", 0)
            assert (code, coordinator_epoch, first_offset) == (ErrorCode.NONE, 8, -1)
            assert await described(broker, "t", 1) == (ErrorCode.NONE, [])
            assert await described(broker, "t", 2) == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, [])
            assert await described(broker, "none", 0) == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, [])
            assert await described(broker, "a b", 0) == (ErrorCode.INVALID_TOPIC_EXCEPTION, [])

    run(work)


async def described(broker: GroupBroker, topic: str, index: int) -> tuple[ErrorCode, list[tuple[int, ...]]]:
    asked = messages.DescribeProducersRequest.TopicRequest(name=topic, partition_indexes=[index])
    answer = await broker.call(messages.DescribeProducersRequest(topics=[asked]), 0)
    ((found,),) = (each.partitions for each in answer.topics)
    producers: list[tuple[int, ...]] = [
        (
            each.producer_id,
            each.producer_epoch,
            each.last_sequence,
            each.last_timestamp,
            each.coordinator_epoch,
            each.current_txn_start_offset,
        )
        for each in found.active_producers
    ]
    return ErrorCode(found.error_code), producers


def test_requests_without_markers_are_answered(tmp_path: Path) -> None:
    """If this fails, a client waits for a response that never comes."""

    async def work() -> None:
        async with GroupBroker(tmp_path) as broker:
            assert (await broker.call(messages.WriteTxnMarkersRequest(markers=[]), 2)).markers == []

    run(work)
