"""What this broker does when the metadata image changes: opens, configures and deletes the partitions it holds."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from broker_cy.config import NoEffectReporter, topic_settings
from broker_cy.metadata.image import RESOURCE_BROKER, RESOURCE_TOPIC
from broker_cy.replica.partition import Partition
from broker_cy.storage.errors import StorageError
from broker_cy.storage.log_config import LogConfig

if TYPE_CHECKING:
    from collections.abc import Iterable

    from broker_cy.config import BrokerConfig, TopicSettings
    from broker_cy.core.clock import Clock
    from broker_cy.metadata.image import ImageDelta, MetadataImage, TopicImage
    from broker_cy.replica.partition import FlushGroup
    from broker_cy.replica.partition_table import PartitionTable
    from broker_cy.storage.log_manager import LogManager

LOGGER = logging.getLogger("broker_cy.server.partitions")


class PartitionService:
    """Keeps the partition table in step with the image. `topic_deleted` callbacks run after a topic's partitions are closed."""

    def __init__(
        self,
        config: BrokerConfig,
        clock: Clock,
        table: PartitionTable,
        log_manager: LogManager,
        group: FlushGroup,
    ) -> None:
        self._config = config
        self._clock = clock
        self._table = table
        self._logs = log_manager
        self._group = group
        self._reporter = NoEffectReporter()
        config.on_change(self._on_broker_setting)
        self._image: MetadataImage | None = None

    def settings(self, topic: str) -> TopicSettings:
        """The settings of a topic now, typed, by Kafka's topic setting names."""
        overrides = self._image.configs.topic(topic) if self._image is not None else {}
        return topic_settings(overrides, self._config)

    def apply(self, delta: ImageDelta, image: MetadataImage) -> None:
        """Take over one committed change."""
        self._image = image
        if any(kind == RESOURCE_BROKER for kind, _ in delta.configs):
            self._config.apply_dynamic(image.configs.broker(self._config.node_id), image.configs.broker(""))
        for topic in delta.topics:
            if topic.after is None:
                assert topic.before is not None
                self._delete(topic.before)
            else:
                self._open(topic.after)
        for kind, name in delta.configs:
            if kind == RESOURCE_TOPIC:
                self._configure(name, self._table.topic(name))
                for line in self._reporter.lines(name, image.configs.topic(name)):
                    LOGGER.warning(line)

    def _on_broker_setting(self, changed: frozenset[str]) -> None:
        """Topic settings without an override follow the broker's."""
        for topic in list(self._table.by_name):
            name = topic.decode()
            self._configure(name, self._table.topic(name))

    def _configure(self, topic: str, partitions: Iterable[Partition]) -> None:
        settings = self.settings(topic)
        config = LogConfig.from_settings(settings)
        for partition in partitions:
            partition.configure(settings)
            if partition.log is not None:
                partition.log.reconfigure(config)

    def _open(self, topic: TopicImage) -> None:
        """Open the topic's partitions that are ours and not open yet; a log that cannot be served stays offline."""
        fresh = []
        for index, image in topic.partitions.items():
            if self._config.node_id not in image.replicas or self._table.get(topic.name, index) is not None:
                continue
            config = LogConfig.from_settings(self.settings(topic.name))
            log, reason = None, None
            try:
                log = self._logs.open_log(topic.name, index, topic.topic_id, config, self._clock.wall_ms())
            except (StorageError, OSError) as error:
                reason = str(error)
                LOGGER.error(
                    "partition offline", extra={"fields": {"partition": f"{topic.name}-{index}", "reason": reason}}
                )
            if log is not None:
                log.epochs.assign(image.leader_epoch, log.log_end_offset)
            partition = Partition(
                self._group,
                topic.name,
                index,
                topic.topic_id,
                log,
                image.leader_epoch,
                internal=topic.is_internal,
                offline_reason=reason,
            )
            self._table.add(partition)
            fresh.append(partition)
        if fresh:
            self._configure(topic.name, fresh)

    def _delete(self, topic: TopicImage) -> None:
        for partition in self._table.remove_topic(topic.name, topic.topic_id):
            partition.close()
            if partition.log is not None:
                self._logs.delete_log(partition.log, self._clock.wall_ms())
