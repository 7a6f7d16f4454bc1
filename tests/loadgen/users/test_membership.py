"""A group member without a broker: its requests, and its reactions to responses."""

from __future__ import annotations

from typing import Any

import pytest

from broker_cy.core.errors import ErrorCode
from broker_cy.wire import messages
from loadgen.users.assignors import assignment, by_range, by_turns, partitions_of, subscription
from loadgen.users.membership import RETRY_S, Ask, Membership, State
from loadgen.users.settings import Member

SETTINGS = Member(
    group="g", session_timeout_ms=10_000, heartbeat_interval_ms=3_000, rebalance_timeout_ms=60_000, static=False
)
JOINED = messages.JoinGroupResponse
MEMBER = messages.JoinGroupResponse.JoinGroupResponseMember


def member(instance_id: str | None = None, partitions: int = 4) -> Membership:
    return Membership(SETTINGS, "g", "t", partitions, instance_id)


def asked(of: Membership, api: str, now_s: float = 0.0) -> Ask:
    """The next request, which must be one of this API."""
    ask = of.next(now_s)
    assert ask is not None, f"{api} expected"
    assert ask.api == api
    return ask


def joined(of: Membership, now_s: float = 0.0, *, leader: bool = False, generation: int = 1) -> None:
    ask = asked(of, "JoinGroup", now_s)
    others = [MEMBER(member_id=name, metadata=subscription("t")) for name in ("me", "other")] if leader else []
    answer = JOINED(
        generation_id=generation, protocol_name="range", leader="me" if leader else "other", member_id="me",
        members=others,
    )  # fmt: skip
    assert of.take(ask, answer, now_s) == ""


def stable(now_s: float = 0.0, instance_id: str | None = None) -> Membership:
    """A member that reads the partitions 0 and 1, the first from offset 7."""
    found = member(instance_id)
    joined(found, now_s)
    located(found, now_s)
    return found


def located(of: Membership, now_s: float) -> None:
    answer = messages.SyncGroupResponse(assignment=assignment("t", [0, 1]))
    assert of.take(asked(of, "SyncGroup", now_s), answer, now_s) == ""
    part = messages.OffsetFetchResponse.OffsetFetchResponsePartition
    topic = messages.OffsetFetchResponse.OffsetFetchResponseTopic(
        name="t",
        partitions=[part(partition_index=0, committed_offset=7), part(partition_index=1, committed_offset=-1)],
    )
    assert of.take(asked(of, "OffsetFetch", now_s), messages.OffsetFetchResponse(topics=[topic]), now_s) == ""
    assert of.state is State.STABLE


def beaten(of: Membership, code: int, now_s: float) -> str:
    return of.take(asked(of, "Heartbeat", now_s), messages.HeartbeatResponse(error_code=code), now_s)


def test_a_member_joins_reads_its_offsets_and_sends_heartbeats() -> None:
    """If this fails, users do not become group members, or lose their sessions."""
    of = stable()
    assert (of.assigned, of.committed, of.joins) == ([0, 1], {0: 7, 1: -1}, 1)
    assert of.next(2.9) is None
    assert of.wait_s(1.0) == pytest.approx(2.0)
    assert beaten(of, 0, 3.0) == ""
    assert of.next(5.9) is None
    assert beaten(of, 0, 6.0) == ""


def test_the_stall_counts_from_the_first_wish_to_join() -> None:
    """If this fails, the meter Rebalance does not show for how long members had nothing to read."""
    of = member()
    joined(of, 10.0)
    located(of, 12.0)
    assert of.settle(12.5) == pytest.approx(2.5)
    assert beaten(of, ErrorCode.REBALANCE_IN_PROGRESS, 20.0) == ""
    joined(of, 21.0, generation=2)
    located(of, 22.0)
    assert of.settle(22.0) == pytest.approx(1.0)


def test_a_new_member_uses_the_id_that_the_coordinator_gives_it() -> None:
    """If this fails, members cannot join brokers that require a member id (KIP-394), or MEMBER_ID_REQUIRED counts as an
    error.
    """
    of = member()
    first = asked(of, "JoinGroup")
    assert first.request.member_id == ""
    refusal = JOINED(error_code=ErrorCode.MEMBER_ID_REQUIRED, member_id="me-1")
    assert of.take(first, refusal, 0.0) == ""
    assert asked(of, "JoinGroup").request.member_id == "me-1"


def test_the_leader_distributes_all_partitions() -> None:
    """If this fails, partitions of a group are read by no member, or by two."""
    of = member(partitions=5)
    joined(of, leader=True)
    sent = {each.member_id: partitions_of(each.assignment, "t") for each in asked(of, "SyncGroup").request.assignments}
    assert sent == {"me": [0, 1, 2], "other": [3, 4]}


def test_a_member_that_works_sends_heartbeats_and_joins_later() -> None:
    """If this fails, a slow member is removed while it processes records, or rejoins before it has finished."""
    of = stable()
    assert beaten(of, ErrorCode.REBALANCE_IN_PROGRESS, 3.0) == ""
    assert of.next(3.1, may_join=False) is None
    beat = of.next(6.0, may_join=False)
    assert beat is not None
    assert beat.api == "Heartbeat"
    of.take(beat, messages.HeartbeatResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS), 6.0)
    assert asked(of, "JoinGroup", 6.1).request.member_id == "me"


@pytest.mark.parametrize(
    ("code", "member_id"),
    [
        (ErrorCode.UNKNOWN_MEMBER_ID, ""),
        (ErrorCode.ILLEGAL_GENERATION, "me"),
        (ErrorCode.FENCED_INSTANCE_ID, ""),
    ],
)
def test_a_fenced_member_is_counted_and_joins_again(code: ErrorCode, member_id: str) -> None:
    """If this fails, members that were paused for too long never come back, or their fencing is not counted."""
    of = stable(instance_id="i-1")
    assert beaten(of, code, 3.0) == code.name
    assert (of.fenced, of.generation, of.assigned) == (1, -1, [])
    assert of.commit({0: 8}) is None
    request = asked(of, "JoinGroup", 3.0).request
    assert (request.member_id, request.group_instance_id) == (member_id, "i-1")


@pytest.mark.parametrize("code", [ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE])
def test_a_coordinator_that_moved_is_looked_for_after_a_pause(code: ErrorCode) -> None:
    """If this fails, members flood a former coordinator with requests, or rejoin without a reason."""
    of = stable()
    assert beaten(of, code, 3.0) == code.name
    assert of.is_coordinator_lost
    assert of.state is State.STABLE
    assert of.next(3.0 + RETRY_S / 2) is None
    asked(of, "Heartbeat", 6.0)


def test_a_request_without_an_answer_is_sent_again_after_a_pause() -> None:
    """If this fails, members spin, or do not rejoin, when a broker is killed."""
    of = member()
    ask = asked(of, "JoinGroup", 1.0)
    of.lost(ask, 1.0)
    assert of.is_coordinator_lost
    assert of.next(1.0) is None
    assert of.wait_s(1.0) == pytest.approx(RETRY_S)
    asked(of, "JoinGroup", 1.0 + RETRY_S)


def test_answers_of_an_earlier_life_change_nothing() -> None:
    """If this fails, a member that was killed and restarted gets the partitions of its former membership."""
    of = member()
    ask = asked(of, "JoinGroup")
    of.forget()
    assert of.take(ask, JOINED(generation_id=3, member_id="old", leader="old"), 1.0) == ""
    assert (of.state, of.member_id, of.generation) == (State.OUT, "", -1)
    of.lost(ask, 1.0)
    assert not of.is_coordinator_lost


def test_a_late_answer_of_another_generation_does_not_fence() -> None:
    """If this fails, a failed commit from before a rebalance removes the member from the new generation."""
    of = stable()
    commit = of.commit({0: 8})
    assert commit is not None
    assert beaten(of, ErrorCode.REBALANCE_IN_PROGRESS, 3.0) == ""
    joined(of, 3.0, generation=2)
    assert of.take(commit, committed(ErrorCode.ILLEGAL_GENERATION), 3.0) == "ILLEGAL_GENERATION"
    assert (of.state, of.generation, of.fenced) == (State.JOINED, 2, 0)


def committed(code: int) -> Any:
    part = messages.OffsetCommitResponse.OffsetCommitResponsePartition(partition_index=0, error_code=code)
    topic = messages.OffsetCommitResponse.OffsetCommitResponseTopic(name="t", partitions=[part])
    return messages.OffsetCommitResponse(topics=[topic])


def test_a_commit_has_the_generation_and_its_refusal_fences() -> None:
    """If this fails, members commit offsets of partitions that others read."""
    of = stable(instance_id="i-1")
    ask = of.commit({0: 8, 1: 3})
    assert ask is not None
    request = ask.request
    assert (request.generation_id_or_member_epoch, request.member_id, request.group_instance_id) == (1, "me", "i-1")
    assert of.take(ask, committed(ErrorCode.UNKNOWN_MEMBER_ID), 1.0) == "UNKNOWN_MEMBER_ID"
    assert of.fenced == 1
    asked(of, "JoinGroup", 1.0)


def test_a_rebalance_during_sync_joins_again() -> None:
    """If this fails, a member waits for its assignment in a generation that no longer exists."""
    of = member()
    joined(of)
    answer = messages.SyncGroupResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS)
    assert of.take(asked(of, "SyncGroup"), answer, 0.0) == ""
    assert asked(of, "JoinGroup").request.member_id == "me"


def test_pending_offsets_are_asked_for_again() -> None:
    """If this fails, a member starts before offsets that an open transaction is about to commit (KIP-447)."""
    of = member()
    joined(of)
    of.take(asked(of, "SyncGroup"), messages.SyncGroupResponse(assignment=assignment("t", [0])), 0.0)
    ask = asked(of, "OffsetFetch")
    assert ask.request.require_stable
    answer = messages.OffsetFetchResponse(error_code=ErrorCode.UNSTABLE_OFFSET_COMMIT)
    assert of.take(ask, answer, 0.0) == "UNSTABLE_OFFSET_COMMIT"
    assert of.next(0.0) is None
    asked(of, "OffsetFetch", RETRY_S)


def test_a_damaged_assignment_is_an_error() -> None:
    """If this fails, a broker that corrupts assignments ends the user instead of being counted."""
    of = member()
    joined(of)
    ask = asked(of, "SyncGroup")
    assert of.take(ask, messages.SyncGroupResponse(assignment=b"\0\0\0\0\0\5"), 0.0) == "CORRUPT_ANSWER"
    asked(of, "JoinGroup")


def test_who_leaves_says_so_and_begins_as_a_new_member() -> None:
    """If this fails, members that leave stay in the group until their session ends."""
    of = stable()
    ask = of.leave()
    assert ask is not None
    assert [each.member_id for each in ask.request.members] == ["me"]
    assert of.take(ask, messages.LeaveGroupResponse(), 1.0) == ""
    assert asked(of, "JoinGroup", 1.0).request.member_id == ""
    assert member().leave() is None


def test_assignors() -> None:
    """If this fails, members get other partitions than Kafka's clients would."""
    assert by_range(["a", "b", "c"], 7) == {"a": [0, 1, 2], "b": [3, 4], "c": [5, 6]}
    assert by_turns(["a", "b", "c"], 7) == {"a": [0, 3, 6], "b": [1, 4], "c": [2, 5]}
    assert by_range(["a", "b"], 1) == {"a": [0], "b": []}
    assert partitions_of(assignment("t", [2, 3]), "t") == [2, 3]
    assert partitions_of(assignment("u", [2, 3]), "t") == []
    assert partitions_of(b"", "t") == []
