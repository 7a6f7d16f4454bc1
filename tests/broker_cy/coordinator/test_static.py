"""Static members (KIP-345)."""

from __future__ import annotations

import pytest

from broker_cy.coordinator.classic.state import GroupState
from broker_cy.core.errors import ErrorCode
from tests.broker_cy.coordinator.harness import REBALANCE_MS, Harness


@pytest.fixture
def h() -> Harness:
    return Harness()


def stable_static(h: Harness, *names: str) -> list[str]:
    for name in names:
        h.join(f"join {name}", instance_id=name, session_ms=1_000_000)
    h.advance(1)
    ids = [h.answers[f"join {name}"].member_id for name in names]
    h.sync("lead", ids[0], 1, {i: i.encode() for i in ids}, instance_id=names[0])
    for name, member_id in zip(names[1:], ids[1:], strict=True):
        h.sync(f"sync {name}", member_id, 1, instance_id=name)
    assert h.group().state is GroupState.STABLE
    return ids


def test_static_member_joins_without_being_asked_again(h: Harness) -> None:
    """If this fails, static members of clients that follow KIP-345 can never join."""
    (member_id,) = stable_static(h, "one")
    assert member_id == "one-u1"


@pytest.mark.parametrize("version", [5, 8, 9])
def test_restarted_member_takes_its_place_without_a_rebalance(h: Harness, version: int) -> None:
    """If this fails, a rolling restart moves every partition twice."""
    leader, follower = stable_static(h, "one", "two")
    answer = h.join("back", instance_id="two", version=version)
    assert (answer.error_code, answer.generation_id) == (ErrorCode.NONE, 1)
    assert answer.member_id != follower
    assert (answer.leader, answer.members, answer.skip_assignment) == (leader, [], False)
    assert h.sync("sync back", answer.member_id, 1, instance_id="two").assignment == follower.encode()
    assert h.group().state is GroupState.STABLE


def test_restarted_leader_is_asked_not_to_assign(h: Harness) -> None:
    """If this fails, the new leader assigns to a group that did not rebalance. Versions before 9 see another leader
    instead.
    """
    leader, follower = stable_static(h, "one", "two")
    answer = h.join("v9", instance_id="one", version=9)
    assert answer.skip_assignment
    assert answer.leader == answer.member_id
    assert [m.member_id for m in answer.members] == [follower, answer.member_id]
    older = h.join("v8", instance_id="one", version=8)
    assert (older.skip_assignment, older.members) == (False, [])
    assert older.leader == answer.member_id != older.member_id
    assert leader not in h.group().members


def test_replaced_member_is_fenced(h: Harness) -> None:
    """If this fails, two processes with one instance id read the same partitions."""
    old, _ = stable_static(h, "one", "two")
    new = h.join("back", instance_id="one").member_id
    assert h.heartbeat(old, 1, instance_id="one") is ErrorCode.FENCED_INSTANCE_ID
    assert h.sync("s", old, 1, instance_id="one").error_code == ErrorCode.FENCED_INSTANCE_ID
    assert h.join("j", old, instance_id="one").error_code == ErrorCode.FENCED_INSTANCE_ID
    assert h.commit("c", 1, member_id=old, generation=1, instance_id="one") is ErrorCode.FENCED_INSTANCE_ID
    assert h.leave("l", (old, "one")) == [ErrorCode.FENCED_INSTANCE_ID]
    assert h.heartbeat(new, 1, instance_id="one") is ErrorCode.NONE


def test_waiting_join_of_a_replaced_member_is_fenced(h: Harness) -> None:
    """If this fails, the older process waits forever, or both join."""
    h.join("old", instance_id="one")
    h.join("new", instance_id="one")
    assert h.answers["old"].error_code == ErrorCode.FENCED_INSTANCE_ID
    h.advance(1)
    assert h.answers["new"].error_code == ErrorCode.NONE


def test_waiting_sync_of_a_replaced_member_is_fenced_and_the_group_rebalances(h: Harness) -> None:
    """If this fails, the leader's assignment goes to a member id that no longer exists."""
    h.join("one", instance_id="one")
    h.join("two", instance_id="two")
    h.advance(1)
    h.sync("waits", h.answers["two"].member_id, 1, instance_id="two")
    h.join("again", instance_id="two")
    assert h.answers["waits"].error_code == ErrorCode.FENCED_INSTANCE_ID
    assert h.group().state is GroupState.PREPARING_REBALANCE


def test_unknown_instance_id_with_a_member_id_is_refused(h: Harness) -> None:
    """If this fails, a member id is used with an instance id that no member has."""
    (member_id,) = stable_static(h, "one")
    assert h.heartbeat(member_id, 1, instance_id="two") is ErrorCode.UNKNOWN_MEMBER_ID


def test_static_member_survives_a_rebalance_it_misses(h: Harness) -> None:
    """If this fails, a static member that restarts during a rebalance loses its place immediately instead of with its
    session.
    """
    one, two = stable_static(h, "one", "two")
    h.join("again", one, instance_id="one", session_ms=1_000_000)
    h.advance(REBALANCE_MS)
    assert [m.member_id for m in h.answers["again"].members] == [one, two]
    h.sync("s", one, 2, {one: b"x"}, instance_id="one")
    assert h.group().state is GroupState.STABLE
    h.advance(REBALANCE_MS)
    assert two not in h.group().members, "it never asked for its assignment"


def test_restart_with_another_protocol_rebalances_only_if_the_choice_changes(h: Harness) -> None:
    """If this fails, the group continues with an assignor that one member no longer has."""
    h.join("one", instance_id="one", protocols=[("range", b""), ("sticky", b"")])
    h.advance(1)
    member_id = h.answers["one"].member_id
    h.sync("s", member_id, 1, {member_id: b"x"}, instance_id="one")
    assert h.join("same", instance_id="one", protocols=[("range", b"2"), ("sticky", b"")]).generation_id == 1
    assert h.join("other", instance_id="one", protocols=[("sticky", b"")]).generation_id == 2


def test_replacement_that_cannot_be_written_is_taken_back(h: Harness) -> None:
    """If this fails, after a restart the old member id is valid again, and two processes read."""
    old, _ = stable_static(h, "one", "two")
    h.hold = True
    h.join("back", instance_id="one")
    assert "back" not in h.answers
    h.fail()
    assert h.answers["back"].error_code == ErrorCode.NOT_COORDINATOR
    assert h.heartbeat(old, 1, instance_id="one") is ErrorCode.NONE
    assert h.group().leader_id == old


def test_administrator_removes_by_instance_id(h: Harness) -> None:
    """If this fails, a decommissioned static member holds its partitions until its session ends."""
    one, two = stable_static(h, "one", "two")
    assert h.leave("l", ("", "two"), ("", "nobody"), ("", None)) == [
        ErrorCode.NONE,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.UNKNOWN_MEMBER_ID,
    ]
    assert list(h.group().members) == [one]
    assert h.heartbeat(two, 1, instance_id="two") is ErrorCode.UNKNOWN_MEMBER_ID
    assert h.group().state is GroupState.PREPARING_REBALANCE
