"""The share partitions of a group that have state at the share coordinator, and those that are to get or lose it.

A share partition gets its state before members get the partition: it is `initializing` while the share coordinator is
asked for that, and `initialized` from its answer on. Topics are `deleting` while the state of all their partitions is
being deleted. Each of these is in the log of the group before the share coordinator is asked.

A group may have 10,000 topics: most are in one of two values, or the same in both.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Final
from uuid import UUID

from broker_cy.core.classes import NamedTuple

Partitions = Mapping[UUID, frozenset[int]]
"""The partitions of each topic id; no set is empty."""


class SharePartitions(NamedTuple):
    """The value of a ShareGroupStatePartitionMetadata record. `names` has the name of each of its topics, as it was
    when the record was written. Bounded by the partitions of the topics that the group has read.
    """

    initializing: Partitions
    initialized: Partitions
    deleting: frozenset[UUID]
    names: Mapping[UUID, str]

    @property
    def topic_ids(self) -> frozenset[UUID]:
        return frozenset(self.initializing).union(self.initialized, self.deleting)

    def began(self, partitions: Partitions, names: Mapping[UUID, str]) -> SharePartitions:
        """The state of these partitions is requested. A topic that gets state again is not deleted any more."""
        initializing = united(self.initializing, partitions)
        return self._made(initializing, self.initialized, self.deleting - initializing.keys(), names)

    def ended(self, asked: Partitions, done: Partitions) -> SharePartitions:
        """The partitions `done` of those that were asked for have state now; the others are to be asked for again.
        Those that are not initializing any more are left out: their topic was deleted meanwhile.
        """
        found = common(self.initializing, done)
        return self._made(without(self.initializing, asked), united(self.initialized, found), self.deleting)

    def removing(self, topic_ids: Collection[UUID]) -> SharePartitions:
        """The state of these topics is to be deleted."""
        initializing, initialized = (
            of_topics(partitions, partitions.keys() - frozenset(topic_ids))
            for partitions in (self.initializing, self.initialized)
        )
        return self._made(initializing, initialized, self.deleting | frozenset(topic_ids))

    def removed(self, topic_ids: Collection[UUID]) -> SharePartitions:
        """The state of these topics was deleted."""
        return self._made(self.initializing, self.initialized, self.deleting - frozenset(topic_ids))

    def forgotten(self, topic_ids: Collection[UUID]) -> SharePartitions:
        """These topics do not exist any more."""
        return self.removing(topic_ids).removed(topic_ids)

    def _made(
        self,
        initializing: Partitions,
        initialized: Partitions,
        deleting: frozenset[UUID],
        names: Mapping[UUID, str] | None = None,
    ) -> SharePartitions:
        known = {**self.names, **(names or {})}
        topic_ids = frozenset(initializing).union(initialized, deleting)
        if len(topic_ids) < len(known):
            known = {topic_id: known[topic_id] for topic_id in topic_ids}
        return SharePartitions(initializing, initialized, deleting, known)


NO_SHARE_PARTITIONS: Final = SharePartitions({}, {}, frozenset(), {})


def united(*parts: Partitions) -> Partitions:
    """The partitions of all parts."""
    found: dict[UUID, frozenset[int]] = {}
    for part in parts:
        both = found.keys() & part.keys()
        common = [(topic_id, found[topic_id] | part[topic_id]) for topic_id in both]
        found.update(part)
        found.update(common)
    return found


def without(partitions: Partitions, others: Partitions) -> Partitions:
    both = partitions.keys() & others.keys()
    if not both:
        return partitions
    left = {topic_id: each - others[topic_id] if topic_id in both else each for topic_id, each in partitions.items()}
    return {topic_id: each for topic_id, each in left.items() if each}


def common(partitions: Partitions, others: Partitions) -> Partitions:
    if not partitions or not others:
        return {}
    both = partitions.keys() & others.keys()
    ordered = [topic_id for topic_id in partitions if topic_id in both]
    return {topic_id: rest for topic_id in ordered if (rest := partitions[topic_id] & others[topic_id])}


def of_topics(partitions: Partitions, topic_ids: Collection[UUID]) -> Partitions:
    return {topic_id: each for topic_id, each in partitions.items() if topic_id in topic_ids}


def in_parts(partitions: Partitions, size: int) -> Iterator[Partitions]:
    """The same partitions in parts of at most this many."""
    part: dict[UUID, frozenset[int]] = {}
    left = size
    for topic_id, each in partitions.items():
        if len(each) < left:
            part[topic_id] = each
            left -= len(each)
            continue
        numbers = sorted(each)
        while numbers:
            taken, numbers = numbers[:left], numbers[left:]
            part[topic_id] = frozenset(taken)
            left -= len(taken)
            if not left:
                yield part
                part, left = {}, size
    if part:
        yield part


def by_topic(places: Iterable[tuple[UUID, int]]) -> Partitions:
    """The partitions of each topic id."""
    found: dict[UUID, set[int]] = {}
    for topic_id, partition in places:
        found.setdefault(topic_id, set()).add(partition)
    return {topic_id: frozenset(partitions) for topic_id, partitions in found.items()}
