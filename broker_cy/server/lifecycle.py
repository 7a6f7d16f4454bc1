"""One broker from start to stop.

Start: bind the listeners (so that a port in use is reported before any file changes), lock the data directory, load
the metadata, open the partitions (workers open most logs afterwards, see storage.log_opener), load the coordinators,
accept. Stop: read no more requests, finish those that were read, flush, write the clean-shutdown mark. STOP_ANSWERS_S
bounds the wait, so that the stop takes at most two seconds. The file is long because the services depend on the order
of their start and stop, and that order can be checked only in one place.
"""

from __future__ import annotations

import asyncio
import logging
import os
from dataclasses import replace
from typing import TYPE_CHECKING

from broker_cy.broker.broker import Broker
from broker_cy.broker.client_quotas import EXPIRE_S
from broker_cy.broker.registry import declared
from broker_cy.client.address import Address
from broker_cy.connections import charging
from broker_cy.connections.answers import ServerCore
from broker_cy.connections.connection import Connection
from broker_cy.connections.connection_limits import ConnectionLimits
from broker_cy.connections.listener import Ended, Listener
from broker_cy.connections.login_listeners import logins_of
from broker_cy.control.controller_service import ControllerService
from broker_cy.control.membership.own_address import check_own_address
from broker_cy.control.topics.auto_topics import AutoTopics
from broker_cy.coordinator_services.coordinator_service import ServiceContext
from broker_cy.coordinator_services.coordinators import Coordinators
from broker_cy.events.event_log import EventLog
from broker_cy.handlers import fetch, produce, serve_handlers
from broker_cy.metadata.image import Endpoint
from broker_cy.metrics.events import DirectoryFailed, ReplicaMoved
from broker_cy.network.sockets import Buffers
from broker_cy.network.tls_listeners import HANDSHAKE_WORKERS, LOOK_S, TlsListeners
from broker_cy.partitions.directory_moves import DirectoryMoves
from broker_cy.partitions.openings import Openings
from broker_cy.partitions.partition_service import PartitionService
from broker_cy.replica.group_commit import GroupCommit
from broker_cy.replica.partition_table import PartitionTable
from broker_cy.replication.throttles import Throttles
from broker_cy.server.broker_replication import BrokerReplication
from broker_cy.server.controller_listeners import ControllerListeners
from broker_cy.server.followed_settings import follow_settings
from broker_cy.server.node_directories import open_log_manager
from broker_cy.server.schema_checks import SchemaChecks
from broker_cy.server.worker_pools import SYNC_THREADS, BrokerPools
from broker_cy.share_service.share_service import ShareService
from broker_cy.storage.data_directory import holds_partitions
from broker_cy.telemetry.commit_sampler import CommitSampler
from broker_cy.telemetry.loop_watch import LoopWatch
from broker_cy.telemetry.metrics_binding import bind_metrics
from broker_cy.telemetry.metrics_page import render
from broker_cy.telemetry.metrics_sampler import MetricsSampler
from broker_cy.telemetry.node_pages import Pages

if TYPE_CHECKING:
    from collections.abc import Callable

    from broker_cy.config import BrokerConfig
    from broker_cy.coordinator.streams.internal_topics import Requester
    from broker_cy.metadata.image import ImageDelta, MetadataImage
    from broker_cy.network.seams import Seams
    from broker_cy.replica.partition import Partition
    from broker_cy.storage.data_directory import DataDirectory
    from broker_cy.telemetry.metrics_http import MetricsServer
    from broker_cy.wire import messages

LOGGER = logging.getLogger("broker_cy.server")

# A clean shutdown waits this long for pending answers; requests that still wait for data or members are abandoned.
STOP_ANSWERS_S = 0.8
STOP_POLL_S = 0.005
# It waits this long, twice, for logs that are being opened, which may be recovered.
STOP_OPENING_S = 0.3
# Kafka's MIN_INCREMENTAL_FETCH_SESSION_EVICTION_MS: a fetch session unused for this long makes room for a new one.
FETCH_SESSION_EVICTION_MS = 120_000
# Idle connections are searched for ten times within connections.max.idle.ms, but at least every ten seconds.
IDLE_SWEEPS = 10
IDLE_SWEEP_S_MAX = 10.0
# Interval at which storage checks whether a flush or checkpoint is due; at 2 GB/s that adds 512 MB to its own bound.
STORAGE_TICK_S = 0.25


class BrokerServer:
    """Builds the services, and starts and stops them in order."""

    def __init__(
        self,
        config: BrokerConfig,
        seams: Seams,
        on_progress: Callable[[int], None] | None = None,
        on_all_opened: Callable[[], None] | None = None,
    ) -> None:
        """`on_progress` is called during the start with the number of partitions that are loaded, `on_all_opened` when
        all are, which may be after the start.
        """
        self.config = config
        self._on_progress = on_progress
        self._on_all_opened = on_all_opened
        self._has_opened_all = self._is_creating = False
        self.clock = seams.clock
        self.loop = loop = seams.loop
        self._network = seams.network
        self.broker = Broker(config, seams)
        self.listeners: list[Listener] = []
        self._make_pool = seams.workers.pool
        self._pools = BrokerPools(seams, [os.path.abspath(path) for path in config.log_dirs])
        self.broker.cold_reader = self._pools.cold_reader
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._watch = LoopWatch(loop, self.clock)
        self.metrics_server: MetricsServer | None = None
        self._sampler: MetricsSampler | None = None
        self._partitions: PartitionService
        self._core: ServerCore
        self._limits: ConnectionLimits
        self._coordinators: Coordinators
        self._replication: BrokerReplication
        self._schema_checks: SchemaChecks
        self._controllers = ControllerListeners(self.broker, seams)

    # ---- start ----

    async def start(self) -> None:
        """Start and accept, once the metadata quorum has a leader. Raises ListenError, DataDirectoryError,
        MetadataLogError, QuorumError, StorageError, ConfigError, OSError.
        """
        await self._bind()
        self._make_core()
        self._open_storage()
        self._make_listeners()
        self._make_services()
        await self._start_services()
        self._limits.apply()
        follow_settings(self.config, self._core, self.broker.log_manager)
        self._limits.follow()
        if self.broker.authorization is not None:
            await self.broker.authorization.loaded()
        for accepting in self.listeners:
            accepting.start()
        await self._check_own_address()
        await self.broker.controller.join()
        self.broker.log_manager.offline_logs.consider_all()
        self._start_metrics()
        self._commit_sampler.start()
        interval_ms = self.config["brokercy.metrics.sample.interval.ms"]
        if interval_ms:
            self._sampler = MetricsSampler(self.broker, self._core, self._watch, interval_ms)
            self._sampler.start()
        if self.broker.log_manager.unopened:
            self.broker.log_manager.opener.start()
        else:
            self._all_opened()
        self._start_timers()

    async def _bind(self) -> None:
        """Bind all sockets. Raises ListenError, RegistrationRefused, ConfigError."""
        config = self.config
        await self.broker.ip_overrides.resolve()
        self._tls = TlsListeners(
            config,
            self.loop,
            self.broker.tls_counts,
            lambda: self._make_pool("handshake", HANDSHAKE_WORKERS),
            [listener.name for listener in config.listeners],
            self.broker.tls,
        )
        buffers = Buffers(config["socket.send.buffer.bytes"], config["socket.receive.buffer.bytes"])
        self._acceptors = [
            self._network.listen(each.name, each.host, each.port, config["socket.listen.backlog.size"], buffers)
            for each in config.listeners
        ]
        await self._controllers.bind()
        self._began_s = self.loop.time()
        pages = Pages(self.share_group_page, self.mirrors_page)
        self.metrics_server = bind_metrics(config, self.loop, self.page, self.missing, pages)

    def _make_core(self) -> None:
        """The parts that all connections of clients share."""
        broker, pools = self.broker, self._pools
        broker.partitions = PartitionTable()
        authorization = broker.authorize()
        served = serve_handlers()
        self._limits = ConnectionLimits(
            self.config,
            self.clock,
            self.loop,
            broker.ip_overrides,
            self.listeners,
            lambda: broker.log_manager.open_files.limit,
            lambda: self._core.stopping,
        )
        broker.quotas.connections = self._limits.rates
        core = self._core = ServerCore(
            self.loop,
            self.clock,
            broker.log_events,
            broker,
            broker.partitions,
            served if authorization is None else declared(served),
            self.config["socket.request.max.bytes"],
            self._on_closed,
        )
        core.commit = GroupCommit(core, pools.sync_jobs, SYNC_THREADS)
        core.check_jobs = pools.check_jobs
        core.authorization = authorization
        self._install_hot_handlers()
        charging.install(core)
        broker.quotas.attach(core)

    def _make_listeners(self) -> None:
        logins, tls, admission = logins_of(self.broker), self._tls.listeners, self._limits.admission
        for (name, *_), acceptor in zip(self.config.listeners, self._acceptors, strict=True):
            self.listeners.append(Listener(name, acceptor, self._core, admission, logins.get(name), tls.get(name)))

    def _start_timers(self) -> None:
        """Begin the work that is done again and again while the broker runs."""
        self._every("storage", STORAGE_TICK_S, self._storage_tick)
        self._every("quotas", EXPIRE_S, self.broker.quotas.expire)
        if self.broker.tls is not None:
            self._every("certificates", LOOK_S, self.broker.tls.look)
        flush_check_s = self.config["log.flush.scheduler.interval.ms"] / 1000
        if 0 < flush_check_s < STORAGE_TICK_S:
            self._every("flush", flush_check_s, lambda: self.broker.log_manager.flush_old(self.clock.wall_ms()))
        idle_ms = self.config["connections.max.idle.ms"]
        if idle_ms > 0:
            self._every("idle", min(idle_ms / 1000 / IDLE_SWEEPS, IDLE_SWEEP_S_MAX), self._close_idle)

    async def page(self, topics: frozenset[str] | None) -> bytes:
        """The page of a scrape; with `topics`, only the metrics of their partitions."""
        return await render(self.broker, self._core, self._watch, topics)

    async def share_group_page(self, group_id: str) -> bytes:
        """The records of a share group that are in flight on this broker, as JSON."""
        from broker_cy.share_service.in_flight_page import in_flight_page

        return await in_flight_page(self.broker.share, group_id)

    async def mirrors_page(self) -> bytes:
        """The mirrors that this broker leads, as JSON."""
        from broker_cy.replication.mirror_view import mirrors_page

        return await mirrors_page(self.broker.mirror_views())

    def call_each_tick(self, call: Callable[[], None]) -> None:
        """Call it each loop_watch.PERIOD_S, as long as the broker serves."""
        self._watch.on_tick = call

    def _start_metrics(self) -> None:
        self._watch.start()
        if self.metrics_server is not None:
            self.metrics_server.start()

    def _tell_start(self) -> None:
        logs = self.broker.log_manager
        self.broker.events.started(
            clean=logs.was_clean or self._is_new,
            start_ms=int((self.loop.time() - self._began_s) * 1000),
            partitions=len(logs.logs) + len(logs.unopened),
            cuts=logs.cuts,
        )

    def missing(self) -> list[str]:
        """Return the reasons why this broker is not ready, one line each."""
        if self._core.stopping:
            return ["the broker is stopping"]
        own = self.broker.image.brokers.get(self.broker.node_id)
        if own is None or own.fenced:
            return [
                "this broker is not registered" if own is None else "this broker is fenced: clients are sent to others"
            ]
        loading = {
            "group": self.broker.groups.is_loading,
            "transaction": self.broker.transactions.is_loading,
            "share": self.broker.share_state.is_loading,
        }
        return [f"the {name} coordinator is loading" for name, is_loading in loading.items() if is_loading]

    def _install_hot_handlers(self) -> None:
        self._core.cold_reader = self._pools.cold_reader
        self._core.fetch_bytes_max = self.config["fetch.max.bytes"]
        produce.install(self._core, some_unopened=True)
        fetch.install(
            self._core,
            self.config["max.incremental.fetch.session.cache.slots"],
            FETCH_SESSION_EVICTION_MS,
            self.broker.randomness,
            selects_replicas=self.config["replica.selector.class"] is not None,
        )

    def _open_storage(self) -> None:
        self._is_new = not any(map(holds_partitions, self.config.log_dirs))
        logs = open_log_manager(self.config, self.clock, self.broker.randomness, self._pools)
        logs.on_directory_failed = self._on_directory_failed
        logs.moves.on_change = self._on_move
        self._core.on_disk_error = logs.suspect
        logs.on_progress = self._on_progress
        self.broker.log_manager = logs
        self.broker.openings = Openings(self.loop, logs.opener)
        self.broker.cluster_id = logs.metadata_directory.cluster_id

    def _endpoints(self) -> dict[str, Endpoint]:
        """The advertised addresses by listener. Port 0 is replaced by the port that the system chose."""
        ports = {listener.name: listener.port for listener in self.listeners}
        return {
            each.name: Endpoint(each.host or self._network.own_name(), each.port or ports[each.name], each.protocol_id)
            for each in self.config.advertised_listeners
        }

    async def _check_own_address(self) -> None:
        """Raises RegistrationRefused if no node can reach this broker."""
        if not self.broker.controller.has_peers:
            return
        name = self.config.network.inter_broker
        bound = next((each for each in self.config.listeners if each.name == name), None)
        port = next((each.port for each in self.listeners if each.name == name), None)
        endpoint = self._endpoints().get(name)
        if bound is None or port is None or endpoint is None:
            return
        # A listener for every address is at the advertised one as well, if the port is the same.
        is_everywhere = bound.host in ("", "0.0.0.0", "::") and port == endpoint.port
        listens = Address(endpoint.host if is_everywhere else bound.host, port)
        advertised = Address(endpoint.host, endpoint.port)
        has_others = any(each != self.broker.node_id for each in self.broker.image.brokers)
        outgoing = replace(self.broker.outgoing, login=None)
        await check_own_address(name, advertised, listens, outgoing, has_others=has_others)

    def _make_services(self) -> None:
        broker = self.broker
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
        broker.log_manager.on_placed = self._on_placed
        broker.directory_moves = DirectoryMoves(self.config, broker.log_manager, broker.partitions)
        broker.auto_topics = AutoTopics(self.config, self.loop, broker.log_events)
        self._partitions = PartitionService(
            self.config,
            self.clock,
            broker.partitions,
            broker.log_manager,
            self._core,
            broker.log_events,
            lambda topic, index: self._coordinators.partition_online(topic, index),
            self._on_opened,
            self._on_late_role,
            on_creating=self._on_creating,
        )
        broker.topic_settings = self._partitions.settings
        self._schema_checks = SchemaChecks(broker)
        self._partitions.check_record_schemas(self._schema_checks)
        context = ServiceContext(
            self.config,
            self.clock,
            self.loop,
            broker.partitions,
            broker.controller.submit,
            self._partitions.settings,
            self._pools.background,
            broker.log_events,
        )
        coordinators = self._coordinators = Coordinators(
            context,
            broker.openings,
            lambda: broker.image,
            broker.outgoing,
            broker.controller.next_producer_id,
            self._delete_before,
            self._create_topics,
            broker.randomness,
        )
        broker.groups, broker.transactions = coordinators.groups, coordinators.transactions
        broker.share_state, broker.share_persister = coordinators.share_state, coordinators.share_persister
        broker.share_groups = coordinators.share_groups
        broker.txn_markers = coordinators.txn_markers
        broker.share = ShareService(
            self.config,
            self.clock,
            self.loop,
            broker.partitions,
            broker.openings,
            lambda: broker.image,
            broker.share_persister,
            self._pools.cold_reader,
        )
        broker.events = EventLog(
            self.config,
            self.clock,
            self.loop,
            broker.partitions,
            broker.controller.submit,
            broker.own_topics,
            lambda topic: int(self._partitions.settings(topic)["min.insync.replicas"]),
        )
        broker.report_rights()
        broker.groups.on_event = broker.transactions.on_event = broker.events.note
        self._throttles = Throttles(self.config, broker.directory_moves.limit_to)
        self._core.leader_throttle = self._throttles.leader
        self._commit_sampler = CommitSampler(broker)
        broker.groups.on_commits = self._commit_sampler.note
        broker.share.on_progress = self._commit_sampler.note_share
        broker.share.leader_changes.on_event = broker.events.note

    async def _create_topics(
        self, requester: Requester, request: messages.CreateTopicsRequest
    ) -> messages.CreateTopicsResponse:
        """Create topics in the name of a client. Raises KafkaError."""
        from broker_cy.handlers.create_topics import create_topics_for

        return await create_topics_for(self.broker, requester, request)

    def _delete_before(self, partition: Partition, offset: int) -> None:
        """Delete records that a coordinator no longer needs. Raises KafkaError, StorageError."""
        self.broker.log_manager.delete_records_before(partition.log, offset)
        partition.tell_log_start()

    async def _start_services(self) -> None:
        """Load the metadata, join the quorum, and open the partitions."""
        broker = self.broker
        if broker.authorization is not None:
            broker.controller.subscribe(broker.authorization.apply)
        broker.controller.subscribe(broker.quotas.apply)
        broker.follow_tokens()
        broker.controller.subscribe(self._on_image)
        ended_brokers = broker.controller.ended_brokers
        ended_brokers.on_suspect = broker.suspects.suspect
        ended_brokers.on_clear = broker.suspects.clear
        ended_brokers.on_gone = broker.suspects.gone
        self._loaded = False
        broker.controller.load(self._controllers.endpoints())
        self._controllers.start()
        self._replication = BrokerReplication(broker, self._throttles, self._core.flush)
        broker.mirror_views = self._replication.mirror_views
        self._partitions.replication = self._replication.fetchers
        self._core.silence = self._partitions.led.silence
        self._core.on_alter = self._replication.alterations.add
        await broker.controller.start(self._endpoints(), broker.log_manager.previous_broker_epoch)
        broker.log_manager.note_broker_epoch(broker.controller.broker_epoch)

    def _on_image(self, delta: ImageDelta, image: MetadataImage) -> None:
        if not self._loaded:
            self._loaded = True
            self._partitions.start(image, self.clock.wall_ms())
        self._partitions.apply(delta, image)
        self.broker.directory_moves.apply(delta, image)
        self._replication.apply(delta, image)
        self._throttles.apply(delta, image)
        self._coordinators.apply(delta, image)
        self.broker.share.apply(delta, image)
        self.broker.suspects.apply(delta)
        self.broker.departed.apply(delta, image)
        self.broker.events.apply(delta, image)

    def _on_closed(self, connection: Connection | Ended) -> None:
        """A client has ended."""
        self._limits.closed(connection)
        if isinstance(connection, Connection):
            self.broker.share.disconnected(connection.connection_id)

    def _on_directory_failed(self, directory: DataDirectory) -> None:
        """Other brokers must lead the partitions that this broker can no longer write or read."""
        if directory in self.broker.log_manager.data_directories:
            self._partitions.lose_directory(directory.path)
            self.broker.events.note(DirectoryFailed(directory.path, str(directory.failure)))
            self.broker.share.lost_directory()
            self.broker.controller.directory_failed(directory.directory_id, str(directory.failure))
        if directory is self.broker.log_manager.metadata_directory:
            self.broker.controller.metadata_directory_failed(str(directory.failure))

    def _on_move(self, key: tuple[str, int], source: str, target: str, state: str) -> None:
        """A replica begins to move to another directory, or its move is over."""
        self.broker.events.note(ReplicaMoved(*key, source, target, state))

    def _on_placed(self, topic: str, index: int) -> None:
        """A log was created, or its place to report has changed."""
        self.broker.controller.placed(topic, index)
        self.broker.directory_moves.settle(topic, index, self.broker.image)

    def _on_creating(self, is_creating: bool) -> None:
        """Have requests wait for logs that are not created yet."""
        self._is_creating = is_creating
        produce.install(self._core, some_unopened=is_creating or bool(self.broker.log_manager.unopened))

    def _on_late_role(self, topic: str, index: int) -> None:
        """A partition took its role later than the metadata gave it to it."""
        self._coordinators.partition_led(topic)
        self._replication.refresh(topic)

    def _on_opened(self, topic: str, index: int) -> None:
        self.broker.openings.settled(topic, index)
        self._replication.refresh(topic)
        if not self._has_opened_all and not self.broker.log_manager.unopened:
            self._all_opened()

    def _all_opened(self) -> None:
        """Every log is open, offline or deleted."""
        self._has_opened_all = True
        self._on_creating(self._is_creating)
        self._tell_start()
        if self._on_all_opened is not None:
            self._on_all_opened()

    # ---- while it runs ----

    def _every(self, name: str, interval_s: float, work: Callable[[], object]) -> None:
        def fire() -> None:
            self._timers[name] = self.loop.call_later(interval_s, fire)
            work()

        self._timers[name] = self.loop.call_later(interval_s, fire)

    def _storage_tick(self) -> None:
        self.broker.log_manager.tick(self.clock.wall_ms(), self._partitions.high_watermark_of)
        self._partitions.retry()
        self.broker.events.look(self.broker.controller.leader_id, self.broker.image)

    def _close_idle(self) -> None:
        self._core.close_idle(self.config["connections.max.idle.ms"])

    # ---- stop ----

    async def stop(self) -> None:
        """Shut down cleanly; everything acknowledged is on disk afterwards, and the data directory is marked clean."""
        await self.broker.controller.hand_over()
        for timer in self._timers.values():
            timer.cancel()
        self._limits.stop()
        self._watch.stop()
        await self._replication.close()
        for listener in self.listeners:
            listener.close()
        self._tls.close()
        await self._stop_opening()
        self._core.stop_reading()
        self._core.flush()
        await self._schema_checks.stop()
        await self._commit_sampler.stop()
        if self._sampler is not None:
            await self._sampler.stop()
        self.broker.stop_reports()
        await self.broker.events.stop()
        self.broker.suspects.stop()
        self.broker.share.stop()
        await self._coordinators.stop()
        deadline = self.loop.time() + STOP_ANSWERS_S
        while self._core.pending_answers and self.loop.time() < deadline:
            await asyncio.sleep(STOP_POLL_S)
        await self.broker.controller.stop()
        self._controllers.stop()
        if self.metrics_server is not None:
            await self.metrics_server.stop()
        for connection in list(self._core.connections):
            connection.close()
        self._core.flush()
        if self.broker.log_manager.cleaner is not None:
            self.broker.log_manager.cleaner.stop()
        self._pools.stop()
        self.broker.login_calls.stop()
        self.broker.log_manager.close(self._partitions.high_watermark_of, self.broker.controller.broker_epoch)

    async def _stop_opening(self) -> None:
        """Open no more logs. After an unclean stop, the unopened logs would make this stop unclean, too: so they are
        opened first, unless that takes long. A log that is being opened is adopted, unless that takes long.
        """
        opener = self.broker.log_manager.opener
        for is_last in (self.broker.log_manager.was_clean, True):
            if is_last:
                opener.stop()
            deadline = self.loop.time() + STOP_OPENING_S
            while opener.running and self.loop.time() < deadline:
                await asyncio.sleep(STOP_POLL_S)
        if opener.unopened:
            # Else it is reported when all are open.
            self._tell_start()
