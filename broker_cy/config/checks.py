"""Kafka's conditions between broker settings (KafkaConfig.validateValues), checked at start and before a dynamic
change.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from broker_cy.config.listeners import parse_map
from broker_cy.core.config_def.types import ConfigError

EVERY_DIR = "*"
_HOST = re.compile(r"[0-9a-zA-Z\-%._:]+", re.ASCII)


class RequirementError(ConfigError):
    """A condition between settings does not hold. Kafka's responses prefix the message with `requirement failed: `."""


def check_values(values: Mapping[str, Any]) -> None:
    """Raise RequirementError or ConfigError for the first condition that fails; values are typed, by Kafka's name."""
    _check_cordoned(values)
    _check_log(values)
    _check_network(values)
    _check_groups(values)


def _require(holds: bool, message: str) -> None:
    if not holds:
        raise RequirementError(message)


def _check_cordoned(values: Mapping[str, Any]) -> None:
    cordoned, directories = values["cordoned.log.dirs"], values["log.dirs"] or values["log.dir"]
    if EVERY_DIR in cordoned:
        _require(len(cordoned) == 1, "When cordoned.log.dirs is set to *, it must not contain other values")
        return
    missing = [each for each in cordoned if each not in directories]
    _require(
        not missing,
        "All entries in cordoned.log.dirs must be present in log.dirs or log.dir. "
        f"Missing entries : {', '.join(missing)}",
    )


def _check_log(values: Mapping[str, Any]) -> None:
    roll_ms = values["log.roll.ms"]
    _require(roll_ms is None or roll_ms >= 1, "log.roll.ms must be greater than or equal to 1")
    jitter_ms = values["log.roll.jitter.ms"]
    _require(jitter_ms is None or jitter_ms >= 0, "log.roll.jitter.ms must be greater than or equal to 0")
    retention = next(
        value
        for name in ("log.retention.ms", "log.retention.minutes", "log.retention.hours")
        if (value := values[name]) is not None
    )
    # Every negative number stands for -1.
    _require(retention != 0, "log.retention.ms must be unlimited (-1) or, greater than or equal to 1")
    _require(
        values["log.cleaner.dedupe.buffer.size"] // max(1, values["log.cleaner.threads"]) > 1024 * 1024,
        "log.cleaner.dedupe.buffer.size must be at least 1MB per cleaner thread.",
    )
    wait_ms = values["replica.fetch.wait.max.ms"]
    _require(
        wait_ms <= values["replica.socket.timeout.ms"],
        "replica.socket.timeout.ms should always be at least replica.fetch.wait.max.ms to prevent unnecessary socket "
        "timeouts",
    )
    _require(
        wait_ms <= values["replica.lag.time.max.ms"],
        "replica.fetch.wait.max.ms should always be less than or equal to replica.lag.time.max.ms to prevent frequent "
        "changes in ISR",
    )
    codec = values["offsets.topic.compression.codec"]
    if not 0 <= codec <= 4:
        raise ConfigError(f"Unknown compression type id: {codec}")


def _check_network(values: Mapping[str, Any]) -> None:
    queued = values["queued.max.request.bytes"]
    _require(
        queued <= 0 or queued >= values["socket.request.max.bytes"],
        "queued.max.request.bytes must be larger or equal to socket.request.max.bytes",
    )
    overrides = connections_per_ip_overrides(values["max.connections.per.ip.overrides"])
    _require(
        values["max.connections.per.ip"] != 0 or bool(overrides),
        "max.connections.per.ip can be set to zero only if max.connections.per.ip.overrides property is set.",
    )
    delay_ms, idle_ms = values["connection.failed.authentication.delay.ms"], values["connections.max.idle.ms"]
    _require(
        idle_ms < 0 or delay_ms < idle_ms,
        f"connection.failed.authentication.delay.ms={delay_ms} should always be less than "
        f"connections.max.idle.ms={idle_ms} to prevent failed authentication responses from timing out",
    )


def connections_per_ip_overrides(text: str) -> dict[str, int]:
    """Return the maximum connections by address or host name, from max.connections.per.ip.overrides. Raises
    ConfigError.
    """
    name = "max.connections.per.ip.overrides"
    found: dict[str, int] = {}
    bad = []
    for address, count in parse_map(name, text).items():
        if not re.fullmatch(r"[+-]?[0-9]{1,10}", count, re.ASCII):
            raise ConfigError(f'For input string: "{count}"')
        found[address] = int(count)
        if not _HOST.fullmatch(address):
            bad.append(address)
    if bad:
        raise ConfigError(f"{name} contains invalid addresses : {','.join(bad)}")
    return found


def _check_groups(values: Mapping[str, Any]) -> None:
    """Check the settings of groups against their limits, in the order of Kafka."""
    for kind in ("consumer", "share", "streams"):
        of = f"group.{kind}."
        _check_limits(values, of, "heartbeat.interval.ms")
        _check_limits(values, of, "session.timeout.ms")
        if values[f"{of}heartbeat.interval.ms"] >= values[f"{of}session.timeout.ms"]:
            raise ConfigError(f"{of}heartbeat.interval.ms must be less than {of}session.timeout.ms")
        if kind == "share" and (count := len(values["group.share.assignors"])) != 1:
            raise ConfigError(f"group.share.assignors must contain exactly one assignor, but found {count}")
        if kind == "share" and (assignor := values["group.share.assignors"][0]) != "simple":
            raise ConfigError(f"group.share.assignors names {assignor}, and the only assignor is simple")
        _check_limits(values, of, "assignment.interval.ms")
    _check_at_most(values, "group.streams.num.standby.replicas", "group.streams.max.standby.replicas")
    if "classic" not in values["group.coordinator.rebalance.protocols"]:
        raise ConfigError("Disabling the 'classic' protocol is not supported.")
    for name in ("delivery.count.limit", "partition.max.record.locks", "record.lock.duration.ms"):
        _check_at_least(values, f"group.share.max.{name}", f"group.share.{name}")
        _check_at_least(values, f"group.share.{name}", f"group.share.min.{name}")
    _check_at_least(values, "group.share.max.share.sessions", "group.share.max.size")


def _check_limits(values: Mapping[str, Any], prefix: str, name: str) -> None:
    _check_at_least(values, f"{prefix}max.{name}", f"{prefix}min.{name}")
    _check_at_least(values, f"{prefix}{name}", f"{prefix}min.{name}")
    _check_at_most(values, f"{prefix}{name}", f"{prefix}max.{name}")


def _check_at_least(values: Mapping[str, Any], name: str, least: str) -> None:
    if values[name] < values[least]:
        raise ConfigError(f"{name} must be greater than or equal to {least}")


def _check_at_most(values: Mapping[str, Any], name: str, most: str) -> None:
    if values[name] > values[most]:
        raise ConfigError(f"{name} must be less than or equal to {most}")
