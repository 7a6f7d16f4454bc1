"""The placement of the replicas of new partitions on brokers.

Replicas are striped over the active brokers from a start that varies, so that leaders are spread evenly; fenced brokers
come last and never lead. Racks are ignored until replication between brokers is implemented.
"""

from __future__ import annotations

from collections.abc import Iterable
from uuid import UUID

from broker_cy.core.errors import ErrorCode, KafkaError
from broker_cy.core.uuid import UNASSIGNED_DIRECTORY
from broker_cy.metadata import features
from broker_cy.metadata.image import BrokerImage, MetadataImage
from broker_cy.metadata.records import VersionedRecord
from broker_cy.wire import messages


def place(
    brokers: Iterable[BrokerImage], partitions: int, replication_factor: int, start: int
) -> list[tuple[int, ...]]:
    """Replica lists, leader first, for `partitions` new partitions. `start` (not negative) determines the first broker.

    Raises KafkaError(INVALID_REPLICATION_FACTOR) with Kafka's message.
    """
    active = sorted(b.broker_id for b in brokers if not b.fenced)
    fenced = sorted(b.broker_id for b in brokers if b.fenced)
    if not active:
        raise KafkaError(ErrorCode.INVALID_REPLICATION_FACTOR, "All brokers are currently fenced.")
    registered = len(active) + len(fenced)
    if replication_factor > registered:
        raise KafkaError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"The target replication factor of {replication_factor} cannot be reached because only "
            f"{registered} broker(s) are registered or some brokers have all their log directories cordoned.",
        )
    placed = []
    for index in range(start, start + partitions):
        first = index % len(active)
        placed.append(tuple([*active[first:], *active[:first], *fenced][:replication_factor]))
    return placed


def check_manual(state: MetadataImage, replicas: list[int], replication_factor: int | None) -> None:
    """Check a partition of a manual assignment; raises KafkaError(INVALID_REPLICA_ASSIGNMENT) with Kafka's message."""
    if not replicas:
        raise _bad_assignment("The manual partition assignment includes an empty replica list.")
    previous = None
    for broker_id in sorted(replicas):
        if broker_id not in state.brokers:
            raise _bad_assignment(
                f"The manual partition assignment includes broker {broker_id}, but no such broker is registered."
            )
        if broker_id == previous:
            raise _bad_assignment(f"The manual partition assignment includes the broker {broker_id} more than once.")
        previous = broker_id
    if replication_factor is not None and len(replicas) != replication_factor:
        raise _bad_assignment(
            f"The manual partition assignment includes a partition with {len(replicas)} replica(s), but this is not "
            f"consistent with previous partitions, which have {replication_factor} replica(s)."
        )


def _bad_assignment(message: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, message)


def in_sync_at_birth(state: MetadataImage, replicas: Iterable[int]) -> list[int]:
    """The initial in-sync replicas of a new partition: those of `replicas` that may lead. The first one leads."""
    return [r for r in replicas if (broker := state.brokers.get(r)) is not None and broker.is_active]


def new_partition(
    state: MetadataImage, topic_id: UUID, index: int, replicas: Iterable[int], isr: list[int]
) -> VersionedRecord:
    """The record that creates a partition."""
    version = features.partition_version(state.features.metadata_version)
    record = messages.PartitionRecord(
        partition_id=index,
        topic_id=topic_id,
        replicas=list(replicas),
        isr=isr,
        leader=isr[0],
        leader_epoch=0,
        partition_epoch=0,
    )
    if version >= 1:
        record.directories = [_default_directory(state, replica) for replica in record.replicas]
    return VersionedRecord(record, version)


def _default_directory(state: MetadataImage, broker_id: int) -> UUID:
    """The log directory of a broker that has only one; a broker with several reports later which one it uses
    (KIP-858).
    """
    directories = state.brokers[broker_id].log_dirs
    return directories[0] if len(directories) == 1 else UNASSIGNED_DIRECTORY
