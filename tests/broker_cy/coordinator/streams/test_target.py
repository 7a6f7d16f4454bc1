"""The target assignment of a large streams group, which is computed in the background."""

from __future__ import annotations

from collections import Counter

import pytest

from broker_cy.coordinator import admin
from broker_cy.coordinator.modern import assigning
from broker_cy.coordinator.streams.configure import Status
from broker_cy.core.step import WorkFailed
from tests.broker_cy.coordinator.harness import GROUP
from tests.broker_cy.coordinator.streams_harness import AT_ONCE, StreamsHarness

ALL = {"0": {0, 1, 2, 3}}


@pytest.fixture
def h() -> StreamsHarness:
    """Each group is a large one."""
    return StreamsHarness(streams=AT_ONCE._replace(assigned_at_once_max=0))


def targets(h: StreamsHarness) -> Counter[int]:
    """How many members have each task in their targets."""
    return Counter(number for target in h.streams().target.values() for number in target.active.get("0", ()))


def test_members_learn_the_result_from_their_next_heartbeats(h: StreamsHarness) -> None:
    """If this fails, a large application is never assigned, or its assignor holds all clients of the broker up."""
    answer = h.enter("a", "A")
    assert (answer.member_epoch, h.active("a"), len(h.works)) == (1, {}, 1)
    assert Status.ASSIGNMENT_DELAYED in h.statuses("a")
    assert h.streams().state_name == "Assigning"
    h.work()
    assert h.beat("a 2", "A", 1).member_epoch == 2
    assert (h.active("a 2"), h.statuses("a 2")) == (ALL, {})


def test_a_small_group_is_assigned_at_once() -> None:
    """If this fails, each new instance of a small application waits for its second heartbeat, which is 5 s later."""
    members, tasks = 2, 4
    h = StreamsHarness(streams=AT_ONCE._replace(assigned_at_once_max=members + tasks))
    h.enter("a", "A")
    h.enter("b", "B")
    assert h.works == []
    h.enter("c", "C")
    assert len(h.works) == 1


def test_heartbeats_meanwhile_do_not_begin_it_again(h: StreamsHarness) -> None:
    """If this fails, 1,000 heartbeats compute one assignment 1,000 times."""
    h.enter("a", "A")
    h.beat("a 2", "A", 1)
    h.enter("b", "B")
    assert len(h.works) == 1
    h.work()
    # The result is that of the epoch in which only A was a member.
    assert (h.streams().assignment_epoch, h.streams().epoch, set(h.streams().target)) == (2, 3, {"A"})
    h.beat("b 2", "B", 1)
    h.work()
    assert (h.streams().assignment_epoch, set(h.streams().target)) == (3, {"A", "B"})
    assert targets(h) == dict.fromkeys(range(4), 1)


def test_a_member_that_has_left_gets_no_target(h: StreamsHarness) -> None:
    """If this fails, a task belongs to an instance that is gone, and the log has its target for ever."""
    h.enter("a", "A")
    h.enter("b", "B")
    h.work()
    h.beat("b 2", "B", 1)
    h.beat("b leaves", "B", -1)
    h.work()
    assert set(h.streams().target) == {"A"}
    h.beat("a 2", "A", 1)
    h.work()
    h.restart()
    assert targets(h) == dict.fromkeys(range(4), 1)


def test_the_result_of_a_deleted_group_is_dropped(h: StreamsHarness) -> None:
    """If this fails, a new group of the same id has targets of members that it does not have."""
    h.enter("a", "A")
    h.beat("a leaves", "A", -1)
    h.run(admin.delete_groups, [GROUP], "delete")
    h.enter("b", "B")
    works = h.works
    h.works = works[:1]
    h.work()
    assert (h.streams().assignment_epoch, h.streams().target) == (1, {})
    h.works = works[1:]
    h.work()
    assert set(h.streams().target) == {"B"}


def test_a_failed_assignor_is_run_again(h: StreamsHarness) -> None:
    """If this fails, one failure leaves an application without tasks until a restart."""
    h.enter("a", "A")
    (work,) = h.works
    h.works = []
    h.run(work.then, *work.about, WorkFailed("no memory"))
    assert h.streams().assignment_epoch == 1
    h.beat("a 2", "A", 1)
    h.work()
    assert targets(h) == dict.fromkeys(range(4), 1)


def test_members_have_their_former_targets_between_two_parts(
    h: StreamsHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If this fails, the targets of two members have one task while a large result is appended."""
    monkeypatch.setattr(assigning, "TARGETS_PER_TURN", 1)
    h.enter("a", "A")
    h.work()
    h.beat("a 2", "A", 1)
    h.enter("b", "B")
    h.work()
    group = h.streams()
    assert len(h.works) == 1
    assert group.assignment_epoch == 2
    assert group.target_of("A").active == {"0": frozenset({0, 1, 2, 3})}
    assert not group.target_of("B").active
    h.work()
    assert (group.assignment_epoch, targets(h)) == (3, dict.fromkeys(range(4), 1))
