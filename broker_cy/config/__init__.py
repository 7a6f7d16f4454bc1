"""Settings: their definitions and current values. Names, defaults, rules and messages are Kafka's."""

from broker_cy.config.broker import BrokerConfig
from broker_cy.config.checks import RequirementError
from broker_cy.config.group import group_settings, validate_client_metrics, validate_group_settings
from broker_cy.config.listeners import Listener
from broker_cy.config.no_effect import NoEffectReporter
from broker_cy.config.startup import places, sources
from broker_cy.config.topic import (
    TopicSettings,
    topic_settings,
    validate_topic_setting,
    validate_topic_settings,
)
from broker_cy.core.config_def.types import ConfigError, Password

__all__ = [
    "BrokerConfig",
    "ConfigError",
    "Listener",
    "NoEffectReporter",
    "Password",
    "RequirementError",
    "TopicSettings",
    "group_settings",
    "places",
    "sources",
    "topic_settings",
    "validate_client_metrics",
    "validate_group_settings",
    "validate_topic_setting",
    "validate_topic_settings",
]
