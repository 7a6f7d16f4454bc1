"""Operations for the start and the stop of a broker (registration, unfencing, leader elections, fencing), and for
producer id blocks.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple
from uuid import UUID

from broker_cy.controller.operation import Operation, OperationContext, Step
from broker_cy.core.errors import ErrorCode, KafkaError
from broker_cy.metadata import features
from broker_cy.metadata.image import NO_LEADER, Endpoint, MetadataImage, PartitionImage, TopicImage
from broker_cy.metadata.records import VersionedRecord
from broker_cy.wire import messages

PRODUCER_ID_BLOCK_SIZE = 1000  # Kafka's ProducerIdsBlock.PRODUCER_ID_BLOCK_SIZE
PRODUCER_ID_MAX = 2**63 - 1


@dataclass(frozen=True, slots=True)
class StartBroker(Operation[int]):
    """Register this broker with a new epoch, unfence it and make it the leader of the partitions that it may lead. The
    reply is the broker epoch.

    Every partition that it leads starts a new leader epoch. Kafka's controller does the same by fencing and unfencing a
    broker that restarts, and consumers rely on it: records that a crash removed from the end of a log and new records
    at the same offsets never have the same epoch (KIP-320). All other registered brokers are fenced, because only this
    node is running. The step has up to one record for each partition, so it is not atomic; the next start repairs the
    effects of a crash in the middle.
    """

    broker_id: int
    incarnation_id: UUID
    listeners: dict[str, Endpoint]
    log_dirs: tuple[UUID, ...]
    rack: str | None

    def run(self, state: MetadataImage, context: OperationContext) -> Step[int]:
        level = state.features.metadata_version
        epoch = context.next_offset
        version = features.register_broker_version(level)
        registration = messages.RegisterBrokerRecord(
            broker_id=self.broker_id,
            incarnation_id=self.incarnation_id,
            broker_epoch=epoch,
            end_points=[
                messages.RegisterBrokerRecord.BrokerEndpoint(
                    name=name, host=at.host, port=at.port, security_protocol=at.security_protocol
                )
                for name, at in self.listeners.items()
            ],
            features=[
                messages.RegisterBrokerRecord.BrokerFeature(
                    name=name, min_supported_version=low, max_supported_version=high
                )
                for name, (low, high) in features.SUPPORTED.items()
            ],
            rack=self.rack,
            fenced=True,
        )
        if version >= 3:
            registration.log_dirs = list(self.log_dirs)
        records = [VersionedRecord(registration, version), _fence(self.broker_id, epoch, fenced=False)]
        for other in state.brokers.values():
            if other.broker_id != self.broker_id and not other.fenced:
                records.append(_fence(other.broker_id, other.epoch, fenced=True))
        change_version = features.partition_version(level)
        for topic in state.topics:
            for index, partition in topic.partitions.items():
                change = _lead(self.broker_id, topic, index, partition)
                if change is not None:
                    records.append(VersionedRecord(change, change_version))
        return Step(records, epoch, atomic=False)


def _fence(broker_id: int, epoch: int, *, fenced: bool) -> VersionedRecord:
    return VersionedRecord(
        messages.BrokerRegistrationChangeRecord(broker_id=broker_id, broker_epoch=epoch, fenced=1 if fenced else -1)
    )


def _lead(
    broker_id: int, topic: TopicImage, index: int, partition: PartitionImage
) -> messages.PartitionChangeRecord | None:
    """The leader change of a partition now that this broker is the only one running; None if nothing changes.

    The broker becomes the leader if it was in sync, or, if no replica is in sync, if it was an eligible leader
    (KIP-966). Otherwise its replica may lack committed records, and the partition has no leader.
    """
    in_sync = broker_id in partition.isr
    if not in_sync and (partition.isr or broker_id not in partition.elr):
        if partition.leader == NO_LEADER or partition.leader == broker_id:
            return None
        # Its leader was just fenced, and no running broker may take over.
        return messages.PartitionChangeRecord(partition_id=index, topic_id=topic.topic_id, leader=NO_LEADER)
    change = messages.PartitionChangeRecord(partition_id=index, topic_id=topic.topic_id, leader=broker_id)
    if partition.isr != (broker_id,):
        change.isr = [broker_id]
    if partition.elr:
        change.eligible_leader_replicas = []
    if partition.last_known_elr:
        change.last_known_elr = []
    return change


@dataclass(frozen=True, slots=True)
class StopBroker(Operation[None]):
    """Fence the broker on an orderly stop, so that a controller that opens the log later need not wait for the broker's
    session to end.
    """

    broker_id: int

    def run(self, state: MetadataImage, context: OperationContext) -> Step[None]:
        broker = state.brokers.get(self.broker_id)
        if broker is None or broker.fenced:
            return Step([], None)
        return Step([_fence(self.broker_id, broker.epoch, fenced=True)], None)


class ProducerIdBlock(NamedTuple):
    """Producer ids `first` to `first + size - 1`, given to one broker and never to another one."""

    first: int
    size: int


@dataclass(frozen=True, slots=True)
class AllocateProducerIds(Operation[ProducerIdBlock]):
    """Give the broker a block of producer ids (AllocateProducerIds, KIP-730)."""

    broker_id: int
    broker_epoch: int

    def run(self, state: MetadataImage, context: OperationContext) -> Step[ProducerIdBlock]:
        broker = state.brokers.get(self.broker_id)
        if broker is None or broker.epoch != self.broker_epoch:
            raise KafkaError(
                ErrorCode.STALE_BROKER_EPOCH,
                f"Broker {self.broker_id} is not registered with epoch {self.broker_epoch}.",
            )
        first = state.next_producer_id
        if first > PRODUCER_ID_MAX - PRODUCER_ID_BLOCK_SIZE:
            raise KafkaError(
                ErrorCode.UNKNOWN_SERVER_ERROR,
                "Exhausted all producerIds as the next block's end producerId has exceeded the int64 type limit: "
                f"{first}",
            )
        record = messages.ProducerIdsRecord(
            broker_id=self.broker_id, broker_epoch=self.broker_epoch, next_producer_id=first + PRODUCER_ID_BLOCK_SIZE
        )
        return Step([VersionedRecord(record)], ProducerIdBlock(first, PRODUCER_ID_BLOCK_SIZE))
