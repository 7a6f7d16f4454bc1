"""The records that consumer, share and streams groups have in common, as Kafka 4.3 writes them. Topics, subtopologies
and partitions are sorted; Kafka has them in no order.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, TypeVar
from uuid import UUID

from broker_cy.coordinator.assignors.spec import Assignment
from broker_cy.coordinator.modern.group import EpochGroup
from broker_cy.coordinator.modern.topic_values import in_order, of_each
from broker_cy.coordinator.records import KeyType
from broker_cy.coordinator.step import Record
from broker_cy.core.classes import NamedTuple
from broker_cy.wire import codec, messages

# A structure of a record, or of an answer.
P = TypeVar("P", bound=codec.Message)
# A topic by its id, or a subtopology by its name.
K = TypeVar("K", UUID, str)
V = TypeVar("V")

KEY_TYPES: Final[dict[type[Any], KeyType]] = {
    messages.ConsumerGroupMetadataKey: KeyType.CONSUMER_GROUP_METADATA,
    messages.ConsumerGroupPartitionMetadataKey: KeyType.CONSUMER_GROUP_PARTITION_METADATA,
    messages.ConsumerGroupMemberMetadataKey: KeyType.CONSUMER_GROUP_MEMBER_METADATA,
    messages.ConsumerGroupTargetAssignmentMetadataKey: KeyType.CONSUMER_GROUP_TARGET_ASSIGNMENT_METADATA,
    messages.ConsumerGroupTargetAssignmentMemberKey: KeyType.CONSUMER_GROUP_TARGET_ASSIGNMENT_MEMBER,
    messages.ConsumerGroupCurrentMemberAssignmentKey: KeyType.CONSUMER_GROUP_CURRENT_MEMBER_ASSIGNMENT,
    messages.ConsumerGroupRegularExpressionKey: KeyType.CONSUMER_GROUP_REGULAR_EXPRESSION,
    messages.ShareGroupMemberMetadataKey: KeyType.SHARE_GROUP_MEMBER_METADATA,
    messages.ShareGroupMetadataKey: KeyType.SHARE_GROUP_METADATA,
    messages.ShareGroupTargetAssignmentMetadataKey: KeyType.SHARE_GROUP_TARGET_ASSIGNMENT_METADATA,
    messages.ShareGroupTargetAssignmentMemberKey: KeyType.SHARE_GROUP_TARGET_ASSIGNMENT_MEMBER,
    messages.ShareGroupCurrentMemberAssignmentKey: KeyType.SHARE_GROUP_CURRENT_MEMBER_ASSIGNMENT,
    messages.ShareGroupStatePartitionMetadataKey: KeyType.SHARE_GROUP_STATE_PARTITION_METADATA,
    messages.StreamsGroupMetadataKey: KeyType.STREAMS_GROUP_METADATA,
    messages.StreamsGroupMemberMetadataKey: KeyType.STREAMS_GROUP_MEMBER_METADATA,
    messages.StreamsGroupTargetAssignmentMetadataKey: KeyType.STREAMS_GROUP_TARGET_ASSIGNMENT_METADATA,
    messages.StreamsGroupTargetAssignmentMemberKey: KeyType.STREAMS_GROUP_TARGET_ASSIGNMENT_MEMBER,
    messages.StreamsGroupCurrentMemberAssignmentKey: KeyType.STREAMS_GROUP_CURRENT_MEMBER_ASSIGNMENT,
    messages.StreamsGroupTopologyKey: KeyType.STREAMS_GROUP_TOPOLOGY,
}


def record(key: Any, value: Any | None) -> Record:
    """The record of a key; a value of None makes a tombstone."""
    encoded = struct.pack(">h", KEY_TYPES[type(key)]) + codec.encode(key, 0)
    return Record(encoded, None if value is None else codec.encode_versioned(value, 0))


class GroupRecords(NamedTuple):
    """These records of one type of groups, by the classes of their keys and values."""

    epoch_key: type[Any]
    epoch_value: type[Any]
    target_epoch_key: type[Any]
    target_epoch_value: type[Any]
    target_key: type[Any]
    member_key: type[Any]
    current_key: type[Any]

    def epoch(self, group_id: str, epoch: int, metadata_hash: int) -> Record:
        return record(self.epoch_key(group_id=group_id), self.epoch_value(epoch=epoch, metadata_hash=metadata_hash))

    def target_epoch(self, group_id: str, epoch: int, wall_ms: int) -> Record:
        value = self.target_epoch_value(assignment_epoch=epoch, assignment_timestamp=wall_ms)
        return record(self.target_epoch_key(group_id=group_id), value)

    def target(self, group_id: str, member_id: str, value: Any) -> Record:
        return record(self.target_key(group_id=group_id, member_id=member_id), value)

    def member(self, group_id: str, member_id: str, value: Any) -> Record:
        return record(self.member_key(group_id=group_id, member_id=member_id), value)

    def current(self, group_id: str, member_id: str, value: Any) -> Record:
        return record(self.current_key(group_id=group_id, member_id=member_id), value)

    def epoch_tombstone(self, group_id: str) -> Record:
        return record(self.epoch_key(group_id=group_id), None)

    def member_tombstones(self, group_id: str, member_id: str) -> list[Record]:
        """Kafka cannot load a log that has them in another order."""
        return [key(group_id, member_id, None) for key in (self.current, self.target, self.member)]

    def tombstones(self, group: EpochGroup[Any, Any]) -> list[Record]:
        """Those of the members and of the target assignment. Kafka cannot load a log that has them in another order, or
        after the tombstone of the group's epoch.
        """
        group_id = group.group_id
        return [
            *(self.current(group_id, member_id, None) for member_id in group.members),
            *(self.target(group_id, member_id, None) for member_id in dict.fromkeys((*group.members, *group.target))),
            record(self.target_epoch_key(group_id=group_id), None),
            *(self.member(group_id, member_id, None) for member_id in group.members),
        ]


def names_in_order(names: frozenset[str], given: Sequence[str] | None) -> list[str]:
    """The names of topics in order. `given` are the same ones as a request has them: a client often sends them in
    order, and then they need not be sorted.
    """
    return sorted(names if given is None or len(given) != len(names) else given)


# ---- partitions ----


def topic_partitions(structure: type[codec.Message], assignment: Assignment) -> Any:
    """Structures of the fields `topic_id` and `partitions` of a record, encoded, with the topics in order. They stand
    in place of a list.
    """
    topic_ids = in_order(assignment)
    encoded = codec.EncodedElements(structure, 0)
    encoded.add_columns(topic_ids, of_each(values_of(topic_ids, assignment), sorted))
    return encoded


def values_of(keys: Sequence[K], found: Mapping[K, V]) -> Iterable[V]:
    """The values of all keys of a mapping, in the order of `keys`. Topics are often in their order already: then their
    ids, whose hashes take most of the time of a look-up, are not looked up.
    """
    return found.values() if keys == list(found) else map(found.__getitem__, keys)


def as_recorded(assignment: Assignment) -> Assignment:
    """A target as its record has it, with the same ids as values: look-ups of them take less time. Equal partitions are
    one value: 10,000 topics have few.
    """
    known: dict[frozenset[int], frozenset[int]] = {}
    return {
        topic_id: known.setdefault(partitions, partitions)
        for topic_id in in_order(assignment)
        if (partitions := assignment[topic_id])
    }


def assignment_of(topics: Iterable[Any]) -> Assignment:
    """The other way; a topic without partitions counts for nothing."""
    known: dict[frozenset[int], frozenset[int]] = {}
    return {
        each.topic_id: known.setdefault(partitions, partitions)
        for each in topics
        if (partitions := frozenset(each.partitions))
    }


def with_epochs(
    names: Sequence[K], held: Mapping[K, Mapping[int, int]]
) -> tuple[Sequence[K], list[list[int]], list[list[int]]]:
    """The names of all topics or subtopologies, which are in order, the partitions of each, and the epochs in which
    these were assigned. Topics that have one value in common get one list.
    """
    values = list(values_of(names, held))
    return names, of_each(values, sorted), of_each(values, _epochs_in_order)


def _epochs_in_order(held: Mapping[int, int]) -> list[int]:
    return [held[partition] for partition in sorted(held)]


def epochs_of(structure: Any, member_epoch: int) -> dict[int, int]:
    """The epoch in which each partition was assigned. Records of Kafka before 4.3 have none: the member epoch stands
    for them.
    """
    epochs = structure.assignment_epochs
    if epochs is not None and len(epochs) == len(structure.partitions):
        return dict(zip(structure.partitions, epochs, strict=True))
    return dict.fromkeys(structure.partitions, member_epoch)
