"""The records of a broker's registration, and the check of its epoch, for nodes that are alone and for clusters."""

from __future__ import annotations

from uuid import UUID

from broker_cy.core.errors import ErrorCode, KafkaError
from broker_cy.metadata import features
from broker_cy.metadata.fence_reasons import FenceReason, tag_of
from broker_cy.metadata.image import BrokerImage, Endpoint, MetadataImage
from broker_cy.metadata.records import VersionedRecord
from broker_cy.wire import messages


def check_epoch(state: MetadataImage, broker_id: int, epoch: int) -> BrokerImage:
    """The registration of the broker. Raises KafkaError(STALE_BROKER_EPOCH) unless it has this epoch."""
    broker = state.brokers.get(broker_id)
    if broker is None:
        raise KafkaError(ErrorCode.STALE_BROKER_EPOCH, f"No broker registration found for broker id {broker_id}")
    if broker.epoch != epoch:
        raise KafkaError(
            ErrorCode.STALE_BROKER_EPOCH, f"Expected broker epoch {broker.epoch}, but got broker epoch {epoch}"
        )
    return broker


def registration_record(
    level: int,
    broker_id: int,
    epoch: int,
    incarnation_id: UUID,
    listeners: dict[str, Endpoint],
    supported: dict[str, tuple[int, int]],
    rack: str | None,
    log_dirs: tuple[UUID, ...],
) -> VersionedRecord:
    """The record of a fenced broker."""
    version = features.register_broker_version(level)
    record = messages.RegisterBrokerRecord(
        broker_id=broker_id,
        incarnation_id=incarnation_id,
        broker_epoch=epoch,
        end_points=[
            messages.RegisterBrokerRecord.BrokerEndpoint(
                name=name, host=at.host, port=at.port, security_protocol=at.security_protocol
            )
            for name, at in listeners.items()
        ],
        features=[
            messages.RegisterBrokerRecord.BrokerFeature(
                name=name, min_supported_version=low, max_supported_version=high
            )
            for name, (low, high) in supported.items()
        ],
        rack=rack,
        fenced=True,
    )
    if version >= 3:
        record.log_dirs = list(log_dirs)
    return VersionedRecord(record, version)


def fence_record(broker: BrokerImage, *, fenced: bool, reason: FenceReason = FenceReason.UNKNOWN) -> VersionedRecord:
    """Fence a broker for `reason`, or unfence it."""
    return VersionedRecord(
        messages.BrokerRegistrationChangeRecord(
            broker_id=broker.broker_id,
            broker_epoch=broker.epoch,
            fenced=1 if fenced else -1,
            _unknown_tags=tag_of(reason),
        )
    )
