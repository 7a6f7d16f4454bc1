"""Answers of the group coordinator while a follower hangs: reads show the written state at once, and the answers that
show the newest state wait.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from broker_cy.core.errors import ErrorCode
from broker_cy.handlers.shared import listing
from broker_cy.wire import messages
from tests.broker_cy.coordinator_services.group_broker import GROUP, GroupBroker, run, until
from tests.broker_cy.coordinator_services.held import HeldPartition, answers_soon, in_flight, lost
from tests.broker_cy.coordinator_services.test_record_writer import delete_group, same_partition


async def beat(broker: GroupBroker, member_id: str, generation: int = 1) -> ErrorCode:
    request = messages.HeartbeatRequest(group_id=GROUP, generation_id=generation, member_id=member_id)
    return ErrorCode((await broker.call(request, 4)).error_code)


async def described(broker: GroupBroker, group_id: str) -> ErrorCode:
    (group,) = (await broker.call(messages.DescribeGroupsRequest(groups=[group_id]), 6)).groups
    return ErrorCode(group.error_code)


async def listed(broker: GroupBroker) -> set[str]:
    answer = await broker.call(messages.ListGroupsRequest(), 5)
    assert answer.error_code == ErrorCode.NONE
    return {group.group_id for group in answer.groups}


async def stable_offset(broker: GroupBroker) -> tuple[ErrorCode, int]:
    topics = [messages.OffsetFetchRequest.OffsetFetchRequestTopics(name="t", partition_indexes=[0])]
    group = messages.OffsetFetchRequest.OffsetFetchRequestGroup(group_id=GROUP, topics=topics)
    (found,) = (await broker.call(messages.OffsetFetchRequest(groups=[group], require_stable=True), 9)).groups
    offset = found.topics[0].partitions[0].committed_offset if found.topics else -2
    return ErrorCode(found.error_code), offset


@pytest.mark.parametrize("outcome", ["written", "lost", "late"])
def test_a_heartbeat_waits_for_earlier_records(tmp_path: Path, outcome: str) -> None:
    """If this fails, a member continues with a state of its group that the next coordinator does not have."""

    async def work() -> None:
        async with GroupBroker(tmp_path) as broker:
            await broker.prepare("t")
            member_id = (await broker.member()).member_id
            if outcome == "late":
                answers_soon(broker)
            assert await beat(broker, member_id) is ErrorCode.NONE
            held = HeldPartition(broker.runtime())
            before = asyncio.ensure_future(broker.commit(1, group_id=same_partition(broker)))
            await in_flight(held, 1)
            # A refusal shows nothing that could be undone.
            assert await beat(broker, "nobody") is ErrorCode.UNKNOWN_MEMBER_ID
            assert await beat(broker, member_id, 7) is ErrorCode.ILLEGAL_GENERATION
            waits = asyncio.ensure_future(beat(broker, member_id))
            await until(lambda: len(list(broker.runtime().unwritten())) == 2)
            assert not waits.done()
            if outcome == "late":
                assert await waits is ErrorCode.COORDINATOR_NOT_AVAILABLE
            held.outcomes[0](lost() if outcome == "lost" else None)
            wanted = {"written": ErrorCode.NONE, "lost": ErrorCode.NOT_COORDINATOR}
            assert outcome == "late" or await waits is wanted[outcome]
            assert await before is (ErrorCode.COORDINATOR_NOT_AVAILABLE if outcome == "late" else wanted[outcome])
            assert await beat(broker, member_id) is ErrorCode.NONE

    run(work)


@pytest.mark.parametrize("is_written", [True, False])
def test_reads_show_the_groups_of_the_written_records(
    tmp_path: Path, is_written: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If this fails, a tool reports that a group was created or deleted, and the write fails."""
    monkeypatch.setattr(listing, "LISTED_PER_TURN", 1)

    async def work() -> None:
        async with GroupBroker(tmp_path) as broker:
            await broker.prepare("t")
            assert await broker.commit(1) is ErrorCode.NONE
            created = same_partition(broker)
            held = HeldPartition(broker.runtime())
            deletion = asyncio.ensure_future(delete_group(broker))
            await in_flight(held, 1)
            creation = asyncio.ensure_future(broker.commit(2, group_id=created))
            # In the time in which nothing is written, no read waits.
            for _ in range(3):
                await asyncio.sleep(0)
                assert await listed(broker) == {GROUP}
                assert await described(broker, GROUP) is ErrorCode.NONE
                assert await described(broker, created) is ErrorCode.GROUP_ID_NOT_FOUND
                assert (await broker.committed(), await broker.committed(group_id=created)) == (1, -1)
            held.outcomes[0](None if is_written else lost())
            if is_written:
                await in_flight(held, 2)
                held.outcomes[1](None)
            await asyncio.wait([deletion, creation])
            assert await listed(broker) == ({created} if is_written else {GROUP})
            assert await described(broker, GROUP) is (ErrorCode.GROUP_ID_NOT_FOUND if is_written else ErrorCode.NONE)

    run(work)


@pytest.mark.parametrize("outcome", ["written", "lost", "late"])
def test_stable_offsets_are_the_newest_and_wait(tmp_path: Path, outcome: str) -> None:
    """If this fails, a consumer that takes over a partition begins before the offset that its predecessor commits."""

    async def work() -> None:
        async with GroupBroker(tmp_path) as broker:
            await broker.prepare("t")
            assert await broker.commit(1) is ErrorCode.NONE
            if outcome == "late":
                answers_soon(broker)
            held = HeldPartition(broker.runtime())
            commit = asyncio.ensure_future(broker.commit(2))
            await in_flight(held, 1)
            fetched = asyncio.ensure_future(stable_offset(broker))
            await until(lambda: len(list(broker.runtime().unwritten())) == 2)
            assert await broker.committed() == 1
            assert not fetched.done()
            if outcome != "late":
                held.outcomes[0](None if outcome == "written" else lost())
            # Older consumers do not expect COORDINATOR_NOT_AVAILABLE here.
            assert await fetched == ((ErrorCode.NONE, 2) if outcome == "written" else (ErrorCode.NOT_COORDINATOR, -2))
            await commit
            if outcome == "late":
                held.outcomes[0](None)
            assert await stable_offset(broker) == (ErrorCode.NONE, 1 if outcome == "lost" else 2)

    run(work)
