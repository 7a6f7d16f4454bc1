"""The parts of a broker that the power cut simulation runs, from a start to the end of the process. All are real: the
controller with its metadata log, the log manager with its cleaner, and the partitions with their group commit.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from typing import Any
from uuid import UUID

from broker_cy.client.outgoing import MACHINE
from broker_cy.config import BrokerConfig, TopicSettings, topic_settings
from broker_cy.control.controller_service import ControllerService
from broker_cy.core.clock import ManualClock
from broker_cy.core.randomness import Randomness
from broker_cy.events.log_events import LogEvents
from broker_cy.metadata.image import Endpoint, ImageDelta, MetadataImage
from broker_cy.partitions.partition_service import PartitionService
from broker_cy.partitions.topic_configs import TopicConfigs
from broker_cy.replica.flush_group import FlushGroup
from broker_cy.replica.group_commit import GroupCommit
from broker_cy.replica.partition import Partition
from broker_cy.replica.partition_table import PartitionTable
from broker_cy.storage.cleaner.log_cleaner import CleanerSettings, LogCleaner
from broker_cy.storage.settings import StorageSettings
from tests.broker_cy.storage.managing import Manager, open_manager
from tests.sim.power_loop import Loop, Work

LISTENERS = {"PLAINTEXT": Endpoint("host", 9092, 0)}
# Smaller than the bounds that Kafka sets, so that a few topics fill segments and snapshots.
METADATA_SETTINGS = {
    "metadata.log.segment.bytes": 900,
    "metadata.log.max.record.bytes.between.snapshots": 1_500,
    "metadata.max.retention.bytes": 3_000,
}


class Settings(TopicConfigs):
    """Allows topic settings that are outside of Kafka's bounds."""

    overrides: Mapping[str, Mapping[str, Any]]

    def settings(self, topic: str) -> TopicSettings:
        return TopicSettings({**topic_settings({}, self._config), **self.overrides[topic]}, {})


class Partitions(PartitionService):
    """The partitions of the simulation, with topic settings of their own."""

    # Whether storage treats all partitions as replicated on other brokers.
    are_replicated = False

    def _is_replicated(self, topic: str, index: int) -> bool:
        return self.are_replicated


class Broker:
    """Everything except the network and the coordinators. The process may end at any time after `start`."""

    def __init__(
        self,
        root: str,
        draw: random.Random,
        clock: ManualClock,
        storage: StorageSettings,
        topics: Mapping[str, Mapping[str, Any]],
        on_opened: Callable[[Broker, str], None] = lambda broker, topic: None,
        *,
        are_replicated: bool = False,
    ) -> None:
        """`on_opened` is called when the log of a partition was opened after the start, or could not be opened."""
        self.draw = draw
        self.clock = clock
        self.work = Work(draw)
        self.loop = Loop(self.work)
        loop: Any = self.loop
        self.group = FlushGroup(loop, clock)
        self.group.commit = GroupCommit(self.group, {"": self.work}, 2)
        # No client sends a transactional batch that the coordinator does not know about.
        self.group.verifies = False
        self.table = PartitionTable()
        self.logs: Manager = open_manager(root, settings=storage, now_ms=clock.wall_ms(), load=False, jobs=self.work)
        self.logs.cleaner = LogCleaner(
            self.logs.logs,
            [root],
            CleanerSettings(backoff_ms=0, io_buffer_bytes=1024),
            self.work,
            self.logs.removal.files,
            clock,
            # Its draws have no visible effect.
            Randomness(random.Random(0)),
        )
        self.config = BrokerConfig.from_properties({"node.id": "1", "log.dirs": root})
        self.config._values.update(METADATA_SETTINGS)

        def opened(topic: str, _: int) -> None:
            on_opened(self, topic)

        self.partitions = Partitions(
            self.config, clock, self.table, self.logs, self.group, LogEvents(clock), on_online=opened, on_opened=opened
        )
        settings = self.partitions._configs = Settings(self.config, self.table)
        settings.overrides = topics
        self.partitions.are_replicated = are_replicated
        self.controller: ControllerService
        self._loaded = False

    def start(self) -> None:
        """Load the metadata and the logs. Raises the exceptions of a start."""
        loop: Any = self.loop
        self.controller = ControllerService.open(
            self.config, self.clock, loop, self.logs, Randomness(self.draw), MACHINE
        )
        self.controller.subscribe(self._on_image)
        self.loop.complete(self.controller.start(LISTENERS))
        self.loop.complete(self.controller.join())

    def _on_image(self, delta: ImageDelta, image: MetadataImage) -> None:
        if not self._loaded:
            self._loaded = True
            self.partitions.start(image, self.clock.wall_ms())
        self.partitions.apply(delta, image)

    def topic_id(self, topic: str) -> UUID | None:
        """Return the topic's id in the committed metadata, or None."""
        found = self.controller.image.topics.by_name(topic)
        return found.topic_id if found is not None else None

    def partition(self, topic: str) -> Partition | None:
        return self.table.get(topic, 0)

    def tick(self) -> None:
        self.logs.tick(self.clock.wall_ms(), self.partitions.high_watermark_of)
        self.partitions.retry()

    def stop(self) -> None:
        """Stop cleanly, in the order of server.lifecycle."""
        self.logs.opener.stop()
        self.loop.turn()
        self.loop.complete(self.controller.stop())
        assert self.logs.cleaner is not None
        self.logs.cleaner.stop()
        self.loop.settle()

    def close(self) -> None:
        """Complete `stop`; blocks for the disk."""
        self.logs.close(self.partitions.high_watermark_of, self.controller.broker_epoch)

    def crash(self) -> None:
        """End the process."""
        self.loop.close()
        self.logs.crash()
