"""The partitions of a broker: an index over the topics of an image, so that the failure of one broker need not
walk over all partitions of the cluster.

Invariant: for every topic of the image, each mask has the bit `index` of exactly the partitions that the table names.
Partitions of one topic are one int, a bit mask, because they are numbered without gaps: 100,000 partitions with three
replicas need about 3 MB. The index describes committed topics; a reader who sees uncommitted changes adds the topics
that they contain (`TopicsImage.with_replica`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from uuid import UUID

from broker_cy.metadata.partition import PartitionImage

Masks = dict[UUID, int]


def bits(mask: int) -> Iterator[int]:
    """The numbers of the bits that are set, ascending."""
    while mask:
        lowest = mask & -mask
        yield lowest.bit_length() - 1
        mask ^= lowest


def is_imbalanced(partition: PartitionImage) -> bool:
    """Whether another replica than the preferred one, the first, leads; also true without a leader."""
    return partition.leader != partition.replicas[0]


def is_reassigning(partition: PartitionImage) -> bool:
    return bool(partition.adding_replicas or partition.removing_replicas)


class PartitionIndex:
    """`replicas[b]` and `leaders[b]` have the partitions of broker b; `leaders[NO_LEADER]` those without a leader."""

    __slots__ = ("imbalanced", "leaders", "reassigning", "replicas")

    def __init__(self) -> None:
        self.replicas: dict[int, Masks] = {}
        self.leaders: dict[int, Masks] = {}
        self.imbalanced: Masks = {}
        self.reassigning: Masks = {}

    @classmethod
    def of(cls, topics: Iterable[tuple[UUID, Mapping[int, PartitionImage]]]) -> PartitionIndex:
        index = cls()
        for topic_id, partitions in topics:
            index.change(topic_id, {}, partitions)
        return index

    def change(self, topic_id: UUID, before: Mapping[int, PartitionImage], after: Mapping[int, PartitionImage]) -> None:
        """Replace the partitions of one topic. O(partitions of the topic), cheap for those that are the same object."""
        # Collected for the whole topic first: a mask is then replaced once, not once for each partition.
        flips: dict[tuple[str, int], int] = {}
        for number, new in after.items():
            old = before.get(number)
            if old is not new:
                _flip(flips, old, new, 1 << number)
        for number, old in before.items():
            if number not in after:
                _flip(flips, old, None, 1 << number)
        for (table, broker_id), mask in flips.items():
            if table == "replicas":
                _apply(self.replicas.setdefault(broker_id, {}), topic_id, mask)
            elif table == "leaders":
                _apply(self.leaders.setdefault(broker_id, {}), topic_id, mask)
            else:
                _apply(self.imbalanced if table == "imbalanced" else self.reassigning, topic_id, mask)


def _flip(flips: dict[tuple[str, int], int], old: PartitionImage | None, new: PartitionImage | None, bit: int) -> None:
    """Note the bits of one partition that change."""
    replicas, new_replicas = old.replicas if old else (), new.replicas if new else ()
    if replicas is not new_replicas:
        for broker_id in set(replicas) ^ set(new_replicas):
            flips["replicas", broker_id] = flips.get(("replicas", broker_id), 0) ^ bit
    leader, new_leader = old.leader if old else None, new.leader if new else None
    if leader != new_leader:
        for broker in (leader, new_leader):
            if broker is not None:
                flips["leaders", broker] = flips.get(("leaders", broker), 0) ^ bit
    if (old is not None and is_imbalanced(old)) != (new is not None and is_imbalanced(new)):
        flips["imbalanced", 0] = flips.get(("imbalanced", 0), 0) ^ bit
    if (old is not None and is_reassigning(old)) != (new is not None and is_reassigning(new)):
        flips["reassigning", 0] = flips.get(("reassigning", 0), 0) ^ bit


def _apply(masks: Masks, topic_id: UUID, flipped: int) -> None:
    mask = masks.get(topic_id, 0) ^ flipped
    if mask:
        masks[topic_id] = mask
    else:
        masks.pop(topic_id, None)
