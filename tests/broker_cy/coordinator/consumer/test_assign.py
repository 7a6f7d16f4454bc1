"""The target assignment of a large consumer group, which is computed in the background."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from broker_cy.coordinator import admin
from broker_cy.coordinator.consumer.group import ConsumerGroup
from broker_cy.coordinator.consumer.member import ConsumerMember
from broker_cy.coordinator.modern import assigning
from broker_cy.coordinator.modern.assigning import is_under_way
from broker_cy.coordinator.modern.member import MemberState
from broker_cy.coordinator.settings import ConsumerGroupSettings
from broker_cy.core.errors import ErrorCode
from broker_cy.core.step import WorkFailed
from tests.broker_cy.coordinator.consumer_harness import REBALANCE_MS, ConsumerHarness, Topics, topic_id
from tests.broker_cy.coordinator.harness import GROUP

T = topic_id("t")
ALL = {("t", 0), ("t", 1), ("t", 2), ("t", 3)}
SETTINGS = ConsumerGroupSettings(assignment_interval_ms=0, assigned_at_once_max=0)


@pytest.fixture
def h() -> ConsumerHarness:
    """Each group is a large one."""
    return ConsumerHarness(Topics(t=4), consumer=SETTINGS)


def targets(h: ConsumerHarness) -> Counter[tuple[str, int]]:
    """How many members have each partition in their targets."""
    return Counter(place for target in h.consumers().target.values() for place in h.topics.places(target))


def test_members_learn_the_result_from_their_next_heartbeats(h: ConsumerHarness) -> None:
    """If this fails, a large group is never assigned, or its assignor holds all clients of the broker up."""
    answer = h.enter("a", "A")
    assert (answer.member_epoch, h.assigned("a"), len(h.works)) == (1, set(), 1)
    assert h.consumers().state_name == "Assigning"
    h.work()
    assert h.beat("a 2", "A", 1).member_epoch == 2
    assert h.assigned("a 2") == ALL


def test_a_small_group_is_assigned_at_once() -> None:
    """If this fails, each new consumer of a small group waits for its second heartbeat, which is 5 s later."""
    size = 2 + 4
    h = ConsumerHarness(Topics(t=4), consumer=SETTINGS._replace(assigned_at_once_max=size))
    h.enter("a", "A")
    h.enter("b", "B")
    assert h.works == []
    h.enter("c", "C")
    assert len(h.works) == 1


def test_heartbeats_meanwhile_do_not_begin_it_again(h: ConsumerHarness) -> None:
    """If this fails, 1,000 heartbeats compute one assignment 1,000 times."""
    h.enter("a", "A")
    h.beat("a 2", "A", 1)
    h.enter("b", "B")
    assert len(h.works) == 1
    h.work()
    # The result is that of the epoch in which only A was a member.
    assert (h.consumers().assignment_epoch, h.consumers().epoch, set(h.consumers().target)) == (2, 3, {"A"})
    h.beat("b 2", "B", 1)
    h.work()
    assert (h.consumers().assignment_epoch, set(h.consumers().target)) == (3, {"A", "B"})


def test_a_member_that_has_left_gets_no_target(h: ConsumerHarness) -> None:
    """If this fails, a partition belongs to a consumer that is gone, and the log has its target for ever."""
    h.enter("a", "A")
    h.enter("b", "B")
    h.work()
    h.beat("b 2", "B", 1)
    h.beat("b leaves", "B", -1)
    h.work()
    assert set(h.consumers().target) == {"A"}
    h.beat("a 2", "A", 1)
    h.work()
    h.restart()
    assert targets(h) == dict.fromkeys(ALL, 1)


def test_a_static_member_that_came_back_makes_the_result_stale(h: ConsumerHarness) -> None:
    """If this fails, two members have one partition in their targets, and one of them waits for it for ever."""
    h.enter("a", "A", instance_id="one")
    h.work()
    h.beat("a 2", "A", 1, instance_id="one")
    h.enter("b", "B")
    h.beat("a goes", "A", -2, instance_id="one")
    h.enter("a again", "A2", instance_id="one")
    h.work()
    assert targets(h) == dict.fromkeys(ALL, 1)
    assert h.consumers().assignment_epoch == 2
    h.beat("b 2", "B", 2)
    h.work()
    assert (targets(h), h.consumers().assignment_epoch) == (dict.fromkeys(ALL, 1), 3)


def test_targets_that_were_taken_back_make_the_result_stale(h: ConsumerHarness) -> None:
    """If this fails, a failed write leaves a group whose members wait for each other."""
    h.enter("a", "A")
    h.hold = True
    h.work()
    assert h.consumers().assignment_epoch == 2
    h.change(h.topics.put("t", 5))
    h.beat("a 2", "A", 1)
    assert len(h.works) == 1
    h.fail()
    h.hold = False
    h.work()
    assert h.consumers().target == {}
    h.beat("a 3", "A", 1)
    h.work()
    assert targets(h) == dict.fromkeys([*ALL, ("t", 4)], 1)


def test_an_epoch_that_was_taken_back_is_not_assigned(h: ConsumerHarness) -> None:
    """If this fails, the new partitions of a topic are not read after a failed write: the next epoch has the number of
    the one that was taken back, and its result.
    """
    h.enter("a", "A")
    h.work()
    h.hold = True
    h.enter("b", "B")
    h.fail()
    h.hold = False
    h.change(h.topics.put("t", 5))
    h.beat("a 2", "A", 1)
    assert h.consumers().epoch == 3
    h.work()
    assert h.consumers().assignment_epoch == 2
    h.beat("a 3", "A", 2, owned={T: [0, 1, 2, 3]}, names=["t"], rebalance_ms=REBALANCE_MS)
    h.work()
    assert targets(h) == dict.fromkeys([*ALL, ("t", 4)], 1)


def test_the_result_of_a_deleted_group_is_dropped(h: ConsumerHarness) -> None:
    """If this fails, a new group of the same id has targets of members that it does not have."""
    h.enter("a", "A")
    h.beat("a leaves", "A", -1)
    h.run(admin.delete_groups, [GROUP], "delete")
    h.enter("b", "B")
    works = h.works
    h.works = works[:1]
    h.work()
    assert (h.consumers().assignment_epoch, h.consumers().target) == (1, {})
    h.works = works[1:]
    h.work()
    assert set(h.consumers().target) == {"B"}


def test_a_group_whose_deletion_failed_is_assigned(h: ConsumerHarness) -> None:
    """If this fails, a group that could not be deleted while it was assigned has no partitions until a restart."""
    h.enter("a", "A")
    h.beat("a leaves", "A", -1)
    h.hold = True
    h.run(admin.delete_groups, [GROUP], "delete")
    h.work()
    h.fail()
    h.hold = False
    h.enter("b", "B")
    h.work()
    assert targets(h) == dict.fromkeys(ALL, 1)


def test_a_failed_assignor_is_run_again(h: ConsumerHarness) -> None:
    """If this fails, one failure leaves a group without partitions until a restart."""
    h.enter("a", "A")
    (work,) = h.works
    h.works = []
    h.run(work.then, *work.about, WorkFailed("no memory"))
    assert h.consumers().assignment_epoch == 1
    h.beat("a 2", "A", 1)
    h.work()
    assert targets(h) == dict.fromkeys(ALL, 1)


def test_a_heartbeat_that_is_refused_keeps_the_work_that_it_began(h: ConsumerHarness) -> None:
    """If this fails, a group is never assigned again after such a heartbeat."""
    h.enter("a", "A")
    h.work()
    group = h.consumers()
    group.put_member("A", group.members["A"]._replace(state=MemberState.UNKNOWN))
    h.change(h.topics.put("t", 5))
    h.beat("a 2", "A", 1, owned={T: [0]})
    assert h.code("a 2") == ErrorCode.FENCED_MEMBER_EPOCH
    h.work()
    assert not is_under_way(h.machine, group)


def test_the_records_may_fill_several_batches(h: ConsumerHarness) -> None:
    """If this fails, a group whose targets are larger than max.message.bytes is never assigned."""
    h.enter("a", "A")
    (work,) = h.works
    step = h.run(work.then, *work.about, work.function(*work.arguments))
    assert not step.atomic
    # Until the epoch is written, the group is to be assigned.
    h.log.pop()
    h.restart()
    assert (h.consumers().assignment_epoch, targets(h)) == (1, dict.fromkeys(ALL, 1))
    h.beat("again", "A", 1, names=["t"], owned={}, rebalance_ms=REBALANCE_MS)
    h.work()
    assert (h.consumers().assignment_epoch, targets(h)) == (2, dict.fromkeys(ALL, 1))


# ---- results in parts ----


def test_members_have_their_former_targets_between_two_parts(
    h: ConsumerHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If this fails, the targets of two members have one partition while a large result is appended."""
    monkeypatch.setattr(assigning, "TARGETS_PER_TURN", 1)
    h.enter("a", "A")
    h.work()
    h.beat("a 2", "A", 1)
    h.enter("b", "B")
    h.work()
    group = h.consumers()
    # One of the two records is appended: the partitions that B gets are still in the target of A, or in none.
    assert len(h.works) == 1
    assert group.assignment_epoch == 2
    assert group.target_of("A") == {T: frozenset({0, 1, 2, 3})}
    assert not group.target_of("B")
    assert h.beat("a 3", "A", 2).member_epoch == 2
    h.work()
    assert (group.assignment_epoch, targets(h)) == (3, dict.fromkeys(ALL, 1))
    assert len(group.target_of("A")[T]) == len(group.target_of("B")[T]) == 2


def test_a_part_asks_no_member_for_its_state(h: ConsumerHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, turns that append an assignment of 10,000 members hold producers up."""
    monkeypatch.setattr(assigning, "TARGETS_PER_TURN", 1)
    asked: list[str] = []

    def noted(cls: type, name: str) -> None:
        right = getattr(cls, name)

        def call(*given: Any) -> Any:
            asked.append(name)
            return right(*given)

        monkeypatch.setattr(cls, name, call)

    noted(ConsumerMember, "is_reconciled_to")
    noted(ConsumerGroup, "target_of")
    for member_id in "ABC":
        h.enter(member_id, member_id)
        h.work()
    h.beat("a 2", "A", 1)
    assert len(h.works) == 1
    asked.clear()
    while h.works:
        h.work()
    assert targets(h) == dict.fromkeys(ALL, 1)
    assert asked == []


def test_a_result_that_becomes_stale_between_two_parts(h: ConsumerHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, a failed write leaves members with targets that do not fit together."""
    monkeypatch.setattr(assigning, "TARGETS_PER_TURN", 1)
    h.enter("a", "A")
    h.work()
    h.beat("a 2", "A", 1)
    h.enter("b", "B")
    h.hold = True
    h.work()
    h.fail()
    h.hold = False
    h.work()
    group = h.consumers()
    assert group.assignment_epoch == 2
    assert group.target_of("A") == {T: frozenset({0, 1, 2, 3})}
    assert not group.target_of("B")
    h.beat("b 2", "B", 0, names=["t"], owned={}, rebalance_ms=REBALANCE_MS)
    for _ in range(3):
        h.work()
    assert (group.assignment_epoch, targets(h)) == (3, dict.fromkeys(ALL, 1))
