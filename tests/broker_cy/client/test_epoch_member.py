"""A member of the newer protocol (KIP-848) without a broker."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from broker_cy.client.consumer_member import NOT_COMMITTED, OFFSET_FETCH
from broker_cy.client.epoch_member import EPOCH_HEARTBEAT, EpochMember
from broker_cy.client.group_member import RETRY_S, MemberSettings, Revoke, Send, State
from broker_cy.core.errors import ErrorCode
from broker_cy.wire import messages

T = UUID(int=1)
Response = messages.ConsumerGroupHeartbeatResponse
INTERVAL_S = 5.0


def new() -> EpochMember:
    return EpochMember(MemberSettings("g"), ["t"], {T: "t"}, lambda: "made")


def due(of: EpochMember, api: str = EPOCH_HEARTBEAT, now_s: float = 0.0) -> Send:
    """The next action, which must be a request of this API."""
    action = of.next(now_s)
    assert isinstance(action, Send), f"{api} expected, not {action}"
    assert action.api == api
    return action


def told(epoch: int, *partitions: int) -> Any:
    parts = [Response.TopicPartitions(topic_id=T, partitions=list(partitions))] if partitions else []
    return Response(
        member_id="made",
        member_epoch=epoch,
        heartbeat_interval_ms=int(INTERVAL_S * 1000),
        assignment=Response.Assignment(topic_partitions=parts),
    )


def located(of: EpochMember) -> None:
    """Let it get the committed offsets of its partitions: none."""
    send = due(of, OFFSET_FETCH)
    group = messages.OffsetFetchResponse.OffsetFetchResponseGroup(group_id="g", topics=[])
    assert of.take(send, messages.OffsetFetchResponse(groups=[group]), 0.0) == ""
    assert of.is_located


def joined(*partitions: int) -> EpochMember:
    """A member with these partitions, which it has reported."""
    of = new()
    assert of.take(due(of), told(2, *partitions), 0.0) == ""
    if partitions:
        assert of.take(due(of), Response(member_epoch=2, heartbeat_interval_ms=5_000, assignment=None), 0.0) == ""
        located(of)
    return of


def test_a_member_joins_and_reports_its_partitions() -> None:
    """If this fails, no partition is read, or the coordinator waits for a report for ever."""
    of = new()
    first = due(of).request
    assert (first.member_id, first.member_epoch, first.subscribed_topic_names) == ("made", 0, ["t"])
    assert first.topic_partitions == []
    of = joined(0, 1)
    assert (of.state, of.generation, of.owned) == (State.STABLE, 2, frozenset({("t", 0), ("t", 1)}))
    assert of.committed == {("t", 0): NOT_COMMITTED, ("t", 1): NOT_COMMITTED}
    assert of.next(INTERVAL_S - 1) is None
    assert of.wait_s(1.0) == INTERVAL_S - 1
    steady = due(of, now_s=INTERVAL_S).request
    assert (steady.member_epoch, steady.topic_partitions, steady.subscribed_topic_names) == (2, None, None)


def test_partitions_are_given_up_before_they_are_reported_as_released() -> None:
    """If this fails, two members read one partition."""
    of = joined(0, 1)
    of.take(due(of, now_s=INTERVAL_S), told(2, 0), INTERVAL_S)
    assert of.wants_to_join
    # The host is busy: heartbeats go on, and tell nothing.
    assert of.next(INTERVAL_S, may_join=False) is None
    beat = of.next(2 * INTERVAL_S, may_join=False)
    assert isinstance(beat, Send)
    assert beat.request.topic_partitions is None
    action = of.next(2 * INTERVAL_S)
    assert action == Revoke(frozenset({("t", 0), ("t", 1)}))
    of.revoked(action.parts)
    report = due(of, now_s=2 * INTERVAL_S).request
    assert [(each.topic_id, each.partitions) for each in report.topic_partitions] == [(T, [0])]
    assert not of.wants_to_join


@pytest.mark.parametrize("code", [ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID])
def test_a_fenced_member_loses_everything_and_joins_again(code: ErrorCode) -> None:
    """If this fails, a member goes on reading partitions that another one has."""
    of = joined(0)
    assert of.take(due(of, now_s=INTERVAL_S), Response(error_code=code), INTERVAL_S) == code.name
    assert (of.state, of.owned, of.committed, of.fenced) == (State.UNJOINED, frozenset(), {}, 1)
    again = due(of, now_s=INTERVAL_S + RETRY_S).request
    assert (again.member_epoch, again.member_id, again.topic_partitions) == (0, "made", [])


@pytest.mark.parametrize(
    ("code", "state", "lost"),
    [
        (ErrorCode.NOT_COORDINATOR, State.STABLE, True),
        (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, State.STABLE, False),
        (ErrorCode.GROUP_AUTHORIZATION_FAILED, State.FAILED, False),
    ],
)
def test_other_errors(code: ErrorCode, state: State, lost: bool) -> None:
    """If this fails, a member gives up for a failure that passes, or repeats a request that cannot succeed."""
    of = joined(0)
    of.take(due(of, now_s=INTERVAL_S), Response(error_code=code), INTERVAL_S)
    assert (of.state, of.is_coordinator_lost) == (state, lost)


def test_leaving_is_a_heartbeat() -> None:
    """If this fails, the group waits for the session of a member that has left."""
    assert new().leave() is None
    of = joined(0)
    send = of.leave()
    assert send is not None
    assert (send.request.member_id, send.request.member_epoch) == ("made", -1)
    assert of.take(send, Response(member_epoch=-1), 0.0) == ""
    assert (of.state, of.owned) == (State.UNJOINED, frozenset())
    assert due(of).request.member_epoch == 0
