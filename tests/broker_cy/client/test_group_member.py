"""A group member without a broker, as rows: state, event, state after it, actions."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest

from broker_cy.client.consumer_member import ConsumerMember, ConsumerProtocol, topics_of
from broker_cy.client.consumer_protocol import (
    COOPERATIVE_STICKY,
    RANGE,
    Partition,
    Subscription,
    assignment_bytes,
    assignment_of,
    subscription_bytes,
    subscription_of,
)
from broker_cy.client.group_member import (
    CORRUPT,
    HEARTBEAT,
    JOIN,
    RETRY_S,
    SYNC,
    Assign,
    MemberSettings,
    Reaction,
    Revoke,
    Send,
    State,
    reaction_to,
)
from broker_cy.core.errors import ErrorCode
from broker_cy.wire import messages

E = ErrorCode
JOINED = messages.JoinGroupResponse
MEMBER = messages.JoinGroupResponse.JoinGroupResponseMember
T0, T1, T2, T3 = (("t", number) for number in range(4))
BEAT_S = 3.0


def new(assignor: str = RANGE, instance_id: str | None = None) -> ConsumerMember:
    settings = MemberSettings("g", heartbeat_interval_ms=int(BEAT_S * 1000), instance_id=instance_id)
    return ConsumerMember(settings, ConsumerProtocol(["t"], [assignor]))


def due(of: ConsumerMember, api: str, now_s: float = 0.0) -> Send:
    """The next action, which must be a request of this API."""
    action = of.next(now_s)
    assert isinstance(action, Send), f"{api} expected, not {action}"
    assert action.api == api
    return action


def joined(
    now_s: float = 0.0, *, of: ConsumerMember | None = None, leader: bool = False, generation: int = 1
) -> ConsumerMember:
    of = of or new()
    owned = {"me": frozenset[Partition](), "other": frozenset({T3})}
    metadata = {name: subscription_bytes(Subscription(("t",), theirs)) for name, theirs in owned.items()}
    members = [MEMBER(member_id=name, metadata=data) for name, data in metadata.items()] if leader else []
    answer = JOINED(
        generation_id=generation, protocol_name=of.protocol.metadata(frozenset())[0][0], member_id="me",
        leader="me" if leader else "other", members=members,
    )  # fmt: skip
    assert of.take(due(of, JOIN, now_s), answer, now_s) == ""
    return of


def assigned(of: ConsumerMember, *partitions: Partition, now_s: float = 0.0) -> None:
    assert of.take(due(of, SYNC, now_s), synced(*partitions), now_s) == ""


def synced(*partitions: Partition) -> messages.SyncGroupResponse:
    return messages.SyncGroupResponse(assignment=assignment_bytes(partitions))


def located(of: ConsumerMember, now_s: float = 0.0) -> ConsumerMember:
    """Return the member with offset 7 committed for the partitions that it asks for."""
    send = due(of, "OffsetFetch", now_s)
    part = messages.OffsetFetchResponse.OffsetFetchResponsePartition
    topic = messages.OffsetFetchResponse.OffsetFetchResponseTopic
    topics = [
        topic(name=each.name, partitions=[part(partition_index=n, committed_offset=7) for n in each.partition_indexes])
        for each in send.request.topics
    ]
    assert of.take(send, messages.OffsetFetchResponse(topics=topics), now_s) == ""
    return of


def stable(assignor: str = RANGE, instance_id: str | None = None) -> ConsumerMember:
    """A member that reads the partitions 0 and 1."""
    of = joined(of=new(assignor, instance_id))
    assigned(of, T0, T1)
    return located(of)


def answer_of(api: str, code: int) -> Any:
    if api == "OffsetCommit":
        part = messages.OffsetCommitResponse.OffsetCommitResponsePartition(partition_index=0, error_code=code)
        topic = messages.OffsetCommitResponse.OffsetCommitResponseTopic(name="t", partitions=[part])
        return messages.OffsetCommitResponse(topics=[topic])
    if api == JOIN:
        return JOINED(error_code=code, member_id="me-1")
    return getattr(messages, f"{api}Response")(error_code=code)


def refused(of: ConsumerMember, api: str, code: int, now_s: float) -> str:
    send = of.commit({T0: 8}) if api == "OffsetCommit" else due(of, api, now_s)
    assert send is not None
    return of.take(send, answer_of(api, code), now_s)


def unlocated() -> ConsumerMember:
    of = joined()
    assigned(of, T0, T1)
    return of


STATES: dict[str, Callable[[], ConsumerMember]] = {
    "new": new, "joined": joined, "unlocated": unlocated, "stable": stable,
}  # fmt: skip
OUT, OUT_NEW = "me UNJOINED in generation -1", "new member UNJOINED in generation -1"
ENDED = "me FAILED in generation -1"
STABLE = "me STABLE in generation 1 owns 2"
AGAIN = STABLE + ", must rejoin"
# state, request and error of its answer, state after it, reported error, next action at once, next action after a pause
REFUSALS = [
    ("new", JOIN, E.MEMBER_ID_REQUIRED, "me-1 UNJOINED in generation -1", "", "JoinGroup", "JoinGroup"),
    ("new", JOIN, E.COORDINATOR_LOAD_IN_PROGRESS, OUT_NEW, "COORDINATOR_LOAD_IN_PROGRESS", "-", "JoinGroup"),
    ("new", JOIN, E.NOT_COORDINATOR, OUT_NEW, "NOT_COORDINATOR", "-", "JoinGroup"),
    ("new", JOIN, E.REBALANCE_IN_PROGRESS, OUT_NEW, "REBALANCE_IN_PROGRESS", "-", "JoinGroup"),
    ("new", JOIN, E.UNKNOWN_MEMBER_ID, OUT_NEW, "UNKNOWN_MEMBER_ID", "-", "JoinGroup"),
    ("new", JOIN, E.INVALID_SESSION_TIMEOUT, "new member FAILED in generation -1", "INVALID_SESSION_TIMEOUT", "-", "-"),
    ("new", JOIN, E.GROUP_MAX_SIZE_REACHED, "new member FAILED in generation -1", "GROUP_MAX_SIZE_REACHED", "-", "-"),
    ("new", JOIN, E.UNKNOWN_SERVER_ERROR, "new member FAILED in generation -1", "UNKNOWN_SERVER_ERROR", "-", "-"),
    ("joined", SYNC, E.REBALANCE_IN_PROGRESS, "me JOINED in generation 1, must rejoin", "", "JoinGroup", "JoinGroup"),
    ("joined", SYNC, E.NOT_COORDINATOR, "me JOINED in generation 1", "NOT_COORDINATOR", "-", "SyncGroup"),
    ("joined", SYNC, E.ILLEGAL_GENERATION, OUT, "ILLEGAL_GENERATION", "JoinGroup", "JoinGroup"),
    ("joined", SYNC, E.UNKNOWN_MEMBER_ID, OUT_NEW, "UNKNOWN_MEMBER_ID", "JoinGroup", "JoinGroup"),
    ("joined", SYNC, E.FENCED_INSTANCE_ID, ENDED, "FENCED_INSTANCE_ID", "-", "-"),
    ("joined", SYNC, E.GROUP_AUTHORIZATION_FAILED, ENDED, "GROUP_AUTHORIZATION_FAILED", "-", "-"),
    ("stable", HEARTBEAT, E.REBALANCE_IN_PROGRESS, AGAIN, "", "revoke ('t', 0), ('t', 1)", "revoke ('t', 0), ('t', 1)"),
    ("stable", HEARTBEAT, E.NOT_COORDINATOR, STABLE, "NOT_COORDINATOR", "-", "-"),
    ("stable", HEARTBEAT, E.COORDINATOR_NOT_AVAILABLE, STABLE, "COORDINATOR_NOT_AVAILABLE", "-", "-"),
    ("stable", HEARTBEAT, E.ILLEGAL_GENERATION, OUT, "ILLEGAL_GENERATION", "JoinGroup", "JoinGroup"),
    ("stable", HEARTBEAT, E.UNKNOWN_MEMBER_ID, OUT_NEW, "UNKNOWN_MEMBER_ID", "JoinGroup", "JoinGroup"),
    ("stable", HEARTBEAT, E.FENCED_INSTANCE_ID, ENDED, "FENCED_INSTANCE_ID", "-", "-"),
    ("stable", HEARTBEAT, E.UNKNOWN_SERVER_ERROR, STABLE, "UNKNOWN_SERVER_ERROR", "-", "-"),
    ("unlocated", "OffsetFetch", E.UNSTABLE_OFFSET_COMMIT, STABLE, "UNSTABLE_OFFSET_COMMIT", "-", "OffsetFetch"),
    ("unlocated", "OffsetFetch", E.NOT_COORDINATOR, STABLE, "NOT_COORDINATOR", "-", "OffsetFetch"),
    ("unlocated", "OffsetFetch", E.GROUP_AUTHORIZATION_FAILED, ENDED, "GROUP_AUTHORIZATION_FAILED", "-", "-"),
    ("stable", "OffsetCommit", E.REBALANCE_IN_PROGRESS, AGAIN, "REBALANCE_IN_PROGRESS", "revoke ('t', 0), ('t', 1)",
     "revoke ('t', 0), ('t', 1)"),
    ("stable", "OffsetCommit", E.ILLEGAL_GENERATION, OUT, "ILLEGAL_GENERATION", "JoinGroup", "JoinGroup"),
    ("stable", "OffsetCommit", E.UNKNOWN_MEMBER_ID, OUT_NEW, "UNKNOWN_MEMBER_ID", "JoinGroup", "JoinGroup"),
    ("stable", "OffsetCommit", E.OFFSET_METADATA_TOO_LARGE, STABLE, "OFFSET_METADATA_TOO_LARGE", "-", "-"),
    ("stable", "OffsetCommit", E.COORDINATOR_LOAD_IN_PROGRESS, STABLE, "COORDINATOR_LOAD_IN_PROGRESS", "-", "-"),
]  # fmt: skip


def upcoming(of: ConsumerMember, now_s: float) -> str:
    action = of.next(now_s)
    return action.api if isinstance(action, Send) else "-" if action is None else str(action)


@pytest.mark.parametrize(("state", "api", "code", "after", "name", "now", "later"), REFUSALS)
def test_an_error_has_its_reaction(
    state: str, api: str, code: ErrorCode, after: str, name: str, now: str, later: str
) -> None:
    """If this fails, a member leaves its group for a passing error, floods a broker, or keeps partitions it lost."""
    of = STATES[state]()
    at_s = BEAT_S if api == HEARTBEAT else 1.0
    assert refused(of, api, code, at_s) == name
    assert str(of) == after
    assert of.is_coordinator_lost == (reaction_to(api, code) is Reaction.FIND_COORDINATOR)
    assert upcoming(of, at_s) == now
    assert upcoming(of, at_s + RETRY_S) == later


def test_every_error_of_an_api_has_a_reaction() -> None:
    """If this fails, an error that only a newer broker sends ends the program that hosts the member."""
    for api in (JOIN, SYNC, HEARTBEAT, "OffsetFetch", "OffsetCommit", "LeaveGroup"):
        for code in (*ErrorCode, 9_999):
            assert reaction_to(api, code) in Reaction


def test_a_member_joins_reads_its_offsets_and_sends_heartbeats() -> None:
    """If this fails, members do not join, or lose their sessions."""
    of = stable()
    assert of.owned == {T0, T1}
    assert (of.committed, of.is_located, of.joins) == ({T0: 7, T1: 7}, True, 1)
    assert of.next(2.9) is None
    assert of.wait_s(1.0) == pytest.approx(2.0)
    assert refused(of, HEARTBEAT, 0, 3.0) == ""
    assert of.next(5.9) is None
    assert refused(of, HEARTBEAT, 0, 6.0) == ""


def test_an_eager_member_revokes_everything_before_it_joins_again() -> None:
    """If this fails, two members read a partition at the same time."""
    of = stable()
    refused(of, HEARTBEAT, E.REBALANCE_IN_PROGRESS, 3.0)
    action = of.next(3.0)
    assert isinstance(action, Revoke)
    of.revoked(action.parts)
    assert (of.owned, of.committed) == (frozenset(), {})
    ((name, metadata),) = ((each.name, each.metadata) for each in due(of, JOIN, 3.0).request.protocols)
    assert (name, subscription_of(metadata)) == ("range", Subscription(("t",)))


def test_a_cooperative_member_keeps_its_partitions_until_they_move() -> None:
    """If this fails, each rebalance stops all members (KIP-429), or a partition moves before its owner gave it up."""
    of = stable(COOPERATIVE_STICKY)
    refused(of, HEARTBEAT, E.REBALANCE_IN_PROGRESS, 3.0)
    (protocol,) = due(of, JOIN, 3.0).request.protocols
    assert subscription_of(protocol.metadata).owned == {T0, T1}
    joined(3.0, of=of, generation=2)
    assert of.owned == {T0, T1}
    assigned(of, T0, now_s=3.0)
    assert str(of) == "me STABLE in generation 2 owns 2, must rejoin"
    # A member that still processes records keeps its session, and gives the partition up afterwards.
    assert of.next(3.1, may_join=False) is None
    assert str(of.next(3.1)) == "revoke ('t', 1)"
    of.revoked({T1})
    assert of.owned == {T0}
    assert of.committed == {T0: 7}
    joined(3.2, of=of, generation=3)
    assigned(of, T0, T2, now_s=3.2)
    assert of.owned == {T0, T2}
    assert not of.is_located
    assert not of.must_rejoin
    send = due(of, "OffsetFetch", 3.2)
    assert [(each.name, each.partition_indexes) for each in send.request.topics] == [("t", [2])]


def test_the_leader_distributes_all_partitions() -> None:
    """If this fails, partitions of a group are read by no member, or by two."""
    of = joined(leader=True)
    task = of.next(0.0)
    assert isinstance(task, Assign)
    assert str(task) == "assign by range to me, other"
    assert topics_of(task) == ["t"]
    assert of.next(0.0) == task
    of.distribute(task, {"t": 5})
    sent = {each.member_id: assignment_of(each.assignment) for each in due(of, SYNC).request.assignments}
    assert sent == {"me": {T0, T1, T2}, "other": {T3, ("t", 4)}}


def test_a_task_of_an_earlier_generation_assigns_nothing() -> None:
    """If this fails, a leader whose metadata took too long assigns partitions to members that are gone."""
    of = joined(leader=True)
    task = of.next(0.0)
    assert isinstance(task, Assign)
    of.forget()
    joined(of=of, leader=True, generation=2)
    of.distribute(task, {"t": 5})
    assert isinstance(of.next(0.0), Assign)


def test_a_leader_that_cannot_read_the_metadata_of_a_member_fails() -> None:
    """If this fails, a group waits for ever for the assignment of a leader that raised an exception."""
    of = new()
    members = [MEMBER(member_id="me", metadata=b"\0")]
    answer = JOINED(generation_id=1, protocol_name="range", leader="me", member_id="me", members=members)
    of.take(due(of, JOIN), answer, 0.0)
    task = of.next(0.0)
    assert isinstance(task, Assign)
    assert topics_of(task) == []
    of.distribute(task, {})
    assert (of.state, of.failure, of.next(99.0)) == (State.FAILED, E.INCONSISTENT_GROUP_PROTOCOL, None)


def test_a_member_that_works_sends_heartbeats_and_joins_later() -> None:
    """If this fails, a slow member is removed while it processes records, or rejoins before it has finished."""
    of = stable()
    refused(of, HEARTBEAT, E.REBALANCE_IN_PROGRESS, 3.0)
    assert of.next(3.1, may_join=False) is None
    assert of.wait_s(3.1, may_join=False) == pytest.approx(BEAT_S - 0.1)
    beat = of.next(6.0, may_join=False)
    assert isinstance(beat, Send)
    assert beat.api == HEARTBEAT
    of.take(beat, answer_of(HEARTBEAT, E.REBALANCE_IN_PROGRESS), 6.0)
    assert isinstance(of.next(6.1), Revoke)
    assert new().wait_s(0.0, may_join=False) == math.inf


def test_fencing_is_counted() -> None:
    """If this fails, the figures of a run do not show that groups continued without members."""
    for code in (E.UNKNOWN_MEMBER_ID, E.ILLEGAL_GENERATION, E.FENCED_INSTANCE_ID):
        of = stable(instance_id="i-1")
        refused(of, HEARTBEAT, code, 3.0)
        assert (of.fenced, of.commit({T0: 8})) == (1, None)
        of.forget()
        assert due(of, JOIN, 3.0).request.group_instance_id == "i-1"
    of = new()
    refused(of, JOIN, E.UNKNOWN_MEMBER_ID, 0.0)
    assert of.fenced == 0


def test_a_request_without_an_answer_is_sent_again_after_a_pause() -> None:
    """If this fails, members spin, or do not rejoin, when a broker is killed."""
    of = new()
    of.no_answer(due(of, JOIN, 1.0), 1.0)
    assert of.is_coordinator_lost
    assert of.next(1.0) is None
    assert of.wait_s(1.0) == pytest.approx(RETRY_S)
    due(of, JOIN, 1.0 + RETRY_S)
    of = stable()
    of.no_answer(due(of, HEARTBEAT, 3.0), 3.0)
    due(of, HEARTBEAT, 3.0 + RETRY_S)


def test_answers_of_an_earlier_life_change_nothing() -> None:
    """If this fails, a member that was killed and restarted gets the partitions of its former membership."""
    of = new()
    send = due(of, JOIN)
    of.forget()
    assert of.take(send, JOINED(generation_id=3, member_id="old", leader="old"), 1.0) == ""
    assert str(of) == OUT_NEW
    of.no_answer(send, 1.0)
    assert not of.is_coordinator_lost


def test_a_late_answer_of_another_generation_does_not_fence() -> None:
    """If this fails, a failed commit from before a rebalance removes the member from the new generation."""
    of = stable()
    commit = of.commit({T0: 8})
    assert commit is not None
    refused(of, HEARTBEAT, E.REBALANCE_IN_PROGRESS, 3.0)
    of.revoked(of.owned)
    joined(3.0, of=of, generation=2)
    assert of.take(commit, answer_of("OffsetCommit", E.ILLEGAL_GENERATION), 3.0) == "ILLEGAL_GENERATION"
    assert (of.state, of.generation, of.fenced) == (State.JOINED, 2, 0)


def test_a_commit_has_the_generation_and_owned_partitions_only() -> None:
    """If this fails, members commit offsets of partitions that others read."""
    of = stable(instance_id="i-1")
    send = of.commit({T0: 8, T1: 3, T2: 5})
    assert send is not None
    request = send.request
    assert (request.generation_id_or_member_epoch, request.member_id, request.group_instance_id) == (1, "me", "i-1")
    offsets = [(part.partition_index, part.committed_offset) for part in request.topics[0].partitions]
    assert offsets == [(0, 8), (1, 3)]
    assert of.commit({T2: 5}) is None


def test_a_member_that_changes_its_metadata_joins_again() -> None:
    """If this fails, new partitions are read by no member until the next rebalance."""
    of = stable()
    of.rejoin()
    assert str(of.next(1.0)) == "revoke ('t', 0), ('t', 1)"
    of = new()
    of.rejoin()
    assert not of.must_rejoin


def test_a_damaged_assignment_is_an_error() -> None:
    """If this fails, a broker that corrupts assignments ends the member instead of being reported."""
    of = joined()
    answer = messages.SyncGroupResponse(assignment=b"\0\0\0\0\0\5")
    assert of.take(due(of, SYNC), answer, 0.0) == CORRUPT
    due(of, JOIN)


def test_a_member_that_leaves_begins_as_a_new_one() -> None:
    """If this fails, members that leave stay in the group until their session ends."""
    of = stable()
    send = of.leave()
    assert send is not None
    assert [each.member_id for each in send.request.members] == ["me"]
    assert of.take(send, messages.LeaveGroupResponse(), 1.0) == ""
    assert due(of, JOIN, 1.0).request.member_id == ""
    assert new().leave() is None


def test_a_static_member_gets_its_assignment_without_a_rebalance() -> None:
    """If this fails, a returning static leader replaces the assignment of its group (KIP-814)."""
    of = new(instance_id="i-1")
    answer = JOINED(generation_id=4, protocol_name="range", leader="me", member_id="me", skip_assignment=True)
    of.take(due(of, JOIN), answer, 0.0)
    assert due(of, SYNC).request.assignments == []


def test_an_unknown_assignor_is_refused() -> None:
    """If this fails, a member with a misspelt assignor joins and fails its group."""
    with pytest.raises(ValueError, match=r"'rang' is not known \(allowed: range, roundrobin, cooperative-sticky\)"):
        new("rang")
