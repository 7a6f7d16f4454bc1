"""A member that has very many topics learns in the background what it has to give up and to get."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from broker_cy.coordinator.consumer import difference, reconcile, records
from broker_cy.coordinator.modern.member import MemberState
from broker_cy.coordinator.modern.replay import removed
from broker_cy.core.errors import ErrorCode
from tests.broker_cy.coordinator.consumer.test_pages import (
    PAGE,
    TOPICS,
    beat,
    check_owners,
    count,
    harness,
    join,
    settle,
)
from tests.broker_cy.coordinator.consumer_harness import ConsumerHarness
from tests.broker_cy.coordinator.harness import durable

USUAL_MS = 5_000


@pytest.fixture(autouse=True)
def pages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reconcile, "TOPICS_PER_ANSWER", PAGE)


def full() -> ConsumerHarness:
    """Member A has all topics, and B has joined: A has to give half of them up."""
    h = harness()
    join(h, "A", regex=".*")
    beat(h, "assign")
    settle(h, "A")
    assert count(h) == TOPICS
    join(h, "B", regex=".*")
    beat(h, "B assigns", "B")
    assert h.consumers().assignment_epoch == h.consumers().epoch
    return h


def told(h: ConsumerHarness, token: str, member_id: str = "A") -> Any:
    """A heartbeat, after which workers have not begun yet."""
    member = h.consumers().members[member_id]
    return h.beat(token, member_id, member.epoch, owned=member.assigned)


def test_a_member_waits_until_its_difference_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, a heartbeat that takes 5,000 of 10,000 topics from a member holds producers up for 30 ms."""
    h = full()
    before = h.consumers().members["A"]
    answer = told(h, "begins")
    assert h.consumers().members["A"] is before
    assert (answer.member_epoch, answer.assignment) == (before.epoch, None)
    assert answer.heartbeat_interval_ms < USUAL_MS
    # One search at a time.
    told(h, "again")
    assert [work.then for work in h.works] == [difference.compared]
    h.works_end()
    encoded: list[int] = []
    hashed: list[UUID] = []
    right = records.encode_more

    def encode_more(elements: Any, held: Any) -> None:
        encoded.append(len(held))
        right(elements, held)

    monkeypatch.setattr(records, "encode_more", encode_more)
    answer = told(h, "revoke")
    member = h.consumers().members["A"]
    assert (member.state, member.epoch) == (MemberState.UNREVOKED_PARTITIONS, before.epoch)
    assert len(member.assigned) == len(member.revoking) == len(answer.assignment.topic_partitions) == TOPICS // 2
    assert sum(encoded) == 0
    check_owners(h)
    state = durable(h.machine)

    def counted(topic_id: UUID) -> int:
        hashed.append(topic_id)
        return hash(topic_id.int)

    monkeypatch.setattr(UUID, "__hash__", counted)
    answer = told(h, "revoked")
    monkeypatch.undo()
    monkeypatch.setattr(reconcile, "TOPICS_PER_ANSWER", PAGE)
    member = h.consumers().members["A"]
    assert (member.state, member.epoch) == (MemberState.STABLE, h.consumers().assignment_epoch)
    assert (len(member.assigned), len(member.revoking)) == (TOPICS // 2, 0)
    assert answer.assignment is None
    assert sum(encoded) == 0
    assert not h.consumers().differences
    settle(h, "A", "B")
    assert count(h) == count(h, "B") == TOPICS // 2
    check_owners(h)
    # The record of the revocation is what a restart finds.
    after = durable(h.machine)
    h.restart()
    assert durable(h.machine) == after != state


def test_a_member_that_still_owns_what_it_has_to_give_up() -> None:
    """If this fails, a member loses partitions that it still reads."""
    h = full()
    told(h, "begins")
    h.works_end()
    owned = h.consumers().members["A"].assigned
    told(h, "revoke")
    for number in range(3):
        member = h.consumers().members["A"]
        h.beat(f"still {number}", "A", member.epoch, owned=owned)
        assert h.consumers().members["A"] is member
        h.beat(f"says nothing {number}", "A", member.epoch)
        assert h.consumers().members["A"] is member
    beat(h, "B asks", "B")
    assert count(h, "B") == 0


def test_a_difference_to_another_target() -> None:
    """If this fails, a member moves to a target that the group does not have any more."""
    h = full()
    told(h, "begins")
    h.works_end()
    join(h, "C", regex=".*")
    beat(h, "C assigns", "C")
    told(h, "begins again")
    assert h.consumers().members["A"].state is MemberState.STABLE
    h.works_end()
    told(h, "revoke")
    member = h.consumers().members["A"]
    assert member.assigned.keys() == h.consumers().target["A"].keys()
    # And between the two steps.
    h.beat("C leaves", "C", -1)
    beat(h, "assign again", "B")
    settle(h, "A", "B")
    assert count(h) + count(h, "B") == TOPICS
    check_owners(h)


def test_a_step_that_cannot_be_written() -> None:
    """If this fails, a member that has to give up very many topics is stuck after a full disk, or its record has
    partitions twice.
    """
    h = full()
    told(h, "begins")
    h.works_end()
    for token in ("revoke", "revoked"):
        before = durable(h.machine)
        h.hold = True
        told(h, f"{token} in vain")
        h.fail(ErrorCode.KAFKA_STORAGE_ERROR)
        h.hold = False
        assert durable(h.machine) == before
        told(h, token)
        h.works_end()
        told(h, f"{token} again")
    settle(h, "A", "B")
    assert count(h) == count(h, "B") == TOPICS // 2
    check_owners(h)
    state = durable(h.machine)
    h.restart()
    assert durable(h.machine) == state


def test_a_member_that_leaves_meanwhile() -> None:
    """If this fails, what is looked up for a member that has left stays in memory."""
    h = full()
    told(h, "begins")
    h.beat("leave", "A", -1)
    h.works_end()
    group = h.consumers()
    assert (group.comparing, group.differences) == (set(), {})
    told(h, "assign again", "B")
    h.works_end()
    settle(h, "B")
    assert count(h, "B") == TOPICS


def test_a_coordinator_that_has_loaded_the_group() -> None:
    """If this fails, a member that was giving up topics is stuck after its coordinator has moved."""
    h = full()
    told(h, "begins")
    h.works_end()
    told(h, "revoke")
    h.restart()
    assert h.consumers().members["A"].state is MemberState.UNREVOKED_PARTITIONS
    settle(h, "A", "B")
    assert count(h) == count(h, "B") == TOPICS // 2
    check_owners(h)


def test_a_difference_of_a_group_that_was_gone() -> None:
    """If this fails, a member keeps its partitions for ever after the removal of its group could not be written."""
    h = full()
    told(h, "begins")
    before = removed(h.machine, h.consumers())
    h.works_end()
    before.restore(h.machine)
    told(h, "begins again")
    assert [work.then for work in h.works] == [difference.compared]
    h.works_end()
    settle(h, "A", "B")
    assert count(h) == count(h, "B") == TOPICS // 2
