"""DescribeConfigs (32), versions 1-4.

Topics, brokers (by id, or "" for the cluster-wide default), levels of loggers, groups (KIP-848) and client metrics
subscriptions (KIP-714). Secrets are never returned. Documentation is one line, for settings that have an effect.
"""

from __future__ import annotations

from collections.abc import Callable

from broker_cy.access.authorization import MESSAGES
from broker_cy.broker.broker import Broker
from broker_cy.broker.context import RequestContext
from broker_cy.broker.registry import handler
from broker_cy.config import ConfigError
from broker_cy.config import describe as settings
from broker_cy.config.describe import Entry
from broker_cy.core.configs import ConfigSource, ConfigType
from broker_cy.core.errors import ErrorCode, KafkaError
from broker_cy.handlers.shared import log_levels
from broker_cy.handlers.shared.config_changes import parse_node_id
from broker_cy.metadata import image, topic_names
from broker_cy.security.acls import Operation, ResourceType
from broker_cy.wire import messages
from broker_cy.wire.frame import ApiKey

Result = messages.DescribeConfigsResponse.DescribeConfigsResult
ResourceResult = messages.DescribeConfigsResponse.DescribeConfigsResourceResult
Synonym = messages.DescribeConfigsResponse.DescribeConfigsSynonym


@handler(ApiKey.DESCRIBE_CONFIGS)
def describe_configs(ctx: RequestContext, request: messages.DescribeConfigsRequest) -> messages.DescribeConfigsResponse:
    results = []
    refused = []
    for resource in request.resources:
        result = Result(resource_type=resource.resource_type, resource_name=resource.resource_name, error_message="")
        if (code := _refusal(ctx, resource.resource_type, resource.resource_name)) is not None:
            result.error_code, result.error_message = int(code), MESSAGES[code]
            refused.append(result)
            continue
        try:
            entries = _entries(ctx.broker, resource.resource_type, resource.resource_name)
        except KafkaError as error:
            result.error_code, result.error_message = int(error.code), error.message
        except ConfigError as error:
            result.error_code, result.error_message = int(ErrorCode.INVALID_CONFIG), str(error)
        else:
            # An empty list stands for all keys, as null does.
            keys = set(resource.configuration_keys or ())
            result.configs = [
                _config(entry, request.include_synonyms, request.include_documentation)
                for entry in entries
                if not keys or entry.name in keys
            ]
        results.append(result)
    return messages.DescribeConfigsResponse(results=results + refused)


def _refusal(ctx: RequestContext, resource_type: int, name: str) -> ErrorCode | None:
    """Why the client may not see the settings of a resource. The caller reports errors of unknown types."""
    if resource_type == image.RESOURCE_TOPIC:
        is_allowed = ctx.allows(Operation.DESCRIBE_CONFIGS, ResourceType.TOPIC, name)
        return None if is_allowed else ErrorCode.TOPIC_AUTHORIZATION_FAILED
    if resource_type == image.RESOURCE_GROUP:
        is_allowed = ctx.allows(Operation.DESCRIBE_CONFIGS, ResourceType.GROUP, name)
        return None if is_allowed else ErrorCode.GROUP_AUTHORIZATION_FAILED
    if resource_type in _DESCRIBERS and not ctx.allows_cluster(Operation.DESCRIBE_CONFIGS):
        return ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    return None


def _config(entry: Entry, include_synonyms: bool, include_documentation: bool) -> ResourceResult:
    found = entry.synonyms if include_synonyms else ()
    return ResourceResult(
        name=entry.name,
        value=entry.value,
        read_only=entry.read_only,
        config_source=int(entry.source),
        is_sensitive=entry.is_sensitive,
        synonyms=[Synonym(name=name, value=value, source=int(source)) for name, value, source in found],
        config_type=int(entry.type),
        documentation=entry.documentation if include_documentation else None,
    )


def _entries(broker: Broker, resource_type: int, name: str) -> list[Entry]:
    """Raises KafkaError with Kafka's message, ConfigError if a stored setting cannot be read."""
    describe = _DESCRIBERS.get(resource_type)
    if describe is None:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Unexpected resource type {resource_type} for resource {name}")
    return describe(broker, name)


def _topic(broker: Broker, name: str) -> list[Entry]:
    reason = topic_names.invalid_reason(name)
    if reason is not None:
        raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, reason)
    if broker.image.topics.by_name(name) is None:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    return settings.topic_entries(broker.image.configs.topic(name), broker.config)


def _broker(broker: Broker, name: str) -> list[Entry]:
    if not name:
        return settings.broker_default_entries(broker.config)
    _check_id(broker, name, "Unexpected broker id, expected {expected} or empty string, but received {name}")
    return settings.broker_entries(broker.config)


def _loggers(broker: Broker, name: str) -> list[Entry]:
    if not name:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "Broker id must not be empty")
    _check_id(broker, name, "Unexpected broker id, expected {expected} but received {name}")
    return [
        Entry(logger, level, ConfigSource.DYNAMIC_BROKER_LOGGER_CONFIG, False, False, ConfigType.UNKNOWN, (), None)
        for logger, level in log_levels.levels().items()
    ]


def _check_id(broker: Broker, name: str, message: str) -> None:
    node_id = parse_node_id(name)
    if node_id is None:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Broker id must be an integer, but it is: {name}")
    if node_id != broker.node_id:
        raise KafkaError(ErrorCode.INVALID_REQUEST, message.format(expected=broker.node_id, name=name))


def _group(broker: Broker, name: str) -> list[Entry]:
    if not name:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "Group name must not be empty")
    return settings.group_entries(broker.image.configs.resource(image.RESOURCE_GROUP, name), broker.config)


def _client_metrics(broker: Broker, name: str) -> list[Entry]:
    if not name:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "Client metrics subscription name must not be empty")
    return settings.client_metrics_entries(broker.image.configs.resource(image.RESOURCE_CLIENT_METRICS, name))


_DESCRIBERS: dict[int, Callable[[Broker, str], list[Entry]]] = {
    image.RESOURCE_TOPIC: _topic,
    image.RESOURCE_BROKER: _broker,
    image.RESOURCE_BROKER_LOGGER: _loggers,
    image.RESOURCE_GROUP: _group,
    image.RESOURCE_CLIENT_METRICS: _client_metrics,
}
