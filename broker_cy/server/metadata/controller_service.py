"""Runs the controller: takes operations, writes their records to `__cluster_metadata-0`, and publishes committed
changes.

An operation is validated and applied to the controller's uncommitted state as soon as it is submitted. The records of
all operations of a loop turn are written with one append and synced in a worker thread; operations that arrive
meanwhile share the next sync. Then the image advances, subscribers get the change, and the replies are sent, in this
order.

If the records cannot be written (disk full), every operation that was not committed fails, the state returns to the
last committed image, and the next operation tries again. If they were written and cannot be synced, the content of the
disk is unknown: the node resigns, and every operation is refused until the broker is started again.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar
from uuid import UUID

from broker_cy.controller.activation import Activate
from broker_cy.controller.broker_ops import AllocateProducerIds, StartBroker, StopBroker
from broker_cy.controller.controller import Controller
from broker_cy.controller.heartbeats import Heartbeats
from broker_cy.controller.operation import Operation, OperationContext, Step
from broker_cy.core.errors import ErrorCode, KafkaError
from broker_cy.core.logs import facts
from broker_cy.metadata import features, framing
from broker_cy.metadata.image import Endpoint, ImageDelta, MetadataImage
from broker_cy.metadata.records import MetadataLogError
from broker_cy.metadata.snapshot import KRaftState
from broker_cy.quorum.step import Append, Proposal, Stop, Synced
from broker_cy.server.metadata.metadata_log import MetadataLog
from broker_cy.server.metadata.metadata_snapshots import SnapshotKeeper
from broker_cy.server.metadata.quorum_driver import QuorumDriver
from broker_cy.storage.log_config import LogConfig

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from broker_cy.config import BrokerConfig
    from broker_cy.core.clock import Clock
    from broker_cy.core.randomness import Randomness
    from broker_cy.storage.log_manager import LogManager

R = TypeVar("R")

LOGGER = logging.getLogger("broker_cy.server.metadata")

Listener = Callable[[ImageDelta, MetadataImage], None]

# Operations that wait for a sync. A connection has at most one of them; beyond this bound, clients send faster than the
# disk syncs, and receive a retriable error.
WAITING_MAX = 10_000
# Positions in a segment are int32. MetadataLog begins the segments, so the log need not.
SEGMENT_BYTES_MAX = 2**31 - 1


# The next block of producer ids is requested when this many ids are left.
PRODUCER_IDS_LOW = 200


class Waiting(NamedTuple):
    """An operation whose reply is sent when everything below `end_offset` is committed."""

    end_offset: int
    future: asyncio.Future[Any]
    reply: Any


def _seen(task: asyncio.Task[None]) -> None:
    """Mark the error as seen: the next request that finds no producer id requests another block."""
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
        self._clock = clock
        self._loop = loop
        self._files = metadata_log
        self._directory_ids = directory_ids
        self._executor = executor
        self._randomness = randomness
        self._on_committed = on_committed
        self._controller = Controller(MetadataImage())
        self._kraft = KRaftState()
        self._driver: QuorumDriver
        self._snapshots: SnapshotKeeper
        self._listeners: list[Listener] = []
        self._pending: list[Proposal] = []  # batches of accepted operations, not written yet
        self._next_offset = 0  # of the next record, with what is pending
        self._waiting: deque[Waiting] = deque()  # by the end of what they wait for, ascending
        self._flush_scheduled = False
        self._syncing: asyncio.Future[None] | None = None
        self._refusal: str | None = "the controller has not started"
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
            randomness=randomness,
            executor=executor,
            on_committed=log_manager.metadata_committed,
        )

    async def start(self, listeners: dict[str, Endpoint], rack: str | None = None) -> None:
        """Load the metadata, wait until the quorum has a leader, register this broker with `listeners` (advertised
        addresses by listener name), and publish the image to the subscribers. Blocks on the disk, so it runs before the
        first connection.

        Raises MetadataLogError, QuorumError, StorageError, OSError, and what a subscriber raises.
        """
        loader = self._files.load()
        log = self._files.log
        if loader.image.offset >= log.log_end_offset:
            raise MetadataLogError(
                f"{self._files.directory}: the log ends at offset {log.log_end_offset}, before the newest snapshot"
            )
        # What a killed process wrote and did not sync.
        self._files.begin_sync()()
        self._kraft = loader.kraft
        self._driver = QuorumDriver(
            self.node_id, self._files, loader, self._clock, self._randomness, self._loop, self._directory_ids[0]
        )
        self._controller = Controller(loader.image)
        self._controller.skip_to(log.log_end_offset)
        await self._driver.lead()
        self._next_offset = self._driver.quorum.end_offset
        self._refusal = None
        bootstrap = (
            self._files.bootstrap_records(self._clock.wall_ms()) if self.image.features.metadata_version == 0 else []
        )
        self._accept(Activate(bootstrap, loader.in_transaction))
        registration = StartBroker(self.node_id, self._randomness.kafka_uuid(), listeners, self._directory_ids, rack)
        self.broker_epoch = self._accept(registration).reply
        self._write_pending()
        self._files.begin_sync()()
        self._commit(log.log_end_offset)
        self._snapshots = SnapshotKeeper(
            config=self.config,
            clock=self._clock,
            loop=self._loop,
            executor=self._executor,
            files=self._files,
            kraft=self._kraft,
            bytes_since_snapshot=loader.log_bytes,
        )
        # A subscriber that fails on the first image cannot work: unlike later, its error aborts the start.
        delta = ImageDelta.initial(self.image)
        for listener in self._listeners:
            listener(delta, self.image)

    async def stop(self) -> None:
        """Fence the broker, wait for pending operations, and resign. Later operations are refused."""
        if self._refusal is None:
            try:
                await self.submit(StopBroker(self.node_id))
            except KafkaError as error:
                # A full disk must not keep the broker from stopping: it registers again at its next start anyway.
                LOGGER.warning("could not fence the broker before its stop", extra=facts(reason=error))
            await self._snapshots.stop()
        if self._refusal is None:
            self._refusal = "the broker is stopping"
            self._driver.step(Stop())

    def subscribe(self, listener: Listener) -> None:
        """Call `listener(delta, image)` with everything at start, and then with each commit, before its replies go
        out.
        """
        self._listeners.append(listener)

    # --- read by other services

    @property
    def image(self) -> MetadataImage:
        """The newest committed image. Valid for this turn of the loop: the next commit changes it."""
        return self._controller.image

    @property
    def epoch(self) -> int:
        """The epoch in which this node leads."""
        return self._driver.quorum.epoch

    @property
    def high_watermark(self) -> int:
        """Everything in the metadata log below it is committed."""
        return self._driver.quorum.high_watermark

    @property
    def kraft(self) -> KRaftState:
        return self._kraft

    @property
    def heartbeats(self) -> Heartbeats:
        """When the registered brokers were last heard from; on the monotonic clock, in milliseconds."""
        return self._controller.heartbeats

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
        if self._refusal is not None:
            raise KafkaError(ErrorCode.NOT_CONTROLLER, self._refusal)
        if len(self._waiting) >= WAITING_MAX:
            raise KafkaError(
                ErrorCode.REQUEST_TIMED_OUT, f"{WAITING_MAX} changes of the metadata are waiting for the disk"
            )
        step = self._accept(operation)
        future: asyncio.Future[R] = self._loop.create_future()
        self._waiting.append(Waiting(self._next_offset, future, step.reply))
        if not self._flush_scheduled and self._syncing is None:
            self._flush_scheduled = True
            self._loop.call_soon(self._flush)
        return future

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
            block = await self.submit(AllocateProducerIds(self.node_id, self.broker_epoch))
            self._producer_ids.extend(range(block.first, block.first + block.size))
        finally:
            self._producer_block = None

    # --- from accepted to committed

    def _accept(self, operation: Operation[R]) -> Step[R]:
        """Run the operation against the uncommitted state and queue its records as batches."""
        now_ms = self._clock.wall_ms()
        context = OperationContext(
            now_ms,
            self._randomness.kafka_uuid,
            self.config,
            self._next_offset,
            int(self._clock.monotonic() * 1000),
            self._controller.heartbeats,
        )
        step = self._controller.run(operation, context)
        for batch in step.batches():
            content = framing.data_batch(batch, self._next_offset, self.epoch, now_ms)
            self._pending.append(Proposal(len(batch), content))
            self._next_offset += len(batch)
        return step

    def _write_pending(self) -> int:
        """Append the pending records. Returns their size in bytes. Raises StorageError, and then nothing was
        appended."""
        proposals = tuple(self._pending)
        self._pending.clear()
        self._driver.step(Append(self.epoch, self._driver.quorum.end_offset, proposals))
        return self._driver.write()

    def _flush(self) -> None:
        self._flush_scheduled = False
        if self._syncing is not None:
            return
        if not self._pending:
            # Nothing has to be written: the replies depend on what is committed.
            self._reply()
            return
        try:
            size_bytes = self._write_pending()
        except KafkaError as error:
            self._next_offset = self._driver.quorum.end_offset
            self._controller.abandon(self._next_offset)
            self._fail(error)
            return
        end_offset = self._next_offset
        self._syncing = asyncio.ensure_future(self._loop.run_in_executor(self._executor, self._files.begin_sync()))
        self._syncing.add_done_callback(lambda done: self._synced(done, end_offset, size_bytes))

    def _synced(self, done: asyncio.Future[None], end_offset: int, size_bytes: int) -> None:
        self._syncing = None
        reason = "the broker was stopped" if done.cancelled() else done.exception()
        if reason is not None:
            self._refusal = (
                f"the metadata log cannot be synced ({reason}): restart the broker when the disk works again"
            )
            self._driver.step(Stop())
            self._controller.abandon()
            self._pending.clear()
            self._fail(KafkaError(ErrorCode.NOT_CONTROLLER, self._refusal))
            return
        delta = self._commit(end_offset)
        if delta is not None:
            self._tell(delta)
        self._reply()
        self._snapshots.committed(self.image, size_bytes)
        if self._waiting:
            self._flush()

    def _commit(self, synced_end: int) -> ImageDelta | None:
        """Everything below `synced_end` is on disk: commit what the quorum has by that. Returns what has changed."""
        high_watermark = self._driver.step(Synced(synced_end)).high_watermark
        self._on_committed(high_watermark)
        return self._controller.commit(high_watermark, self.epoch)

    def _tell(self, delta: ImageDelta) -> None:
        for listener in self._listeners:
            try:
                listener(delta, self.image)
            except Exception:
                # The change is committed even if a subscriber fails: the others and the clients still get it.
                LOGGER.exception("a listener failed on a metadata change", extra=facts(offset=self.image.offset))

    def _reply(self) -> None:
        """Answer the operations whose records, and all before them, are committed."""
        while self._waiting and self._waiting[0].end_offset <= self.high_watermark:
            _, future, reply = self._waiting.popleft()
            if not future.done():
                future.set_result(reply)

    def _fail(self, error: KafkaError) -> None:
        """Answer the operations that wait with an error: none of their records will be committed."""
        while self._waiting:
            future = self._waiting.popleft().future
            if not future.done():
                future.set_exception(error)
