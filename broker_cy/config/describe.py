"""Settings as DescribeConfigs returns them: the value, its source, and the values that it overrides (Kafka's
ConfigHelper).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

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
from broker_cy.config.types import to_text
from broker_cy.core.configs import ConfigSource, ConfigType


class SynonymEntry(NamedTuple):
    name: str
    value: str | None
    source: ConfigSource


class Entry(NamedTuple):
    """One setting. The first of `synonyms` is in effect; `value` is None for a secret, or if it is not set."""

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
        entries.append(_broker_entry(name, value, setting, _synonyms_of(name, config)))
    return entries


def broker_default_entries(config: BrokerConfig) -> list[Entry]:
    """Return the settings of the cluster-wide default."""
    entries = []
    for name, text in config.dynamic_default.items():
        level = [
            found for found in _synonyms_of(name, config) if found.source is ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG
        ]
        entries.append(_broker_entry(name, text, startup.setting_of(name), level))
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
        entries.append(_entry(setting, text, synonyms))
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
        entries.append(_entry(setting, text, synonyms))
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


def _entry(setting: Setting, text: str | None, synonyms: list[SynonymEntry]) -> Entry:
    source = synonyms[0].source if synonyms else ConfigSource.DEFAULT_CONFIG
    return Entry(
        setting.name,
        None if setting.is_sensitive else text,
        source,
        setting.is_sensitive,
        False,
        setting.type,
        tuple(synonyms),
        setting.documentation,
    )


def _broker_entry(name: str, text: str | None, setting: Setting | None, synonyms: list[SynonymEntry]) -> Entry:
    # An unknown setting may be a secret.
    sensitive = setting is None or setting.is_sensitive
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


def levels(config: BrokerConfig) -> tuple[tuple[Mapping[str, str], ConfigSource], ...]:
    """Return the sets of broker settings in order of precedence; the defaults come after them."""
    return (
        (config.dynamic_broker, ConfigSource.DYNAMIC_BROKER_CONFIG),
        (config.dynamic_default, ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG),
        (config.static, ConfigSource.STATIC_BROKER_CONFIG),
    )


def _synonyms_of(name: str, config: BrokerConfig) -> list[SynonymEntry]:
    """Return the sources of a broker setting in order of precedence, starting with the first that has this exact
    name.
    """
    setting = startup.setting_of(name)
    sensitive = setting is None or setting.is_sensitive
    names = dynamic.synonyms(name)
    found = [
        SynonymEntry(other, None if sensitive else level[other], source)
        for level, source in levels(config)
        for other in names
        if other in level
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
