"""Configuration changes: ConfigRecords for a client's request (Kafka's ConfigurationControlManager).

Each resource succeeds or fails separately; all records of a request are one atomic step. The handler has already made
the checks that only a broker can make (whether dynamic broker settings are valid here, whether a logger exists).
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum

from broker_cy.config import (
    BrokerConfig,
    ConfigError,
    validate_client_metrics,
    validate_group_settings,
    validate_topic_settings,
)
from broker_cy.config.definitions import BROKER, GROUP, TOPIC
from broker_cy.config.group import InvalidSubscriptionError
from broker_cy.controller import mirror_ops
from broker_cy.controller.operation import MetadataStep, Operation, OperationContext
from broker_cy.core.classes import NamedTuple, dataclass
from broker_cy.core.configs import ConfigType
from broker_cy.core.errors import ErrorCode, KafkaError
from broker_cy.metadata import features, topic_names
from broker_cy.metadata.image import (
    RESOURCE_BROKER,
    RESOURCE_CLIENT_METRICS,
    RESOURCE_GROUP,
    RESOURCE_TOPIC,
    MetadataImage,
)
from broker_cy.metadata.records import VersionedRecord
from broker_cy.wire import messages

_DEFINITIONS = {RESOURCE_TOPIC: TOPIC, RESOURCE_BROKER: BROKER, RESOURCE_GROUP: GROUP}


class OpType(IntEnum):
    """AlterConfigOp.OpType."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


class SettingChange(NamedTuple):
    """`value` is None for DELETE only."""

    name: str
    op: OpType
    value: str | None


class ResourceChange(NamedTuple):
    """The changes to one resource. With `replace`, every setting that is not named is removed (AlterConfigs)."""

    resource_type: int
    name: str
    changes: list[SettingChange]
    replace: bool = False


class Outcome(NamedTuple):
    code: ErrorCode
    message: str | None


OK = Outcome(ErrorCode.NONE, None)


@dataclass(slots=True)
class AlterConfigs(Operation[list[Outcome]]):
    """Change configurations. The reply has one outcome for each of `resources`, which must be distinct. With
    `validate_only`, nothing is written. `is_direct`: no broker has checked its own settings before.
    """

    resources: list[ResourceChange]
    config: BrokerConfig
    validate_only: bool = False
    is_direct: bool = False

    def run(self, state: MetadataImage, step: MetadataStep, context: OperationContext) -> list[Outcome]:
        records: list[VersionedRecord] = []
        outcomes = []
        for resource in self.resources:
            try:
                records += self._change(state, resource)
            except KafkaError as error:
                outcomes.append(Outcome(error.code, error.message))
            else:
                outcomes.append(OK)
        if not self.validate_only:
            step.records += records + _clear_elr(state, records)
            step.records += mirror_ops.own_producer_ids(state, records, context.new_uuid)
        return outcomes

    def _change(self, state: MetadataImage, resource: ResourceChange) -> list[VersionedRecord]:
        current = state.configs.resource(resource.resource_type, resource.name)
        after = apply_changes(resource, current)
        if resource.replace and resource.resource_type == RESOURCE_TOPIC:
            after = mirror_ops.kept(current) | after
        try:
            self._validate(state, resource, after, current)
        except InvalidSubscriptionError as error:
            raise KafkaError(ErrorCode.INVALID_REQUEST, str(error)) from error
        except ConfigError as error:
            raise KafkaError(ErrorCode.INVALID_CONFIG, str(error)) from error
        named = {change.name for change in resource.changes}
        topic = state.topics.by_name(resource.name) if resource.resource_type == RESOURCE_TOPIC else None
        roles = mirror_ops.changed(state, topic, current, after) if topic is not None else []
        return roles + [
            VersionedRecord(
                messages.ConfigRecord(
                    resource_type=resource.resource_type,
                    resource_name=resource.name,
                    name=name,
                    value=after.get(name),
                )
            )
            # A broker applies its settings again whenever they are set, even to the same value (KAFKA-14136).
            for name in {**current, **after, **dict.fromkeys(named)}
            if current.get(name) != after.get(name) or (resource.resource_type == RESOURCE_BROKER and name in named)
        ]

    def _validate(
        self, state: MetadataImage, resource: ResourceChange, after: Mapping[str, str], current: Mapping[str, str]
    ) -> None:
        """Raises KafkaError or ConfigError."""
        name = resource.name
        match resource.resource_type:
            case t if t == RESOURCE_TOPIC:
                if not name:
                    raise KafkaError(ErrorCode.INVALID_REQUEST, "Default topic resources are not allowed.")
                reason = topic_names.invalid_reason(name)
                if reason is not None:
                    raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, reason)
                validate_topic_settings(after, self.config, current)
                if state.topics.by_name(name) is None:
                    raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"The topic '{name}' does not exist.")
                mirror_ops.check(name, after)
            case t if t == RESOURCE_BROKER:
                _validate_broker(state, resource, after, current)
                _validate_cordon(state, resource, after, current, is_direct=self.is_direct)
            case t if t == RESOURCE_CLIENT_METRICS:
                validate_client_metrics(name, after)
            case t if t == RESOURCE_GROUP:
                if not name:
                    raise KafkaError(ErrorCode.INVALID_REQUEST, "Default group resources are not allowed.")
                validate_group_settings(after, self.config)
            case other:
                raise KafkaError(ErrorCode.INVALID_REQUEST, f"Unknown resource type {other}")


def _validate_broker(
    state: MetadataImage, resource: ResourceChange, after: Mapping[str, str], current: Mapping[str, str]
) -> None:
    """Check min.insync.replicas. With KIP-966, all brokers share one value, because they could otherwise disagree on
    which replicas may lead. Raises ConfigError.
    """
    name = "min.insync.replicas"
    if state.features.level(features.ELIGIBLE_LEADER_REPLICAS) == 0:
        return
    if resource.name and any(change.name == name for change in resource.changes):
        raise ConfigError(f"Broker-level {name} cannot be altered while ELR is enabled.")
    if not resource.name and name in current and name not in after:
        raise ConfigError(f"Cluster-level {name} cannot be removed while ELR is enabled.")


def _validate_cordon(
    state: MetadataImage,
    resource: ResourceChange,
    after: Mapping[str, str],
    current: Mapping[str, str],
    *,
    is_direct: bool,
) -> None:
    """Check cordoned.log.dirs (KIP-1066), which only its broker can compare with log.dirs. Raises ConfigError."""
    name = "cordoned.log.dirs"
    if not any(change.name == name for change in resource.changes):
        return
    if state.features.metadata_version < features.MV_CORDONED:
        raise ConfigError(
            f"The {name} configuration value cannot be set because it requires metadata.version >= 4.3-IV0"
        )
    if is_direct and not _listed(after.get(name)) <= _listed(current.get(name)):
        raise ConfigError(
            f"When updating {name} via controllers,  the new value must be a subset of the current configuration value."
        )


def _listed(text: str | None) -> set[str]:
    return {part.strip() for part in (text or "").split(",") if part.strip()}


def _clear_elr(state: MetadataImage, records: list[VersionedRecord]) -> list[VersionedRecord]:
    """Clear the ELR: after a change of min.insync.replicas, its members may lack acknowledged records (KIP-966)."""
    if state.features.level(features.ELIGIBLE_LEADER_REPLICAS) == 0:
        return []
    configs = (record.message for record in records if isinstance(record.message, messages.ConfigRecord))
    changed = [each for each in configs if each.name == "min.insync.replicas"]
    return [
        VersionedRecord(
            # An empty name stands for all topics.
            messages.ClearElrRecord(topic_name=each.resource_name if each.resource_type == RESOURCE_TOPIC else "")
        )
        for each in changed
    ]


def apply_changes(resource: ResourceChange, current: Mapping[str, str]) -> dict[str, str]:
    """The settings of the resource after the changes. Raises KafkaError for a list operation on a setting that is not a
    list.
    """
    after = {} if resource.replace else dict(current)
    for change in resource.changes:
        if change.op is OpType.DELETE:
            after.pop(change.name, None)
        elif change.op is OpType.SET:
            after[change.name] = change.value or ""
        else:
            after[change.name] = _edited_list(resource.resource_type, change, after.get(change.name))
    return after


def _edited_list(resource_type: int, change: SettingChange, current: str | None) -> str:
    setting = _DEFINITIONS.get(resource_type, {}).get(change.name)
    if setting is None or setting.type is not ConfigType.LIST:
        raise KafkaError(
            ErrorCode.INVALID_CONFIG,
            f"Can't {change.op.name} to key {change.name} because its type is not LIST.",
        )
    if current is None:
        current = setting.default_text or ""
    parts = [part for part in current.split(",") if part]
    for part in (change.value or "").split(","):
        if change.op is OpType.SUBTRACT:
            if part in parts:
                parts.remove(part)
        elif part not in parts:
            parts.append(part)
    return ",".join(parts)
