"""Kafka's uniform assignor for members with different subscriptions.

Members keep the partitions of the topics that they subscribe to. Each other partition goes to the subscriber with the
fewest partitions. Then partitions move, topic by topic, from the subscribers with the most to those with the fewest,
until the counts of a topic's subscribers differ by at most one. The result is not always the most balanced one: a chain
of moves through several topics is not searched.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final
from uuid import UUID

from broker_cy.coordinator.assignors.ranges_by_load import RangesByLoad
from broker_cy.coordinator.assignors.spec import (
    Assignment,
    GroupSpec,
    held,
    in_kafka_order,
    partition_count,
    subscribers,
)

ROUNDS_MAX: Final = 16
"""Each round roughly halves the imbalance, and most groups need one."""

_FREE: Final = -1


def assign(spec: GroupSpec) -> dict[str, Assignment]:
    """Return the target assignment of each member."""
    return _Group(spec).assign()


class _Group:
    """Members by their index in the group's order, and the owner's index of each partition."""

    def __init__(self, spec: GroupSpec) -> None:
        self._spec = spec
        self._subscribers = subscribers(member.topics for member in spec.members.values())
        self._counts = {topic_id: partition_count(spec, topic_id) for topic_id in self._subscribers}
        self._kept = held(spec, self._subscribers).members
        self._owners = {topic_id: [_FREE] * count for topic_id, count in self._counts.items()}
        self._sizes = [0] * len(spec.members)
        for index, assignment in enumerate(self._kept.values()):
            for topic_id, numbers in assignment.items():
                self._sizes[index] += len(numbers)
                owners = self._owners[topic_id]
                for number in numbers:
                    owners[number] = index
        self._changed: set[int] = set()

    def assign(self) -> dict[str, Assignment]:
        topic_ids = self._by_partitions_per_subscriber()
        for topic_id in topic_ids:
            self._give_free_partitions(topic_id)
        self._balance([topic_id for topic_id in topic_ids if len(self._subscribers[topic_id]) > 1])
        return self._result()

    def _by_partitions_per_subscriber(self) -> list[UUID]:
        """The topics with the most partitions for each subscriber first: they leave the fewest choices."""

        def order(topic_id: UUID) -> tuple[float, int]:
            count = len(self._subscribers[topic_id])
            return -self._counts[topic_id] / count, count

        return sorted(in_kafka_order(self._subscribers), key=order)

    def _give_free_partitions(self, topic_id: UUID) -> None:
        free = [number for number, owner in enumerate(self._owners[topic_id]) if owner == _FREE]
        if not free:
            return
        loads = RangesByLoad(self._subscribers[topic_id], self._sizes)
        for number in free:
            self._move(topic_id, number, loads.take_lowest())

    def _balance(self, topic_ids: list[UUID]) -> None:
        """Balance topic after topic, until a whole round has moved no partition."""
        last_moved: UUID | None = None
        for _ in range(ROUNDS_MAX):
            for topic_id in topic_ids:
                if topic_id is last_moved:
                    return
                if self._balance_topic(topic_id) or last_moved is None:
                    last_moved = topic_id

    def _balance_topic(self, topic_id: UUID) -> bool:
        """Return whether a partition has moved."""
        members, sizes = self._subscribers[topic_id], self._sizes
        counts = [sizes[index] for index in members]
        if max(counts) - min(counts) <= 1:
            return False
        to_give: dict[int, list[int]] = {}
        for number, owner in enumerate(self._owners[topic_id]):
            to_give.setdefault(owner, []).append(number)
        loads = RangesByLoad(members, sizes)
        has_moved = False
        while (giver := loads.take_highest(to_give)) is not None:
            number = to_give[giver].pop()
            receiver = loads.take_lowest()
            if loads.is_balanced():
                break
            self._move(topic_id, number, receiver)
            has_moved = True
        return has_moved

    def _move(self, topic_id: UUID, number: int, index: int) -> None:
        owners = self._owners[topic_id]
        if owners[number] != _FREE:
            self._sizes[owners[number]] -= 1
            self._changed.add(owners[number])
        owners[number] = index
        self._sizes[index] += 1
        self._changed.add(index)

    def _result(self) -> dict[str, Assignment]:
        target = dict(self._kept)
        if not self._changed:
            return target
        owned: dict[int, dict[UUID, set[int]]] = {index: {} for index in self._changed}
        for topic_id, owners in self._owners.items():
            for number, owner in enumerate(owners):
                if owner in owned:
                    owned[owner].setdefault(topic_id, set()).add(number)
        for index, member_id in enumerate(self._spec.members):
            if index in owned:
                target[member_id] = _same_or_new(target[member_id], owned[index].items())
        return target


def _same_or_new(current: Assignment, owned: Iterable[tuple[UUID, set[int]]]) -> Assignment:
    new = {topic_id: frozenset(numbers) for topic_id, numbers in owned}
    return current if new == current else new
