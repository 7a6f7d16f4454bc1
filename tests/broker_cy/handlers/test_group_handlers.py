"""The group APIs in every version, over a whole broker."""

from __future__ import annotations

import asyncio
from pathlib import Path
from uuid import UUID

import pytest

from broker_cy.core.errors import ErrorCode
from broker_cy.handlers.shared import listing
from broker_cy.wire import messages
from tests.broker_cy.coordinator_services.group_broker import GROUP, GroupBroker, commit_request, run

SyncAssignment = messages.SyncGroupRequest.SyncGroupRequestAssignment
FetchTopic = messages.OffsetFetchRequest.OffsetFetchRequestTopic
FetchTopics = messages.OffsetFetchRequest.OffsetFetchRequestTopics
FetchGroup = messages.OffsetFetchRequest.OffsetFetchRequestGroup


def test_coordinator_is_found_in_every_version(tmp_path: Path) -> None:
    """If this fails, clients of some age never find their coordinator. The first one creates the topic."""

    async def work() -> None:
        async with GroupBroker(tmp_path) as broker:
            for version in range(7):
                if version < 4:
                    found = await broker.call(messages.FindCoordinatorRequest(key=GROUP), version)
                else:
                    request = messages.FindCoordinatorRequest(coordinator_keys=[GROUP, "other"])
                    both = (await broker.call(request, version)).coordinators
                    assert [one.key for one in both] == [GROUP, "other"]
                    found = both[0]
                assert (found.error_code, found.node_id, found.host) == (ErrorCode.NONE, 1, "127.0.0.1")
                assert found.port == broker.server.listeners[0].port
            assert broker.server.broker.groups.partition_count == 3

    run(work)


@pytest.mark.parametrize(
    ("version", "key_type", "code"),
    [
        (6, 2, ErrorCode.INVALID_REQUEST),
        (5, 2, ErrorCode.INVALID_REQUEST),
        (6, 7, ErrorCode.INVALID_REQUEST),
    ],
)
def test_other_coordinators_are_refused(tmp_path: Path, version: int, key_type: int, code: ErrorCode) -> None:
    """If this fails, a client waits for its timeout instead of getting an immediate error. The key is a group's."""

    async def work() -> None:
        async with GroupBroker(tmp_path) as broker:
            request = messages.FindCoordinatorRequest(key_type=key_type)
            if version >= 4:
                request.coordinator_keys = ["k"]
                found = (await broker.call(request, version)).coordinators[0]
            else:
                request.key = "k"
                found = await broker.call(request, version)
            assert (found.error_code, found.node_id) == (code, -1)
            assert found.error_message

    run(work)


@pytest.mark.parametrize("version", range(10))
def test_member_lives_its_life_in_every_version_of_join(tmp_path: Path, version: int) -> None:
    """If this fails, consumers of some age cannot be members: join, sync, heartbeat, leave."""
    sync_version, heartbeat_version = min(version, 5), min(version, 4)

    async def work() -> None:
        async with GroupBroker(tmp_path) as broker:
            await broker.prepare()
            joined = await broker.member(version)
            member_id = joined.member_id
            assert (joined.generation_id, joined.leader, joined.protocol_name) == (1, member_id, "range")
            assert [member.member_id for member in joined.members] == [member_id]
            request = messages.SyncGroupRequest(
                group_id=GROUP,
                generation_id=1,
                member_id=member_id,
                assignments=[SyncAssignment(member_id=member_id, assignment=b"mine")],
            )
            if sync_version >= 5:
                request.protocol_type, request.protocol_name = "consumer", "range"
            synced = await broker.call(request, sync_version)
            assert (synced.error_code, synced.assignment) == (ErrorCode.NONE, b"mine")
            beat = messages.HeartbeatRequest(group_id=GROUP, generation_id=1, member_id=member_id)
            assert (await broker.call(beat, heartbeat_version)).error_code == ErrorCode.NONE
            leave_version = min(version, 5)
            leave = messages.LeaveGroupRequest(group_id=GROUP)
            if leave_version < 3:
                leave.member_id = member_id
                assert (await broker.call(leave, leave_version)).error_code == ErrorCode.NONE
                assert (await broker.call(leave, leave_version)).error_code == ErrorCode.UNKNOWN_MEMBER_ID
            else:
                leave.members = [messages.LeaveGroupRequest.MemberIdentity(member_id=member_id)]
                left = await broker.call(leave, leave_version)
                assert (left.error_code, left.members[0].error_code) == (ErrorCode.NONE, ErrorCode.NONE)
            assert (await broker.call(beat, heartbeat_version)).error_code == ErrorCode.UNKNOWN_MEMBER_ID

    run(work)


@pytest.mark.parametrize("version", range(10))
def test_join_errors_can_be_encoded_in_every_version(tmp_path: Path, version: int) -> None:
    """If this fails, an error closes the connection instead of being answered: a protocol name may only be null from
    version 7 on.
    """

    async def work() -> None:
        async with GroupBroker(tmp_path) as broker:
            await broker.prepare()
            for how, code in (
                ({"group_id": ""}, ErrorCode.INVALID_GROUP_ID),
                ({"session_timeout_ms": 0}, ErrorCode.INVALID_SESSION_TIMEOUT),
                ({"session_timeout_ms": 1_800_001}, ErrorCode.INVALID_SESSION_TIMEOUT),
            ):
                assert (await broker.join("m", version, **how)).error_code == code
            answer = await broker.join("ghost", version)
            assert (answer.error_code, answer.member_id) == (ErrorCode.UNKNOWN_MEMBER_ID, "ghost")
            assert answer.protocol_name == (None if version >= 7 else "")

    run(work)


def test_empty_group_id_is_refused(tmp_path: Path) -> None:
    """If this fails, members of every client without a group id share one group."""

    async def work() -> None:
        async with GroupBroker(tmp_path) as broker:
            await broker.prepare()
            for request, version in (
                (messages.SyncGroupRequest(), 3),
                (messages.HeartbeatRequest(), 4),
                (messages.LeaveGroupRequest(), 5),
                (messages.OffsetDeleteRequest(), 0),
            ):
                assert (await broker.call(request, version)).error_code == ErrorCode.INVALID_GROUP_ID

    run(work)


def test_sync_without_protocol_is_refused_from_version_five(tmp_path: Path) -> None:
    """If this fails, a field that Kafka requires is optional, and a member of another protocol joins."""

    async def work() -> None:
        async with GroupBroker(tmp_path) as broker:
            await broker.prepare()
            request = messages.SyncGroupRequest(group_id=GROUP)
            assert (await broker.call(request, 5)).error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL

    run(work)


def test_requests_before_there_is_a_coordinator(tmp_path: Path) -> None:
    """If this fails, a broker that does not coordinate the group answers for it."""

    async def work() -> None:
        async with GroupBroker(tmp_path) as broker:
            assert (await broker.join("m")).error_code == ErrorCode.NOT_COORDINATOR
            heartbeat = messages.HeartbeatRequest(group_id=GROUP)
            assert (await broker.call(heartbeat, 4)).error_code == ErrorCode.NOT_COORDINATOR
            fetched = await broker.call(messages.OffsetFetchRequest(groups=[FetchGroup(group_id=GROUP, topics=[])]), 8)
            assert fetched.groups[0].error_code == ErrorCode.NOT_COORDINATOR
            old = messages.OffsetFetchRequest(group_id=GROUP, topics=[FetchTopic(name="t", partition_indexes=[0])])
            assert (await broker.call(old, 2)).error_code == ErrorCode.NOT_COORDINATOR
            only_partitions = (await broker.call(old, 1)).topics[0].partitions[0]
            assert only_partitions.error_code == ErrorCode.NOT_COORDINATOR
            described = await broker.call(messages.DescribeGroupsRequest(groups=[GROUP]), 6)
            assert described.groups[0].error_code == ErrorCode.NOT_COORDINATOR
            deleted = await broker.call(messages.DeleteGroupsRequest(groups_names=[GROUP]), 2)
            assert deleted.results[0].error_code == ErrorCode.NOT_COORDINATOR
            assert (await broker.call(messages.ListGroupsRequest(), 5)).groups == []

    run(work)


@pytest.mark.parametrize("version", range(2, 11))
def test_offsets_are_committed_in_every_version(tmp_path: Path, version: int) -> None:
    """If this fails, consumers of some age lose their position; each unknown topic or partition is refused
    individually.
    """

    async def work() -> None:
        async with GroupBroker(tmp_path) as broker:
            await broker.prepare("t")
            topic = broker.server.broker.image.topics.by_name("t")
            assert topic is not None
            request = commit_request(11)
            request.topics += commit_request(1, "t", 9).topics + commit_request(1, "absent").topics
            unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            if version >= 10:
                for item, topic_id in zip(request.topics, (topic.topic_id, topic.topic_id, UUID(int=9)), strict=True):
                    item.name, item.topic_id = "", topic_id
                unknown = ErrorCode.UNKNOWN_TOPIC_ID
            answer = await broker.call(request, version)
            found = {
                (item.topic_id if version >= 10 else item.name, partition.partition_index): partition.error_code
                for item in answer.topics
                for partition in item.partitions
            }
            known = topic.topic_id if version >= 10 else "t"
            assert found == {
                (known, 0): ErrorCode.NONE,
                (known, 9): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                (UUID(int=9) if version >= 10 else "absent", 0): unknown,
            }
            assert await broker.committed() == 11

    run(work)


@pytest.mark.parametrize("version", range(1, 11))
def test_offsets_are_fetched_in_every_version(tmp_path: Path, version: int) -> None:
    """If this fails, consumers of some age start from the beginning, and tools see no offsets."""

    async def work() -> None:
        async with GroupBroker(tmp_path) as broker:
            await broker.prepare("t")
            topic = broker.server.broker.image.topics.by_name("t")
            assert topic is not None
            assert await broker.commit(7) is ErrorCode.NONE

            async def fetch(all_topics: bool) -> list[tuple[int, int]]:
                if version >= 8:
                    named = FetchTopics(partition_indexes=[0, 1])
                    if version >= 10:
                        named.topic_id = topic.topic_id
                    else:
                        named.name = "t"
                    group = FetchGroup(group_id=GROUP, topics=None if all_topics else [named])
                    never = FetchGroup(group_id="never", topics=None)
                    answer = await broker.call(messages.OffsetFetchRequest(groups=[group, never]), version)
                    assert answer.groups[1].topics == []
                    topics = answer.groups[0].topics
                    if version >= 10:
                        assert topics[0].topic_id == topic.topic_id
                else:
                    asked = None if all_topics else [FetchTopic(name="t", partition_indexes=[0, 1])]
                    topics = (
                        await broker.call(messages.OffsetFetchRequest(group_id=GROUP, topics=asked), version)
                    ).topics
                return [(p.partition_index, p.committed_offset) for p in topics[0].partitions]

            assert await fetch(False) == [(0, 7), (1, -1)]
            if version >= 2:
                assert await fetch(True) == [(0, 7)]
            if version >= 10:
                strange = FetchTopics(topic_id=UUID(int=8), partition_indexes=[0])
                group = FetchGroup(group_id=GROUP, topics=[strange])
                answer = await broker.call(messages.OffsetFetchRequest(groups=[group]), version)
                assert answer.groups[0].topics[0].partitions[0].error_code == ErrorCode.UNKNOWN_TOPIC_ID

    run(work)


def test_groups_are_listed_in_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, groups are missing in a long list, or all requests wait while it is made."""
    monkeypatch.setattr(listing, "LISTED_PER_TURN", 2)

    async def work() -> None:
        async with GroupBroker(tmp_path) as broker:
            await broker.prepare("t")
            ids = {f"group-{number}" for number in range(5)}
            for each in ids:
                assert await broker.commit(1, group_id=each) is ErrorCode.NONE
            listed = asyncio.ensure_future(broker.call(messages.ListGroupsRequest(), 5))
            turns = 0
            while not listed.done():
                await asyncio.sleep(0)
                turns += 1
            assert {group.group_id for group in (await listed).groups} == ids
            assert turns > 2

    run(work)


def test_groups_are_listed_described_and_deleted_in_every_version(tmp_path: Path) -> None:
    """If this fails, administrators with tools of some age see no groups, or cannot remove them."""

    async def work() -> None:
        async with GroupBroker(tmp_path) as broker:
            await broker.prepare("t")
            member_id = (await broker.member()).member_id
            await broker.commit(1, group_id="simple")
            for version in range(6):
                listed = await broker.call(messages.ListGroupsRequest(), version)
                assert {group.group_id for group in listed.groups} == {GROUP, "simple"}
            states = messages.ListGroupsRequest(states_filter=["empty"])
            assert [group.group_id for group in (await broker.call(states, 4)).groups] == ["simple"]
            for version in range(7):
                request = messages.DescribeGroupsRequest(groups=[GROUP, "absent"])
                request.include_authorized_operations = version >= 3
                there, absent = (await broker.call(request, version)).groups
                assert (there.group_state, there.members[0].member_id) == ("CompletingRebalance", member_id)
                assert there.members[0].client_host == "/127.0.0.1"
                assert absent.group_state == "Dead"
                assert absent.error_code == (ErrorCode.GROUP_ID_NOT_FOUND if version >= 6 else ErrorCode.NONE)
                if version >= 3:
                    assert there.authorized_operations > 0
            for version in range(3):
                await broker.commit(1, group_id="simple")
                deletion = messages.DeleteGroupsRequest(groups_names=["simple", GROUP, "absent"])
                codes = {r.group_id: r.error_code for r in (await broker.call(deletion, version)).results}
                assert codes == {
                    "simple": ErrorCode.NONE,
                    GROUP: ErrorCode.NON_EMPTY_GROUP,
                    "absent": ErrorCode.GROUP_ID_NOT_FOUND,
                }

    run(work)


def test_offset_delete_answers_for_each_partition(tmp_path: Path) -> None:
    """If this fails, a reset of some partitions reports the wrong ones."""

    async def work() -> None:
        async with GroupBroker(tmp_path) as broker:
            await broker.prepare("t")
            await broker.commit(1)
            topic, partition = (
                messages.OffsetDeleteRequest.OffsetDeleteRequestTopic,
                messages.OffsetDeleteRequest.OffsetDeleteRequestPartition,
            )
            request = messages.OffsetDeleteRequest(
                group_id=GROUP,
                topics=[
                    topic(name="t", partitions=[partition(partition_index=0), partition(partition_index=5)]),
                    topic(name="absent", partitions=[partition(partition_index=0)]),
                ],
            )
            answer = await broker.call(request, 0)
            found = {(t.name, p.partition_index): p.error_code for t in answer.topics for p in t.partitions}
            assert found == {
                ("t", 0): ErrorCode.NONE,
                ("t", 5): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                ("absent", 0): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            }
            assert await broker.committed() == -1
            request.group_id = "absent"
            assert (await broker.call(request, 0)).error_code == ErrorCode.GROUP_ID_NOT_FOUND

    run(work)
