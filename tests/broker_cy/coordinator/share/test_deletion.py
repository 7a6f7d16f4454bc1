"""DeleteGroups of share groups: the state of their share partitions goes with them."""

from __future__ import annotations

from broker_cy.coordinator.share.state_calls import DeleteState
from broker_cy.core.errors import ErrorCode
from tests.broker_cy.coordinator.harness import GROUP, durable
from tests.broker_cy.coordinator.share_harness import ShareHarness

ALL = {("t", partition) for partition in range(4)}


def test_a_group_is_deleted_with_its_state() -> None:
    """If this fails, a later group of the id skips records, because it has the offsets of the deleted one."""
    h = ShareHarness()
    h.ready()
    assert h.delete_share_groups("members", GROUP) == {GROUP: ErrorCode.NON_EMPTY_GROUP}
    h.beat("leave", "m", -1)
    assert h.delete_share_groups("d", GROUP) is None
    assert not h.sharers().share_partitions.initialized
    (request,) = h.serve()
    assert isinstance(request, DeleteState)
    assert h.answers["d"] == {GROUP: ErrorCode.NONE}
    assert (h.state.states, GROUP in h.machine.groups) == ({}, False)
    assert [int.from_bytes(record.key[:2], "big") for record in h.log[-3:]] == [12, 15, 11]
    before = durable(h.machine)
    h.restart()
    assert durable(h.machine) == before


def test_a_group_whose_state_stays_is_not_deleted() -> None:
    """If this fails, state is left behind that a later group of the id stumbles over."""
    h = ShareHarness()
    h.ready()
    h.beat("leave", "m", -1)
    h.state.failing = {2: ErrorCode.NOT_COORDINATOR}
    h.delete_share_groups("d", GROUP, "missing")
    h.serve()
    assert h.answers["d"] == {GROUP: ErrorCode.NOT_COORDINATOR}
    assert h.list_groups()
    h.state.failing = {}
    h.delete_share_groups("again", GROUP)
    h.serve()
    assert h.answers["again"] == {GROUP: ErrorCode.NONE}
    assert h.state.states == {}


def test_the_next_coordinator_completes_a_deletion_of_state() -> None:
    """If this fails, state that an administrator has deleted comes back."""
    h = ShareHarness()
    h.ready()
    h.beat("leave", "m", -1)
    h.delete_share_groups("d", GROUP)
    h.restart()
    assert len(h.serve()) == 1
    assert h.state.states == {}
    assert not h.sharers().share_partitions.deleting


def test_members_that_join_meanwhile_keep_the_group() -> None:
    """If this fails, a member reads partitions without state, or its group vanishes under it."""
    h = ShareHarness()
    h.ready()
    h.beat("leave", "m", -1)
    h.delete_share_groups("d", GROUP)
    h.enter("join", "n")
    assert len(h.calls) == 1, "an initialization overtakes the deletion"
    h.serve()
    assert h.answers["d"] == {GROUP: ErrorCode.NON_EMPTY_GROUP}
    epoch = h.answers["join"].member_epoch
    h.beat("b", "n", epoch)
    h.serve()
    h.advance(1_000)
    h.beat("b2", "n", epoch)
    assert h.assigned("b2") == ALL
    assert len(h.state.states) == 4


def test_groups_whose_state_is_requested_are_deleted_later() -> None:
    """If this fails, a late initialization leaves the state of a deleted group behind."""
    h = ShareHarness()
    h.enter("join", "m")
    h.beat("leave", "m", -1)
    assert h.delete_share_groups("d", GROUP) == {GROUP: ErrorCode.COORDINATOR_LOAD_IN_PROGRESS}
    assert h.delete_groups("d2", GROUP) == {GROUP: ErrorCode.COORDINATOR_LOAD_IN_PROGRESS}
    h.serve()
    h.delete_share_groups("d3", GROUP)
    h.serve()
    assert h.answers["d3"] == {GROUP: ErrorCode.NONE}
    assert h.state.states == {}


def test_a_group_without_state_is_deleted_at_once() -> None:
    """If this fails, a group whose members have named topics that do not exist cannot be deleted."""
    h = ShareHarness()
    h.enter("join", "m", "nothing")
    h.beat("leave", "m", -1)
    assert h.delete_share_groups("d", GROUP) == {GROUP: ErrorCode.NONE}
    assert GROUP not in h.machine.groups


def test_a_deletion_that_cannot_be_written_is_refused_and_undone() -> None:
    """If this fails, an administrator's request hangs, or half a deletion stays."""
    h = ShareHarness()
    h.ready()
    h.beat("leave", "m", -1)
    before = durable(h.machine)
    h.hold = True
    h.delete_share_groups("d", GROUP)
    h.fail()
    assert h.answers["d"] == {GROUP: ErrorCode.NOT_COORDINATOR}
    assert durable(h.machine) == before
    assert h.calls == []
    h.hold = False
    h.delete_share_groups("again", GROUP)
    h.serve()
    assert h.answers["again"] == {GROUP: ErrorCode.NONE}
