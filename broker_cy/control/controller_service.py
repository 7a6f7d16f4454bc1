"""The controller, as the services and handlers of this node see it: `submit` runs an operation, `image` is the newest
committed metadata.

The node has a metadata log with its quorum (quorum_driver), the committed image (committed_metadata), its membership
(node_membership), connections to other nodes (quorum_network, ended_brokers), and, while it leads the quorum, the
active controller (leadership). This class puts them together, takes them from start to stop, and has operations run
here or, on a node that does not lead, by the active controller. A single node has the same parts. The file is long
because it is the one face of these parts: most of its methods hand over to one of them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from typing import TYPE_CHECKING, Any, TypeVar
from uuid import UUID

from broker_cy.control.active.ended_brokers import EndedBrokers
from broker_cy.control.active.feature_changes import update_features
from broker_cy.control.active.leadership import Leadership
from broker_cy.control.image.committed_metadata import CommittedMetadata, Listener
from broker_cy.control.image.metadata_snapshots import SnapshotKeeper
from broker_cy.control.membership import tiered_topics
from broker_cy.control.membership.node_membership import NodeMembership
from broker_cy.control.producer_ids import ProducerIds
from broker_cy.control.quorum.metadata_log import MetadataLog
from broker_cy.control.quorum.quorum_driver import QuorumDriver, QuorumListener
from broker_cy.control.quorum.quorum_opening import open_network, open_quorum
from broker_cy.controller.create_topics import CreateTopics
from broker_cy.controller.operation import Operation
from broker_cy.controller.producer_ids import AllocateProducerIds, ProducerIdBlock
from broker_cy.core.errors import ErrorCode, KafkaError
from broker_cy.metadata import features
from broker_cy.metadata.image import Endpoint, MetadataImage
from broker_cy.metadata.records import MetadataLogError
from broker_cy.metadata.snapshot import KRaftState, SnapshotId
from broker_cy.quorum import wire_admin, wire_log
from broker_cy.quorum.election_state import NO_LEADER, QuorumError
from broker_cy.quorum.entries import OffsetAndEpoch
from broker_cy.quorum.step import LeaderGone, Output, Role, Snapshotted
from broker_cy.quorum.voters import Endpoint as VoterEndpoint
from broker_cy.quorum.voters import ReplicaKey, Voter
from broker_cy.storage.log_config import LogConfig
from broker_cy.storage.open_directories import usable
from broker_cy.wire import messages

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from broker_cy.client.outgoing import Outgoing
    from broker_cy.client.pool import Pool
    from broker_cy.config import BrokerConfig
    from broker_cy.control.link.controller_link import ControllerLink
    from broker_cy.control.link.envelope import Asked
    from broker_cy.control.quorum.quorum_network import QuorumNetwork
    from broker_cy.controller.feature_ops import FeatureUpdate
    from broker_cy.controller.heartbeats import Heartbeats
    from broker_cy.core.clock import Clock
    from broker_cy.core.randomness import Randomness
    from broker_cy.metadata.loader import Loader
    from broker_cy.storage.log_manager import LogManager
    from broker_cy.wire.codec import Message

R = TypeVar("R")


# Positions in a segment are int32. MetadataLog begins the segments, so the log need not.
SEGMENT_BYTES_MAX = 2**31 - 1
# How long a request of a client waits for an active controller: Kafka's controller.socket.timeout.ms.
FORWARD_S = 30.0
# Between two attempts to find it.
RETRY_S = 0.05
# How long a node whose disk failed runs on after it has resigned, so that the others hear of that.
RESIGN_S = 0.1


class ControllerService:
    """`start` makes the service available; `submit` runs an operation; `image` is always the newest committed image."""

    def __init__(
        self,
        *,
        config: BrokerConfig,
        clock: Clock,
        loop: asyncio.AbstractEventLoop,
        metadata_log: MetadataLog,
        directories: Mapping[UUID, str],
        place_of: Callable[[str, int], UUID | None],
        found_topic_id: Callable[[str, int], UUID | None],
        voter_directory_id: UUID,
        cluster_id: str,
        randomness: Randomness,
        outgoing: Outgoing,
        executor: Executor | None = None,
        on_committed: Callable[[int], None] = lambda end_offset: None,
        to_brokers: Outgoing | None = None,
        log_executor: Executor | None = None,
    ) -> None:
        """`directories` are the data directories that are online, by id. `place_of(topic, index)` is the id of the one
        with the log of a partition, `found_topic_id(topic, index)` the id of the topic whose log the start has found,
        and `voter_directory_id` that of the directory with the metadata log, which may be another one. `randomness`
        gives ids, `outgoing` the connections to controllers, `to_brokers` those to brokers (None: the same). `executor`
        writes and reads snapshots, `log_executor` syncs the log and the votes, None: the loop's default one.
        `on_committed(end_offset)` is called for each commit. See `open`.
        """
        self.config = config
        self.node_id = config.node_id
        self._clock = clock
        self._loop = loop
        self._files = metadata_log
        self._voter_directory_id = voter_directory_id
        self._cluster_id = cluster_id
        self._executor = executor
        self._log_executor = log_executor
        self._randomness = randomness
        self._outgoing = outgoing
        self._listeners: list[Listener] = []
        self._driver: QuorumDriver
        self._committed: CommittedMetadata
        self._leadership = Leadership(config, clock, loop, randomness, metadata_log, on_committed)
        self.ended_brokers = EndedBrokers(
            config,
            loop,
            outgoing if to_brokers is None else to_brokers,
            outgoing,
            self._leadership,
            lambda: self._membership,
            lambda leader_id, epoch: self._driver.take(LeaderGone(leader_id, epoch)),
        )
        self._membership = NodeMembership(
            config, self, loop, cluster_id, directories, place_of, found_topic_id, self._end_without_disk
        )
        self._network: QuorumNetwork
        self._link: ControllerLink
        self._pools: tuple[Pool, ...] = ()
        self._is_only_voter = False
        self._endpoints: tuple[VoterEndpoint, ...] = ()
        self._is_loaded = False
        self._snapshots: SnapshotKeeper | None = None
        self._producer_ids = ProducerIds(loop, self._allocate_producer_ids, lambda: self.image.next_producer_id)
        self._leader_id = NO_LEADER
        self.halted: asyncio.Future[str] = loop.create_future()
        """Done once the node has left the quorum for good: the reason and the remedy. The process must end then, as
        Kafka's does.
        """

    # --- life

    @classmethod
    def open(
        cls,
        config: BrokerConfig,
        clock: Clock,
        loop: asyncio.AbstractEventLoop,
        log_manager: LogManager,
        randomness: Randomness,
        outgoing: Outgoing,
        executor: Executor | None = None,
        to_brokers: Outgoing | None = None,
        log_executor: Executor | None = None,
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
        root = log_manager.metadata_directory.path
        log = log_manager.load_metadata_log(log_config, clock.wall_ms(), root)
        return cls(
            config=config,
            clock=clock,
            loop=loop,
            metadata_log=MetadataLog(log, root, config["metadata.log.segment.bytes"]),
            directories={each.directory_id: each.path for each in usable(log_manager.data_directories)},
            place_of=log_manager.place_of,
            found_topic_id=log_manager.found_topic_id,
            voter_directory_id=log_manager.metadata_directory.directory_id,
            cluster_id=log_manager.metadata_directory.cluster_id,
            randomness=randomness,
            outgoing=outgoing,
            executor=executor,
            on_committed=log_manager.metadata_committed,
            to_brokers=to_brokers,
            log_executor=log_executor,
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
            self._files.replace(newest, self._clock.wall_ms())()
        elif loader.image.offset >= log.log_end_offset:
            raise MetadataLogError(
                f"{self._files.directory}: the log ends at offset {log.log_end_offset}, before the newest snapshot"
            )
        # Sync the entries that a killed process wrote and did not sync.
        self._files.begin_sync()()
        self._open_quorum(loader)

    async def start(self, listeners: dict[str, Endpoint], previous_epoch: int = -1) -> None:
        """Take part in the quorum, register this broker with `listeners` (advertised addresses by listener name), and
        publish the image to the subscribers. Blocks on the disk, so it runs before the first client. A node without the
        role of a broker registers nothing. `previous_epoch` is the broker epoch before an orderly stop, else -1.

        Raises as `load`, RegistrationRefused, and the exceptions of subscribers.
        """
        if not self._is_loaded:
            self.load()
        self._leadership.stopped_reason = None
        self._driver.start()
        incarnation_id = self._randomness.kafka_uuid()
        if self.config.is_broker:
            tiered_topics.refuse(self.node_id, self.image)
            await self._unless_strange(self._membership.register(incarnation_id, listeners, previous_epoch))
        self._snapshots = SnapshotKeeper(
            config=self.config,
            clock=self._clock,
            loop=self._loop,
            executor=self._executor,
            files=self._files,
            kraft=self._kraft_at,
            in_transaction=lambda: self._committed.in_transaction,
            on_written=self._snapshot_written,
            bytes_since_snapshot=self._bytes_since_snapshot,
        )
        self._committed.publish()

    async def join(self) -> None:
        """The broker is ready for clients: wait until the cluster sends them."""
        self._membership.run()
        await self._unless_strange(self._membership.unfenced())

    async def _unless_strange(self, work: Coroutine[None, None, None]) -> None:
        """Wait for `work`. Raises its exceptions, and QuorumError once another cluster has refused this node, or once
        it has left the quorum because its disk failed.
        """
        task = self._loop.create_task(work)
        failure = self._network.start_failure
        await asyncio.wait((task, failure), return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            raise QuorumError(failure.result())
        await task

    def _open_quorum(self, loader: Loader) -> None:
        """Raises QuorumError if the voters disagree, or if quorum-state does not parse."""
        me = Voter(ReplicaKey(self.node_id, self._voter_directory_id), self._endpoints)
        quorum, voters, loader = open_quorum(self.config, me, self._files, loader, self._randomness)
        self._bytes_since_snapshot = loader.log_bytes
        self._is_only_voter = voters.ids == (self.node_id,)
        self._pools, self._network, self._link = open_network(
            self.config, me, self._cluster_id, quorum, self._files, self._loop, self._outgoing, self._log_executor
        )
        self._listeners.append(self.ended_brokers.watch.apply)
        leadership = self._leadership
        self._committed = CommittedMetadata(
            loader,
            self._files,
            self._loop,
            self._listeners,
            self._image_changed,
            lambda reason: self._driver.halt(f"committed metadata cannot be read or applied ({reason})"),
            self._log_executor,
        )
        self._driver = QuorumDriver(
            quorum,
            self._files,
            self._clock,
            self._loop,
            self._log_executor,
            QuorumListener(self._quorum_changed, leadership.not_written, self._halted, leadership.replaced),
            self._network,
            self._executor,
        )
        # Read now, because the loop must not wait for the disk when this node becomes the active controller.
        is_new = self.config.is_controller and loader.image.features.metadata_version == 0
        bootstrap = self._files.bootstrap_records(self._clock.wall_ms()) if is_new else []
        leadership.open(self._driver, self._committed, self.ended_brokers.watch, bootstrap)
        self._network.open(self._driver)
        if self._endpoints:
            self._membership.register_controller(self._randomness.kafka_uuid(), self._endpoints)

    def _image_changed(self, image: MetadataImage, size_bytes: int) -> None:
        if self._snapshots is not None:
            self._snapshots.committed(image, size_bytes)
        own = image.brokers.get(self.node_id)
        if own is not None and own.fenced:
            self._membership.hurry()
        self._leadership.activate()

    def _quorum_changed(self, output: Output) -> None:
        if output.role is not Role.CLOSED:
            watch = self.ended_brokers.watch
            watch.lead(output.leader_id, output.epoch, self._network.address_of(output.leader_id))
        if output.leader_id != self._leader_id:
            self._leader_id = output.leader_id
            self._link.leader_changed()
            if output.leader_id != NO_LEADER:
                self._membership.hurry()
        self._leadership.changed(output)

    def _halted(self, reason: str) -> None:
        """This node takes no part in the quorum until it is started again (QuorumDriver.halt)."""
        self._leadership.halted(reason)
        if not self.halted.done():
            self.halted.set_result(reason)
        self._network.fail_start(reason)

    def placed(self, topic: str, index: int) -> None:
        """The log of a partition is created, or in another data directory than before."""
        self._membership.placed(topic, index)

    def directory_failed(self, directory_id: UUID, reason: str) -> None:
        """The disk of a data directory of this broker has failed, for `reason`."""
        self._membership.directory_failed(directory_id, reason)

    def metadata_directory_failed(self, reason: str) -> None:
        """The directory of the metadata log has failed, for `reason`. Its files may still be open, but no start would
        find what they get.
        """
        self._driver.halt(f"{reason}. It has the metadata log: restart the broker when the disk works again")

    def _end_without_disk(self, reason: str) -> None:
        """The process has to end. If it leads the quorum, it resigns first: its metadata log may be intact."""
        self._leadership.stop(reason)
        self._loop.call_later(RESIGN_S, self._halted, reason)

    def _snapshot_written(self, snapshot_id: SnapshotId) -> None:
        self._driver.take(Snapshotted(OffsetAndEpoch(*snapshot_id), self._files.start()))

    def _kraft_at(self, end_offset: int) -> KRaftState:
        """The quorum's state in a snapshot that ends at `end_offset`."""
        _, level, voters = self._driver.quorum.voters_at(end_offset)
        return KRaftState(level, wire_log.to_record(voters) if level > 0 else None)

    async def stop(self) -> None:
        """Fence the broker, wait for pending operations, and resign. Later operations are refused."""
        await self._membership.leave()
        await self._membership.stop()
        if self._snapshots is not None:
            await self._snapshots.stop()
        self._leadership.stop("the broker is stopping")
        await self.ended_brokers.watch.stop()
        await self._network.close()
        for pool in self._pools:
            await pool.close()

    async def hand_over(self) -> None:
        """Before the broker stops serving: let other brokers lead its partitions, if another one is in service. The
        last one serves until `stop`.
        """
        if any(each.is_active and each.broker_id != self.node_id for each in self.image.brokers.values()):
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
    def announced_end(self) -> int:
        """Everything below it is committed, as the leader of this epoch has announced it; 0 before that."""
        return self._driver.quorum.announced_end

    @property
    def has_peers(self) -> bool:
        """Whether there are other nodes, or may be later. Known after `load`."""
        return not self._is_only_voter or bool(self._endpoints)

    @property
    def missing_records(self) -> int:
        """How many committed records the image lacks; -1 if the active controller has not announced any."""
        if self._is_only_voter:
            return 0
        end = self.announced_end
        return max(0, end - self._committed.end_offset) if end else -1

    @property
    def unreached(self) -> str:
        """The addresses of controllers that cannot be reached, with the reasons."""
        return self._network.unreached

    @property
    def refused(self) -> Mapping[int, int]:
        """The brokers that refuse connections, with their epochs, if the active controller takes such reports."""
        return self.ended_brokers.watch.reports

    @property
    def is_active(self) -> bool:
        """Whether this node is the active controller."""
        return self._leadership.active is not None

    @property
    def leader_id(self) -> int:
        """The active controller, as far as this node knows; -1 without one."""
        return self._driver.quorum.leader_id

    @property
    def heartbeats(self) -> Heartbeats:
        """When the registered brokers were last heard from. Raises KafkaError unless this node is active."""
        if self._leadership.active is None:
            raise self._leadership.not_active()
        return self._leadership.active.heartbeats

    @property
    def broker_epoch(self) -> int:
        """The epoch of this broker's current registration, -1 without one: an unregistered broker registers again."""
        return self._membership.epoch

    @property
    def kraft_version(self) -> int:
        return self._driver.quorum.kraft_version

    @property
    def supported_features(self) -> dict[str, tuple[int, int]]:
        """Return the lowest and highest level of each supported feature."""
        return features.SUPPORTED

    # --- operations

    @property
    def _elsewhere(self) -> ControllerLink | None:
        """The way to the active controller, if that is another node, and this one may have operations run."""
        leadership = self._leadership
        return self._link if leadership.active is None and leadership.stopped_reason is None else None

    def submit(self, operation: Operation[R]) -> asyncio.Future[R]:
        """Run the operation; the future yields its reply once its records, and all before them, are committed.

        Raises KafkaError, here or from the future: the operation's own errors, KAFKA_STORAGE_ERROR if the records could
        not be written, NOT_CONTROLLER if this node does not lead.
        """
        if self._elsewhere is not None and isinstance(operation, CreateTopics):
            # Topics that this node needs itself.
            created: Any = self.run(
                operation, operation.request, messages.CreateTopicsResponse, lambda response: response, FORWARD_S
            )
            return self._loop.create_task(created)
        return self._leadership.submit(operation)

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
                link = self._elsewhere
                if link is None:
                    return await self.submit(operation)
                left_s = max(0.0, deadline - self._loop.time())
                found = await link.ask(request, response, left_s)
                if found is not None:
                    return read(found)
            except KafkaError as error:
                if error.code is not ErrorCode.NOT_CONTROLLER or self._leadership.stopped_reason is not None:
                    raise
                if self._loop.time() >= deadline:
                    raise
            if self._loop.time() >= deadline:
                raise self._leadership.not_active()
            # This node was elected, and has not yet applied earlier committed entries; or it no longer leads.
            await asyncio.sleep(RETRY_S)

    async def forward(self, ctx: Asked, request: Message, response: type[Any]) -> Any:
        """Let the active controller answer a request of a client, if that is another node; None: this node has to
        answer. Raises KafkaError.
        """
        link = self._elsewhere
        return None if link is None else await link.forward(ctx, request, response, FORWARD_S)

    async def answer(self, request: Message, version: int, listener: str) -> Message:
        """The response to a request of another node of the quorum. Raises KafkaError."""
        return await self._network.answer(request, version, listener)

    async def next_producer_id(self) -> int:
        """A producer id that was never used before. Raises KafkaError."""
        return await self._producer_ids.next()

    async def _allocate_producer_ids(self) -> ProducerIdBlock:
        return await self.run(
            AllocateProducerIds(self.node_id, self.broker_epoch),
            messages.AllocateProducerIdsRequest(broker_id=self.node_id, broker_epoch=self.broker_epoch),
            messages.AllocateProducerIdsResponse,
            lambda response: ProducerIdBlock(response.producer_id_start, response.producer_id_len),
            FORWARD_S,
        )

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

    async def update_features(self, updates: list[FeatureUpdate], validate_only: bool) -> None:
        """Set levels of features: all or none. Raises KafkaError."""
        await update_features(self, self._driver, updates, validate_only)

    def _changes(self) -> QuorumNetwork:
        if not self.has_peers:
            raise KafkaError(
                ErrorCode.UNSUPPORTED_VERSION,
                "this node has no controller listener on which other voters could reach it",
            )
        return self._network
