"""The settings of topics, and the configurations of their logs, as the metadata and the broker's settings have them."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, Protocol

from broker_cy.config import NoEffectReporter, topic_settings
from broker_cy.metadata import topic_names
from broker_cy.metadata.image import RESOURCE_CLIENT_METRICS, RESOURCE_TOPIC
from broker_cy.storage.log_config import LogConfig

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from broker_cy.config import BrokerConfig, TopicSettings
    from broker_cy.metadata.image import ImageDelta, MetadataImage
    from broker_cy.replica.partition import Partition
    from broker_cy.replica.partition_table import PartitionTable

LOGGER = logging.getLogger("broker_cy.server.partitions")

# Resources whose settings without effect are reported here; BrokerConfig reports those of the broker.
REPORTED = {RESOURCE_TOPIC: "topic", RESOURCE_CLIENT_METRICS: "client_metrics"}


class RecordSchemaChecks(Protocol):
    """Makes the check of the schemas that the records of a topic name (server.schema_checks)."""

    def of(self, topic: str, settings: Mapping[str, Any]) -> object | None: ...
    def forget(self, topic: str) -> None: ...


class TopicConfigs:
    """Configures the partitions of the table. `take` hands it each new image, before any other call."""

    def __init__(self, config: BrokerConfig, table: PartitionTable) -> None:
        self._config = config
        self._table = table
        self._reporter = NoEffectReporter()
        self._image: MetadataImage
        # By topic, as last applied: thousands of logs are opened one by one.
        self._configs: dict[str, LogConfig] = {}
        # Set by the owner of the check of records; None: no records are checked.
        self.record_schemas: RecordSchemaChecks | None = None
        config.on_change(self._on_broker_setting)

    def take(self, image: MetadataImage) -> None:
        self._image = image

    def take_broker_settings(self) -> None:
        configs = self._image.configs
        self._config.apply_dynamic(configs.broker(self._config.node_id), configs.broker(""))

    def apply(self, delta: ImageDelta) -> None:
        """Apply the changed settings of topics."""
        for kind, name in delta.configs:
            if kind == RESOURCE_TOPIC:
                self.configure(name, self._table.topic(name))
        self._report_without_effect(delta)

    def settings(self, topic: str) -> TopicSettings:
        """The settings of a topic now, typed, by Kafka's topic setting names."""
        return topic_settings(self._image.configs.topic(topic), self._config)

    def current(self, topic: str) -> LogConfig:
        """The configuration of a new log of the topic."""
        return LogConfig.from_settings(self.settings(topic))

    def log_config(self, topic: str) -> LogConfig:
        """The configuration of the topic's logs."""
        found = self._configs.get(topic)
        return found if found is not None else self.current(topic)

    def configure(self, topic: str, partitions: Iterable[Partition]) -> None:
        settings = self.settings(topic)
        config = self._configs[topic] = LogConfig.from_settings(settings)
        schemas = None if self.record_schemas is None else self.record_schemas.of(topic, settings)
        for partition in partitions:
            partition.configure(settings.plain)
            if schemas is not partition.record_schemas:
                partition.check_schemas(schemas)
            if partition.log is not None:
                partition.log.reconfigure(config)

    def forget(self, topic: str) -> None:
        """The topic was deleted."""
        self._configs.pop(topic, None)
        if self.record_schemas is not None:
            self.record_schemas.forget(topic)

    def _report_without_effect(self, delta: ImageDelta) -> None:
        """Report which changed settings have no effect; at the start, all stored settings count as changed."""
        for kind, name in delta.configs:
            # The broker's own settings of internal topics are for a later version and for Kafka's tools.
            if kind not in REPORTED or (kind == RESOURCE_TOPIC and topic_names.is_protected(name)):
                continue
            for event in self._reporter.events(REPORTED[kind], name, self._image.configs.resource(kind, name)):
                event.log(LOGGER, logging.WARNING)

    def _on_broker_setting(self, changed: frozenset[str]) -> None:
        """Topic settings without an override follow the broker's."""
        for topic in list(self._table.by_name):
            name = topic.decode()
            self.configure(name, self._table.topic(name))
