"""Changes of feature levels, with the rules and messages of Kafka's FeatureControlManager.

Every registered broker and controller must support a level. With eligible leader replicas, min.insync.replicas decides
which replicas may lead. So it is set for the cluster, and removed from single brokers, before they are enabled
(KIP-966).

The quorum keeps kraft.version: the operation checks its level, and the reply is the level that the quorum must
finalize.

A downgrade of metadata.version is refused if it would lose fields of the levels between. An upgrade changes the form of
later records.
"""

from __future__ import annotations

from typing import Final

from broker_cy.controller.operation import MetadataStep, Operation, OperationContext
from broker_cy.controller.rules import MIN_ISR, topic_setting
from broker_cy.core.classes import NamedTuple, dataclass
from broker_cy.core.errors import ErrorCode, KafkaError
from broker_cy.metadata import features, releases
from broker_cy.metadata.image import RESOURCE_BROKER, MetadataImage
from broker_cy.metadata.records import VersionedRecord
from broker_cy.wire import messages

UPGRADE: Final = 1
SAFE_DOWNGRADE: Final = 2
UNSAFE_DOWNGRADE: Final = 3


class FeatureUpdate(NamedTuple):
    """`upgrade_type` is UPGRADE, SAFE_DOWNGRADE or UNSAFE_DOWNGRADE; other values are refused."""

    name: str
    level: int
    upgrade_type: int


@dataclass(frozen=True, slots=True)
class UpdateFeatures(Operation[int | None]):
    """Apply all of `updates` or none; if a feature occurs more than once, its last update is used. With
    `validate_only`, nothing is written. `kraft_version` is the current level of kraft.version, which the quorum keeps;
    `voters` are its voters. The reply is the new level of kraft.version, None if it does not change.

    Raises KafkaError(INVALID_UPDATE_VERSION).
    """

    updates: list[FeatureUpdate]
    kraft_version: int
    validate_only: bool = False
    voters: tuple[int, ...] = ()

    def run(self, state: MetadataImage, step: MetadataStep, context: OperationContext) -> int | None:
        records: list[VersionedRecord] = []
        kraft_version = None
        for update in {each.name: each for each in self.updates}.values():
            kept_by_quorum = update.name == features.KRAFT_VERSION
            current = self.kraft_version if kept_by_quorum else state.features.level(update.name)
            problem = _problem(state, update, current, context.config.node_id, self.voters)
            problem = problem or _missing_dependency(state, update, self.updates)
            if problem is not None:
                raise KafkaError(
                    ErrorCode.INVALID_UPDATE_VERSION,
                    f"Invalid update version {update.level} for feature {update.name}. {problem}",
                )
            if update.name == features.METADATA_VERSION:
                _check_downgrade(current, update)
            if update.name == features.ELIGIBLE_LEADER_REPLICAS and update.level > 0:
                records = one_min_isr(state, context) + records
            if kept_by_quorum:
                kraft_version = update.level if update.level != current else None
            else:
                # As in Kafka, written even if the level does not change.
                message = messages.FeatureLevelRecord(name=update.name, feature_level=update.level)
                records.append(VersionedRecord(message))
        if not self.validate_only:
            step.records += records
        return kraft_version


def one_min_isr(state: MetadataImage, context: OperationContext) -> list[VersionedRecord]:
    """The records after which all brokers have one value of min.insync.replicas."""
    records = []
    if MIN_ISR not in state.configs.broker(""):
        value = topic_setting(state, context.config, "", MIN_ISR)
        records.append(_config("", str(value)))
    for resource_type, name in state.configs.resources():
        if resource_type == RESOURCE_BROKER and name and MIN_ISR in state.configs.broker(name):
            records.append(_config(name, None))
    return records


def _config(broker: str, value: str | None) -> VersionedRecord:
    return VersionedRecord(
        messages.ConfigRecord(resource_type=RESOURCE_BROKER, resource_name=broker, name=MIN_ISR, value=value)
    )


def _problem(
    state: MetadataImage, update: FeatureUpdate, current: int, node_id: int, voters: tuple[int, ...]
) -> str | None:
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
    problem = _not_supported_by(state, name, level, node_id, voters)
    if problem is not None:
        return problem
    if level < current and upgrade_type == UPGRADE:
        return (
            "Can't downgrade the version of this feature without setting the upgrade type to either safe or unsafe "
            "downgrade."
        )
    if level > current and upgrade_type != UPGRADE:
        return "Can't downgrade to a newer version."
    if name not in features.SUPPORTED:
        return f"Feature {name} not found."
    if name == features.KRAFT_VERSION and level < current:
        return "Can't downgrade the version of this feature."
    return None


def _check_downgrade(current: int, update: FeatureUpdate) -> None:
    """Raises KafkaError if metadata.version may not be lowered."""
    if update.level >= current or not releases.loses_metadata(current, update.level):
        return
    reason = (
        "Unsafe metadata downgrade is not supported in this version."
        if update.upgrade_type == UNSAFE_DOWNGRADE
        else "Refusing to perform the requested downgrade because it might delete metadata information."
    )
    raise KafkaError(
        ErrorCode.INVALID_UPDATE_VERSION,
        f"Unsupported metadata.version downgrade from {current} to {update.level}. {reason}",
    )


def _missing_dependency(state: MetadataImage, update: FeatureUpdate, updates: list[FeatureUpdate]) -> str | None:
    """The feature level that the level needs and that is missing after the request."""
    after = {**state.features.levels(), **{each.name: each.level for each in updates}}
    for name, level in releases.DEPENDENCIES.get((update.name, update.level), {}).items():
        if after.get(name, 0) < level:
            return f"{update.name} could not be set to {update.level} because it depends on {name} level {level}"
    return None


def _not_supported_by(state: MetadataImage, name: str, level: int, node_id: int, voters: tuple[int, ...]) -> str | None:
    """The reason why a broker or another controller cannot have the level; None if all can. A controller that is not
    registered may be one that cannot (KIP-919).
    """
    members = [(f"Broker {broker.broker_id}", broker.features) for broker in state.brokers.values()]
    for controller in state.controllers.values():
        levels = {each.name: (each.min_supported_version, each.max_supported_version) for each in controller.features}
        members.append((f"Controller {controller.controller_id}", levels))
    for who, supported in members:
        low, high = supported.get(name, (0, 0))
        if not low <= level <= high:
            return (
                f"{who} does not support this feature." if high == 0 else f"{who} only supports versions {low}-{high}"
            )
    if state.features.metadata_version >= features.MV_CONTROLLER_REGISTRATION:
        absent = [voter for voter in voters if voter != node_id and voter not in state.controllers]
        if absent:
            return f"controller {absent[0]} has not registered, and may not support this feature"
    return None
