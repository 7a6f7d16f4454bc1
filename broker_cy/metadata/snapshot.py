"""Snapshots of the metadata (KIP-630): the whole image as records, in a file `<end offset>-<epoch>.checkpoint`.

A snapshot replaces every record of the log below its end offset. The file is a sequence of record batches, whose
offsets start at 0: a control batch with the header, batches of records, and a control batch with the footer. A file
without a footer is incomplete. `bootstrap.checkpoint` has the same format.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice
from uuid import UUID

from broker_cy.core.classes import NamedTuple, dataclass
from broker_cy.metadata import features, framing
from broker_cy.metadata.fence_reasons import tag_of
from broker_cy.metadata.image import (
    PRODUCER_IDS_BROKER,
    PRODUCER_IDS_BROKER_EPOCH,
    ZK_MIGRATION_STATE,
    BrokerImage,
    MetadataImage,
    PartitionImage,
)
from broker_cy.metadata.records import MetadataLogError, VersionedRecord
from broker_cy.metadata.topics import TopicImage
from broker_cy.wire import messages
from broker_cy.wire.control import ControlMessage, KraftVersion, KraftVoters, SnapshotFooter, SnapshotHeader

BOOTSTRAP_NAME = "bootstrap.checkpoint"
# Records in one batch of a snapshot. Small, because the event loop runs other work between two batches.
RECORDS_PER_BATCH = 64

_NAME = re.compile(r"(\d{20})-(\d{10})\.checkpoint\Z")


class SnapshotId(NamedTuple):
    """`end_offset` is one above the offset of the last record in the snapshot; `epoch` is the epoch of that record."""

    end_offset: int
    epoch: int

    @property
    def file_name(self) -> str:
        return f"{self.end_offset:020d}-{self.epoch:010d}.checkpoint"

    @classmethod
    def of_file(cls, name: str) -> SnapshotId | None:
        """The id in the name of a snapshot file; None for other names."""
        found = _NAME.match(name)
        return cls(int(found[1]), int(found[2])) if found else None


@dataclass(slots=True)
class KRaftState:
    """The state of the quorum from control records. `voters` is None while the voters are static (KIP-853)."""

    kraft_version: int = 0
    voters: KraftVoters | None = None

    def voter_ids(self) -> tuple[int, ...] | None:
        """The sorted ids of the voters; None while the log has none."""
        return None if self.voters is None else tuple(sorted(v.voter_id for v in self.voters.voters))


def records_of(image: MetadataImage) -> Iterator[VersionedRecord]:
    """The records whose replay into an empty image results in `image`."""
    level = image.features.metadata_version
    finalized = image.features.levels()
    # metadata.version comes first: the format of the other records depends on it.
    for name in sorted(finalized, key=lambda n: (n != features.METADATA_VERSION, n)):
        yield VersionedRecord(messages.FeatureLevelRecord(name=name, feature_level=finalized[name]))
    for broker in image.brokers.values():
        yield _broker_record(broker, level)
    for controller in image.controllers.values():
        yield VersionedRecord(controller)
    for topic in image.topics:
        yield from _topic_records(topic, level)
    for resource_type, name in image.configs.resources():
        for key, value in image.configs.resource(resource_type, name).items():
            record = messages.ConfigRecord(resource_type=resource_type, resource_name=name, name=key, value=value)
            yield VersionedRecord(record)
    if image.next_producer_id:
        yield VersionedRecord(
            messages.ProducerIdsRecord(
                broker_id=image.scalars[PRODUCER_IDS_BROKER],
                broker_epoch=image.scalars[PRODUCER_IDS_BROKER_EPOCH],
                next_producer_id=image.next_producer_id,
            )
        )
    if ZK_MIGRATION_STATE in image.scalars:
        state = image.scalars[ZK_MIGRATION_STATE]
        yield VersionedRecord(messages.ZkMigrationStateRecord(zk_migration_state=state))
    for kept in image.kept.values():
        yield VersionedRecord(kept)
    for token in image.tokens.values():
        yield VersionedRecord(token)


def _broker_record(broker: BrokerImage, level: int) -> VersionedRecord:
    version = features.register_broker_version(level)
    record = messages.RegisterBrokerRecord(
        broker_id=broker.broker_id,
        incarnation_id=broker.incarnation_id,
        broker_epoch=broker.epoch,
        end_points=[
            messages.RegisterBrokerRecord.BrokerEndpoint(
                name=name, host=at.host, port=at.port, security_protocol=at.security_protocol
            )
            for name, at in broker.listeners.items()
        ],
        features=[
            messages.RegisterBrokerRecord.BrokerFeature(
                name=name, min_supported_version=low, max_supported_version=high
            )
            for name, (low, high) in broker.features.items()
        ],
        rack=broker.rack,
        fenced=broker.fenced,
        in_controlled_shutdown=broker.in_controlled_shutdown,
        _unknown_tags=tag_of(broker.fence_reason),
    )
    if version >= 2:
        record.is_migrating_zk_broker = broker.is_migrating_zk_broker
    if version >= 3:
        record.log_dirs = list(broker.log_dirs)
    if version >= 4 and broker.cordoned_log_dirs is not None:
        record.cordoned_log_dirs = list(broker.cordoned_log_dirs)
    return VersionedRecord(record, version)


def _topic_records(topic: TopicImage, level: int) -> Iterator[VersionedRecord]:
    yield VersionedRecord(messages.TopicRecord(name=topic.name, topic_id=topic.topic_id))
    for index, partition in topic.partitions.items():
        yield partition_record(topic.topic_id, index, partition, level)


def partition_record(topic_id: UUID, index: int, partition: PartitionImage, level: int) -> VersionedRecord:
    """The whole state of a partition; in the log it replaces an earlier state (Kafka's TopicDelta)."""
    version = features.partition_version(level)
    record = messages.PartitionRecord(
        partition_id=index,
        topic_id=topic_id,
        replicas=list(partition.replicas),
        isr=list(partition.isr),
        removing_replicas=list(partition.removing_replicas),
        adding_replicas=list(partition.adding_replicas),
        leader=partition.leader,
        leader_epoch=partition.leader_epoch,
        partition_epoch=partition.partition_epoch,
        leader_recovery_state=partition.leader_recovery_state,
    )
    if version >= 1:
        record.directories = list(partition.directories)
    # As in Kafka, null rather than an empty list.
    if version >= 2 and partition.elr:
        record.eligible_leader_replicas = list(partition.elr)
    if version >= 2 and partition.last_known_elr:
        record.last_known_elr = list(partition.last_known_elr)
    return VersionedRecord(record, version)


def write(
    records: Iterator[VersionedRecord], kraft: KRaftState, epoch: int, last_contained_ms: int, now_ms: int
) -> Iterator[bytes]:
    """The bytes of a snapshot, batch by batch."""
    header: list[ControlMessage] = [SnapshotHeader(last_contained_ms)]
    if kraft.kraft_version > 0:
        header.append(KraftVersion(kraft.kraft_version))
        if kraft.voters is not None:
            header.append(kraft.voters)
    offset = 0
    yield framing.control_batch(header, offset, epoch, now_ms)
    offset += len(header)
    while chunk := list(islice(records, RECORDS_PER_BATCH)):
        yield framing.data_batch(chunk, offset, epoch, now_ms)
        offset += len(chunk)
    yield framing.control_batch([SnapshotFooter()], offset, epoch, now_ms)


def is_finished(content: bytes) -> bool:
    """Whether the content ends with a footer; a snapshot without one is incomplete."""
    last = None
    for batch in framing.batches(content):
        last = batch
    return last is not None and last.is_control and SnapshotFooter() in framing.control_messages_in(last)


def bootstrap_records(content: bytes) -> list[VersionedRecord]:
    """The records in a `bootstrap.checkpoint`."""
    records: list[VersionedRecord] = []
    for batch in framing.batches(content):
        if not batch.is_control:
            records += [record for _, record in framing.records_in(batch)]
    if not records:
        raise MetadataLogError("it contains no records; format the directory again")
    return records
