"""The records of a coordinator: batches with separate outcomes, and answers that do not wait forever."""

from __future__ import annotations

import asyncio
import itertools
from pathlib import Path

import pytest

from broker_cy.coordinator import expiry
from broker_cy.coordinator_services import record_writer
from broker_cy.core.errors import ErrorCode
from broker_cy.wire import messages
from tests.broker_cy.coordinator_services import test_transactional_offsets as txn_offsets
from tests.broker_cy.coordinator_services.group_broker import GROUP, GroupBroker, run, until
from tests.broker_cy.coordinator_services.held import HeldPartition, answers_soon, in_flight, lost


def test_a_lost_batch_leaves_those_before_it(tmp_path: Path) -> None:
    """If this fails, a consumer gets an error for its commit although it is in the log, and reads from an older
    offset until the next restart.
    """

    async def work() -> None:
        async with GroupBroker(tmp_path) as broker:
            await broker.prepare("t")
            txn_offsets.started(broker)
            held = HeldPartition(broker.runtime())
            first = asyncio.ensure_future(broker.commit(1))
            await in_flight(held, 1)
            second = asyncio.ensure_future(txn_offsets.commit(broker, 2, index=1))
            await in_flight(held, 2)
            held.outcomes[1](lost())
            assert await second is ErrorCode.NOT_COORDINATOR
            assert broker.runtime().machine.offsets.get(GROUP, "t", 0) is not None
            held.outcomes[0](None)
            assert await first is ErrorCode.NONE
            assert await broker.committed() == 1

    run(work)


def test_batches_are_answered_in_their_order(tmp_path: Path) -> None:
    """If this fails, an offset is readable before one that was committed before it."""

    async def work() -> None:
        async with GroupBroker(tmp_path) as broker:
            await broker.prepare("t")
            txn_offsets.started(broker)
            held = HeldPartition(broker.runtime())
            first = asyncio.ensure_future(broker.commit(1))
            await in_flight(held, 1)
            second = asyncio.ensure_future(txn_offsets.commit(broker, 2, index=1))
            await in_flight(held, 2)
            held.outcomes[1](None)
            await asyncio.sleep(0)
            assert not second.done()
            held.outcomes[0](None)
            assert (await first, await second) == (ErrorCode.NONE, ErrorCode.NONE)
            assert not broker.runtime().is_writing

    run(work)


def test_a_batch_that_cannot_be_staged_leaves_those_before_it(tmp_path: Path) -> None:
    """If this fails, commits that are in the log are answered with an error and forgotten, because others that shared
    their turn could not be appended.
    """

    async def work() -> None:
        settings = {"offset.metadata.max.bytes": "40000", "offsets.topic.num.partitions": "1"}
        async with GroupBroker(tmp_path, settings) as broker:
            await broker.prepare("t")
            held = HeldPartition(broker.runtime())
            held.room = 1
            asked = [asyncio.ensure_future(broker.call(large_commit(each), 9)) for each in range(40)]
            await in_flight(held, 1)
            held.outcomes[0](None)
            codes = [(await each).topics[0].partitions[0].error_code for each in asked]
            assert set(codes) == {ErrorCode.NONE, ErrorCode.NOT_COORDINATOR}
            await until(lambda: held.records() == codes.count(ErrorCode.NONE))
            assert broker.runtime().machine.next_offset == held.records()
            assert broker.runtime().machine.offsets.count == held.records()

    run(work)


def large_commit(number: int) -> messages.OffsetCommitRequest:
    """About 30 KB; a batch takes 34 of them."""
    request = messages.OffsetCommitRequest
    partition = request.OffsetCommitRequestPartition(
        partition_index=0, committed_offset=number, committed_metadata="m" * 30_000
    )
    topic = request.OffsetCommitRequestTopic(name="t", partitions=[partition])
    return request(group_id=f"group-{number}", topics=[topic])


@pytest.mark.parametrize("is_written", [True, False])
def test_a_commit_is_answered_in_time(tmp_path: Path, is_written: bool) -> None:
    """If this fails, a consumer hangs in a commit for as long as a follower does, and so does everything behind it on
    its connection. As in Kafka, the offset may be committed later.
    """

    async def work() -> None:
        async with GroupBroker(tmp_path) as broker:
            await broker.prepare("t")
            assert await broker.commit(1) is ErrorCode.NONE
            answers_soon(broker)
            runtime = broker.runtime()
            held = HeldPartition(runtime)
            first = asyncio.ensure_future(broker.commit(2))
            await in_flight(held, 1)
            # These wait behind it, and are in the log by the time of their answers.
            behind = [asyncio.ensure_future(broker.commit(3, partition=1)) for _ in range(2)]
            assert await first is ErrorCode.COORDINATOR_NOT_AVAILABLE
            assert [await each for each in behind] == [ErrorCode.COORDINATOR_NOT_AVAILABLE] * 2
            assert len(held.outcomes) == 2
            assert runtime.machine.next_offset == 4
            assert await broker.committed() == 1
            if is_written:
                for done in list(held.outcomes):
                    done(None)
                assert (await broker.committed(), await broker.committed("t", 1)) == (2, 3)
            else:
                held.outcomes[0](lost())
                held.outcomes[1](lost())
                assert runtime.machine.next_offset == 1
                assert (await broker.committed(), await broker.committed("t", 1)) == (1, -1)
            assert not runtime.is_writing

    run(work)


@pytest.mark.parametrize("outcome", ["written", "lost", "late"])
def test_an_answer_without_records_waits_for_earlier_records(tmp_path: Path, outcome: str) -> None:
    """If this fails, an answer says that a group does not exist, and it exists: its deletion was not written,
    and was taken back.
    """

    async def work() -> None:
        async with GroupBroker(tmp_path) as broker:
            await broker.prepare("t")
            assert await broker.commit(1) is ErrorCode.NONE
            if outcome == "late":
                answers_soon(broker)
            runtime = broker.runtime()
            held = HeldPartition(runtime)
            first = asyncio.ensure_future(delete_group(broker))
            await in_flight(held, 1)
            second = asyncio.ensure_future(delete_group(broker))
            # It waits for records that are not in the log yet either.
            behind = asyncio.ensure_future(broker.commit(2, group_id=same_partition(broker)))
            third = asyncio.ensure_future(delete_group(broker))
            await until(lambda: len(list(runtime.unwritten())) == 4)
            assert not any(each.done() for each in (first, second, third))
            if outcome == "lost":
                held.outcomes[0](lost())
                assert [await first, await second, await third] == [ErrorCode.NOT_COORDINATOR] * 3
                assert await broker.committed() == 1
                return
            if outcome == "late":
                assert await first is ErrorCode.COORDINATOR_NOT_AVAILABLE
                assert await second is ErrorCode.COORDINATOR_NOT_AVAILABLE
                held.outcomes[0](None)
            else:
                held.outcomes[0](None)
                assert (await first, await second) == (ErrorCode.NONE, ErrorCode.GROUP_ID_NOT_FOUND)
                assert not third.done()
            await in_flight(held, 2)
            held.outcomes[1](None)
            await asyncio.wait([behind, third])
            assert not runtime.is_writing
            assert await delete_group(broker) is ErrorCode.GROUP_ID_NOT_FOUND
            assert len(held.outcomes) == 2

    run(work)


def test_answers_that_wait_without_records_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, requests that change nothing take all memory when they are repeated while a follower hangs."""
    monkeypatch.setattr(record_writer, "STAGED_MAX", 3)

    async def work() -> None:
        async with GroupBroker(tmp_path) as broker:
            await broker.prepare("t")
            answers_soon(broker)
            runtime = broker.runtime()
            held = HeldPartition(runtime)
            assert await broker.commit(1) is ErrorCode.COORDINATOR_NOT_AVAILABLE
            for _ in range(5):
                assert await delete_group(broker, same_partition(broker)) is ErrorCode.COORDINATOR_NOT_AVAILABLE
            assert len(list(runtime.unwritten())) == 3
            held.outcomes[0](None)
            assert not runtime.is_writing
            assert await delete_group(broker, same_partition(broker)) is ErrorCode.GROUP_ID_NOT_FOUND

    run(work)


async def delete_group(broker: GroupBroker, group_id: str = GROUP) -> ErrorCode:
    answer = await broker.call(messages.DeleteGroupsRequest(groups_names=[group_id]), 2)
    return ErrorCode(answer.results[0].error_code)


def same_partition(broker: GroupBroker) -> str:
    """Another group with the coordinator of GROUP."""
    ids = (f"group-{number}" for number in itertools.count())
    return next(each for each in ids if broker.runtime(each) is broker.runtime())


def test_a_rebalance_is_answered_in_time(tmp_path: Path) -> None:
    """If this fails, the members of a group hang in SyncGroup beside a follower that hangs. As in Kafka, they share
    again.
    """

    async def work() -> None:
        async with GroupBroker(tmp_path) as broker:
            await broker.prepare("t")
            joined = await broker.member()
            answers_soon(broker)
            held = HeldPartition(broker.runtime())
            given = messages.SyncGroupRequest.SyncGroupRequestAssignment(member_id=joined.member_id, assignment=b"a")
            sync = messages.SyncGroupRequest(
                group_id=GROUP,
                generation_id=1,
                member_id=joined.member_id,
                protocol_type="consumer",
                protocol_name="range",
                assignments=[given],
            )
            assert (await broker.call(sync, 5)).error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
            beat = messages.HeartbeatRequest(group_id=GROUP, generation_id=1, member_id=joined.member_id)
            assert (await broker.call(beat, 4)).error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
            again = await broker.join(joined.member_id)
            assert (again.error_code, again.generation_id) == (ErrorCode.NONE, 2)
            held.outcomes[0](None)
            assert [group.generation for group in broker.runtime().machine.classic_groups()] == [2]

    run(work)


def test_what_is_not_committed_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, commits that are repeated while a follower hangs take all memory."""
    monkeypatch.setattr(record_writer, "STAGED_MAX", 2)

    async def work() -> None:
        async with GroupBroker(tmp_path) as broker:
            await broker.prepare("t")
            txn_offsets.started(broker)
            answers_soon(broker)
            held = HeldPartition(broker.runtime())
            for number in range(5):
                assert await broker.commit(number) is ErrorCode.COORDINATOR_NOT_AVAILABLE
                assert await txn_offsets.commit(broker, number) is ErrorCode.COORDINATOR_NOT_AVAILABLE
            assert len(held.outcomes) == 2
            for done in list(held.outcomes):
                done(None)
            await until(lambda: not broker.runtime().is_writing)
            assert broker.runtime().machine.next_offset == held.records() == 2

    run(work)


def test_deletions_do_not_pile_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, the deletion of a topic takes all memory and all time of a coordinator whose follower hangs."""
    monkeypatch.setattr(expiry, "DELETIONS_PER_STEP", 1)

    async def work() -> None:
        async with GroupBroker(tmp_path, {"offsets.topic.num.partitions": "1"}) as broker:
            await broker.prepare("t")
            for number in range(4):
                assert await broker.commit(number, group_id=f"group-{number}") is ErrorCode.NONE
            runtime = broker.runtime()
            held = HeldPartition(runtime)
            named = messages.DeleteTopicsRequest.DeleteTopicState(name="t")
            await broker.call(messages.DeleteTopicsRequest(topics=[named], timeout_ms=10_000), 6)
            for count in range(1, 5):
                await in_flight(held, count)
                for _ in range(5):
                    await asyncio.sleep(0)
                assert len(list(runtime.unwritten())) == 1
                held.outcomes[-1](None)
            await until(lambda: not runtime.is_writing)
            assert runtime.machine.offsets.count == 0

    run(work)
