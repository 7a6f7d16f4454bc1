"""Settings as DescribeConfigs returns them: the value, its source, and the values that it overrides (Kafka's
ConfigHelper).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache

from broker_cy.config import dynamic, startup
from broker_cy.config.broker import BrokerConfig
from broker_cy.config.definitions import (
    BROKER,
    BROKER_QUOTAS,
    GROUP,
    GROUP_BOUNDS,
    TOPIC,
    TOPIC_SYNONYMS,
    Setting,
    UpdateMode,
)
from broker_cy.config.group import CLIENT_METRICS_TYPES, client_metrics_settings, group_settings
from broker_cy.config.topic import topic_settings
from broker_cy.core.classes import NamedTuple
from broker_cy.core.config_def.types import to_text
from broker_cy.core.configs import ConfigSource, ConfigType


class SynonymEntry(NamedTuple):
    name: str
    value: str | None
    source: ConfigSource


class Entry(NamedTuple):
    """One setting. The first of `synonyms` is in effect; `value` is None for a secret, for what a config provider
    returned, or if it is not set.
    """

    name: str
    value: str | None
    source: ConfigSource
    is_sensitive: bool
    read_only: bool
    type: ConfigType
    synonyms: tuple[SynonymEntry, ...]
    documentation: str | None


def broker_entries(config: BrokerConfig) -> list[Entry]:
    """Return every setting of this broker, including settings of plug-ins in its file or in the metadata log."""
    texts = dynamic.layered(config.static, config.dynamic_default, config.dynamic_broker)
    names = [*BROKER, *(name for name in texts if name not in BROKER)]
    entries = []
    for name in names:
        setting = startup.setting_of(name)
        value = to_text(config[name], BROKER[name].type) if name in BROKER else texts[name]
        synonyms = _synonyms_of(name, config)
        entries.append(_broker_entry(name, value, setting, synonyms, is_of_provider(dynamic.synonyms(name), config)))
    return entries


def broker_default_entries(config: BrokerConfig) -> list[Entry]:
    """Return the settings of the cluster-wide default."""
    entries = []
    for name, text in config.dynamic_default.items():
        level = [
            found for found in _synonyms_of(name, config) if found.source is ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG
        ]
        is_hidden = name in config.hidden.default
        entries.append(_broker_entry(name, text, startup.setting_of(name), level, is_hidden))
    return entries


def topic_entries(overrides: Mapping[str, str], config: BrokerConfig) -> list[Entry]:
    """Return every setting of a topic with `overrides`. Raises ConfigError for an invalid value."""
    values = topic_settings(overrides, config)
    entries = []
    for name, setting in TOPIC.items():
        text = to_text(values[name], setting.type)
        synonyms = _synonyms_of(TOPIC_SYNONYMS[name][0].name, config) if TOPIC_SYNONYMS[name] else []
        if name in overrides:
            synonyms.insert(0, SynonymEntry(name, text, ConfigSource.DYNAMIC_TOPIC_CONFIG))
        is_hidden = name not in overrides and is_of_provider(names_behind(name), config)
        entries.append(_entry(setting, text, synonyms, is_hidden))
    return entries


def group_entries(overrides: Mapping[str, str], config: BrokerConfig) -> list[Entry]:
    """Return every setting of a group with `overrides`. Raises ConfigError for an invalid value."""
    values = group_settings(overrides, config)
    entries = []
    for name, setting in GROUP.items():
        text = to_text(values[name], setting.type)
        bounds = GROUP_BOUNDS[name]
        if bounds.default:
            synonyms = _synonyms_of(bounds.default, config)
        else:
            synonyms = [SynonymEntry(name, setting.default_text, ConfigSource.DEFAULT_CONFIG)]
        if name in overrides:
            synonyms.insert(0, SynonymEntry(name, text, ConfigSource.DYNAMIC_GROUP_CONFIG))
        is_hidden = name not in overrides and is_of_provider((bounds.default,), config)
        entries.append(_entry(setting, text, synonyms, is_hidden))
    return entries


def client_metrics_entries(overrides: Mapping[str, str]) -> list[Entry]:
    """Return every setting of a client metrics subscription. Raises ConfigError for an invalid value."""
    entries = []
    for name, value in client_metrics_settings(overrides).items():
        config_type = CLIENT_METRICS_TYPES[name]
        text = to_text(value, config_type)
        synonyms = (SynonymEntry(name, text, ConfigSource.DYNAMIC_CLIENT_METRICS_CONFIG),) if name in overrides else ()
        source = ConfigSource.DYNAMIC_CLIENT_METRICS_CONFIG if synonyms else ConfigSource.DEFAULT_CONFIG
        entries.append(Entry(name, text, source, False, False, config_type, synonyms, None))
    return entries


def _entry(setting: Setting, text: str | None, synonyms: list[SynonymEntry], is_hidden: bool) -> Entry:
    source = synonyms[0].source if synonyms else ConfigSource.DEFAULT_CONFIG
    sensitive = setting.is_sensitive or is_hidden
    return Entry(
        setting.name,
        None if sensitive else text,
        source,
        sensitive,
        False,
        setting.type,
        tuple(synonyms),
        setting.documentation,
    )


def _broker_entry(
    name: str, text: str | None, setting: Setting | None, synonyms: list[SynonymEntry], is_hidden: bool
) -> Entry:
    # An unknown setting may be a secret, and so may every value of a config provider.
    sensitive = setting is None or setting.is_sensitive or is_hidden
    known = BROKER.get(name) or BROKER_QUOTAS.get(name)
    return Entry(
        name,
        None if sensitive else text,
        synonyms[0].source if synonyms else ConfigSource.DEFAULT_CONFIG,
        sensitive,
        known is None or known.update is UpdateMode.READ_ONLY,
        ConfigType.UNKNOWN if setting is None else setting.type,
        tuple(synonyms),
        None if setting is None else setting.documentation,
    )


class Level(NamedTuple):
    """`hidden` are the names of settings whose values config providers returned."""

    settings: Mapping[str, str]
    hidden: frozenset[str]
    source: ConfigSource


def levels(config: BrokerConfig) -> tuple[Level, ...]:
    """Return the sets of broker settings in order of precedence; the defaults come after them."""
    hidden = config.hidden
    return (
        Level(config.dynamic_broker, hidden.broker, ConfigSource.DYNAMIC_BROKER_CONFIG),
        Level(config.dynamic_default, hidden.default, ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG),
        Level(config.static, hidden.static, ConfigSource.STATIC_BROKER_CONFIG),
    )


def is_of_provider(names: Sequence[str], config: BrokerConfig) -> bool:
    """Whether a config provider returned the value of the first of these settings that is set."""
    for level in levels(config):
        for name in names:
            if name in level.settings:
                return name in level.hidden
    return False


@cache
def names_behind(topic_setting: str) -> tuple[str, ...]:
    """The broker settings that a topic setting falls back to, in order of precedence."""
    return tuple(synonym.name for synonym in TOPIC_SYNONYMS[topic_setting])


def _synonyms_of(name: str, config: BrokerConfig) -> list[SynonymEntry]:
    """Return the sources of a broker setting in order of precedence, starting with the first that has this exact
    name.
    """
    setting = startup.setting_of(name)
    sensitive = setting is None or setting.is_sensitive
    names = dynamic.synonyms(name)
    found = [
        SynonymEntry(other, None if sensitive or other in level.hidden else level.settings[other], level.source)
        for level in levels(config)
        for other in names
        if other in level.settings
    ]
    for other in names:
        default = _default_text(other, config)
        if default is not None:
            found.append(SynonymEntry(other, None if sensitive else default, ConfigSource.DEFAULT_CONFIG))
    for start, synonym in enumerate(found):
        if synonym.name == name:
            return found[start:]
    return []


def _default_text(name: str, config: BrokerConfig) -> str | None:
    setting = BROKER.get(name)
    if setting is None or (setting.required and name in config.static):
        return None
    return startup.BUILT_IN.get(name, setting.default_text)
