"""A node that is only a controller (process.roles=controller), from start to stop: the metadata log with its quorum,
and the listeners of the controller. It has no listeners for clients, no partitions and no coordinators.
"""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING

from broker_cy.control.controller_service import ControllerService
from broker_cy.core import uuid as uuids
from broker_cy.metadata.image import RESOURCE_BROKER
from broker_cy.replica.partition_table import PartitionTable
from broker_cy.server.broker import Broker
from broker_cy.server.connections.tls_listeners import LOOK_S
from broker_cy.server.controller_listeners import ControllerListeners
from broker_cy.server.jobs import LoopJobs
from broker_cy.server.telemetry.event_log import EventLog
from broker_cy.server.telemetry.loop_watch import LoopWatch
from broker_cy.server.telemetry.metrics_address import MetricsAddress
from broker_cy.storage.data_directory import open_directories, open_metadata_directory
from broker_cy.storage.log_manager import LogManager
from broker_cy.storage.settings import StorageSettings

if TYPE_CHECKING:
    from broker_cy.config import BrokerConfig
    from broker_cy.metadata.image import ImageDelta, MetadataImage
    from broker_cy.server.connections.listener import Listener
    from broker_cy.server.seams import Seams
    from broker_cy.server.telemetry.metrics_http import MetricsServer

# Interval at which storage checks whether a checkpoint is due.
STORAGE_TICK_S = 0.25
# For fsync and snapshots.
BACKGROUND_WORKERS = 2
# See lifecycle.METADATA_WORKERS.
METADATA_WORKERS = 2


class ControllerServer:
    """Has the interface of `lifecycle.BrokerServer`."""

    def __init__(self, config: BrokerConfig, seams: Seams) -> None:
        self.config = config
        self.clock = seams.clock
        self.loop = seams.loop
        self.broker = Broker(config, seams)
        self.metrics_server: MetricsServer | None = None
        self._executor = seams.workers.pool("background", BACKGROUND_WORKERS)
        self._jobs = LoopJobs(seams.loop, self._executor)
        self._metadata_pool = seams.workers.pool("metadata", METADATA_WORKERS)
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
        self._bind_metrics()
        broker = self.broker
        directories = open_directories(
            [os.path.abspath(path) for path in self.config.log_dirs],
            self.config.node_id,
            lambda: uuids.to_text(broker.randomness.kafka_uuid()),
            broker.randomness.kafka_uuid,
            may_format=self.config.begins_cluster,
        )
        metadata_directory = open_metadata_directory(
            self.config["metadata.log.dir"] or directories[0].path,
            directories,
            broker.randomness.kafka_uuid,
            may_format=self.config.begins_cluster,
        )
        broker.cluster_id = directories[0].cluster_id
        settings = StorageSettings(
            checkpoint_interval_ms=self.config["log.flush.offset.checkpoint.interval.ms"],
            start_offset_checkpoint_interval_ms=self.config["log.flush.start.offset.checkpoint.interval.ms"],
        )
        broker.log_manager = LogManager(directories, settings, self._jobs, metadata_directory=metadata_directory)
        broker.controller = ControllerService.open(
            self.config,
            self.clock,
            self.loop,
            broker.log_manager,
            broker.randomness,
            broker.to_controllers,
            self._executor,
            broker.outgoing,
            self._metadata_pool,
        )
        # It has no partition to write events to: refusals are sent to a broker, and brokers report changes that they
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

    def _bind_metrics(self) -> None:
        """Raises ListenError."""
        if not self.config["brokercy.metrics.listener"]:
            return
        address = MetricsAddress.parse(self.config["brokercy.metrics.listener"])
        # Imported here, because a node that serves no metrics does not need these modules.
        from broker_cy.server.telemetry.metrics_access import access_of
        from broker_cy.server.telemetry.metrics_http import MetricsServer
        from broker_cy.server.telemetry.metrics_page import render_controller

        async def page(_: frozenset[str] | None) -> bytes:
            return await render_controller(self.broker, self._controllers.core, self._watch)

        access = access_of(self.config, self.loop.time)
        self.metrics_server = MetricsServer.bind(self.loop, *address, page, self._missing, access)

    def _missing(self) -> list[str]:
        """The reasons why this controller is not ready."""
        return [] if self.broker.controller.leader_id >= 0 else ["the metadata quorum has no leader"]

    def _on_image(self, delta: ImageDelta, image: MetadataImage) -> None:
        """Take the dynamic settings of controllers if they changed: they may name files of config providers."""
        if not any(kind == RESOURCE_BROKER for kind, _ in delta.configs):
            return
        self.config.apply_dynamic(image.configs.broker(self.config.node_id), image.configs.broker(""))

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
        self._jobs.stop()
        self._metadata_pool.shutdown(wait=True, cancel_futures=True)
        self._executor.shutdown(wait=True, cancel_futures=True)
        self.broker.login_calls.stop()
        self.broker.log_manager.close(_no_partition, -1)


def _no_partition(topic: str, partition: int) -> int:
    """The high watermark of a partition: there is none."""
    return 0
