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
import resource
from dataclasses import replace
from typing import TYPE_CHECKING

from broker_cy.client.address import Address
from broker_cy.config.definitions import BROKER
from broker_cy.control.controller_service import ControllerService
from broker_cy.control.membership.own_address import check_own_address
from broker_cy.control.topics.auto_topics import AutoTopics
from broker_cy.core import uuid as uuids
from broker_cy.core.supervision import keep_running
from broker_cy.metadata import topic_names
from broker_cy.metadata.image import Endpoint
from broker_cy.quotas.connections import ConnectionRates
from broker_cy.replica.group_commit import GroupCommit
from broker_cy.replica.partition_table import PartitionTable
from broker_cy.server.broker import Broker
from broker_cy.server.client_quotas import EXPIRE_S
from broker_cy.server.connections import charging
from broker_cy.server.connections.answers import ServerCore
from broker_cy.server.connections.connection import Connection
from broker_cy.server.connections.listener import Admission, Ended, Listener
from broker_cy.server.connections.login_listeners import logins_of
from broker_cy.server.connections.sockets import Buffers
from broker_cy.server.connections.tls_listeners import HANDSHAKE_WORKERS, LOOK_S, TlsListeners
from broker_cy.server.controller_listeners import ControllerListeners
from broker_cy.server.coordinators.broker_calls import BrokerCalls
from broker_cy.server.coordinators.coordinator_service import ServiceContext
from broker_cy.server.coordinators.group_service import GroupService
from broker_cy.server.coordinators.marker_sender import MarkerSender
from broker_cy.server.coordinators.txn_markers import TxnMarkers
from broker_cy.server.coordinators.txn_service import TransactionService
from broker_cy.server.coordinators.txn_verifier import TxnVerifier
from broker_cy.server.handlers import load_handlers
from broker_cy.server.jobs import LoopJobs
from broker_cy.server.partitions.openings import Openings
from broker_cy.server.partitions.partition_service import PartitionService
from broker_cy.server.registry import declared
from broker_cy.server.replication.throttles import Throttles
from broker_cy.server.telemetry.commit_sampler import CommitSampler
from broker_cy.server.telemetry.event_log import EventLog
from broker_cy.server.telemetry.loop_watch import LoopWatch
from broker_cy.server.telemetry.metrics_address import MetricsAddress
from broker_cy.server.telemetry.metrics_sampler import MetricsSampler
from broker_cy.storage.cleaner.log_cleaner import CleanerSettings, LogCleaner
from broker_cy.storage.data_directory import holds_partitions, open_directories, open_metadata_directory
from broker_cy.storage.log_manager import LogManager
from broker_cy.storage.log_opener import OPENING_MAX
from broker_cy.storage.settings import StorageSettings

if TYPE_CHECKING:
    from collections.abc import Callable

    from broker_cy.config import BrokerConfig
    from broker_cy.metadata.image import ImageDelta, MetadataImage
    from broker_cy.server.replication.alterations import Alterations
    from broker_cy.server.replication.fetcher_manager import ReplicaFetcherManager
    from broker_cy.server.seams import Acceptor, Seams
    from broker_cy.server.telemetry.metrics_http import MetricsServer
    from broker_cy.storage.data_directory import DataDirectory

LOGGER = logging.getLogger("broker_cy.server")

# A clean shutdown waits this long for pending answers; requests that still wait for data or members are abandoned.
STOP_ANSWERS_S = 0.8
STOP_POLL_S = 0.005
# It waits this long, twice, for logs that are being opened, which may be recovered.
STOP_OPENING_S = 0.3
# Concurrent cold reads, each for one consumer; further ones queue.
COLD_READERS = 4
# Kafka's MIN_INCREMENTAL_FETCH_SESSION_EVICTION_MS: a fetch session unused for this long makes room for a new one.
FETCH_SESSION_EVICTION_MS = 120_000
# For fsync, removals and snapshots.
BACKGROUND_WORKERS = 2
# For votes and syncs of the metadata log, and for other nodes' reads of it: they do not wait for flushes of partitions.
METADATA_WORKERS = 2
# Threads of one round of group commit: a disk syncs several files at the same time, and they share a journal commit.
SYNC_THREADS = 8
# Cleaner threads beyond this number wait for each other; no machine needs more.
CLEANER_THREADS_MAX = 256
# Descriptors that neither connections nor open segments may take: listeners, indexes, checkpoints, workers.
DESCRIPTORS_RESERVED = 128
# Idle connections are searched for ten times within connections.max.idle.ms, but at least every ten seconds.
IDLE_SWEEPS = 10
IDLE_SWEEP_S_MAX = 10.0
# Interval at which storage checks whether a flush or checkpoint is due; at 2 GB/s that adds 512 MB to its own bound.
STORAGE_TICK_S = 0.25
# Kafka's value for intervals that mean never.
NEVER_MS = 2**63 - 1


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
        pool = self._pool = seams.workers.pool
        self._executor = pool("background", BACKGROUND_WORKERS)
        # log.cleaner.threads of them are in use; that setting may be raised while the broker runs.
        self._cleaner_pool = pool("cleaner", CLEANER_THREADS_MAX)
        self._cold_reader = pool("cold-read", COLD_READERS)
        self.broker.cold_reader = self._cold_reader
        self._jobs = LoopJobs(loop, self._executor)
        self._metadata_pool = pool("metadata", METADATA_WORKERS)
        # Notes of how far the logs were written: both background workers may wait for the disk.
        self._note_pool = pool("note", 1)
        self._note_jobs = LoopJobs(loop, self._note_pool)
        self._sync_pool = pool("sync", SYNC_THREADS)
        self._sync_jobs = LoopJobs(loop, self._sync_pool)
        self._open_pool = pool("open", OPENING_MAX)
        self._open_jobs = LoopJobs(loop, self._open_pool)
        # One thread: no two large batches are decompressed, and in memory, at the same time.
        self._check_pool = pool("check", 1)
        self._check_jobs = LoopJobs(loop, self._check_pool)
        # Looks whether a disk has failed: the other workers may all wait for it.
        self._disk_pool = pool("disk-check", 1)
        self._disk_jobs = LoopJobs(loop, self._disk_pool)
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._following: asyncio.Task[None] | None = None  # resolves hosts of a changed setting
        self._watch = LoopWatch(loop, self.clock)
        self.metrics_server: MetricsServer | None = None
        self._sampler: MetricsSampler | None = None
        self._partitions: PartitionService
        self._core: ServerCore
        self._controllers = ControllerListeners(self.broker, seams)
        # None on a node that is alone.
        self._fetchers: ReplicaFetcherManager | None = None
        self._alterations: Alterations | None = None

    # ---- start ----

    async def start(self) -> None:
        """Start and accept, once the metadata quorum has a leader. Raises ListenError, DataDirectoryError,
        MetadataLogError, QuorumError, StorageError, ConfigError, OSError.
        """
        await self.broker.ip_overrides.resolve()
        names = [listener.name for listener in self.config.listeners]
        self._tls = TlsListeners(
            self.config,
            self.loop,
            self.broker.tls_counts,
            lambda: self._pool("handshake", HANDSHAKE_WORKERS),
            names,
            self.broker.tls,
        )
        acceptors = [self._bind(listener.name, listener.host, listener.port) for listener in self.config.listeners]
        await self._controllers.bind()
        self._began_s = self.loop.time()
        self._bind_metrics()
        table = PartitionTable()
        self.broker.partitions = table
        authorization = self.broker.authorize()
        served = load_handlers()
        rates = ConnectionRates(self.config["quota.window.num"], self.config["quota.window.size.seconds"] * 1000)
        admission = Admission(0, 0, {}, rates)
        self.broker.quotas.connections = rates
        if len(self.config.listeners) > 1:
            admission.exempt = self.config.network.inter_broker
        self._core = ServerCore(
            self.loop,
            self.clock,
            self.broker.log_events,
            self.broker,
            table,
            served if authorization is None else declared(served),
            self.config["socket.request.max.bytes"],
            lambda connection: self._on_closed(admission, connection),
        )
        self._core.commit = GroupCommit(self._core, self._sync_jobs, SYNC_THREADS)
        self._core.check_jobs = self._check_jobs
        self._core.authorization = authorization
        self._install_hot_handlers()
        charging.install(self._core)
        self.broker.quotas.attach(self._core)
        self._open_storage()
        logins, tls = logins_of(self.broker), self._tls.listeners
        for (name, *_), acceptor in zip(self.config.listeners, acceptors, strict=True):
            self.listeners.append(Listener(name, acceptor, self._core, admission, logins.get(name), tls.get(name)))
        await self._start_services(self._endpoints())
        self._take_limits(admission)
        self._follow_settings(admission)
        if authorization is not None:
            await authorization.loaded()
        for accepting in self.listeners:
            accepting.start()
        await self._check_own_address()
        await self.broker.controller.join()
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

    def _bind(self, name: str, host: str, port: int) -> Acceptor:
        buffers = Buffers(self.config["socket.send.buffer.bytes"], self.config["socket.receive.buffer.bytes"])
        return self._network.listen(name, host, port, self.config["socket.listen.backlog.size"], buffers)

    def _bind_metrics(self) -> None:
        if not self.config["brokercy.metrics.listener"]:
            return
        address = MetricsAddress.parse(self.config["brokercy.metrics.listener"])
        # Imported here, because a broker that serves no metrics does not need these modules.
        from broker_cy.server.telemetry.metrics_access import access_of
        from broker_cy.server.telemetry.metrics_http import MetricsServer

        access = access_of(self.config, self.loop.time)
        self.metrics_server = MetricsServer.bind(self.loop, *address, self.page, self.missing, access)

    async def page(self, topics: frozenset[str] | None) -> bytes:
        """The page of a scrape; with `topics`, only the metrics of their partitions."""
        from broker_cy.server.telemetry.metrics_page import render

        return await render(self.broker, self._core, self._watch, topics)

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
        loading = {"group": self.broker.groups.is_loading, "transaction": self.broker.transactions.is_loading}
        return [f"the {name} coordinator is loading" for name, is_loading in loading.items() if is_loading]

    def _install_hot_handlers(self) -> None:
        from broker_cy.server.handlers import fetch, produce

        self._core.cold_reader = self._cold_reader
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
        directories = open_directories(
            [os.path.abspath(path) for path in self.config.log_dirs],
            self.config.node_id,
            lambda: uuids.to_text(self.broker.randomness.kafka_uuid()),
            self.broker.randomness.kafka_uuid,
            may_format=self.config.begins_cluster,
        )
        metadata_directory = open_metadata_directory(
            self.config["metadata.log.dir"] or directories[0].path,
            directories,
            self.broker.randomness.kafka_uuid,
            may_format=self.config.begins_cluster,
        )
        # By default Kafka never checks, and flush.ms has no effect; here it is checked with each tick in that case.
        flush_check_ms = self.config["log.flush.scheduler.interval.ms"]
        settings = StorageSettings(
            checkpoint_interval_ms=self.config["log.flush.offset.checkpoint.interval.ms"],
            start_offset_checkpoint_interval_ms=self.config["log.flush.start.offset.checkpoint.interval.ms"],
            flush_check_interval_ms=flush_check_ms if 0 < flush_check_ms < NEVER_MS else 0,
            retention_check_interval_ms=self.config["log.retention.check.interval.ms"],
            producer_id_expiration_ms=self.config["producer.id.expiration.ms"],
            kept_whole=topic_names.PROTECTED_TOPICS,
        )
        logs = LogManager(
            directories, settings, self._jobs, self._note_jobs, self._open_jobs, self._disk_jobs, metadata_directory
        )
        logs.on_directory_failed = self._on_directory_failed
        self._core.on_disk_error = logs.failures.suspect
        logs.cleaner = LogCleaner(
            logs.logs,
            logs.directories,
            self._cleaner_settings(),
            LoopJobs(self.loop, self._cleaner_pool),
            logs.removal.files,
            self.clock,
            self.broker.randomness,
            unopened=logs.unopened,
        )
        logs.on_progress = self._on_progress
        self.broker.log_manager = logs
        self.broker.openings = Openings(self.loop, logs.opener)
        self.broker.cluster_id = directories[0].cluster_id

    def _cleaner_settings(self) -> CleanerSettings:
        return CleanerSettings(
            enable=self.config["log.cleaner.enable"],
            threads=self.config["log.cleaner.threads"],
            dedupe_buffer_bytes=self.config["log.cleaner.dedupe.buffer.size"],
            load_factor=self.config["log.cleaner.io.buffer.load.factor"],
            io_buffer_bytes=self.config["log.cleaner.io.buffer.size"],
            io_max_bytes_per_s=self.config["log.cleaner.io.max.bytes.per.second"],
            backoff_ms=self.config["log.cleaner.backoff.ms"],
        )

    def _endpoints(self) -> dict[str, Endpoint]:
        """The advertised addresses by listener. Port 0 is replaced by the port that the system chose."""
        ports = {listener.name: listener.port for listener in self.listeners}
        return {
            each.name: Endpoint(each.host or self._network.own_name(), each.port or ports[each.name], each.protocol_id)
            for each in self.config.advertised_listeners
        }

    async def _check_own_address(self) -> None:
        """Raises RegistrationRefused if no node can reach this broker."""
        if not self.broker.controller.has_peers or not self.config.is_broker:
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

    async def _start_services(self, endpoints: dict[str, Endpoint]) -> None:
        broker = self.broker
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
        broker.auto_topics = AutoTopics(self.config, self.loop, broker.log_events)
        self._partitions = PartitionService(
            self.config,
            self.clock,
            broker.partitions,
            broker.log_manager,
            self._core,
            broker.log_events,
            self._on_online,
            self._on_opened,
            self._on_late_role,
            on_creating=self._on_creating,
        )
        broker.topic_settings = self._partitions.settings
        coordinators = ServiceContext(
            self.config,
            self.clock,
            self.loop,
            broker.partitions,
            broker.controller.submit,
            self._partitions.settings,
            self._executor,
            broker.log_events,
        )
        broker.groups = GroupService(coordinators)
        broker.txn_markers = TxnMarkers(
            broker.partitions,
            broker.groups,
            broker.openings,
            self.clock,
            self.loop,
            self.config["request.timeout.ms"],
        )
        self._calls = BrokerCalls(
            broker.node_id, self.config.network.inter_broker, lambda: broker.image, broker.outgoing
        )
        self._markers = MarkerSender(broker.node_id, self.loop, lambda: broker.image, broker.txn_markers, self._calls)
        self._verifier = TxnVerifier(self.loop, self._calls)
        broker.transactions = TransactionService(
            coordinators, self._markers, broker.controller.next_producer_id, self._verifier
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
        self._throttles = Throttles(self.config)
        self._core.leader_throttle = self._throttles.leader
        self._commit_sampler = CommitSampler(broker)
        broker.groups.on_commits = self._commit_sampler.note
        if broker.authorization is not None:
            broker.controller.subscribe(broker.authorization.apply)
        broker.controller.subscribe(broker.quotas.apply)
        broker.follow_tokens()
        broker.controller.subscribe(self._on_image)
        broker.controller.on_suspect = broker.suspects.suspect
        broker.controller.on_clear = broker.suspects.clear
        broker.controller.on_gone = broker.suspects.gone
        self._loaded = False
        broker.controller.load(self._controllers.endpoints())
        self._controllers.start()
        if broker.controller.has_peers:
            self._replicate()
        await broker.controller.start(endpoints, self.config["broker.rack"], broker.log_manager.previous_broker_epoch)
        if self.config.is_broker:
            broker.log_manager.note_broker_epoch(broker.controller.broker_epoch)

    def _replicate(self) -> None:
        """Partitions with several replicas follow their leaders, or report in-sync sets."""
        # Imported here, because a node that is alone does not need these modules.
        from broker_cy.server.replication.alterations import Alterations
        from broker_cy.server.replication.broker_links import AlterLink, BrokerLinks
        from broker_cy.server.replication.fetcher import Follower
        from broker_cy.server.replication.fetcher_manager import ReplicaFetcherManager

        broker, node_id = self.broker, self.config.node_id

        def broker_epoch() -> int:
            return broker.controller.broker_epoch

        links = BrokerLinks(node_id, lambda: broker.image, self.config.network.inter_broker, broker.outgoing)
        self._fetchers = ReplicaFetcherManager(
            Follower(
                node_id,
                broker_epoch,
                self.config,
                self.clock,
                self.loop,
                links,
                broker.log_manager,
                self._core.flush,
                self._throttles.follower,
            )
        )
        self._partitions.replication = self._fetchers
        self._core.silence = self._partitions.silence()
        self._alterations = Alterations(node_id, broker_epoch, self.loop, AlterLink(broker.controller))
        self._core.on_alter = self._alterations.add

    def _on_image(self, delta: ImageDelta, image: MetadataImage) -> None:
        if not self._loaded:
            self._loaded = True
            self._partitions.start(image, self.clock.wall_ms())
        self._partitions.apply(delta, image)
        if self._fetchers is not None:
            self._fetchers.apply(delta)
        self._throttles.apply(delta, image)
        self.broker.groups.apply(delta, image)
        self.broker.transactions.apply(delta, image)
        self._markers.apply(delta, image)
        self._verifier.apply(delta, image)
        self.broker.suspects.apply(delta)
        self.broker.departed.apply(delta, image)
        self.broker.events.apply(delta, image)

    def _on_directory_failed(self, directory: DataDirectory) -> None:
        """Other brokers must lead the partitions that this broker can no longer write or read."""
        self._partitions.lose_directory(directory.path)
        self.broker.controller.directory_failed(directory.directory_id, str(directory.failure))

    def _on_online(self, topic: str, index: int) -> None:
        self.broker.groups.partition_online(topic, index)
        self.broker.transactions.partition_online(topic, index)

    def _on_late_role(self, topic: str, index: int) -> None:
        self.broker.groups.partition_led(topic)
        self.broker.transactions.partition_led(topic)

    def _on_creating(self, is_creating: bool) -> None:
        """Have requests wait for logs that are not created yet."""
        from broker_cy.server.handlers import produce

        self._is_creating = is_creating
        produce.install(self._core, some_unopened=is_creating or bool(self.broker.log_manager.unopened))

    def _on_opened(self, topic: str, index: int) -> None:
        self.broker.openings.settled(topic, index)
        if not self._has_opened_all and not self.broker.log_manager.unopened:
            self._all_opened()

    def _all_opened(self) -> None:
        """Every log is open, offline or deleted."""
        self._has_opened_all = True
        self._on_creating(self._is_creating)
        self._tell_start()
        if self._on_all_opened is not None:
            self._on_all_opened()

    def _follow_settings(self, admission: Admission) -> None:
        """Follow dynamic settings that are not topic settings."""

        def limits_changed(_: frozenset[str]) -> None:
            self._take_limits(admission)
            self._resume_listeners(admission)

        async def follow_overrides() -> None:
            await self.broker.ip_overrides.follow()
            limits_changed(frozenset())

        def overrides_changed(_: frozenset[str]) -> None:
            if self._following is not None:
                self._following.cancel()  # it would resolve the same setting
            self._following = keep_running(self.loop, follow_overrides, "limits of connections by address")

        def expiration_changed(_: frozenset[str]) -> None:
            logs = self.broker.log_manager
            logs.settings = replace(logs.settings, producer_id_expiration_ms=self.config["producer.id.expiration.ms"])

        def metrics_changed(_: frozenset[str]) -> None:
            self._core.metrics.on = self.config["brokercy.metrics.enable"]

        metrics_changed(frozenset())
        self.config.on_change(metrics_changed, "brokercy.metrics.enable")

        def verification_changed(_: frozenset[str]) -> None:
            self._core.verifies = self.config["transaction.partition.verification.enable"]

        verification_changed(frozenset())

        def cleaner_changed(_: frozenset[str]) -> None:
            cleaner = self.broker.log_manager.cleaner
            if cleaner is not None:
                cleaner.reconfigure(self._cleaner_settings())

        self.config.on_change(cleaner_changed, *(name for name in BROKER if name.startswith("log.cleaner.")))
        names = ("max.connections", "max.connections.per.ip", "max.connection.creation.rate")
        self.config.on_change(limits_changed, *names)
        self.config.on_change(overrides_changed, "max.connections.per.ip.overrides")
        self.config.on_change(expiration_changed, "producer.id.expiration.ms")
        self.config.on_change(verification_changed, "transaction.partition.verification.enable")

    def _take_limits(self, admission: Admission) -> None:
        """Apply the limits on connections; descriptors for logs and other files are always reserved."""
        descriptors, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        room = descriptors - self.broker.log_manager.open_files.limit - DESCRIPTORS_RESERVED
        admission.descriptors_max = max(1, room)
        admission.connections_max = min(self.config["max.connections"], admission.descriptors_max)
        names = [each.name for each in self.config.listeners]
        admission.listener_max = {name: self.config.of_listener("max.connections", name) for name in names}
        if admission.rates is not None:
            rate = "max.connection.creation.rate"
            rates = {name: self.config.of_listener(rate, name) for name in names}
            admission.rates.limit(self.config[rate], rates, int(self.clock.monotonic() * 1000))
        admission.per_ip_max = self.config["max.connections.per.ip"]
        admission.per_ip_overrides = self.broker.ip_overrides.limits

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

    def _on_closed(self, admission: Admission, connection: Connection | Ended) -> None:
        admission.leave(connection.client_host, connection.listener)
        self._resume_listeners(admission)

    def _resume_listeners(self, admission: Admission) -> None:
        if not self._core.stopping:
            for listener in self.listeners:
                if admission.has_room(listener.name):
                    listener.start()

    # ---- stop ----

    async def stop(self) -> None:
        """Shut down cleanly; everything acknowledged is on disk afterwards, and the data directory is marked clean."""
        await self.broker.controller.hand_over()
        for timer in self._timers.values():
            timer.cancel()
        if self._following is not None:
            self._following.cancel()
        self._watch.stop()
        if self._fetchers is not None and self._alterations is not None:
            self._fetchers.close()
            self._alterations.close()
        for listener in self.listeners:
            listener.close()
        self._tls.close()
        await self._stop_opening()
        self._core.stop_reading()
        self._core.flush()
        await self._commit_sampler.stop()
        if self._sampler is not None:
            await self._sampler.stop()
        self.broker.stop_reports()
        await self.broker.events.stop()
        # In this order: the end of a transaction may wait for a group coordinator.
        self.broker.suspects.stop()
        await self.broker.transactions.stop()
        await self._markers.close()
        await self._verifier.close()
        await self._calls.close()
        await self.broker.groups.stop()
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
        self._cleaner_pool.shutdown(wait=True, cancel_futures=True)
        for jobs in (
            self._jobs, self._note_jobs, self._sync_jobs, self._check_jobs, self._open_jobs, self._disk_jobs,
        ):  # fmt: skip
            jobs.stop()
        self._note_pool.shutdown(wait=True, cancel_futures=True)
        self._open_pool.shutdown(wait=True, cancel_futures=True)
        self._sync_pool.shutdown(wait=True, cancel_futures=True)
        self._metadata_pool.shutdown(wait=True, cancel_futures=True)
        self._executor.shutdown(wait=True, cancel_futures=True)
        self._cold_reader.shutdown(wait=False, cancel_futures=True)
        self.broker.login_calls.stop()
        self._check_pool.shutdown(wait=False, cancel_futures=True)
        self._disk_pool.shutdown(wait=False, cancel_futures=True)
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
