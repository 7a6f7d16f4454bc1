"""Broker settings that change while the broker runs (KIP-226; Kafka's DynamicBrokerConfig).

There are three levels: this broker, all brokers, the file. The first one that has a name takes precedence, also over
synonyms at lower levels: log.roll.ms of one broker takes precedence over log.roll.hours of the file.

The log has variables of config providers as they were written. Each node resolves them itself, with its own files and
environment.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from broker_cy.config import sasl, tls
from broker_cy.config.definitions import BROKER, BROKER_QUOTAS, UpdateMode
from broker_cy.config.findings import hide
from broker_cy.config.startup import LISTENER_PREFIX, setting_of
from broker_cy.core.config_def.providers import Providers, Unresolved, has_variable
from broker_cy.core.config_def.types import ConfigError, invalid
from broker_cy.core.logs import Event

_FAMILIES = (
    ("log.roll.ms", "log.roll.hours"),
    ("log.roll.jitter.ms", "log.roll.jitter.hours"),
    ("log.retention.ms", "log.retention.minutes", "log.retention.hours"),
)
_SYNONYMS: dict[str, tuple[str, ...]] = {name: family for family in _FAMILIES for name in family}
# In one direction only: the scheduler's interval is the default of the other setting.
_SYNONYMS["log.flush.interval.ms"] = ("log.flush.interval.ms", "log.flush.scheduler.interval.ms")

# Settings of a listener that may be part of the cluster-wide default.
_CLUSTER_LEVEL_OF_LISTENER = frozenset({"max.connections", "max.connection.creation.rate", "num.network.threads"})
_THREADS = (
    "background.threads",
    "num.io.threads",
    "num.network.threads",
    "num.recovery.threads.per.data.dir",
    "num.replica.fetchers",
)

# SslConfigs.RECONFIGURABLE_CONFIGS: with a listener's prefix only.
SECURITY = frozenset(
    name
    for name, setting in BROKER.items()
    if name.startswith("ssl.") and setting.update is UpdateMode.PER_BROKER and name != "ssl.client.auth"
)


def synonyms(name: str) -> tuple[str, ...]:
    """Return the names that determine the value of `name`, in order of precedence."""
    found = _SYNONYMS.get(name)
    if found is None and name.startswith(LISTENER_PREFIX):
        setting = setting_of(name)
        base = setting.name if setting is not None else name.removeprefix(LISTENER_PREFIX).partition(".")[2]
        return (name, base)
    return found or (name,)


def layered(static: Mapping[str, str], *levels: Mapping[str, str]) -> dict[str, str]:
    """Return `static` overridden by the levels; the last level takes precedence."""
    texts = dict(static)
    for level in levels:
        for name, text in level.items():
            for other in _SYNONYMS.get(name, (name,)):
                texts.pop(other, None)
            texts[name] = text
    return texts


def check_names(properties: Mapping[str, str], *, per_broker: bool) -> None:
    """Check that these names may be set at this level, and that each value is valid by itself. Raises ConfigError as
    Kafka does.
    """
    _refuse(
        (name for name in properties if name in BROKER and BROKER[name].update is UpdateMode.READ_ONLY),
        "Cannot update these configs dynamically",
    )
    _refuse(
        (name for name in properties if name in SECURITY),
        "These security configs can be dynamically updated only per-listener using the listener prefix",
    )
    _refuse(
        (name for name in properties if sasl.is_of_the_start(name) or tls.is_of_the_start(name)),
        "These settings cannot be changed while the broker runs: change the file and restart it",
    )
    for name, text in properties.items():
        check_type(name, text)
    if not per_broker:
        _refuse(
            (name for name in properties if _is_per_broker(name)),
            "Cannot update these configs at default cluster level, broker id must be specified",
        )


def check_type(name: str, text: str) -> None:
    """Raise ConfigError for an invalid value of the setting; custom settings accept any value."""
    setting = setting_of(name)
    if setting is not None:
        setting.parse(text)


def resolved(properties: Mapping[str, str], given: Providers) -> dict[str, str]:
    """Return the settings with the values of variables. Raises ConfigError for the first variable
    without a value, and for a provider that cannot be used.
    """
    for name, message in given.problems.items():
        if name in properties:
            raise ConfigError(message, name)
    found = {}
    for name, text in properties.items():
        try:
            found[name] = given.resolve(text)
        except Unresolved as error:
            raise ConfigError(f"{name}: {error}", name) from None
    return found


def usable(
    properties: Mapping[str, str], given: Providers, *, per_broker: bool
) -> tuple[dict[str, str], frozenset[str], list[Event]]:
    """Return the stored settings that can be applied, with the values of variables, the names of those that have some,
    and an event for each that cannot be applied, because a broker must start with any contents of the log.
    """
    kept, events = {}, []
    for name, text in properties.items():
        try:
            value = resolved({name: text}, given)[name]
            check_names({name: value}, per_broker=per_broker)
        except ConfigError as error:
            reason = hide(str(error), given.values)
            events.append(Event("dynamic setting ignored", {"setting": name, "reason": reason}))
        else:
            kept[name] = value
    return kept, frozenset(name for name in kept if has_variable(properties[name])), events


def check_change(old: Mapping[str, Any], new: Mapping[str, Any]) -> None:
    """Check the conditions on the change from one configuration to the next. Raises ConfigError with Kafka's (wrapped)
    message.
    """
    for name in _THREADS:
        count, now = new[name], old[name]
        prefix = f"Dynamic thread count update validation failed for {name}={count}, value should "
        if count < now // 2:
            raise _wrapped(f"{prefix}be at least half the current value {now}")
        if count > now * 2:
            raise _wrapped(f"{prefix}not be greater than double the current value {now}")
    count, now = new["log.cleaner.threads"], old["log.cleaner.threads"]
    if count < 1:
        raise _wrapped("Log cleaner threads should be at least 1")
    if count < now // 2:
        raise _wrapped(f"Log cleaner threads cannot be reduced to less than half the current value {now}")
    if count > now * 2:
        raise _wrapped(f"Log cleaner threads cannot be increased to more than double the current value {now}")
    _check_local_retention(new, "log.local.retention.ms", "log.retention.ms", retention_ms(new))
    _check_local_retention(new, "log.local.retention.bytes", "log.retention.bytes", new["log.retention.bytes"])
    if new["metric.reporters"] != old["metric.reporters"]:
        raise _wrapped(
            "Validation of dynamic config update of Set(metric.reporters) failed with class class "
            "kafka.server.DynamicMetricsReporters"
        )


def retention_ms(values: Mapping[str, Any]) -> int:
    """Return log.retention.ms with its synonyms; every negative number is -1, which means no limit."""
    for name, factor in (
        ("log.retention.ms", 1),
        ("log.retention.minutes", 60_000),
        ("log.retention.hours", 3_600_000),
    ):
        if values[name] is not None:
            return max(-1, int(values[name]) * factor)
    return -1


def _check_local_retention(values: Mapping[str, Any], name: str, whole_name: str, whole: int) -> None:
    local = values[name]
    if whole < 0 or local == -2:
        return
    if local == -1:
        raise _wrapped(str(invalid(name, local, f"Value must not be -1 as {whole_name} value is set as {whole}.")))
    if local > whole:
        raise _wrapped(str(invalid(name, local, f"Value must not be more than {whole_name} property value: {whole}")))


def _wrapped(message: str) -> ConfigError:
    """Return Kafka's message for a new value that a component of the broker refuses."""
    return invalid("Invalid dynamic configuration", f"org.apache.kafka.common.config.ConfigException: {message}")


def _refuse(names: Iterable[str], message: str) -> None:
    found = sorted(names)
    if found:
        raise ConfigError(f"{message}: [{', '.join(found)}]")


def _is_per_broker(name: str) -> bool:
    if name.startswith(LISTENER_PREFIX):
        return synonyms(name)[1] not in _CLUSTER_LEVEL_OF_LISTENER
    setting = BROKER.get(name) or BROKER_QUOTAS.get(name)
    return setting is not None and setting.update is UpdateMode.PER_BROKER
