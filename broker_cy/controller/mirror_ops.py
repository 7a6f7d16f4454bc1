"""The controller's part in mirrors of topics of other clusters (docs/mirror.md, Link flows).

A topic is a mirror while it has brokercy.mirror.link. When the setting is set or removed, each partition gets a new
leader epoch in the same step, so every broker changes the role of its replicas with the setting. Kafka's records raise
a leader epoch by one; a PartitionRecord, which replaces the state of a partition, may raise it by more.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final
from uuid import UUID

from broker_cy.controller.operation import RECORDS_PER_STEP_MAX
from broker_cy.controller.producer_ids import PRODUCER_ID_RANGE_BITS
from broker_cy.core import mirror_settings as mirror
from broker_cy.core.errors import ErrorCode, KafkaError
from broker_cy.metadata import topic_names
from broker_cy.metadata.image import RESOURCE_TOPIC, MetadataImage, PartitionImage
from broker_cy.metadata.records import VersionedRecord
from broker_cy.metadata.snapshot import partition_record
from broker_cy.metadata.topics import TopicImage
from broker_cy.wire import messages

# A promotion raises the leader epoch by so many: the source would need as many elections to write in the same epoch,
# and then a reversal could not tell its records from those written after the promotion. There is room for 32,000
# promotions.
PROMOTION_EPOCHS: Final = 1 << 16
# The highest leader epoch that a leader may ask for: a promotion must stay possible.
EPOCH_MAX: Final = (1 << 31) - 1 - 2 * PROMOTION_EPOCHS

# Mirrored batches have producer ids of the source cluster. With its first mirror, a cluster begins to give out ids of a
# range of its own: one of these, drawn at random.
_RANGES: Final = 1 << 20

# The tagged field of a partition in AlterPartition with the leader epoch that its leader needs. Kafka's specification
# does not have it, so a controller of Kafka answers with an unchanged epoch.
TAG: Final = 10_000
_EPOCH: Final = struct.Struct(">i")


def tag_of(leader_epoch: int) -> tuple[tuple[int, bytes], ...]:
    """The tagged field that asks for a leader epoch of at least `leader_epoch`."""
    return ((TAG, _EPOCH.pack(leader_epoch)),)


def read_tag(tags: Iterable[tuple[int, bytes]]) -> int:
    """The argument of `tag_of`; -1 without the field, or if it is not understood."""
    data = dict(tags).get(TAG, b"")
    return int(_EPOCH.unpack(data)[0]) if len(data) == _EPOCH.size else -1


def check(name: str, settings: Mapping[str, str]) -> None:
    """Raises KafkaError if the topic cannot be a mirror."""
    if mirror.is_mirror(settings) and topic_names.is_protected(name):
        raise KafkaError(
            ErrorCode.INVALID_CONFIG, f"{mirror.LINK} cannot be set: brokers write topic {name} themselves"
        )


def kept(current: Mapping[str, str]) -> dict[str, str]:
    """The settings that a topic keeps if all are replaced (AlterConfigs): a tool that does not know them must not
    promote a mirror.
    """
    return {name: current[name] for name in mirror.NAMES if name in current}


def changed(
    state: MetadataImage, topic: TopicImage, before: Mapping[str, str], after: Mapping[str, str]
) -> list[VersionedRecord]:
    """The records for a topic that becomes a mirror, or is promoted, by its settings. Raises KafkaError."""
    was, becomes = mirror.is_mirror(before), mirror.is_mirror(after)
    if was == becomes:
        return []
    if len(topic.partitions) > RECORDS_PER_STEP_MAX // 2:
        raise KafkaError(ErrorCode.POLICY_VIOLATION, "Unable to perform excessively large batch operation.")
    more = 1 if becomes else PROMOTION_EPOCHS
    return [
        raised(state, topic.topic_id, index, partition, partition.leader_epoch + more)
        for index, partition in topic.partitions.items()
    ]


def raised(
    state: MetadataImage, topic_id: UUID, index: int, partition: PartitionImage, leader_epoch: int
) -> VersionedRecord:
    """The record that begins `leader_epoch` with the same leader."""
    after = partition._replace(leader_epoch=leader_epoch, partition_epoch=partition.partition_epoch + 1)
    return partition_record(topic_id, index, after, state.features.metadata_version)


def promotion_start(epochs: Sequence[tuple[int, int]]) -> int:
    """Where the records after the last promotion begin, in a log with these leader epochs and start offsets; -1 for a
    log without one.
    """
    found, before = -1, 0
    for epoch, start in epochs:
        if epoch - before >= PROMOTION_EPOCHS:
            found = start
        before = epoch
    return found


def own_producer_ids(
    state: MetadataImage, records: Iterable[VersionedRecord], draw: Callable[[], UUID]
) -> list[VersionedRecord]:
    """The record after which producer ids come from a range of this cluster; empty if they do already, or if none of
    the records makes a topic a mirror.
    """
    configs = (each.message for each in records if isinstance(each.message, messages.ConfigRecord))
    if state.next_producer_id >> PRODUCER_ID_RANGE_BITS or not any(is_set(each) for each in configs):
        return []
    first = (1 + draw().int % (_RANGES - 1)) << PRODUCER_ID_RANGE_BITS
    return [VersionedRecord(messages.ProducerIdsRecord(broker_id=-1, broker_epoch=-1, next_producer_id=first))]


def is_set(record: messages.ConfigRecord) -> bool:
    """Whether the record makes a topic a mirror."""
    return record.resource_type == RESOURCE_TOPIC and record.name == mirror.LINK and bool(record.value)
