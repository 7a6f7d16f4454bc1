"""Follows the metadata image: opens, configures and deletes the partitions of this broker, and gives them their roles.

This broker leads a partition with one replica, even if the image names no leader. A partition with several replicas
has the role in the image (`Partition.assign`); `replication` acts on these roles. The file is long because it is one
class: whatever opens, assigns, retries or deletes a partition must know all of its states.
"""

from __future__ import annotations

import logging
import os
from typing import TYPE_CHECKING, Protocol

from broker_cy.controller.rules import directory_of
from broker_cy.core.logs import facts
from broker_cy.core.mirror_settings import is_mirror, source_topic_id
from broker_cy.core.uuid import UNASSIGNED_DIRECTORY
from broker_cy.metadata import topic_names
from broker_cy.metadata.image import RESOURCE_BROKER
from broker_cy.partitions import creations, lost_logs
from broker_cy.partitions.creations import Creations
from broker_cy.partitions.led_partitions import LedPartitions
from broker_cy.partitions.topic_configs import RecordSchemaChecks, TopicConfigs
from broker_cy.replica.partition import Partition
from broker_cy.storage.errors import StorageError

if TYPE_CHECKING:
    from collections.abc import Callable
    from uuid import UUID

    from broker_cy.config import BrokerConfig, TopicSettings
    from broker_cy.core.clock import Clock
    from broker_cy.events.log_events import LogEvents
    from broker_cy.metadata.image import ImageDelta, MetadataImage, PartitionImage
    from broker_cy.metadata.topics import TopicImage
    from broker_cy.replica.flush_group import FlushGroup
    from broker_cy.replica.partition_table import PartitionTable
    from broker_cy.storage.log import Log
    from broker_cy.storage.log_manager import LogManager

LOGGER = logging.getLogger("broker_cy.server.partitions")


class Replication(Protocol):
    """The effects of the roles of partitions with several replicas (replication)."""

    def follow(self, partition: Partition, leader: int) -> None:
        """The partition follows the broker `leader` from now on; -1 without a leader."""

    def leave(self, partition: Partition) -> None:
        """The partition no longer follows a leader."""


# How often to retry a log that could not be created or loaded because of a full disk or a lack of descriptors or
# memory.
RETRY_S = 1.0


class PartitionService:
    """Keeps the partition table consistent with the image."""

    def __init__(
        self,
        config: BrokerConfig,
        clock: Clock,
        table: PartitionTable,
        log_manager: LogManager,
        group: FlushGroup,
        log_events: LogEvents,
        on_online: Callable[[str, int], None] | None = None,
        on_opened: Callable[[str, int], None] | None = None,
        on_late_role: Callable[[str, int], None] | None = None,
        on_creating: Callable[[bool], None] = lambda is_creating: None,
    ) -> None:
        """`on_online(topic, index)` is called for partitions that were offline and are served now,
        `on_opened(topic, index)` for those that were unopened and are served now, offline or deleted,
        `on_late_role(topic, index)` for those that took a role later than the metadata gave it to them, and
        `on_creating` when logs of new partitions begin to wait for their creation, and when none is left.
        """
        self._config = config
        self._clock = clock
        self._table = table
        self._logs = log_manager
        self._group = group
        self._log_events = log_events
        self._image: MetadataImage
        self._on_online = on_online
        self._on_opened = on_opened
        self._on_late_role = on_late_role
        # Set by the owner of the connections to other brokers; None: this broker does not fetch.
        self.replication: Replication | None = None
        self.led = LedPartitions(config, group)
        self._starting = True
        self._creations = Creations(group.loop, self._create_late, on_creating)
        # Partitions without a log, and the time of the last attempt to open one (monotonic).
        self._offline: dict[tuple[str, int], Partition] = {}
        # Those among them whose log may be on a disk that failed: no other one is created.
        self._lost: set[tuple[str, int]] = set()
        self._last_retry_s = 0.0
        self._configs = TopicConfigs(config, table)

    def check_record_schemas(self, checks: RecordSchemaChecks) -> None:
        """Let `checks` decide about the records of topics. Called before the first image is applied."""
        self._configs.record_schemas = checks

    def settings(self, topic: str) -> TopicSettings:
        """The settings of a topic now, typed, by Kafka's topic setting names."""
        return self._configs.settings(topic)

    def high_watermark_of(self, topic: str, index: int) -> int:
        """The high watermark for the checkpoints; for a log outside any topic (the metadata log), its end."""
        partition = self._table.get(topic, index)
        if partition is not None:
            return partition.high_watermark
        log = self._logs.get(topic, index)
        return log.written_end_offset if log is not None else 0

    def start(self, image: MetadataImage, now_ms: int) -> None:
        """Load the logs of the data directories; `apply` then makes partitions of them. Blocks. Raises OSError,
        StorageError.
        """
        self._image = image
        self._configs.take(image)
        self._configs.take_broker_settings()
        self._logs.on_opened = self._opened
        self._logs.on_settled = self._settled
        self._logs.on_relocated = self._relocated
        self._logs.load(
            self._configs.log_config,
            now_ms,
            self._topic_id_of,
            late=True,
            is_replicated=self._is_replicated,
            directory_id_of=self._directory_id_of,
            is_spare=self._is_spare,
        )

    def apply(self, delta: ImageDelta, image: MetadataImage) -> None:
        """Apply one committed change."""
        self._image = image
        self._configs.take(image)
        self.led.take_brokers(delta, image)
        if any(kind == RESOURCE_BROKER for kind, _ in delta.configs):
            self._configs.take_broker_settings()
        for topic in delta.topics:
            if topic.before is not None and (topic.after is None or topic.after.topic_id != topic.before.topic_id):
                self._delete(topic.before)
            if topic.after is not None:
                self._open(topic.after)
        if delta.brokers:
            self.led.settle_deletes()
        self._starting = False
        self._configs.apply(delta)

    def _topic_id_of(self, name: str, index: int) -> UUID | None:
        """Return the id of the topic of a partition; None if this broker has no replica of it."""
        topic = self._image.topics.by_name(name)
        is_here = self._config.node_id in self._replicas_of(name, index)
        return topic.topic_id if topic is not None and is_here else None

    def _is_spare(self, topic: str, index: int) -> bool:
        """Whether the replica is neither in sync nor an eligible leader (KIP-966)."""
        part = self._part_of(topic, index)
        return part is not None and self._config.node_id not in (*part.isr, *part.elr, *part.last_known_elr)

    def _is_replicated(self, topic: str, index: int) -> bool:
        """Whether a partition has replicas on other brokers."""
        return len(self._replicas_of(topic, index)) > 1

    def _directory_id_of(self, topic: str, index: int) -> UUID | None:
        """Return the data directory that the metadata name for this broker's replica; None for an unknown partition."""
        partition = self._part_of(topic, index)
        return directory_of(partition, self._config.node_id) if partition is not None else None

    def _part_of(self, topic: str, index: int) -> PartitionImage | None:
        found = self._image.topics.by_name(topic)
        return found.partitions.get(index) if found is not None else None

    def _replicas_of(self, topic: str, index: int) -> tuple[int, ...]:
        """Return the brokers with a replica of a partition; empty for an unknown partition."""
        partition = self._part_of(topic, index)
        return partition.replicas if partition is not None else ()

    def _open(self, topic: TopicImage) -> None:
        """Open this broker's partitions of the topic that are not open yet; a log that cannot be served stays offline.
        Open partitions continue in the image's leader epoch.
        """
        fresh: list[Partition] = []
        is_protected = topic_names.is_protected(topic.name)
        # The leader of a mirror has an in-sync set also if it is alone: its role begins and ends with leader epochs.
        mirrors = is_mirror(self._image.configs.topic(topic.name))
        for index, image in topic.partitions.items():
            known = self._table.get(topic.name, index)
            if self._config.node_id not in image.replicas:
                if known is not None:
                    self._remove(known)
                continue
            if known is not None:
                if known.assigned is image:
                    continue  # another partition of the topic has changed
                if known.assigned is not None or len(image.replicas) > 1 or mirrors:
                    self._assign(known, image)
                elif image.leader_epoch > known.leader_epoch:
                    self._lead(known, image.leader_epoch)
                continue
            is_late = not is_protected and self._is_created_late(topic, index, len(fresh))
            unopened = is_late or (topic.name, index) in self._logs.unopened
            is_only = len(image.replicas) == 1 and not mirrors
            log, reason = (None, None) if unopened else self._open_log(topic.name, index, topic.topic_id)
            if log is not None and is_only:
                log.epochs.assign(image.leader_epoch, log.log_end_offset)
            partition = Partition(
                self._group,
                topic.name,
                index,
                topic.topic_id,
                log if is_only else None,
                image.leader_epoch,
                protected=is_protected,
                offline_reason=reason,
                replication_factor=len(image.replicas),
                unopened=unopened,
            )
            self._table.add(partition)
            fresh.append(partition)
            if not is_only:
                self._assign(partition, image)
                if log is not None:
                    partition.come_online(log)
            if log is None and not unopened:
                self._offline[topic.name, index] = partition
            if is_late:
                self._creations.add(partition)
        if fresh:
            self._configs.configure(topic.name, fresh)

    def _lead(self, partition: Partition, leader_epoch: int) -> None:
        """Continue as the leader of a newer epoch; staged batches belong to the previous one."""
        self._flush()
        if partition.log is not None:
            partition.log.epochs.assign(leader_epoch, partition.log.log_end_offset)
        partition.lead(leader_epoch)

    def _assign(self, partition: Partition, image: PartitionImage) -> None:
        """Give a partition with several replicas its role."""
        key = (partition.topic, partition.index)
        leads = image.leader == self._config.node_id
        before = partition.assigned
        is_new = before is None or image.leader_epoch > before.leader_epoch
        if is_new and partition.log in self._logs.truncations:
            # A leader appends. Until the worker is done, this broker acts as if it did not know the new role yet.
            return
        if is_new:
            self._flush()  # staged batches belong to the previous epoch
            overrides = self._image.configs.topic(partition.topic)
            partition.mirror(is_mirror(overrides), source_topic_id(overrides) is not None)
        partition.assign(image, leads, self.led.new_in_sync, self._logs.high_watermarks.get(key, -1))
        if leads:
            self.led.add(partition)
        else:
            self.led.remove(partition)
        if not is_new:
            return
        if self.replication is not None:
            if leads:
                self.replication.leave(partition)
            else:
                self.replication.follow(partition, image.leader)

    def _settled(self, log: Log) -> None:
        """A log that was truncated can be appended to: its partition takes the role that it has by now."""
        partition = self._table.get(log.topic, log.partition)
        topic = self._image.topics.by_name(log.topic)
        if partition is None or partition.log is not log or topic is None or topic.topic_id != partition.topic_id:
            return
        image = topic.partitions[partition.index]
        if image is not partition.assigned:
            self._assign(partition, image)
            if self._on_late_role is not None:
                self._on_late_role(log.topic, log.partition)

    def _relocated(self, log: Log, root: str) -> None:
        """A log has left the data directory `root`."""
        partition = self._table.get(log.topic, log.partition)
        if partition is not None and partition.log is log:
            self._group.commit.moved(partition, root)

    def _remove(self, partition: Partition) -> None:
        """Delete a partition that was moved to other brokers."""
        self._flush()
        self._table.remove(partition.topic, partition.index)
        self._close(partition)

    def _is_created_late(self, topic: TopicImage, index: int, fresh: int) -> bool:
        """Whether the log, after `fresh` others, is created in a later turn. Those of coordinators are not."""
        if fresh < creations.AT_ONCE or self._starting:
            return False
        key = (topic.name, index)
        return key not in self._logs.unopened and key not in self._logs.offline and self._logs.get(*key) is None

    def _create_late(self, partition: Partition) -> None:
        self._take_opened(partition, *self._open_log(partition.topic, partition.index, partition.topic_id))

    def _open_log(self, topic: str, index: int, topic_id: UUID) -> tuple[Log | None, str | None]:
        """Return the partition's log, created if it does not exist, or the reason why it is offline."""
        offline = self._logs.offline.get((topic, index))
        if offline is not None:
            return None, offline
        log = self._logs.get(topic, index)
        if log is None:
            if (lost := self._lost_reason(topic, index)) is not None:
                self._lost.add((topic, index))
                LOGGER.error("partition offline", extra=facts(partition=f"{topic}-{index}", reason=lost))
                return None, lost
            if self._starting:
                LOGGER.warning(
                    "creating an empty log: the directory of the partition is missing",
                    extra=facts(partition=f"{topic}-{index}"),
                )
            try:
                log = self._create_log(topic, index, topic_id)
            except StorageError as error:
                self._log_events.partition_offline(f"{topic}-{index}", str(error), RETRY_S)
                return None, str(error)
        return log, None

    def _lost_reason(self, topic: str, index: int) -> str | None:
        """Why no log may be created for a partition; None if it may be."""
        partition = self._part_of(topic, index)
        directories = self._logs.data_directories
        if partition is None:
            return None
        return lost_logs.reason(partition, self._config.node_id, directories, is_start=self._starting)

    def _opened(self, key: tuple[str, int]) -> None:
        """The log manager has opened a log, or could not."""
        partition = self._table.get(*key)
        if partition is not None:
            self._take_opened(partition, self._logs.get(*key), self._logs.offline.get(key))
        elif self._on_opened is not None:
            self._on_opened(*key)

    def _take_opened(self, partition: Partition, log: Log | None, reason: str | None) -> None:
        """A partition that was not open has its log, or `reason` says why it has none."""
        key = (partition.topic, partition.index)
        if log is None:
            assert reason is not None
            partition.stay_offline(reason)
            self._offline[key] = partition
        else:
            log.reconfigure(self._configs.log_config(partition.topic))
            if key in self._offline:
                self._bring_online(partition, log)
                # The shortage is over: the others need not wait for their turn.
                self._reopen(len(self._offline))
            else:
                self._come_online(partition, log)
        if self._on_opened is not None:
            self._on_opened(*key)

    def _come_online(self, partition: Partition, log: Log) -> None:
        if partition.assigned is None:
            log.epochs.assign(partition.leader_epoch, log.log_end_offset)
        partition.come_online(log)

    def _create_log(self, topic: str, index: int, topic_id: UUID) -> Log:
        """Raises StorageError."""
        directory_id = self._directory_id_of(topic, index) or UNASSIGNED_DIRECTORY
        return self._logs.create(
            topic, index, topic_id, self._configs.current(topic), self._clock.wall_ms(), directory_id
        )

    def retry(self) -> None:
        """Retry to open logs that are offline because of a shortage, one existing log and at most AT_ONCE new ones.
        Remove slow and silent followers from in-sync sets. Cheap without such logs and followers; called at least each
        silence.LATE_MS.
        """
        now_s = self._clock.monotonic()
        self.led.drop_slow(now_s)
        if not self._offline or now_s - self._last_retry_s < RETRY_S:
            return
        self._last_retry_s = now_s
        self._reopen(1)
        created = 0
        for key, partition in list(self._offline.items()):
            if key in self._logs.offline or key in self._logs.unopened or key in self._lost:
                continue
            if created == creations.AT_ONCE:
                return
            try:
                log = self._create_log(*key, partition.topic_id)
            except StorageError:
                # There is still no space, and the other logs would fail, too.
                return
            created += 1
            self._bring_online(partition, log)

    def _reopen(self, count: int) -> None:
        """Have workers load again up to `count` logs that are offline because of a shortage."""
        wanted = [key for key in self._offline if self._logs.offline_logs.may_reopen(key)]
        for key in wanted[:count]:
            self._logs.reopen(key, self._configs.log_config, self._clock.wall_ms())

    def _bring_online(self, partition: Partition, log: Log) -> None:
        """Serve the log of a partition that was offline."""
        key = (partition.topic, partition.index)
        del self._offline[key]
        self._come_online(partition, log)
        LOGGER.info("partition online", extra=facts(partition=f"{key[0]}-{key[1]}"))
        if self._on_online is not None:
            self._on_online(*key)

    def lose_directory(self, path: str) -> None:
        """The disk of a data directory has failed, and its logs are offline."""
        for partition in self._table:
            if partition.log is not None and os.path.dirname(partition.log.directory) == path:
                partition.lose_disk()

    def _delete(self, topic: TopicImage) -> None:
        self._flush()
        self._configs.forget(topic.name)
        for partition in self._table.remove_topic(topic.name, topic.topic_id):
            self._close(partition)

    def _close(self, partition: Partition) -> None:
        """Close a partition that was removed from the table, and delete its log."""
        key = (partition.topic, partition.index)
        was_unopened = partition.unopened
        partition.close()
        self._offline.pop(key, None)
        self._lost.discard(key)
        self.led.remove(partition)
        if partition.assigned is not None and self.replication is not None:
            self.replication.leave(partition)
        try:
            self._logs.delete(*key)
        except StorageError as error:
            # The topic is still deleted; the next start renames the directory.
            LOGGER.error("could not remove the directory of a deleted partition", extra=facts(reason=str(error)))
        if was_unopened and self._on_opened is not None:
            self._on_opened(*key)

    @property
    def _flush(self) -> Callable[[], int]:
        """Write staged batches, because a log must not be removed while it has any."""
        return self._group.flush
