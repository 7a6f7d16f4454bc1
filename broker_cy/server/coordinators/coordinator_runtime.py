"""The runtime of one partition of a coordinator: it loads the log into the state machine, writes the records of its
operations, and runs its timers.

Records of all operations that arrive while a write is under way share the next batch. Answers that depend on a record
are sent when the batch is written. If the batch cannot be written, it and everything after it are undone, and the
clients receive a retriable error.

A runtime belongs to one leader epoch of its partition. It answers once everything in the log when it was loaded is
committed: the previous leader may have left records that another leader would not have, and what a coordinator does
because of them (markers of a transaction) cannot be undone.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections.abc import Callable, Iterable, Sequence
from enum import Enum
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, Protocol, TypeVar

from broker_cy.coordinator.step import Now, Place, Record, Step
from broker_cy.core.errors import ErrorCode, KafkaError, WireError
from broker_cy.core.logs import facts
from broker_cy.storage.errors import StorageError
from broker_cy.wire import records as wire_records
from broker_cy.wire.control import ControlType, control_type

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from broker_cy.core.clock import Clock
    from broker_cy.metadata.image import ImageDelta, MetadataImage
    from broker_cy.metrics.events import Event
    from broker_cy.replica.partition import Partition
    from broker_cy.server.telemetry.log_events import LogEvents

# Bytes of the log that are read at a time while loading, and records that are replayed in one turn of the loop.
LOAD_CHUNK_BYTES = 1 << 20
LOAD_RECORDS_PER_TURN = 2_000
# The maximum overhead in bytes of a batch besides its records, and of a record besides key and value.
BATCH_BYTES = 61
RECORD_BYTES_MAX = 32


class LoadState(Enum):
    LOADING = "loading"
    ACTIVE = "active"
    FAILED = "failed"
    CLOSED = "closed"


class Machine(Protocol):
    """A coordinator's state machine, without socket, file or clock: see `coordinator.state_machine` and
    `coordinator.txn.state_machine`.
    """

    next_offset: int
    unknown_records: int

    def load_record(self, offset: int, producer_id: int, key: bytes, value: bytes | None) -> None: ...
    def load_marker(self, offset: int, producer_id: int, committed: bool) -> None: ...
    def loaded(self, now: Now) -> Any: ...
    def take_image(self, image: MetadataImage) -> None: ...
    def metadata_changed(self, delta: ImageDelta, image: MetadataImage) -> Any: ...
    def written(self, steps: Iterable[Any], now: Now) -> Any: ...
    def failed(self, steps: Sequence[Any], code: ErrorCode, now: Now) -> Any: ...
    def next_wake_ms(self) -> int | None: ...
    def expire(self, now: Now) -> Any: ...
    def unload(self) -> Any: ...


M = TypeVar("M", bound=Machine)
# The steps of that machine.
S = TypeVar("S", bound=Step)


class RuntimeContext(NamedTuple):
    """What all runtimes of a coordinator share. `executor` reads the logs; None: the loop's own."""

    clock: Clock
    loop: asyncio.AbstractEventLoop
    max_batch_bytes: Callable[[], int]
    """Returns the topic's current max.message.bytes."""
    executor: Executor | None
    log_events: LogEvents


class CoordinatorRuntime(Generic[M, S]):
    """Owns a state machine and its partition. Operations are for the ACTIVE state only: see `check`."""

    coordinator = "coordinator"
    """Name in log lines."""
    logger = logging.getLogger("broker_cy.server.coordinators")
    codec = 0
    """Compression of the records that it writes."""

    def __init__(self, partition: Partition, leader_epoch: int, machine: M, context: RuntimeContext) -> None:
        """`leader_epoch` is that in which this broker leads the partition."""
        self.partition = partition
        self.leader_epoch = leader_epoch
        self.machine = machine
        self.state = LoadState.LOADING
        self.on_loaded: Callable[[], None] = lambda: None
        """Called when it is no longer being loaded: it answers, or it never will."""
        self.on_event: Callable[[Event], None] = ignore
        self.on_commits: Callable[[M, Sequence[Place]], None] = ignore_commits
        self._clock = context.clock
        self._loop = context.loop
        self._max_batch_bytes = context.max_batch_bytes
        self._executor = context.executor
        self._log_events = context.log_events
        # Steps whose records are being written, and later ones. Their number is bounded by the requests that clients
        # wait for: each step with records holds the answer to a request, and the requests of a connection are bounded.
        self._in_flight: list[S] = []
        self._pending: list[S] = []
        # The last batch in flight: its future, or a unique mark.
        self._last: object | None = None
        self._flush_scheduled = False
        self._timer: asyncio.TimerHandle | None = None
        self._timer_ms = 0

    def now(self) -> Now:
        return Now(self._clock.wall_ms(), int(self._clock.monotonic() * 1000))

    def check(self) -> ErrorCode:
        """Return NONE if operations may run, otherwise the error code for clients."""
        if self.state is LoadState.ACTIVE:
            return ErrorCode.NONE
        return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS if self.state is LoadState.LOADING else ErrorCode.NOT_COORDINATOR

    @property
    def is_writing(self) -> bool:
        """Whether answers wait for records to be written."""
        return bool(self._in_flight or self._pending)

    def unwritten(self) -> Iterable[S]:
        """The steps whose records are not written, or not committed, yet: the oldest first."""
        return itertools.chain(self._in_flight, self._pending)

    def metadata_changed(self, delta: ImageDelta, image: MetadataImage) -> None:
        """The committed metadata changed."""
        if self.state is LoadState.ACTIVE:
            self.accept(self.machine.metadata_changed(delta, image))
        else:
            self.machine.take_image(image)

    # ---- loading ----

    async def load(self) -> None:
        """Replay the log, then activate, which may happen later. A log that cannot be read or understood sets FAILED
        and is logged. One that was closed meanwhile stays as it is.
        """
        if self.state is not LoadState.LOADING:
            return
        try:
            count = await self._replay_log()
        except (StorageError, OSError, ValueError, KafkaError) as error:
            self._fail(error)
            return
        self._activate(count)

    def _fail(self, error: Exception) -> None:
        if self.state is not LoadState.LOADING:
            return
        self.state = LoadState.FAILED
        self.on_loaded()
        self.logger.error(
            "could not load the %s",
            self.coordinator,
            extra=facts(
                partition=f"{self.partition.topic}-{self.partition.index}",
                reason=str(error),
                remedy="restore the partition's directory from a backup, or remove it to start with an empty log",
            ),
        )

    def _activate(self, count: int) -> None:
        """Begin to answer, once all `count` records that were replayed are committed."""
        if self.state is not LoadState.LOADING:
            return
        if self.partition.high_watermark < self.machine.next_offset:
            self.partition.call_when_committed(self.machine.next_offset, partial(self._committed, count))
            return
        try:
            step = self.machine.loaded(self.now())
        except (ValueError, KafkaError) as error:
            self._fail(error)
            return
        self.state = LoadState.ACTIVE
        self.accept(step)
        self.on_loaded()
        if count:
            found = self.loaded_facts()
            if self.machine.unknown_records:
                found["unknown_records"] = self.machine.unknown_records
            self.logger.info(
                "loaded the %s",
                self.coordinator,
                extra=facts(partition=f"{self.partition.topic}-{self.partition.index}", records=count, **found),
            )

    def _committed(self, count: int, error: KafkaError | None) -> None:
        """The followers have everything that was replayed; or, with an error, nobody can tell."""
        if error is None or error.code is ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND:
            self._activate(count)
        elif error.code is not ErrorCode.NOT_LEADER_OR_FOLLOWER:
            self._fail(error)
        # Another leader has the partition: the metadata close this runtime.

    def loaded_facts(self) -> dict[str, object]:
        """Facts about the loaded state, for the log line."""
        return {}

    async def _replay_log(self) -> int:
        if self.partition.offline is not None:
            raise StorageError(self.partition.offline)
        log = self.partition.log
        at = log.log_start_offset
        count = 0
        while self.state is LoadState.LOADING and at < log.written_end_offset:
            part = log.read_slice(at, None, LOAD_CHUNK_BYTES, True)
            if part is None:
                break
            data = await self._loop.run_in_executor(self._executor, part.read)
            before = at
            turn = 0
            for batch in wire_records.decode_batches(data):
                at = batch.last_offset + 1
                replayed = self._replay_batch(batch)
                count += replayed
                turn += replayed
                if turn >= LOAD_RECORDS_PER_TURN:
                    turn = 0
                    await asyncio.sleep(0)
            if at == before:
                raise StorageError(f"no whole batch at offset {at}")
        self.machine.next_offset = log.log_end_offset
        return count

    def _replay_batch(self, batch: wire_records.Batch) -> int:
        """Replay the records of one batch and return their number. Raises WireError if it is damaged."""
        if not batch.is_valid():
            raise WireError(f"the batch at offset {batch.base_offset} has a wrong checksum")
        found = batch.records()
        if batch.is_control:
            for record in found:
                kind = control_type(record)
                if kind in (ControlType.COMMIT, ControlType.ABORT):
                    self.machine.load_marker(record.offset, batch.producer_id, kind is ControlType.COMMIT)
            return len(found)
        producer_id = batch.producer_id if batch.is_transactional else -1
        load = self.machine.load_record
        for record in found:
            key = record.key
            if key is None:
                raise WireError(f"the record at offset {record.offset} has no key")
            load(record.offset, producer_id, key, record.value)
        return len(found)

    # ---- steps ----

    def run(self, operation: Callable[[M, Any, Now], S]) -> asyncio.Future[Any]:
        """Run an operation of the state machine. Returns its token, a future that receives the answer.

        The owner of the future cancels it if the request was abandoned (the connection closed); its answer is dropped.
        """
        token: asyncio.Future[Any] = self._loop.create_future()
        self.accept(operation(self.machine, token, self.now()))
        return token

    def accept(self, step: S) -> None:
        """Send the answers that depend on no record, queue the records, and set the timer to the next deadline."""
        for event in step.events:
            self.on_event(event)
        if step.committed:
            self.on_commits(self.machine, step.committed)
        for token, response in step.replies:
            if not token.done():
                token.set_result(response)
        if step.records:
            if step.atomic and size_bytes(step.records) > self._max_batch_bytes():
                # The step is the newest one, so it can be undone alone.
                self.accept(self.machine.failed([step], ErrorCode.RECORD_LIST_TOO_LARGE, self.now()))
                return
            self._pending.append(step)
            self._schedule_flush()
        self._set_timer()

    def _schedule_flush(self) -> None:
        if not self._flush_scheduled and not self._in_flight:
            self._flush_scheduled = True
            self.partition.before_flush(self._flush)

    def _flush(self) -> None:
        """Append the pending records; the partition writes them at the end of this turn of the loop."""
        self._flush_scheduled = False
        if not self._in_flight and self._pending and self.state is LoadState.ACTIVE:
            self._stage_pending()

    def _stage_pending(self) -> None:
        """Stage the pending records, behind the batches in flight, which are not written yet. All of them are written
        or fail together: the outcome of the last one is that of all.
        """
        steps, self._pending = self._pending, []
        mark = object()
        batches = self._batches(steps)
        try:
            self._check_epoch()
            for number, batch in enumerate(batches, 1):
                done = partial(self._completed, mark) if number == len(batches) else _wait_for_the_last
                self.partition.append_then(batch, self._clock.wall_ms(), done)
        except (KafkaError, StorageError) as error:
            self._pending = steps
            self._failed(code_of(error), [])
            return
        self._in_flight += steps
        self._last = mark

    def _check_epoch(self) -> None:
        """Raise KafkaError if the partition is in another leader epoch: another coordinator may have its state."""
        if self.partition.leader_epoch != self.leader_epoch:
            raise KafkaError(
                ErrorCode.NOT_LEADER_OR_FOLLOWER,
                f"{self.partition.topic}-{self.partition.index} is in leader epoch {self.partition.leader_epoch}, and "
                f"this coordinator is that of epoch {self.leader_epoch}",
            )

    def _await(self, written: asyncio.Future[int]) -> None:
        self._last = written
        written.add_done_callback(self._settled)

    def _settled(self, written: asyncio.Future[int]) -> None:
        if written.cancelled():
            self._completed(written, KafkaError(ErrorCode.NOT_COORDINATOR))
        else:
            self._completed(written, written.exception())

    def _make_way(self) -> None:
        """Stage everything that was accepted so far, so that the next append comes after it."""
        if isinstance(self._last, asyncio.Future) and self._last.done():
            self._settled(self._last)
        if self._pending:
            self._stage_pending()

    def _batches(self, steps: list[S]) -> list[bytes]:
        """The records of the steps in batches of at most max.message.bytes; an atomic step is not split."""
        now_ms = self._clock.wall_ms()
        limit = self._max_batch_bytes()
        batches: list[bytes] = []
        chunk: list[wire_records.Record] = []
        size = BATCH_BYTES

        def close() -> None:
            nonlocal chunk, size
            if chunk:
                batches.append(wire_records.encode_batch(chunk, codec=self.codec))
            chunk, size = [], BATCH_BYTES

        for step in steps:
            whole = [step.records] if step.atomic else [[record] for record in step.records]
            for group in whole:
                added = size_bytes(group) - BATCH_BYTES
                if size + added > limit:
                    close()
                chunk += [wire_records.Record(timestamp=now_ms, key=key, value=value) for key, value in group]
                size += added
        close()
        return batches

    def _completed(self, mark: object, error: BaseException | None) -> None:
        """Handle the result of the write of the batch that `mark` identifies."""
        if mark is not self._last:
            return
        self._last = None
        if isinstance(error, KafkaError) and error.code is ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND:
            # It is committed, and the in-sync set has become too small since: undoing it would contradict the log.
            error = None
        if error is not None:
            steps, self._in_flight = self._in_flight, []
            self._failed(code_of(error), steps)
            return
        steps, self._in_flight = self._in_flight, []
        self.accept(self.machine.written(steps, self.now()))
        if self._pending:
            self._schedule_flush()

    def _failed(self, code: ErrorCode, in_flight: list[S]) -> None:
        """Undo everything that is not written, the newest first, because later steps depend on the one that failed."""
        steps = in_flight + self._pending
        self._pending = []
        self.accept(self.machine.failed(steps, code, self.now()))

    # ---- time ----

    def _set_timer(self) -> None:
        wake_ms = self.machine.next_wake_ms()
        if wake_ms is None or self.state is not LoadState.ACTIVE:
            return
        if self._timer is not None:
            if self._timer_ms <= wake_ms:
                return
            self._timer.cancel()
        self._timer_ms = wake_ms
        self._timer = self._loop.call_later(max(wake_ms - self.now().mono_ms, 0) / 1000, self._on_timer)

    def _on_timer(self) -> None:
        self._timer = None
        if self.state is LoadState.ACTIVE:
            self.accept(self.machine.expire(self.now()))

    def close(self) -> None:
        """Answer all waiting requests with NOT_COORDINATOR. Records in flight are still written, without an answer."""
        if self.state is LoadState.ACTIVE:
            self.state = LoadState.CLOSED
            steps, self._in_flight, self._last = self._in_flight, [], None
            self._failed(ErrorCode.NOT_COORDINATOR, steps)
            self.accept(self.machine.unload())
        self.state = LoadState.CLOSED
        self.on_loaded()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


def _wait_for_the_last(_: BaseException | None) -> None:
    """Wait for the last of several batches that are written together: its result is that of all."""


def ignore(_: Event) -> None:
    """Ignore an event; the default of `on_event`."""


def ignore_commits(_: object, __: Sequence[Place]) -> None:
    """Ignore commits; the default of `on_commits`."""


def code_of(error: BaseException) -> ErrorCode:
    """Return Kafka's error code for a failed append."""
    if isinstance(error, KafkaError):
        return error.code
    return ErrorCode.KAFKA_STORAGE_ERROR if isinstance(error, StorageError) else ErrorCode.UNKNOWN_SERVER_ERROR


def size_bytes(group: list[Record]) -> int:
    """Return an upper bound for the size of one batch of the records, before compression."""
    return BATCH_BYTES + sum(RECORD_BYTES_MAX + len(key) + len(value or b"") for key, value in group)
