"""A node that is only a controller (process.roles=controller), from start to stop: the metadata log with its quorum,
and the listeners of the controller. It has no listeners for clients, no partitions and no coordinators.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from broker_cy.broker.broker import Broker
from broker_cy.control.controller_service import ControllerService
from broker_cy.events.event_log import EventLog
from broker_cy.metadata.image import RESOURCE_BROKER
from broker_cy.network.tls_listeners import LOOK_S
from broker_cy.replica.partition_table import PartitionTable
from broker_cy.server.controller_listeners import ControllerListeners
from broker_cy.server.node_directories import open_node_directories, storage_settings
from broker_cy.server.worker_pools import NodePools
from broker_cy.storage.log_manager import LogManager
from broker_cy.telemetry.loop_watch import LoopWatch
from broker_cy.telemetry.metrics_binding import bind_metrics

if TYPE_CHECKING:
    from broker_cy.config import BrokerConfig
    from broker_cy.connections.listener import Listener
    from broker_cy.metadata.image import ImageDelta, MetadataImage
    from broker_cy.network.seams import Seams
    from broker_cy.storage.data_directory import DataDirectory
    from broker_cy.telemetry.metrics_http import MetricsServer

# Interval at which storage checks whether a checkpoint is due.
STORAGE_TICK_S = 0.25


class ControllerServer:
    """Has the interface of `lifecycle.BrokerServer`."""

    def __init__(self, config: BrokerConfig, seams: Seams) -> None:
        self.config = config
        self.clock = seams.clock
        self.loop = seams.loop
        self.broker = Broker(config, seams)
        self.metrics_server: MetricsServer | None = None
        self._pools = NodePools(seams, len(config.log_dirs))
        self._controllers = ControllerListeners(self.broker, seams)
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._watch = LoopWatch(seams.loop, seams.clock)

    @property
    def listeners(self) -> list[Listener]:
        return self._controllers.listeners

    async def start(self) -> None:
        """Start, and take part in the quorum; whether it has a leader does not matter. Raises ListenError,
        DataDirectoryError, MetadataLogError, QuorumError, StorageError, ConfigError, OSError.
        """
        await self.broker.ip_overrides.resolve()
        await self._controllers.bind()
        self.metrics_server = bind_metrics(self.config, self.loop, self._page, self._missing)
        broker = self.broker
        directories, metadata_directory = open_node_directories(self.config, broker.randomness)
        broker.cluster_id = metadata_directory.cluster_id
        broker.log_manager = LogManager(
            directories,
            storage_settings(self.config),
            self._pools.background_jobs,
            room_jobs=self._pools.room_jobs,
            metadata_directory=metadata_directory,
        )
        broker.log_manager.on_directory_failed = self._on_directory_failed
        broker.controller = ControllerService.open(
            self.config,
            self.clock,
            self.loop,
            broker.log_manager,
            broker.randomness,
            broker.to_controllers,
            self._pools.background,
            broker.outgoing,
            self._pools.metadata,
        )
        # It has no partition to write events to: denials are sent to a broker, and brokers report changes that they
        # see in the metadata.
        broker.partitions = PartitionTable()
        broker.events = EventLog(
            self.config,
            self.clock,
            self.loop,
            broker.partitions,
            broker.controller.submit,
            broker.own_topics,
            lambda topic: 1,
        )
        if (authorization := broker.authorize()) is not None:
            broker.controller.subscribe(authorization.apply)
        broker.controller.subscribe(broker.quotas.apply)
        broker.follow_tokens()
        broker.report_rights()
        broker.controller.subscribe(self._on_image)
        broker.controller.load(self._controllers.endpoints())
        self._controllers.start()
        await broker.controller.start({})
        self._tick()
        if broker.tls is not None:
            self._look_at_certificates()
        self._watch.start()
        if self.metrics_server is not None:
            self.metrics_server.start()

    async def _page(self, _: frozenset[str] | None) -> bytes:
        """The page of a scrape."""
        # Imported here, because a node that serves no metrics does not need it.
        from broker_cy.telemetry.metrics_page import render_controller

        return await render_controller(self.broker, self._controllers.core, self._watch)

    def _missing(self) -> list[str]:
        """The reasons why this controller is not ready."""
        return [] if self.broker.controller.leader_id >= 0 else ["the metadata quorum has no leader"]

    def _on_image(self, delta: ImageDelta, image: MetadataImage) -> None:
        """Take the dynamic settings of controllers if they changed: they may name files of config providers."""
        if not any(kind == RESOURCE_BROKER for kind, _ in delta.configs):
            return
        self.config.apply_dynamic(image.configs.broker(self.config.node_id), image.configs.broker(""))

    def _on_directory_failed(self, directory: DataDirectory) -> None:
        if directory is self.broker.log_manager.metadata_directory:
            self.broker.controller.metadata_directory_failed(str(directory.failure))

    def _tick(self) -> None:
        self._timers["storage"] = self.loop.call_later(STORAGE_TICK_S, self._tick)
        self.broker.log_manager.tick(self.clock.wall_ms(), _no_partition)

    def _look_at_certificates(self) -> None:
        assert self.broker.tls is not None
        self._timers["certificates"] = self.loop.call_later(LOOK_S, self._look_at_certificates)
        self.broker.tls.look()

    async def stop(self) -> None:
        """Resign, and mark the data directory as clean."""
        for timer in self._timers.values():
            timer.cancel()
        self._watch.stop()
        self.broker.stop_reports()
        await self.broker.events.close()
        await self.broker.controller.stop()
        if self.metrics_server is not None:
            await self.metrics_server.stop()
        self._controllers.stop()
        self._pools.stop()
        self.broker.login_calls.stop()
        self.broker.log_manager.close(_no_partition, -1)


def _no_partition(topic: str, partition: int) -> int:
    """The high watermark of a partition: there is none."""
    return 0
