"""Topic settings: those of a topic override the broker's defaults (Kafka's LogConfig)."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from typing import Any

from broker_cy.config.broker import BrokerConfig
from broker_cy.config.definitions import TOPIC, TOPIC_SYNONYMS, Support
from broker_cy.core import mirror_settings as mirror
from broker_cy.core.config_def.types import ConfigError
from broker_cy.core.configs import ConfigType
from broker_cy.core.logs import facts

log = logging.getLogger(__name__)

# Distinct sets of overrides that are cached; beyond it the cache is cleared.
CACHED_MAX = 1024

_CACHE = "topic settings"
_DEFAULTS = "topic defaults"


class TopicSettings(Mapping[str, Any]):
    """The settings of one topic, typed, by Kafka's topic setting names, in the units of the names. Immutable."""

    __slots__ = ("_values", "overrides")

    def __init__(self, values: Mapping[str, Any], overrides: Mapping[str, str]) -> None:
        self._values = values
        # The topic's own settings, as text.
        self.overrides = overrides

    @property
    def plain(self) -> Mapping[str, Any]:
        """The same settings: for thousands of lookups, without a call of Python for each."""
        return self._values

    def __getitem__(self, name: str) -> Any:
        return self._values[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)


def broker_defaults(config: BrokerConfig) -> Mapping[str, Any]:
    """Return the settings of a topic without overrides, by topic setting name."""
    found: dict[str, Any] | None = config.derived.get(_DEFAULTS)
    if found is None:
        found = {name: _default(name, config) for name in TOPIC}
        config.derived[_DEFAULTS] = found
    return found


def _default(name: str, config: BrokerConfig) -> Any:
    for synonym in TOPIC_SYNONYMS[name]:
        value = config[synonym.name]
        if value is not None:
            if synonym.factor != 1:
                value *= synonym.factor
            # Kafka reads every negative log.retention.* as "without limit".
            return max(-1, value) if name == "retention.ms" else value
    return TOPIC[name].default


def topic_settings(overrides: Mapping[str, str], config: BrokerConfig) -> TopicSettings:
    """Return the effective settings of a topic with `overrides` (Kafka's names and texts). They are cached until the
    broker's settings change.

    Stored settings that cannot be used, because another version wrote them, are logged and replaced by the default, so
    that the topic can be served. New settings go through `validate_topic_settings` first.
    """
    cache: dict[frozenset[tuple[str, str]], TopicSettings] = config.derived.setdefault(_CACHE, {})
    key = frozenset(overrides.items())
    found = cache.get(key)
    if found is None:
        values = dict(broker_defaults(config))
        for name, text in overrides.items():
            try:
                values[name] = _parse(name, text)
            except ConfigError as error:
                log.error("topic setting ignored", extra=facts(setting=name, reason=error))
        if len(cache) >= CACHED_MAX:
            cache.clear()
        found = cache[key] = TopicSettings(values, dict(overrides))
    return found


def _parse(name: str, text: str) -> Any:
    """Raises ConfigError with Kafka's message for an unknown setting or an invalid value."""
    if name not in TOPIC:
        raise ConfigError(f"Unknown topic config name: {name}")
    return TOPIC[name].parse(text)


def validate_topic_setting(name: str, text: str) -> None:
    """Raises ConfigError with Kafka's message for an unknown setting or an invalid value."""
    _parse(name, text)


def is_remote(settings: Mapping[str, str]) -> bool:
    """Whether a topic with these settings has records in remote storage (KIP-405)."""
    return settings.get("remote.storage.enable", "false").strip().lower() == "true"


def validate_topic_settings(
    overrides: Mapping[str, str], config: BrokerConfig, existing: Mapping[str, str] | None = None
) -> None:
    """Validate all settings of a topic together, as Kafka's LogConfig.validate; `existing` are its previous settings.
    Raises ConfigError with Kafka's message.
    """
    for name in overrides:
        if name not in TOPIC:
            raise ConfigError(f"Unknown topic config name: {name}")
    values = {**broker_defaults(config), **{name: _parse(name, text) for name, text in overrides.items()}}
    least, most = values["min.compaction.lag.ms"], values["max.compaction.lag.ms"]
    if least > most:
        raise ConfigError(
            f"conflict topic config setting min.compaction.lag.ms ({least}) > max.compaction.lag.ms ({most})"
        )
    mirror.check(overrides)
    if values["remote.storage.enable"]:
        raise ConfigError(
            "Tiered Storage functionality is disabled in the broker. "
            "Topic cannot be configured with remote log storage."
        )
    if is_remote(existing or {}) and not values["remote.log.delete.on.disable"]:
        raise ConfigError(
            "It is invalid to disable remote storage without deleting remote data. If you want to keep the remote data "
            "and turn to read only, please set `remote.storage.enable=true,remote.log.copy.disable=true`. If you want "
            "to disable remote storage and delete all remote data, please set "
            "`remote.storage.enable=false,remote.log.delete.on.disable=true`."
        )


def without_effect(overrides: Mapping[str, str]) -> dict[str, str]:
    """Return the settings of a topic that are stored and described but have no effect yet."""
    return {
        name: text
        for name, text in overrides.items()
        if name in TOPIC and TOPIC[name].support is Support.INERT and not _is_what_happens(name, text)
    }


def _is_what_happens(name: str, text: str) -> bool:
    """Return whether an inert setting describes the actual behaviour, as a switch that is off does."""
    return TOPIC[name].type is ConfigType.BOOLEAN and text.strip().lower() == "false"
