"""Changes of feature levels, with the rules and messages of Kafka's FeatureControlManager.

Omissions: metadata.version, kraft.version and eligible.leader.replicas.version keep their current level, because other
levels require brokers with replicas; a request for the current level succeeds.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NamedTuple

from broker_cy.controller.operation import Operation, OperationContext, Step
from broker_cy.core.errors import ErrorCode, KafkaError
from broker_cy.metadata import features
from broker_cy.metadata.image import MetadataImage
from broker_cy.metadata.records import VersionedRecord
from broker_cy.wire import messages

UPGRADE: Final = 1
SAFE_DOWNGRADE: Final = 2
UNSAFE_DOWNGRADE: Final = 3

_FIXED: Final = frozenset({features.METADATA_VERSION, features.KRAFT_VERSION, features.ELIGIBLE_LEADER_REPLICAS})


class FeatureUpdate(NamedTuple):
    """`upgrade_type` is UPGRADE, SAFE_DOWNGRADE or UNSAFE_DOWNGRADE; other values are refused."""

    name: str
    level: int
    upgrade_type: int


@dataclass(frozen=True, slots=True)
class UpdateFeatures(Operation[None]):
    """Apply all of `updates` or none; if a feature occurs more than once, its last update is used. With
    `validate_only`, nothing is written. `kraft_version` is the current level of kraft.version, which the quorum keeps.

    Raises KafkaError(INVALID_UPDATE_VERSION).
    """

    updates: list[FeatureUpdate]
    kraft_version: int
    validate_only: bool = False

    def run(self, state: MetadataImage, context: OperationContext) -> Step[None]:
        records: list[VersionedRecord] = []
        for update in {each.name: each for each in self.updates}.values():
            kept_by_quorum = update.name == features.KRAFT_VERSION
            current = self.kraft_version if kept_by_quorum else state.features.level(update.name)
            problem = _problem(update, current, context.config.node_id)
            if problem is not None:
                raise KafkaError(
                    ErrorCode.INVALID_UPDATE_VERSION,
                    f"Invalid update version {update.level} for feature {update.name}. {problem}",
                )
            if not kept_by_quorum:
                # As in Kafka, written even if the level does not change.
                message = messages.FeatureLevelRecord(name=update.name, feature_level=update.level)
                records.append(VersionedRecord(message))
        return Step([] if self.validate_only else records, None)


def _problem(update: FeatureUpdate, current: int, node_id: int) -> str | None:
    """The reason why a feature may not be set, in the order of Kafka's checks; None if it may."""
    name, level, upgrade_type = update
    if upgrade_type not in (UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE):
        return "The controller does not support the given upgrade type."
    if level < 0:
        return "A feature version cannot be less than 0."
    low, high = features.SUPPORTED.get(name, (0, 0))
    if not low <= level <= high:
        if high == 0:
            return f"Local controller {node_id} does not support this feature."
        return f"Local controller {node_id} only supports versions {low}-{high}"
    if level < current and upgrade_type == UPGRADE:
        return (
            "Can't downgrade the version of this feature without setting the upgrade type to either safe or unsafe "
            "downgrade."
        )
    if level > current and upgrade_type != UPGRADE:
        return "Can't downgrade to a newer version."
    if name not in features.SUPPORTED:
        return f"Feature {name} not found."
    if name in _FIXED and level != current:
        return f"Its level, {current}, cannot be changed; this broker changes only {features.TRANSACTION_VERSION}."
    return None
