"""AlterConfigs and IncrementalAlterConfigs: the checks that the broker makes before it calls the controller (Kafka's
ConfigAdminManager).
"""

from __future__ import annotations

import logging
import re
from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from broker_cy.access.authorization import MESSAGES
from broker_cy.config import ConfigError, RequirementError
from broker_cy.config.definitions import BROKER, TOPIC_SYNONYMS
from broker_cy.controller.config_ops import (
    OK,
    AlterConfigs,
    OpType,
    Outcome,
    ResourceChange,
    SettingChange,
    apply_changes,
)
from broker_cy.core.configs import ConfigType
from broker_cy.core.errors import ErrorCode, KafkaError
from broker_cy.handlers.shared import log_levels
from broker_cy.metadata.image import (
    RESOURCE_BROKER,
    RESOURCE_BROKER_LOGGER,
    RESOURCE_CLIENT_METRICS,
    RESOURCE_GROUP,
    RESOURCE_TOPIC,
)
from broker_cy.security.acls import CLUSTER_NAME, ResourceType
from broker_cy.security.acls import Operation as AclOperation
from broker_cy.wire import messages

if TYPE_CHECKING:
    from broker_cy.broker.broker import Broker
    from broker_cy.broker.context import RequestContext

# The logging configurations of users name it.
log = logging.getLogger("broker_cy.server.metadata.config_changes")

_STORED = (RESOURCE_TOPIC, RESOURCE_CLIENT_METRICS, RESOURCE_GROUP)
_TOPIC_DEFAULTS = sorted({synonym.name for synonyms in TOPIC_SYNONYMS.values() for synonym in synonyms})
_INT32 = re.compile(r"[+-]?[0-9]{1,10}", re.ASCII)

# The resources with ACLs of their own; the cluster's ACLs apply to all others.
_RIGHTS = {
    RESOURCE_TOPIC: (ResourceType.TOPIC, ErrorCode.TOPIC_AUTHORIZATION_FAILED),
    RESOURCE_GROUP: (ResourceType.GROUP, ErrorCode.GROUP_AUTHORIZATION_FAILED),
}

# A setting in a request: name, number of the operation, value.
RawChange = tuple[str, int, str | None]
RawResource = tuple[int, str, Sequence[RawChange]]


def parse_node_id(text: str) -> int | None:
    """Return the number, or None if Java would not parse the text as a 32-bit integer."""
    if not _INT32.fullmatch(text) or not -(2**31) <= int(text) < 2**31:
        return None
    return int(text)


async def alter(
    ctx: RequestContext, resources: Sequence[RawResource], *, replace: bool, validate_only: bool
) -> list[Outcome]:
    """Return one outcome for each of `resources`, in their order."""
    broker = ctx.broker
    counts = Counter((resource_type, name) for resource_type, name, _ in resources)
    outcomes: list[Outcome] = []
    accepted: list[tuple[int, ResourceChange]] = []
    for index, (resource_type, name, changes) in enumerate(resources):
        outcome = OK
        try:
            if counts[resource_type, name] > 1:
                raise KafkaError(ErrorCode.INVALID_REQUEST, "Each resource must appear at most once.")
            resource = _read(resource_type, name, changes, replace=replace)
            if _is_for_controller(ctx, resource) or _preprocess(ctx, resource, validate_only=validate_only):
                accepted.append((index, resource))
        except KafkaError as error:
            outcome = Outcome(error.code, error.message or None)
        outcomes.append(outcome)
    if not accepted:
        return outcomes
    decided = [resource for _, resource in accepted]
    is_direct = ctx.is_for_controller and not ctx.is_forwarded
    try:
        replies = await _forwarded(ctx, decided, replace=replace, validate_only=validate_only)
        if replies is not None:
            return _merged(outcomes, accepted, replies)
        accepted = _authorized(ctx, accepted, outcomes)
        if not accepted:
            return outcomes
        operation = AlterConfigs([resource for _, resource in accepted], broker.config, validate_only, is_direct)
        with ExitStack() as acting:
            for _, resource in accepted:
                acting.enter_context(broker.events.acting(ctx.client, resource.resource_type, [resource.name]))
            replies = await broker.controller.submit(operation)
    except KafkaError as error:
        replies = [Outcome(error.code, error.message)] * len(accepted)
    return _merged(outcomes, accepted, replies)


def _authorized(
    ctx: RequestContext, accepted: list[tuple[int, ResourceChange]], outcomes: list[Outcome]
) -> list[tuple[int, ResourceChange]]:
    """Those resources whose settings the client may change; the others get their outcome."""
    if ctx.broker.authorization is None:
        return accepted
    kept = []
    for index, resource in accepted:
        kind, code = _RIGHTS.get(resource.resource_type, (ResourceType.CLUSTER, ErrorCode.CLUSTER_AUTHORIZATION_FAILED))
        name = CLUSTER_NAME if kind is ResourceType.CLUSTER else resource.name
        if ctx.allows(AclOperation.ALTER_CONFIGS, kind, name):
            kept.append((index, resource))
        else:
            denied = _denied(code)
            outcomes[index] = Outcome(denied.code, denied.message)
    return kept


def _denied(code: ErrorCode) -> KafkaError:
    return KafkaError(code, MESSAGES[code])


def _merged(
    outcomes: list[Outcome], accepted: list[tuple[int, ResourceChange]], replies: Sequence[Outcome]
) -> list[Outcome]:
    for (index, _), reply in zip(accepted, replies, strict=True):
        outcomes[index] = reply
    return outcomes


def _is_for_controller(ctx: RequestContext, resource: ResourceChange) -> bool:
    """Whether the checks of a broker were made before, or do not apply: the settings of any broker may be sent to a
    controller.
    """
    return ctx.is_forwarded or (ctx.is_for_controller and resource.resource_type == RESOURCE_BROKER)


async def _forwarded(
    ctx: RequestContext, resources: Sequence[ResourceChange], *, replace: bool, validate_only: bool
) -> list[Outcome] | None:
    """The outcomes of the resources that the active controller has to decide on, from another node; None if it is this
    one. Raises KafkaError.
    """
    if ctx.broker.controller.is_active:
        return None
    request: Any
    response: Any
    if replace:
        kind, response = messages.AlterConfigsRequest, messages.AlterConfigsResponse
        request = kind(
            validate_only=validate_only,
            resources=[
                kind.AlterConfigsResource(
                    resource_type=each.resource_type,
                    resource_name=each.name,
                    configs=[kind.AlterableConfig(name=one.name, value=one.value) for one in each.changes],
                )
                for each in resources
            ],
        )
    else:
        incremental, response = messages.IncrementalAlterConfigsRequest, messages.IncrementalAlterConfigsResponse
        request = incremental(
            validate_only=validate_only,
            resources=[
                incremental.AlterConfigsResource(
                    resource_type=each.resource_type,
                    resource_name=each.name,
                    configs=[
                        incremental.AlterableConfig(name=one.name, config_operation=int(one.op), value=one.value)
                        for one in each.changes
                    ],
                )
                for each in resources
            ],
        )
    answer = await ctx.broker.controller.forward(ctx, request, response)
    if answer is None:
        return None
    found = {(each.resource_type, each.resource_name): each for each in answer.responses}
    outcomes = []
    for resource in resources:
        each = found.get((resource.resource_type, resource.name))
        if each is None:
            raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, f"the controller did not answer about {resource.name}")
        outcomes.append(Outcome(ErrorCode(each.error_code), each.error_message))
    return outcomes


def _read(resource_type: int, name: str, changes: Sequence[RawChange], *, replace: bool) -> ResourceChange:
    """Read the changes of a resource. Raises KafkaError for changes that are invalid for any resource."""
    if len({key for key, _, _ in changes}) < len(changes):
        raise KafkaError(ErrorCode.INVALID_REQUEST, "Error due to duplicate config keys")
    nulls = [key for key, op, value in changes if op != OpType.DELETE and value is None]
    if nulls:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Null value not supported for : {', '.join(nulls)}")
    known = (*_STORED, RESOURCE_BROKER) if replace else (*_STORED, RESOURCE_BROKER, RESOURCE_BROKER_LOGGER)
    if resource_type not in known:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Unknown resource type {resource_type}")
    read = []
    for key, op, value in changes:
        try:
            read.append(SettingChange(key, OpType(op), value))
        except ValueError as error:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"Unknown operations type {op}") from error
    return ResourceChange(resource_type, name, read, replace)


def _preprocess(ctx: RequestContext, resource: ResourceChange, *, validate_only: bool) -> bool:
    """Return True if the controller has to decide. Raises KafkaError."""
    broker = ctx.broker
    if resource.resource_type == RESOURCE_BROKER_LOGGER and not ctx.allows_cluster(
        AclOperation.CLUSTER_ACTION if ctx.is_for_controller else AclOperation.ALTER_CONFIGS
    ):
        # As in Kafka, without a message.
        raise KafkaError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    if resource.resource_type == RESOURCE_BROKER_LOGGER:
        _check_node(resource.name, broker.node_id, "Unexpected node id. Expected {expected}, but received {name}")
        log_levels.validate(resource.changes)
        if not validate_only:
            log_levels.apply(resource.changes)
        return False
    if resource.resource_type == RESOURCE_BROKER:
        if resource.name:
            _check_node(resource.name, broker.node_id, "Unexpected broker id, expected {expected}, but received {name}")
        _check_broker_settings(broker, resource, validate_only=validate_only)
    return True


def _check_node(name: str, expected: int, message: str) -> None:
    node_id = parse_node_id(name)
    if node_id is None:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Node id must be an integer, but it is: {name}")
    if node_id != expected:
        raise KafkaError(ErrorCode.INVALID_REQUEST, message.format(expected=expected, name=name))


def _check_broker_settings(broker: Broker, resource: ResourceChange, *, validate_only: bool) -> None:
    per_broker = bool(resource.name)
    for change in resource.changes:
        setting = BROKER.get(change.name)
        if change.op in (OpType.APPEND, OpType.SUBTRACT) and (setting is None or setting.type is not ConfigType.LIST):
            raise KafkaError(
                ErrorCode.INVALID_CONFIG,
                f"Config value {change.op.name.lower()} is not allowed for config key: {change.name}",
            )
    current = broker.config.usable_dynamic(broker.image.configs.broker(resource.name), per_broker=per_broker)
    try:
        changed = broker.config.validate_dynamic(apply_changes(resource, current), per_broker=per_broker)
        if broker.tls is not None:
            broker.tls.check(changed.tls, validate_only=validate_only)
    except RequirementError as error:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"requirement failed: {error}") from error
    except ConfigError as error:
        # Kafka answers INVALID_REQUEST here, not INVALID_CONFIG (KAFKA-13609).
        raise KafkaError(ErrorCode.INVALID_REQUEST, str(error)) from error
