"""Settings of groups (KIP-848's GROUP resource) and of client metrics subscriptions (KIP-714), which are stored and
described.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from broker_cy.config.broker import BrokerConfig
from broker_cy.config.definitions import GROUP, GROUP_BOUNDS
from broker_cy.core.config_def.types import ConfigError, parse
from broker_cy.core.configs import ConfigType

_KINDS = ("consumer", "share", "streams")
# The order in which Kafka compares settings with the broker's limits (GroupConfig.validateValues), within each kind.
_CHECKED = (
    "heartbeat.interval.ms",
    "session.timeout.ms",
    "record.lock.duration.ms",
    "delivery.count.limit",
    "partition.max.record.locks",
    "num.standby.replicas",
    "assignment.interval.ms",
)

CLIENT_METRICS_TYPES = {"metrics": ConfigType.LIST, "interval.ms": ConfigType.INT, "match": ConfigType.LIST}
CLIENT_METRICS_DEFAULTS: dict[str, Any] = {"metrics": (), "interval.ms": 300_000, "match": ()}
CLIENT_METRICS_INTERVAL_MS = (100, 3_600_000)
_MATCHABLE = frozenset(
    {
        "client_instance_id",
        "client_id",
        "client_software_name",
        "client_software_version",
        "client_source_address",
        "client_source_port",
    }
)


class InvalidSubscriptionError(ConfigError):
    """A client metrics setting that Kafka answers with INVALID_REQUEST instead of INVALID_CONFIG."""


def group_settings(overrides: Mapping[str, str], config: Mapping[str, Any]) -> dict[str, Any]:
    """Return the typed settings of a group with `overrides`; `config` has those of the broker that the table of group
    settings names. Raises ConfigError for an invalid value.
    """
    values: dict[str, Any] = {}
    for name, setting in GROUP.items():
        bounds = GROUP_BOUNDS[name]
        if name in overrides:
            values[name] = setting.parse(overrides[name])
        else:
            values[name] = config[bounds.default] if bounds.default else setting.default
    return values


def effective_group_settings(overrides: Mapping[str, str], config: Mapping[str, Any]) -> dict[str, Any]:
    """The same for stored settings, which another version may have written, or before the broker's limits changed. As
    in Kafka (GroupConfig.evaluate), a value beyond a limit is replaced by the limit; an invalid one by the default.
    """
    usable = {}
    for name, text in overrides.items():
        if name in GROUP:
            try:
                usable[name] = GROUP[name].parse(text)
            except ConfigError:
                continue
            bounds = GROUP_BOUNDS[name]
            if bounds.minimum:
                usable[name] = max(usable[name], config[bounds.minimum])
            if bounds.maximum:
                usable[name] = min(usable[name], config[bounds.maximum])
    return group_settings({}, config) | usable


def group_bounds(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return the broker's settings that are defaults or limits of group settings."""
    names = {name for bounds in GROUP_BOUNDS.values() for name in bounds if name}
    return {name: config[name] for name in sorted(names)}


def validate_group_settings(overrides: Mapping[str, str], config: BrokerConfig) -> None:
    """Validate all settings of a group together, and against the limits of the broker. Raises ConfigError with Kafka's
    message, to which both values are added.
    """
    for name in overrides:
        if name not in GROUP:
            raise ConfigError(f"Unknown group config name: {name}")
    values = group_settings(overrides, config)
    for name in (f"{kind}.{rest}" for kind in _KINDS for rest in _CHECKED):
        # As in Kafka, the broker's own assignment interval, which is dynamic, is not compared.
        if name in GROUP and (name in overrides or not name.endswith(".assignment.interval.ms")):
            bounds = GROUP_BOUNDS[name]
            if bounds.minimum and values[name] < config[bounds.minimum]:
                raise ConfigError(
                    f"{name} must be greater than or equal to {bounds.minimum}: "
                    f"{values[name]} is less than {config[bounds.minimum]}"
                )
            if bounds.maximum and values[name] > config[bounds.maximum]:
                raise ConfigError(
                    f"{name} must be less than or equal to {bounds.maximum}: "
                    f"{values[name]} is greater than {config[bounds.maximum]}"
                )
    for kind in _KINDS:
        session, heartbeat = f"{kind}.session.timeout.ms", f"{kind}.heartbeat.interval.ms"
        if values[session] <= values[heartbeat]:
            raise ConfigError(
                f"{session} must be greater than {heartbeat}: it is {values[session]}, and {heartbeat} is "
                f"{values[heartbeat]}"
            )


def client_metrics_settings(overrides: Mapping[str, str]) -> dict[str, Any]:
    """Return the typed settings of a subscription. Raises ConfigError."""
    values = dict(CLIENT_METRICS_DEFAULTS)
    for name, text in overrides.items():
        if name in values:
            values[name] = parse(name, text, CLIENT_METRICS_TYPES[name])
    return values


def client_metrics_without_effect(overrides: Mapping[str, str]) -> dict[str, str]:
    """Return the settings of a subscription that have no effect yet: all, because no client metrics are collected."""
    return {name: text for name, text in overrides.items() if name in CLIENT_METRICS_TYPES}


def validate_client_metrics(subscription: str, overrides: Mapping[str, str]) -> None:
    """Raises InvalidSubscriptionError or ConfigError with Kafka's message."""
    if not subscription:
        raise InvalidSubscriptionError("Subscription name can't be empty")
    for name in overrides:
        if name not in CLIENT_METRICS_TYPES:
            raise InvalidSubscriptionError(f"Unknown client metrics configuration: {name}")
    values = client_metrics_settings(overrides)
    low, high = CLIENT_METRICS_INTERVAL_MS
    if not low <= values["interval.ms"] <= high:
        raise InvalidSubscriptionError(
            f"Invalid value {values['interval.ms']} for interval.ms, interval must be between {low} and {high} (1 hour)"
        )
    for pattern in values["match"]:
        _check_match(pattern)


def _check_match(pattern: str) -> None:
    name, _, expression = pattern.partition("=")
    message = f"Illegal client matching pattern: {pattern}"
    if name.strip() not in _MATCHABLE or not expression or "=" in expression.rstrip("="):
        raise ConfigError(message)
    try:
        re.compile(expression.strip())
    except re.error as error:
        raise ConfigError(message) from error
