"""Groups and a sample of records: what a group has ahead of it, and which schemas it has read."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from broker_cy.admin.metadata import TopicPartition
from broker_registry.impact.result import Name

LOOK_BACK: Final = 10
"""Offsets before a committed one in which the last record that a group has read is searched: markers of transactions
have offsets, too.
"""
LOOKUPS_MAX: Final = 200
"""Places in the log that are looked up: groups that wait at the same offset share one."""


class Group(NamedTuple):
    """A group with its committed offsets in the topics; start offsets of a share group."""

    name: str
    committed: Mapping[TopicPartition, int]


class Range(NamedTuple):
    """The offsets of a partition: the sample has the records from `start` to `reached`, the log those from `earliest`
    to `end`. The second of each pair is not included.
    """

    start: int
    reached: int
    earliest: int
    end: int


class Named(NamedTuple):
    """The schemas of a partition's records that name one, by ascending offset."""

    offsets: Sequence[int]
    names: Sequence[Name]

    def last_before(self, offset: int) -> Name | None:
        at = bisect_left(self.offsets, offset)
        return self.names[at - 1] if at else None


def unseen(group: Group, ranges: Mapping[TopicPartition, Range]) -> int:
    """Return how many offsets a group has ahead of it that the sample does not have."""
    count = 0
    for key, committed in group.committed.items():
        found = ranges.get(key)
        if found is not None:
            ahead = max(committed, found.earliest)
            sampled = max(0, found.reached - max(found.start, ahead))
            count += max(0, found.end - ahead - sampled)
    return count


def last_read(
    group: Group, named: Mapping[TopicPartition, Named], looked_up: Mapping[tuple[TopicPartition, int], Name]
) -> tuple[Name, ...]:
    """Return the schemas that a group is known to have read last, each once, by partition. `looked_up` has those in
    front of offsets that the sample does not reach.
    """
    found: dict[Name, None] = {}
    for key, committed in sorted(group.committed.items()):
        name = named[key].last_before(committed) if key in named else None
        if name is None:
            name = looked_up.get((key, committed))
        if name is not None:
            found[name] = None
    return tuple(found)


def to_look_up(
    groups: Iterable[Group], named: Mapping[TopicPartition, Named], ranges: Mapping[TopicPartition, Range]
) -> list[tuple[TopicPartition, int]]:
    """Return the committed offsets without a record of the sample before them, each once."""
    found: dict[tuple[TopicPartition, int], None] = {}
    for group in groups:
        for key, committed in group.committed.items():
            place = ranges.get(key)
            if place is None or committed <= place.earliest:
                continue
            if key not in named or named[key].last_before(committed) is None:
                found[key, committed] = None
    return sorted(found)
