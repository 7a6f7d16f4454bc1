"""The records of the newer group types in a log that is compacted while it is read."""

from __future__ import annotations

from broker_cy.coordinator.settings import ConsumerGroupSettings
from tests.broker_cy.coordinator.consumer_harness import ConsumerHarness, Topics
from tests.broker_cy.coordinator.harness import GROUP, consumer_state, replayed


def test_a_group_has_nothing_of_another_one_that_had_its_id() -> None:
    """If this fails, a member gets the epoch -1 after a coordinator moved, which makes it leave: the tombstone of the
    former group was compacted away between those of its parts and the next group.
    """
    former = ConsumerHarness(Topics(t=4))
    former.enter("a", "A")
    tombstones = former.consumers().tombstones()
    # A large group, which is not assigned yet.
    later = ConsumerHarness(Topics(t=4), consumer=ConsumerGroupSettings(assigned_at_once_max=0))
    later.enter("b", "B")
    log = [*former.log, *tombstones[:-1], *later.log]
    found = replayed(log, later.settings, later.now, later.machine.image).groups[GROUP]
    assert isinstance(found, type(later.consumers()))
    assert consumer_state(found) == consumer_state(later.consumers())
    assert found.assignment_epoch == found.members["B"].epoch == 1
