"""SyncGroup, heartbeats, leaving, and members that are lost."""

from __future__ import annotations

from typing import Any

import pytest

from broker_cy.coordinator.classic.state import GroupState
from broker_cy.core.errors import ErrorCode
from tests.broker_cy.coordinator.harness import GROUP, REBALANCE_MS, SESSION_MS, Harness


@pytest.fixture
def h() -> Harness:
    return Harness()


def completing(h: Harness, *names: str, **how: object) -> list[str]:
    """Make a group whose joins are answered and whose leader has not assigned yet."""
    ids = [h.join_new(f"join {name}", **how) for name in names]
    h.advance(1)
    assert h.group().state is GroupState.COMPLETING_REBALANCE
    return ids


def test_assignment_reaches_each_member_once_it_is_written(h: Harness) -> None:
    """If this fails, members read partitions by an assignment that is lost at a restart."""
    a, b = completing(h, "a", "b")
    h.hold = True
    h.sync("b", b, 1)
    h.sync("a", a, 1, {a: b"A", b: b"B"})
    assert "a" not in h.answers
    assert h.group().state is GroupState.COMPLETING_REBALANCE
    h.write()
    assert (h.answers["a"].assignment, h.answers["b"].assignment) == (b"A", b"B")
    assert (h.answers["a"].protocol_type, h.answers["a"].protocol_name) == ("consumer", "range")
    assert h.group().state is GroupState.STABLE


def test_late_follower_and_restarted_coordinator_give_the_assignment(h: Harness) -> None:
    """If this fails, a follower that syncs late, or after a failover, reads nothing."""
    a, b = completing(h, "a", "b")
    h.sync("a", a, 1, {a: b"A", b: b"B"})
    assert h.sync("b", b, 1).assignment == b"B"
    h.restart()
    assert h.group().state is GroupState.STABLE
    assert h.sync("b2", b, 1).assignment == b"B"
    assert h.heartbeat(a, 1) is ErrorCode.NONE


def test_member_the_leader_forgot_is_assigned_nothing(h: Harness) -> None:
    """If this fails, a member waits for an assignment that never comes."""
    a, b = completing(h, "a", "b")
    h.sync("b", b, 1)
    h.sync("a", a, 1, {a: b"A", "ghost": b"?"})
    assert h.answers["b"].assignment == b""


def test_assignment_that_cannot_be_written_makes_the_group_join_again(h: Harness) -> None:
    """If this fails, members have no assignment after a full disk."""
    a, b = completing(h, "a", "b")
    h.hold = True
    h.sync("b", b, 1)
    h.sync("a", a, 1, {a: b"A"})
    h.fail(ErrorCode.NOT_ENOUGH_REPLICAS)
    assert h.answers["a"].error_code == h.answers["b"].error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert h.group().state is GroupState.PREPARING_REBALANCE
    h.hold = False
    h.join("a2", a)
    h.join("b2", b)
    assert h.answers["a2"].generation_id == 2


def test_rebalance_during_the_write_is_not_overtaken(h: Harness) -> None:
    """If this fails, an assignment of the last generation is returned in the next."""
    a, b = completing(h, "a", "b")
    h.hold = True
    h.sync("b", b, 1)
    h.sync("a", a, 1, {a: b"A", b: b"B"})
    h.join("b2", b, protocols=[("range", b"changed")])
    assert h.answers["b"].error_code == ErrorCode.REBALANCE_IN_PROGRESS
    h.write()
    assert h.group().state is GroupState.PREPARING_REBALANCE
    assert h.answers["a"].error_code == ErrorCode.REBALANCE_IN_PROGRESS


@pytest.mark.parametrize(
    ("how", "code"),
    [
        ({"member_id": "ghost"}, ErrorCode.UNKNOWN_MEMBER_ID),
        ({"generation": 7}, ErrorCode.ILLEGAL_GENERATION),
        ({"protocol_type": "connect"}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"protocol_name": "sticky"}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"group_id": "nobody"}, ErrorCode.UNKNOWN_MEMBER_ID),
    ],
    ids=["member", "generation", "type", "protocol", "group"],
)
def test_sync_is_checked(h: Harness, how: dict[str, Any], code: ErrorCode) -> None:
    """If this fails, a member of another generation or protocol is given partitions."""
    (a,) = completing(h, "a")
    wanted = {"member_id": a, "generation": 1, **how}
    assert h.sync("s", **wanted).error_code == code


def test_sync_during_a_rebalance_is_sent_back(h: Harness) -> None:
    """If this fails, a member waits in a sync that is never answered."""
    a, b = h.stable("a", "b")
    h.join("j", a)
    assert h.sync("s", b, 1).error_code == ErrorCode.REBALANCE_IN_PROGRESS


def test_members_that_do_not_sync_are_removed(h: Harness) -> None:
    """If this fails, a leader that dies between join and sync stops the group for its whole session timeout."""
    a, b = completing(h, "a", "b", session_ms=1_000_000)
    h.sync("b", b, 1)
    h.advance(REBALANCE_MS)
    assert h.answers["b"].error_code == ErrorCode.REBALANCE_IN_PROGRESS
    assert list(h.group().members) == [b]
    h.join("b2", b)
    assert h.answers["b2"].leader == b
    assert a not in h.group().members


def test_session_ends_without_heartbeats(h: Harness) -> None:
    """If this fails, partitions of a dead consumer are never read again."""
    a, b = h.stable("a", "b")
    h.advance(SESSION_MS - 1)
    assert h.heartbeat(a, 1) is ErrorCode.NONE
    h.advance(1)
    assert list(h.group().members) == [a]
    assert h.heartbeat(a, 1) is ErrorCode.REBALANCE_IN_PROGRESS
    assert h.heartbeat(b, 1) is ErrorCode.UNKNOWN_MEMBER_ID


def test_last_session_empties_the_group_for_good(h: Harness) -> None:
    """If this fails, after a restart the dead members are back and block the group for another session."""
    h.stable("a")
    h.advance(SESSION_MS)
    assert h.group().state is GroupState.EMPTY
    assert h.group().generation == 2
    h.restart()
    assert h.group().state is GroupState.EMPTY
    assert h.group().generation == 2
    assert h.group().protocol_type == "consumer"


def test_sessions_begin_again_after_a_restart(h: Harness) -> None:
    """If this fails, all members are removed together, or dead members stay forever."""
    a, _ = h.stable("a", "b")
    h.advance(SESSION_MS - 1)
    h.restart()
    h.advance(SESSION_MS - 1)
    assert h.heartbeat(a, 1) is ErrorCode.NONE
    h.advance(1)
    assert list(h.group().members) == [a]


def test_member_that_waits_for_the_rebalance_is_alive(h: Harness) -> None:
    """If this fails, members are removed while they wait for slower ones."""
    a, b = h.stable("a", "b")
    h.join("a2", a)
    while h.mono_ms < REBALANCE_MS // 2:
        h.advance(SESSION_MS // 2)
        assert h.heartbeat(b, 1) is ErrorCode.REBALANCE_IN_PROGRESS
    assert a in h.group().members


@pytest.mark.parametrize(
    ("how", "code"),
    [
        ({"generation": 9}, ErrorCode.ILLEGAL_GENERATION),
        ({"member_id": "ghost"}, ErrorCode.UNKNOWN_MEMBER_ID),
        ({"group_id": "nobody"}, ErrorCode.UNKNOWN_MEMBER_ID),
    ],
    ids=["generation", "member", "group"],
)
def test_heartbeat_is_checked(h: Harness, how: dict[str, Any], code: ErrorCode) -> None:
    """If this fails, a zombie believes that it still owns its partitions."""
    (a,) = h.stable("a")
    wanted = {"member_id": a, "generation": 1, **how}
    assert h.heartbeat(**wanted) is code


def test_heartbeat_while_the_leader_assigns_is_accepted(h: Harness) -> None:
    """If this fails, clients that send heartbeats right after the join loop in rebalances."""
    a, _ = completing(h, "a", "b")
    assert h.heartbeat(a, 1) is ErrorCode.NONE


def test_leaving_moves_partitions_at_once(h: Harness) -> None:
    """If this fails, a clean shutdown of a member stalls its partitions for the session timeout."""
    a, b = h.stable("a", "b")
    assert h.leave("l", (a, None), ("ghost", None)) == [ErrorCode.NONE, ErrorCode.UNKNOWN_MEMBER_ID]
    assert h.group().leader_id == b
    assert h.heartbeat(b, 1) is ErrorCode.REBALANCE_IN_PROGRESS


def test_leaving_is_answered_when_the_empty_group_is_written(h: Harness) -> None:
    """If this fails, the client believes it left, and a restart brings it back."""
    (a,) = h.stable("a")
    h.hold = True
    h.leave("l", (a, None))
    assert "l" not in h.answers
    h.write()
    assert h.answers["l"].error_code == ErrorCode.NONE
    h.restart()
    assert not h.group().members


def test_leaving_an_unknown_group_names_each_member(h: Harness) -> None:
    """If this fails, clients that read the member's code take the leave for successful."""
    assert h.leave("l", ("a", None), group_id="nobody") == [ErrorCode.UNKNOWN_MEMBER_ID]


def test_leaving_with_an_unused_id_lets_the_rebalance_end(h: Harness) -> None:
    """If this fails, a rebalance waits for a client that has announced that it leaves."""
    (a,) = h.stable("a")
    pending = h.join("p").member_id
    h.join("a2", a)
    assert "a2" not in h.answers
    assert h.leave("l", (pending, None)) == [ErrorCode.NONE]
    assert h.answers["a2"].generation_id == 2


def test_waiting_requests_of_a_leaving_member_are_answered(h: Harness) -> None:
    """If this fails, the request of a member that was removed hangs until the client gives up."""
    a, b = completing(h, "a", "b")
    h.sync("b", b, 1)
    h.leave("l", (b, None))
    assert h.answers["b"].error_code == ErrorCode.UNKNOWN_MEMBER_ID
    h.join("again", a)
    assert h.answers["again"].generation_id == 2


def test_unloading_answers_everything_that_waits(h: Harness) -> None:
    """If this fails, clients wait for a coordinator that has stopped, instead of looking up the next one."""
    a, b = completing(h, "a", "b")
    h.sync("b", b, 1)
    h.join("c", version=3, group_id="other")
    h.take(h.machine.unload())
    assert h.answers["b"].error_code == ErrorCode.NOT_COORDINATOR
    assert h.answers["c"].error_code == ErrorCode.NOT_COORDINATOR
    assert not h.machine.groups
    assert len(h.machine.timers) == 0
    h.restart()
    assert GROUP in h.machine.groups
    assert a != b
