"""The controller, as the services and handlers of this node see it: `submit` runs an operation, `image` is the newest
committed metadata.

The node has a metadata log with its quorum (quorum_driver), the committed image (committed_metadata), and, while it
leads the quorum, the active controller (active_controller). This class puts them together, and takes them from start to
stop.

If what was written cannot be synced, the content of the disk is unknown: the node leaves the quorum, and every
operation is refused until the broker is started again.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections import deque
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar
from uuid import UUID

from broker_cy.controller.activation import Activate
from broker_cy.controller.broker_ops import AllocateProducerIds, ProducerIdBlock, StartBroker, StopBroker
from broker_cy.controller.create_topics import CreateTopics
from broker_cy.controller.operation import Operation
from broker_cy.core.errors import ErrorCode, KafkaError
from broker_cy.core.logs import facts
from broker_cy.metadata import features
from broker_cy.metadata.image import Endpoint, MetadataImage
from broker_cy.metadata.records import MetadataLogError
from broker_cy.metadata.snapshot import KRaftState, SnapshotId
from broker_cy.quorum import wire_admin, wire_log
from broker_cy.quorum.election_state import QuorumError
from broker_cy.quorum.messages import OffsetAndEpoch
from broker_cy.quorum.step import Output, Role, Snapshotted
from broker_cy.quorum.voters import Endpoint as VoterEndpoint
from broker_cy.quorum.voters import ReplicaKey, Voter
from broker_cy.server.metadata.active_controller import ActiveController
from broker_cy.server.metadata.broker_membership import BrokerMembership
from broker_cy.server.metadata.committed_metadata import CommittedMetadata, Listener
from broker_cy.server.metadata.controller_duties import ControllerDuties
from broker_cy.server.metadata.metadata_log import MetadataLog
from broker_cy.server.metadata.metadata_snapshots import SnapshotKeeper
from broker_cy.server.metadata.quorum_driver import Owner, QuorumDriver
from broker_cy.server.metadata.quorum_opening import open_network, open_quorum
from broker_cy.storage.log_config import LogConfig
from broker_cy.wire import messages

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from broker_cy.client.pool import Pool
    from broker_cy.config import BrokerConfig
    from broker_cy.controller.heartbeats import Heartbeats
    from broker_cy.core.clock import Clock
    from broker_cy.core.randomness import Randomness
    from broker_cy.metadata.loader import Loader
    from broker_cy.server.envelope import Asked
    from broker_cy.server.metadata.broker_watch import BrokerWatch
    from broker_cy.server.metadata.controller_link import ControllerLink
    from broker_cy.server.metadata.quorum_network import QuorumNetwork
    from broker_cy.storage.log_manager import LogManager
    from broker_cy.wire.codec import Message

R = TypeVar("R")

LOGGER = logging.getLogger("broker_cy.server.metadata")

# Positions in a segment are int32. MetadataLog begins the segments, so the log need not.
SEGMENT_BYTES_MAX = 2**31 - 1
# The next block of producer ids is requested when this many ids are left.
PRODUCER_IDS_LOW = 200
# An election takes one election timeout, two if votes are split. A start that waits longer has a quorum without a
# majority, and its operator must learn that.
LEADER_WAIT_S = 30
# How long a request of a client waits for an active controller: Kafka's controller.socket.timeout.ms.
FORWARD_S = 30.0
# Between two attempts to find it.
RETRY_S = 0.05


def _nobody(_: int) -> None:
    """This node answers no clients."""


def _seen(task: asyncio.Future[None]) -> None:
    """Mark the error as seen: the next request that finds no producer id requests another block, and a node that leads
    no longer has no use for its activation.
    """
    if not task.cancelled():
        task.exception()


class ControllerService:
    """`start` makes the service available; `submit` runs an operation; `image` is always the newest committed image."""

    def __init__(
        self,
        *,
        config: BrokerConfig,
        clock: Clock,
        loop: asyncio.AbstractEventLoop,
        metadata_log: MetadataLog,
        directory_ids: tuple[UUID, ...],
        cluster_id: str,
        randomness: Randomness,
        executor: Executor | None = None,
        on_committed: Callable[[int], None] = lambda end_offset: None,
    ) -> None:
        """`directory_ids` are those of the data directories, the one of the metadata log first; `randomness` gives
        ids; `executor` runs what blocks for the disk, None: the loop's default one; `on_committed(end_offset)` is
        called for each commit. See `open`.
        """
        self.config = config
        self.node_id = config.node_id
        self.broker_epoch = -1
        # Called with a broker that is probably gone, and when it turns out that it is not.
        self.on_suspect: Callable[[int], None] = _nobody
        self.on_clear: Callable[[int], None] = _nobody
        self._clock = clock
        self._loop = loop
        self._files = metadata_log
        self._directory_ids = directory_ids
        self._cluster_id = cluster_id
        self._executor = executor
        self._randomness = randomness
        self._on_committed = on_committed
        self._listeners: list[Listener] = []
        self._driver: QuorumDriver
        self._committed: CommittedMetadata
        self._active: ActiveController | None = None
        self._duties: ControllerDuties | None = None
        self._membership: BrokerMembership | None = None
        # None for a node that nobody else can talk to.
        self._pool: Pool | None = None
        self._network: QuorumNetwork | None = None
        self._link: ControllerLink | None = None
        self._watch: BrokerWatch | None = None
        self._endpoints: tuple[VoterEndpoint, ...] = ()
        self._is_loaded = False
        self._snapshots: SnapshotKeeper | None = None
        self._epoch_start_offset = -1  # while this node leads: where its epoch begins in the log
        self._high_watermark = 0
        self._refusal: str | None = "the controller has not started"
        self._activated: asyncio.Future[None] = loop.create_future()
        self._producer_ids: deque[int] = deque()  # allocated, and not yet handed out
        self._producer_block: asyncio.Task[None] | None = None

    # --- life

    @classmethod
    def open(
        cls,
        config: BrokerConfig,
        clock: Clock,
        loop: asyncio.AbstractEventLoop,
        log_manager: LogManager,
        randomness: Randomness,
        executor: Executor | None = None,
    ) -> ControllerService:
        """The service over the metadata log of the (locked and formatted) data directories. Blocks. Raises
        DataDirectoryError, StorageError, OSError.
        """
        log_config = LogConfig(
            segment_bytes=SEGMENT_BYTES_MAX,
            segment_ms=config["metadata.log.segment.ms"],
            # Only a snapshot makes records superfluous.
            retention_ms=-1,
            retention_bytes=-1,
        )
        directories = {directory.path: directory.directory_id for directory in log_manager.data_directories}
        root = os.path.abspath(config["metadata.log.dir"] or log_manager.directories[0])
        log = log_manager.load_metadata_log(log_config, clock.wall_ms(), root)
        ids = sorted(directories.items(), key=lambda item: item[0] != root)
        return cls(
            config=config,
            clock=clock,
            loop=loop,
            metadata_log=MetadataLog(log, root, config["metadata.log.segment.bytes"]),
            directory_ids=tuple(directory_id for _, directory_id in ids),
            cluster_id=log_manager.data_directories[0].cluster_id,
            randomness=randomness,
            executor=executor,
            on_committed=log_manager.metadata_committed,
        )

    def load(self, endpoints: tuple[VoterEndpoint, ...] = ()) -> None:
        """Load the metadata, and get ready for requests of other nodes. `endpoints` are the addresses of this node's
        controller listeners. Blocks. Raises MetadataLogError, QuorumError, StorageError, OSError.
        """
        self._is_loaded = True
        self._endpoints = endpoints
        loader = self._files.load()
        log = self._files.log
        if loader.image.offset >= log.log_end_offset and not self.config.begins_cluster:
            # The process ended between the two: a snapshot of the leader was to replace the log.
            newest = self._files.newest_snapshot()
            assert newest is not None
            self._files.replace(newest, self._clock.wall_ms())
        elif loader.image.offset >= log.log_end_offset:
            raise MetadataLogError(
                f"{self._files.directory}: the log ends at offset {log.log_end_offset}, before the newest snapshot"
            )
        # What a killed process wrote and did not sync.
        self._files.begin_sync()()
        self._open_quorum(loader)

    async def start(self, listeners: dict[str, Endpoint], rack: str | None = None, previous_epoch: int = -1) -> None:
        """Take part in the quorum, register this broker with `listeners` (advertised addresses by listener name), and
        publish the image to the subscribers. Blocks on the disk, so it runs before the first client. A node without the
        role of a broker registers nothing. `previous_epoch` is the broker epoch before an orderly stop, else -1.

        Raises as `load`, RegistrationRefused, and what a subscriber raises.
        """
        if not self._is_loaded:
            self.load()
        self._refusal = None
        self._driver.start()
        incarnation_id = self._randomness.kafka_uuid()
        if self._is_alone():
            registered = self.submit(StartBroker(self.node_id, incarnation_id, listeners, self._directory_ids, rack))
            # An only voter leads at once, and nobody else waits for its loop.
            self._driver.settle()
            self.broker_epoch = await registered
        elif self.config.is_broker:
            if self._pool is None:
                await self._wait_for_leader()
            self._membership = BrokerMembership(
                self.config, self, self._loop, self._cluster_id, incarnation_id, lambda: self.image
            )
            await self._membership.register(listeners, self._directory_ids, previous_epoch)
            self.broker_epoch = self._membership.epoch
        self._snapshots = SnapshotKeeper(
            config=self.config,
            clock=self._clock,
            loop=self._loop,
            executor=self._executor,
            files=self._files,
            kraft=self._kraft_at,
            on_written=self._snapshot_written,
            bytes_since_snapshot=self._bytes_since_snapshot,
        )
        self._committed.publish()

    async def join(self) -> None:
        """The broker is ready for clients: wait until the cluster sends them."""
        if self._membership is not None:
            self._membership.run()
            await self._membership.unfenced()

    def _is_alone(self) -> bool:
        """Whether this node leads a quorum that no other node can reach, so that the cluster has no other broker."""
        return self._network is None and self._active is not None and self.config.is_broker

    def _open_quorum(self, loader: Loader) -> None:
        """Raises QuorumError if the voters disagree, or if quorum-state does not parse."""
        me = Voter(ReplicaKey(self.node_id, self._directory_ids[0]), self._endpoints)
        quorum, voters, loader = open_quorum(self.config, me, self._files, loader, self._randomness)
        self._bytes_since_snapshot = loader.log_bytes
        reach = open_network(self.config, me, self._cluster_id, quorum, voters, self._files, self._loop)
        if reach is not None:
            self._pool, self._network, self._link = reach
            self._watch_brokers()
        self._committed = CommittedMetadata(
            loader, self._files, self._loop, self._listeners, self._image_changed, self._damaged
        )
        self._driver = QuorumDriver(
            quorum,
            self._files,
            self._clock,
            self._loop,
            self._executor,
            Owner(self._quorum_changed, self._not_written, self._stopped, self._replaced),
            self._network,
        )
        if self._network is not None:
            self._network.open(self._driver)

    def _watch_brokers(self) -> None:
        # Imported here, because a node that is alone has nobody to watch.
        from broker_cy.server.metadata.broker_watch import BrokerWatch

        self._watch = BrokerWatch(
            self.node_id,
            self._loop,
            self.config.network.inter_broker,
            lambda broker_id: self.on_suspect(broker_id),
            lambda broker_id: self.on_clear(broker_id),
            self._fence_dead,
        )
        self._listeners.append(self._watch.apply)

    def _kraft_at(self, end_offset: int) -> KRaftState:
        """What a snapshot that ends at `end_offset` contains of the quorum."""
        _, level, voters = self._driver.quorum.voters_at(end_offset)
        return KRaftState(level, wire_log.to_record(voters) if level > 0 else None)

    async def _wait_for_leader(self) -> None:
        timer = self._loop.call_later(LEADER_WAIT_S, self._give_up)
        try:
            await self._activated
        finally:
            timer.cancel()

    def _give_up(self) -> None:
        if not self._activated.done():
            self._activated.set_exception(
                QuorumError(
                    f"the metadata quorum has no leader after {LEADER_WAIT_S} s: a majority of its voters must be "
                    f"running and reachable ({self._driver.quorum!r})"
                )
            )

    async def stop(self) -> None:
        """Fence the broker, wait for pending operations, and resign. Later operations are refused."""
        if self._membership is not None:
            await self._membership.leave()
        elif self._refusal is None and self._active is not None and self.config.is_broker:
            try:
                await self.submit(StopBroker(self.node_id))
            except KafkaError as error:
                # A full disk must not keep the broker from stopping: it registers again at its next start anyway.
                LOGGER.warning("could not fence the broker before its stop", extra=facts(reason=error))
        if self._snapshots is not None:
            await self._snapshots.stop()
        if self._refusal is None:
            self._refusal = "the broker is stopping"
            self._driver.stop()
            self._committed.stop()
        if self._watch is not None:
            await self._watch.stop()
        if self._network is not None and self._pool is not None:
            await self._network.close()
            await self._pool.close()

    async def hand_over(self) -> None:
        """Before the broker stops to serve: let other brokers lead what this one leads."""
        if self._membership is not None:
            await self._membership.leave()

    def subscribe(self, listener: Listener) -> None:
        """Call `listener(delta, image)` with everything at start, and then with each commit, before its replies go
        out.
        """
        self._listeners.append(listener)

    # --- read by other services

    @property
    def image(self) -> MetadataImage:
        """The newest committed image. Valid for this turn of the loop: the next commit changes it."""
        return self._committed.image

    @property
    def epoch(self) -> int:
        """The epoch of the quorum, as far as this node knows."""
        return self._driver.quorum.epoch

    @property
    def high_watermark(self) -> int:
        """Everything in the metadata log below it is committed."""
        return self._driver.quorum.high_watermark

    @property
    def has_peers(self) -> bool:
        """Whether there are other nodes, or may be later. Known after `load`."""
        return self._network is not None

    @property
    def is_active(self) -> bool:
        """Whether this node is the active controller."""
        return self._active is not None

    @property
    def leader_id(self) -> int:
        """The active controller, as far as this node knows; -1 if there is none."""
        return self._driver.quorum.leader_id

    @property
    def heartbeats(self) -> Heartbeats:
        """When the registered brokers were last heard from. Raises KafkaError unless this node is active."""
        if self._active is None:
            raise self._not_active()
        return self._active.heartbeats

    @property
    def kraft_version(self) -> int:
        return self._driver.quorum.kraft_version

    @property
    def supported_features(self) -> dict[str, tuple[int, int]]:
        """Return the lowest and highest level of each supported feature."""
        return features.supported()

    # --- operations

    def submit(self, operation: Operation[R]) -> asyncio.Future[R]:
        """Run the operation; the future yields its reply once its records, and all before them, are committed.

        Raises KafkaError, here or from the future: what the operation itself raises, KAFKA_STORAGE_ERROR if the
        records could not be written, NOT_CONTROLLER if this node does not lead.
        """
        if self._active is not None and self._refusal is None:
            return self._active.submit(operation)
        if self._link is not None and self._refusal is None and isinstance(operation, CreateTopics):
            # Topics that this node needs itself.
            created: Any = self.run(
                operation, operation.request, messages.CreateTopicsResponse, lambda response: response, FORWARD_S
            )
            return self._loop.create_task(created)
        raise self._not_active()

    def _not_active(self) -> KafkaError:
        return KafkaError(
            ErrorCode.NOT_CONTROLLER, self._refusal or f"node {self.node_id} is not the active controller"
        )

    async def run(
        self,
        operation: Operation[R],
        request: Message,
        response: type[Any],
        read: Callable[[Any], R],
        timeout_s: float,
    ) -> R:
        """Have the active controller run an operation of this node: `operation` if that is this node, else `request`,
        whose `response` is read with `read`. Raises KafkaError.
        """
        deadline = self._loop.time() + timeout_s
        while True:
            try:
                if self._active is not None or self._link is None or self._refusal is not None:
                    return await self.submit(operation)
                left_s = max(0.0, deadline - self._loop.time())
                found = await self._link.ask(request, response, left_s)
                if found is not None:
                    return read(found)
            except KafkaError as error:
                if error.code is not ErrorCode.NOT_CONTROLLER or self._link is None or self._refusal is not None:
                    raise
                if self._loop.time() >= deadline:
                    raise
            if self._loop.time() >= deadline:
                raise self._not_active()
            # This node was elected, and has yet to apply what was committed before; or it leads no longer.
            await asyncio.sleep(RETRY_S)

    async def forward(self, ctx: Asked, request: Message, response: type[Any]) -> Any:
        """Let the active controller answer a request of a client, if that is another node; None: this node has to
        answer. Raises KafkaError.
        """
        if self._active is not None or self._link is None or self._refusal is not None:
            return None
        return await self._link.forward(ctx, request, response, FORWARD_S)

    async def answer(self, request: Message, version: int, listener: str) -> Message:
        """The response to a request of another node of the quorum. Raises KafkaError on a node without a network."""
        if self._network is None:
            raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, "this node is the only one of its quorum")
        return await self._network.answer(request, version, listener)

    async def next_producer_id(self) -> int:
        """A producer id that was never used before. Raises KafkaError."""
        while True:
            if len(self._producer_ids) <= PRODUCER_IDS_LOW and self._producer_block is None:
                # Requested early, so that no request waits for the disk while ids are left.
                self._producer_block = self._loop.create_task(self._allocate_producer_ids())
                self._producer_block.add_done_callback(_seen)
            if self._producer_ids:
                return self._producer_ids.popleft()
            assert self._producer_block is not None
            # Shielded: a connection that closes must not take the block from the others that wait for it.
            await asyncio.shield(self._producer_block)

    async def _allocate_producer_ids(self) -> None:
        try:
            block = await self.run(
                AllocateProducerIds(self.node_id, self.broker_epoch),
                messages.AllocateProducerIdsRequest(broker_id=self.node_id, broker_epoch=self.broker_epoch),
                messages.AllocateProducerIdsResponse,
                lambda response: ProducerIdBlock(response.producer_id_start, response.producer_id_len),
                FORWARD_S,
            )
            self._producer_ids.extend(range(block.first, block.first + block.size))
        finally:
            self._producer_block = None

    def describe_quorum(self, request: messages.DescribeQuorumRequest, version: int) -> Message:
        """The response to a DescribeQuorum, as the leader knows the quorum; with an error on another node."""
        now_ms = int(self._clock.monotonic() * 1000)
        described = self._driver.quorum.describe(now_ms)
        return wire_admin.describe_response(request, described, version, self._clock.wall_ms() - now_ms)

    async def add_voter(self, request: messages.AddRaftVoterRequest) -> Message:
        """The response to an AddRaftVoter. Raises KafkaError."""
        return await self._changes().add(request)

    async def remove_voter(self, request: messages.RemoveRaftVoterRequest) -> Message:
        """The response to a RemoveRaftVoter. Raises KafkaError."""
        return await self._changes().remove(request)

    def _changes(self) -> QuorumNetwork:
        if self._network is None:
            raise KafkaError(
                ErrorCode.UNSUPPORTED_VERSION,
                "this node has no controller listener on which other voters could reach it",
            )
        return self._network

    # --- what the quorum and the image report

    def _quorum_changed(self, output: Output) -> None:
        if output.role is not Role.LEADER:
            self._epoch_start_offset = -1
            self._end_leadership(output)
        elif self._epoch_start_offset < 0:
            # The first entry that a leader appends is where its epoch begins.
            self._epoch_start_offset = output.append[0].offset
        if output.high_watermark > self._high_watermark:
            self._high_watermark = output.high_watermark
            self._on_committed(output.high_watermark)
            if self._active is not None:
                self._active.commit(output.high_watermark)
            else:
                self._committed.advance(output.high_watermark)
        self._activate()

    def _image_changed(self, image: MetadataImage, size_bytes: int) -> None:
        if self._snapshots is not None:
            self._snapshots.committed(image, size_bytes)
        self._activate()

    def _activate(self) -> None:
        """Become the active controller once everything from before this node's epoch is in the image."""
        if self._active is not None or not 0 <= self._epoch_start_offset <= self._committed.end_offset:
            return
        self._committed.stop()
        self._active = ActiveController(
            self.config, self._clock, self._randomness, self._loop, self._driver, self._committed
        )
        try:
            is_new = self.image.features.metadata_version == 0
            bootstrap = self._files.bootstrap_records(self._clock.wall_ms()) if is_new else []
            self._active.submit(Activate(bootstrap, self._committed.in_transaction)).add_done_callback(_seen)
        except (MetadataLogError, OSError) as error:
            if self._network is None:
                raise
            self._damaged(f"this node cannot be the active controller: {error}")
            return
        self._committed.abort_transaction()
        if self._network is not None:
            dead = self._watch.dead if self._watch is not None else {}
            self._duties = ControllerDuties(self.config, self._clock, self._loop, self._active, dead)
            self._duties.start()
            LOGGER.info("this node is the active controller", extra=facts(epoch=self.epoch))
        if not self._activated.done():
            self._activated.set_result(None)

    def _fence_dead(self, epochs: Mapping[int, int]) -> None:
        if self._duties is not None:
            self._duties.fence_dead(epochs)

    def _end_leadership(self, output: Output) -> None:
        if self._active is not None:
            active, self._active = self._active, None
            if self._duties is not None:
                self._duties.stop()
                self._duties = None
                LOGGER.info("this node is the active controller no longer", extra=facts(epoch=output.epoch))
            reason = self._refusal or f"node {self.node_id} leads the metadata quorum no longer"
            active.end(reason)
            self._committed.advance(output.high_watermark)

    def _not_written(self, error: KafkaError) -> None:
        if self._active is not None:
            self._active.not_written(error, self._files.log.log_end_offset)

    def _stopped(self, reason: str) -> None:
        self._refusal = reason

    def _replaced(self, snapshot_id: SnapshotId) -> None:
        """A snapshot of the leader has replaced the log."""
        try:
            loader = self._files.load_snapshot()
        except (MetadataLogError, OSError) as error:
            self._damaged(str(error))
            return
        LOGGER.info("loaded a metadata snapshot of the leader", extra=facts(file=snapshot_id.file_name))
        self._committed.replace(loader)

    def _snapshot_written(self, snapshot_id: SnapshotId) -> None:
        self._driver.take(Snapshotted(OffsetAndEpoch(*snapshot_id), self._files.start()))

    def _damaged(self, reason: str) -> None:
        """Committed records cannot be read or applied: what this node would answer is not what the cluster has."""
        LOGGER.error("could not apply committed metadata", extra=facts(reason=reason))
        self._refusal = reason
        self._driver.stop()
