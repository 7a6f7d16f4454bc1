"""The start and the stop of a node that is alone, each in one step, and blocks of producer ids."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple
from uuid import UUID

from broker_cy.controller.broker_records import check_epoch, fence_record, registration_record
from broker_cy.controller.broker_states import cordon_records
from broker_cy.controller.operation import MetadataStep, Operation, OperationContext
from broker_cy.controller.partition_change import PartitionChange
from broker_cy.controller.rules import Rules
from broker_cy.core.errors import ErrorCode, KafkaError
from broker_cy.metadata import features
from broker_cy.metadata.fence_reasons import FenceReason
from broker_cy.metadata.image import Endpoint, MetadataImage, PartitionImage
from broker_cy.metadata.records import VersionedRecord
from broker_cy.metadata.replay import replay
from broker_cy.metadata.topics import TopicImage
from broker_cy.wire import messages

PRODUCER_ID_BLOCK_SIZE = 1000  # Kafka's ProducerIdsBlock.PRODUCER_ID_BLOCK_SIZE
PRODUCER_ID_MAX = 2**63 - 1
# The end of a PartitionImage, from `removing_replicas` on, of a settled partition: no reassignment, ELR or recovery.
_SETTLED = PartitionImage((), (), 0, 0, 0)[6:]


@dataclass(frozen=True, slots=True)
class StartBroker(Operation[int]):
    """Register this broker with a new epoch, unfence it and make it the leader of the partitions that it may lead, in
    one step: the work of registration and the first heartbeat for a single-node cluster. The reply is the broker epoch.

    Every partition that it leads starts one new leader epoch. Kafka's controller does the same by fencing and unfencing
    a broker that restarts, and consumers rely on it: records that a crash removed from the end of a log and new records
    at the same offsets never have the same epoch (KIP-320). All other registered brokers are fenced, because only this
    node is running. The step has up to one record for each partition, so it is not atomic; the next start repairs the
    effects of a crash in the middle.
    """

    broker_id: int
    incarnation_id: UUID
    listeners: dict[str, Endpoint]
    log_dirs: tuple[UUID, ...]
    rack: str | None

    def run(self, state: MetadataImage, step: MetadataStep, context: OperationContext) -> int:
        epoch = context.next_offset
        records = [
            registration_record(
                state.features.metadata_version,
                self.broker_id,
                epoch,
                self.incarnation_id,
                self.listeners,
                features.SUPPORTED,
                self.rack,
                self.log_dirs,
            )
        ]
        # The elections see the brokers as this step leaves them.
        after = state.branch()
        replay(after, records[0].message)
        changes = [fence_record(after.brokers[self.broker_id], fenced=False)]
        others = [b for b in state.brokers.values() if b.broker_id != self.broker_id and not b.fenced]
        changes += [fence_record(other, fenced=True) for other in others]
        for change in changes:
            replay(after, change.message)
        # A single node knows its logs itself: it opens them in any directory.
        rules = Rules(after, context.config, any_directory=True)
        records += changes
        for topic in state.topics:
            for index, partition in topic.partitions.items():
                record = self._lead(rules, topic, index, partition)
                if record is not None:
                    records.append(record)
        context.heartbeats.register(self.broker_id, epoch, epoch, context.monotonic_ms)
        step.atomic = False
        step.records += records
        return epoch

    def _lead(self, rules: Rules, topic: TopicImage, index: int, partition: PartitionImage) -> VersionedRecord | None:
        only = (self.broker_id,)
        if (
            partition.replicas == only
            and partition.isr == only
            and partition.leader == self.broker_id
            and len(partition.directories) == 1
            and partition[6:] == _SETTLED
        ):
            # The result of a PartitionChange for nearly all partitions of a one-node cluster, at a third of its cost.
            record = messages.PartitionChangeRecord(partition_id=index, topic_id=topic.topic_id, leader=self.broker_id)
            return VersionedRecord(record, rules.change_version)
        change = PartitionChange(rules, topic, index, partition)
        change.isr = tuple(r for r in partition.isr if r == self.broker_id)
        change.new_epoch = partition.leader == self.broker_id
        return change.record()


@dataclass(frozen=True, slots=True)
class CordonDirectories(Operation[None]):
    """Note the cordoned log directories of this broker, as heartbeats do in a cluster of several nodes."""

    broker_id: int
    cordoned: tuple[UUID, ...]

    def run(self, state: MetadataImage, step: MetadataStep, context: OperationContext) -> None:
        broker = state.brokers[self.broker_id]
        if not self.cordoned and not broker.cordoned_log_dirs:
            return
        step.records += cordon_records(state.features.metadata_version, broker, self.cordoned)


@dataclass(frozen=True, slots=True)
class StopBroker(Operation[None]):
    """Fence the broker on an orderly stop, so that a controller that opens the log later need not wait for the broker's
    session to end.
    """

    broker_id: int

    def run(self, state: MetadataImage, step: MetadataStep, context: OperationContext) -> None:
        broker = state.brokers.get(self.broker_id)
        if broker is None or broker.fenced:
            return
        step.records.append(fence_record(broker, fenced=True, reason=FenceReason.STOPPED))


class ProducerIdBlock(NamedTuple):
    """Producer ids `first` to `first + size - 1`, given to one broker and never to another one."""

    first: int
    size: int


@dataclass(frozen=True, slots=True)
class AllocateProducerIds(Operation[ProducerIdBlock]):
    """Give the broker a block of producer ids (AllocateProducerIds, KIP-730)."""

    broker_id: int
    broker_epoch: int

    def run(self, state: MetadataImage, step: MetadataStep, context: OperationContext) -> ProducerIdBlock:
        check_epoch(state, self.broker_id, self.broker_epoch)
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
        step.records.append(VersionedRecord(record))
        return ProducerIdBlock(first, PRODUCER_ID_BLOCK_SIZE)
