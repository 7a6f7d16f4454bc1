"""The effective configuration of a topic and the source of each value, as CreateTopics returns them (KIP-525)."""

from __future__ import annotations

from typing import Any

from broker_cy.config import BrokerConfig
from broker_cy.config.definitions import TOPIC
from broker_cy.config.describe import is_of_provider, levels, names_behind
from broker_cy.config.topic import topic_settings
from broker_cy.core.config_def.types import to_text
from broker_cy.core.configs import ConfigSource
from broker_cy.wire import messages


def effective(overrides: dict[str, str], config: BrokerConfig) -> list[Any]:
    """CreatableTopicConfigs by name, for a topic that sets `overrides`."""
    values = topic_settings(overrides, config)
    found = []
    for name in sorted(TOPIC):
        setting = TOPIC[name]
        sensitive = setting.is_sensitive or (name not in overrides and is_of_provider(names_behind(name), config))
        # Set values are returned as they were written.
        value = overrides[name] if name in overrides else to_text(values[name], setting.type)
        found.append(
            messages.CreateTopicsResponse.CreatableTopicConfigs(
                name=name,
                value=None if sensitive else value,
                read_only=False,
                config_source=ConfigSource.DYNAMIC_TOPIC_CONFIG if name in overrides else _source(name, config),
                is_sensitive=sensitive,
            )
        )
    return found


def _source(name: str, config: BrokerConfig) -> ConfigSource:
    """The source of the broker's value of a topic setting: the first level that has one of the setting's synonyms."""
    for level in levels(config):
        if any(other in level.settings for other in names_behind(name)):
            return level.source
    return ConfigSource.DEFAULT_CONFIG
