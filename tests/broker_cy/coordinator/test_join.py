"""Joining a group: ids, limits, protocols, delays, leaders."""

from __future__ import annotations

from typing import Any

import pytest

from broker_cy.coordinator.classic.rebalance import NEW_MEMBER_JOIN_TIMEOUT_MS
from broker_cy.coordinator.classic.state import GroupState
from broker_cy.core.errors import ErrorCode
from tests.broker_cy.coordinator.harness import GROUP, REBALANCE_MS, SESSION_MS, Harness


@pytest.fixture
def h() -> Harness:
    return Harness()


def test_new_member_is_given_an_id_and_asked_to_come_again(h: Harness) -> None:
    """If this fails, a client that times out in its first join leaves a ghost behind each time (KIP-394)."""
    first = h.join("a", client_id="web")
    assert first.error_code == ErrorCode.MEMBER_ID_REQUIRED
    assert first.member_id == "web-u1"
    assert not h.group().members
    h.join("b", first.member_id)
    h.advance(1)
    assert h.answers["b"].error_code == ErrorCode.NONE
    assert h.answers["b"].leader == first.member_id


@pytest.mark.parametrize("version", [0, 1, 2, 3])
def test_older_clients_join_at_once(h: Harness, version: int) -> None:
    """If this fails, clients from before KIP-394 can never join."""
    h.join("a", version=version)
    h.advance(1)
    assert h.answers["a"].error_code == ErrorCode.NONE
    assert h.answers["a"].generation_id == 1


def test_group_exists_in_the_log_once_an_id_is_given(h: Harness) -> None:
    """If this fails, after a restart the member joins with an id that is unknown. Kafka writes the same record."""
    h.join("a")
    h.restart()
    assert h.group().state is GroupState.EMPTY
    assert h.group().protocol_type is None


def test_id_that_is_not_used_is_forgotten(h: Harness) -> None:
    """If this fails, a rebalance waits for a client that never came back."""
    h.join("a", session_ms=SESSION_MS)
    assert h.group().pending_members
    h.advance(SESSION_MS)
    assert not h.group().pending_members


def test_unknown_member_id_is_refused(h: Harness) -> None:
    """If this fails, a client whose session ended continues with an id that means nothing."""
    assert h.join("a", "ghost").error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert GROUP not in h.machine.groups
    h.stable("m")
    assert h.join("b", "ghost").error_code == ErrorCode.UNKNOWN_MEMBER_ID


@pytest.mark.parametrize("how", [{"protocol_type": ""}, {"protocols": ()}], ids=["no protocol type", "no protocols"])
def test_member_without_protocol_is_refused(h: Harness, how: dict[str, Any]) -> None:
    """If this fails, a group without a protocol can never have an assignment."""
    assert h.join("a", version=3, **how).error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL


def test_member_must_share_a_protocol_and_the_type(h: Harness) -> None:
    """If this fails, the leader gets members to which it cannot assign, and the whole group fails."""
    h.stable("m")
    assert h.join("a", protocol_type="connect").error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert h.join("b", protocols=[("other", b"")]).error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL


def test_protocol_most_members_prefer_is_chosen(h: Harness) -> None:
    """If this fails, a rolling change of the assignor never takes effect."""
    both = [("sticky", b"s"), ("range", b"r")]
    ids = [
        h.join_new("a", protocols=both),
        h.join_new("b", protocols=both),
        h.join_new("c", protocols=[("range", b"r"), ("sticky", b"s"), ("own", b"")]),
    ]
    h.advance(1)
    answer = h.answers["a"]
    assert answer.protocol_name == "sticky"
    assert [(m.member_id, m.metadata) for m in answer.members] == [(i, b"s") for i in ids]
    assert h.answers["b"].members == []


def test_initial_delay_gathers_members_and_is_prolonged() -> None:
    """If this fails, ten consumers that start together cause ten rebalances."""
    h = Harness(initial_rebalance_delay_ms=3_000)
    h.join_new("a")
    h.advance(2_000)
    h.join_new("b")
    h.advance(2_000)
    assert "a" not in h.answers
    h.advance(2_000)
    assert h.answers["a"].generation_id == h.answers["b"].generation_id == 1


def test_initial_delay_ends_with_the_rebalance_timeout() -> None:
    """If this fails, a group that new members keep joining never starts to read."""
    h = Harness(initial_rebalance_delay_ms=3_000)
    h.join_new("first", rebalance_ms=10_000)
    for i in range(8):
        h.advance(1_500)
        h.join_new(f"m{i}", rebalance_ms=10_000)
    assert h.answers["first"].error_code == ErrorCode.NONE


def test_initial_rebalance_waits_for_an_id_that_was_given(h: Harness) -> None:
    """If this fails, the group is complete before its last member has joined, and rebalances again immediately."""
    h.stable("m")
    member = h.group().leader_id
    assert member is not None
    late = h.join("late").member_id
    h.join("again", member)
    assert "again" not in h.answers
    h.join("in", late)
    assert h.answers["again"].generation_id == h.answers["in"].generation_id == 2


def test_member_that_does_not_rejoin_is_dropped_after_the_rebalance_timeout(h: Harness) -> None:
    """If this fails, one hung consumer stops the whole group."""
    a, b = h.stable("a", "b", session_ms=1_000_000)
    h.join("a2", a, session_ms=1_000_000)
    h.advance(REBALANCE_MS - 1)
    assert "a2" not in h.answers
    h.advance(1)
    assert [m.member_id for m in h.answers["a2"].members] == [a]
    assert h.heartbeat(b, 2) is ErrorCode.UNKNOWN_MEMBER_ID


def test_leader_that_does_not_rejoin_is_replaced(h: Harness) -> None:
    """If this fails, no member assigns partitions after the leader died."""
    a, b = h.stable("a", "b", session_ms=1_000_000)
    h.join("b2", b, protocols=[("range", b"changed")], session_ms=1_000_000)
    h.advance(REBALANCE_MS)
    assert h.answers["b2"].leader == b
    assert a not in h.group().members


def test_follower_with_the_same_metadata_receives_its_generation(h: Harness) -> None:
    """If this fails, a follower that did not get its response makes the whole group rebalance."""
    _, follower = h.stable("a", "b")
    answer = h.join("again", follower)
    assert (answer.error_code, answer.generation_id, answer.members) == (ErrorCode.NONE, 1, [])
    assert h.group().state is GroupState.STABLE


def test_leader_that_joins_again_begins_a_rebalance(h: Harness) -> None:
    """If this fails, new partitions of a topic are never assigned."""
    leader, follower = h.stable("a", "b")
    assert h.join("again", leader) is None
    assert h.heartbeat(follower, 1) is ErrorCode.REBALANCE_IN_PROGRESS


def test_changed_metadata_begins_a_rebalance(h: Harness) -> None:
    """If this fails, a changed subscription of a member is not seen."""
    _, follower = h.stable("a", "b")
    assert h.join("again", follower, protocols=[("range", b"changed")]) is None
    assert h.group().state is GroupState.PREPARING_REBALANCE


def test_join_in_completing_rebalance_with_same_metadata_is_answered_with_members_for_the_leader(h: Harness) -> None:
    """If this fails, a leader that did not get its response cannot assign."""
    a = h.join_new("a")
    b = h.join_new("b")
    h.advance(1)
    assert h.group().state is GroupState.COMPLETING_REBALANCE
    assert [m.member_id for m in h.join("again", a).members] == [a, b]
    assert h.join("again b", b).members == []


def test_second_join_of_a_member_replaces_the_first(h: Harness) -> None:
    """If this fails, the response goes to a closed connection, or a request hangs forever."""
    a, _ = h.stable("a", "b")
    h.join("first", a)
    h.join("second", a)
    assert h.answers["first"].error_code == ErrorCode.REBALANCE_IN_PROGRESS
    assert "second" not in h.answers


def test_new_member_whose_connection_hangs_is_given_up(h: Harness) -> None:
    """If this fails, clients that disappear in their first join accumulate in the group."""
    a = h.stable("a", session_ms=1_000_000)[0]
    h.join("b", version=3, session_ms=1_000_000, rebalance_ms=1_000_000)
    h.advance(NEW_MEMBER_JOIN_TIMEOUT_MS)
    assert h.answers["b"].error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert list(h.group().members) == [a]


def test_group_is_bounded_by_group_max_size() -> None:
    """If this fails, a runaway deployment makes one group too large to rebalance."""
    h = Harness(group_max_size=2)
    a, b = h.stable("a", "b")
    assert h.join("c").error_code == ErrorCode.GROUP_MAX_SIZE_REACHED
    h.join("a2", a)
    h.join("d", version=3)
    assert h.join("b2", b).error_code == ErrorCode.GROUP_MAX_SIZE_REACHED
    assert set(h.group().members) == {a, next(i for i in h.group().members if i != a)}


def test_loaded_group_over_a_lowered_limit_is_rebalanced() -> None:
    """If this fails, a lowered group.max.size takes effect only when members happen to change."""
    h = Harness()
    h.stable("a", "b", "c")
    small = Harness(group_max_size=2)
    small.log = h.log
    small.restart()
    assert small.group().state is GroupState.PREPARING_REBALANCE


def test_group_that_cannot_be_written_is_gone_again(h: Harness) -> None:
    """If this fails, a group exists that is lost at a restart."""
    h.hold = True
    h.join("a", version=3)
    h.fail(ErrorCode.KAFKA_STORAGE_ERROR)
    assert h.answers["a"].error_code == ErrorCode.NOT_COORDINATOR
    assert GROUP not in h.machine.groups
    h.hold = False
    h.advance(NEW_MEMBER_JOIN_TIMEOUT_MS)
    h.join("b", version=3)
    h.advance(1)
    assert h.answers["b"].error_code == ErrorCode.NONE
