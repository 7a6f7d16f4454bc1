"""The first records that the controller writes when it becomes the leader: the abort of a transaction that the log left
open, and the bootstrap records of an empty log.

The counterpart of Kafka's ActivationRecordsGenerator. The bootstrap records come from `bootstrap.checkpoint`, which is
written when a directory is formatted or first used.
"""

from __future__ import annotations

from broker_cy.controller.feature_ops import one_min_isr
from broker_cy.controller.operation import MetadataStep, Operation, OperationContext
from broker_cy.core.classes import dataclass
from broker_cy.metadata import features, releases
from broker_cy.metadata.image import MetadataImage
from broker_cy.metadata.records import MetadataLogError, VersionedRecord
from broker_cy.wire import messages


def default_bootstrap() -> list[VersionedRecord]:
    """The bootstrap records of a directory formatted by this broker: the newest metadata.version with its features, as
    Kafka formats it.
    """
    levels = releases.of_new_cluster(features.MV_LATEST)
    return [
        VersionedRecord(messages.FeatureLevelRecord(name=name, feature_level=level)) for name, level in levels.items()
    ]


@dataclass(frozen=True, slots=True)
class Activate(Operation[None]):
    """The operation that a new leader runs first. `bootstrap` is used only if no metadata.version is set yet;
    `in_transaction` is True if the log ends inside a metadata transaction (KIP-868), whose records were not applied.
    The sessions of all brokers start with it.
    """

    bootstrap: list[VersionedRecord]
    in_transaction: bool

    def run(self, state: MetadataImage, step: MetadataStep, context: OperationContext) -> None:
        records = []
        level = state.features.metadata_version
        if self.in_transaction:
            # The log contains a transaction, so its metadata.version supports transactions.
            records.append(VersionedRecord(messages.AbortTransactionRecord(reason="Controller failover")))
        if level == 0:
            level = _level_of(self.bootstrap, features.METADATA_VERSION)
            if not level:
                raise MetadataLogError("bootstrap.checkpoint does not set metadata.version; format the directory again")
            transactional = level >= features.MV_TRANSACTIONS
            if transactional:
                records.append(VersionedRecord(messages.BeginTransactionRecord(name="Bootstrap records")))
            records += self.bootstrap
            if _level_of(self.bootstrap, features.ELIGIBLE_LEADER_REPLICAS) > 0:
                # The setting decides which replicas may lead, so it must be the same on all nodes (KIP-966).
                records += one_min_isr(state, context)
            if transactional:
                records.append(VersionedRecord(messages.EndTransactionRecord()))
        if not features.MV_MIN <= level <= features.MV_LATEST:
            raise MetadataLogError(
                f"metadata.version {level} of this cluster is not supported; "
                f"{features.MV_MIN} to {features.MV_LATEST} are supported"
            )
        node_id = context.config.node_id
        context.heartbeats.activate(state.brokers, context.next_offset, context.monotonic_ms, own=node_id)
        step.records += records


def _level_of(bootstrap: list[VersionedRecord], feature: str) -> int:
    """0 if it is not set."""
    for record in bootstrap:
        message = record.message
        if isinstance(message, messages.FeatureLevelRecord) and message.name == feature:
            return int(message.feature_level)
    return 0
