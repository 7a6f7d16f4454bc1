"""The owner of each partition of a consumer group: an index, whose values many topics share."""

from __future__ import annotations

import random
from collections.abc import Mapping
from uuid import UUID

import pytest

from broker_cy.coordinator.consumer.group import ConsumerGroup
from broker_cy.coordinator.consumer.hooks import HookedConsumerGroup
from broker_cy.coordinator.consumer.member import ConsumerMember, united

TOPICS = [UUID(int=number) for number in range(8)]
PARTITIONS = 3
Places = set[tuple[UUID, int]]


def held(group: ConsumerGroup) -> dict[tuple[UUID, int], str]:
    return {
        (topic_id, partition): member.member_id
        for member in group.members.values()
        for part in (member.assigned, member.revoking)
        for topic_id, partitions in part.items()
        for partition in partitions
    }


def check(group: ConsumerGroup) -> None:
    found = {(topic_id, each): of for topic_id, owners in group.owners.items() for each, of in owners.items()}
    assert found == held(group)
    assert group.held_total == len(found)
    assert all(group.owners.values())


class Drawn:
    """Members with partitions that no other one holds. Equal values are one object, as those of a record are."""

    def __init__(self, seed: int) -> None:
        self.draw = random.Random(seed)
        self.known: dict[tuple[tuple[int, int], ...], Mapping[int, int]] = {}

    def value(self, partitions: list[int]) -> Mapping[int, int]:
        epoch = self.draw.choice([4, 5])
        made = dict.fromkeys(partitions, epoch)
        return self.known.setdefault(tuple(made.items()), made) if self.draw.random() < 0.8 else made

    def member(self, group: ConsumerGroup, member_id: str) -> ConsumerMember:
        old = group.members.get(member_id)
        taken = {place for place, of in held(group).items() if of != member_id}
        parts: list[dict[UUID, Mapping[int, int]]] = [{}, {}]
        for topic_id in TOPICS:
            free = [number for number in range(PARTITIONS) if (topic_id, number) not in taken]
            where = self.draw.choice([0, 0, 0, 1, 2])
            if old is not None and topic_id in old.assigned and self.draw.random() < 0.5:
                # Its partitions go on as the same value, or have to be given up.
                parts[self.draw.choice([0, 0, 1])][topic_id] = old.assigned[topic_id]
            elif free and where < 2:
                split = self.draw.randint(1, len(free))
                parts[where][topic_id] = self.value(free[:split])
                if free[split:] and self.draw.random() < 0.3:
                    parts[1 - where][topic_id] = self.value(free[split:])
        if self.draw.random() < 0.5:
            parts[1] = {}
        return ConsumerMember(member_id, assigned=parts[0], revoking=parts[1])


@pytest.mark.parametrize("seed", range(30))
def test_the_owners_are_those_that_hold_partitions(seed: int) -> None:
    """If this fails, a partition of a member that left stays without a reader, or has two."""
    drawn = Drawn(seed)
    group = HookedConsumerGroup("g")
    before: list[tuple[str, ConsumerMember | None]] = []
    for _ in range(40):
        member_id = drawn.draw.choice("ABC")
        new = None if drawn.draw.random() < 0.2 else drawn.member(group, member_id)
        copied = group.copied()
        before.append((member_id, group.put_member(member_id, new)))
        check(group)
        # A copy has values of its own state.
        check(copied)
    for member_id, old in reversed(before):
        group.put_member(member_id, old)
        check(group)
    assert not group.owners


def with_partition(member_id: str, partition: int, epoch: int) -> ConsumerMember:
    """A member with this partition of all topics, which share its value."""
    value: Mapping[int, int] = {partition: epoch}
    return ConsumerMember(member_id, assigned=dict.fromkeys(TOPICS, value))


def test_a_change_of_epochs_moves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, a static member with 10,000 topics that leaves for a while holds producers up."""
    group = HookedConsumerGroup("g")
    member = with_partition("A", 0, 5)
    group.put_member("A", member)
    owners = dict(group.owners)
    monkeypatch.setattr(ConsumerGroup, "_release", None)
    monkeypatch.setattr(ConsumerGroup, "_hold", None)
    group.put_member("A", with_partition("A", 0, 0))
    assert group.owners == owners
    monkeypatch.undo()
    check(group)


def test_topics_share_the_value_of_their_owner() -> None:
    """If this fails, a member with 10,000 topics takes 2 MB more, and its removal holds producers up."""
    group = HookedConsumerGroup("g")
    group.put_member("A", with_partition("A", 0, 5))
    group.put_member("B", with_partition("B", 1, 5))
    assert len(set(map(id, group.owners.values()))) == 1
    group.put_member("A", None)
    assert len(set(map(id, group.owners.values()))) == 1
    check(group)


@pytest.mark.parametrize("seed", range(10))
def test_the_partitions_of_several_parts(seed: int) -> None:
    """If this fails, a member that has to give up some partitions of a topic seems to hold others."""
    drawn = Drawn(seed)
    group = HookedConsumerGroup("g")
    member = drawn.member(group, "A")
    found = united((member.assigned, member.revoking))
    assert {(topic_id, each) for topic_id, partitions in found.items() for each in partitions} == {
        (topic_id, each)
        for part in (member.assigned, member.revoking)
        for topic_id, partitions in part.items()
        for each in partitions
    }
