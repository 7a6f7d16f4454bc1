"""The runtime of one partition of a coordinator: it loads the log into the state machine, writes the records of its
operations, and runs its timers.

Answers that depend on a record are sent when its batch is written (`record_writer`). If the batch cannot be written, it
and all later ones are undone, and the clients receive a retriable error. They also receive one if the write takes too
long.

A runtime belongs to one leader epoch of its partition. It answers once all records that were in the log when it was
loaded are committed: the previous leader may have left records that another leader would not have, and their effects
outside (markers of a transaction) cannot be undone.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from enum import Enum
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, TypeVar, TypeVarTuple

from broker_cy.coordinator.base import StateMachine
from broker_cy.coordinator.step import Call, CallFailed, CoordinatorStep
from broker_cy.coordinator_services.record_writer import RecordWriter, size_bytes
from broker_cy.core.classes import NamedTuple
from broker_cy.core.errors import ErrorCode, KafkaError, WireError
from broker_cy.core.logs import facts
from broker_cy.core.step import Now, Work, WorkFailed
from broker_cy.storage.errors import StorageError
from broker_cy.wire import records as wire_records
from broker_cy.wire.control import ControlType, control_type

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from broker_cy.core.clock import Clock
    from broker_cy.events.log_events import LogEvents
    from broker_cy.metadata.image import ImageDelta, MetadataImage
    from broker_cy.metrics.events import Event
    from broker_cy.replica.partition import Partition

# Bytes of the log that are read at a time while loading, and records that are replayed in one turn of the loop.
LOAD_CHUNK_BYTES = 1 << 20
LOAD_RECORDS_PER_TURN = 2_000


class LoadState(Enum):
    LOADING = "loading"
    ACTIVE = "active"
    FAILED = "failed"
    CLOSED = "closed"


M = TypeVar("M", bound=StateMachine[Any, Any])
# The steps of that machine.
S = TypeVar("S", bound=CoordinatorStep)
# The parts of a request.
Ts = TypeVarTuple("Ts")


Service = Callable[[Any], Awaitable[Any]]


class RuntimeContext(NamedTuple):
    """The common parts of a coordinator's runtimes. `executor` reads the logs; None: the loop's own."""

    clock: Clock
    loop: asyncio.AbstractEventLoop
    max_batch_bytes: Callable[[], int]
    """Returns the topic's current max.message.bytes."""
    executor: Executor | None
    log_events: LogEvents
    services: Mapping[type, Service]
    """The services that steps call, by the type of the request. They raise KafkaError."""


class CoordinatorRuntime(RecordWriter[S], Generic[M, S]):
    """Owns a state machine and its partition. Operations are for the ACTIVE state only: see `check`."""

    coordinator = "coordinator"
    """Name in log lines."""
    logger = logging.getLogger("broker_cy.server.coordinators")

    def __init__(self, partition: Partition, leader_epoch: int, machine: M, context: RuntimeContext) -> None:
        """`leader_epoch` is the epoch of this broker's leadership of the partition."""
        super().__init__(partition, leader_epoch, context.clock, context.loop, context.max_batch_bytes)
        self.machine = machine
        self.state = LoadState.LOADING
        self.on_loaded: Callable[[], None] = lambda: None
        """Called when it is no longer being loaded: it answers, or it never will."""
        self.on_event: Callable[[Event], None] = ignore
        self._executor = context.executor
        self._services = context.services
        # Bounded by the state: a step calls for a part of it, which waits for the answer.
        self._calls: dict[asyncio.Task[Any], Call] = {}
        self._log_events = context.log_events
        self._timer: asyncio.TimerHandle | None = None
        self._timer_ms = 0

    def now(self) -> Now:
        # A fifth of the instructions of Now(...): each heartbeat needs it.
        return tuple.__new__(Now, self._clock.both_ms())

    def check(self) -> ErrorCode:
        """Return NONE if operations may run, otherwise the error code for clients."""
        if self.state is LoadState.ACTIVE:
            return ErrorCode.NONE
        return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS if self.state is LoadState.LOADING else ErrorCode.NOT_COORDINATOR

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
            self._activate(await self._replay_log())
        except (StorageError, OSError, ValueError, KafkaError) as error:
            self._fail(error)
        except Exception as error:
            # A defect: requests must not wait for a runtime that never loads.
            self._fail(error)
            raise

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
        """The followers have all replayed records; or, with an error, this is unknown."""
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
                    self.machine.apply_marker(record.offset, batch.producer_id, kind is ControlType.COMMIT)
            return len(found)
        producer_id = batch.producer_id if batch.is_transactional else -1
        apply = self.machine.apply
        for record in found:
            key = record.key
            if key is None:
                raise WireError(f"the record at offset {record.offset} has no key")
            apply(record.offset, producer_id, key, record.value)
        return len(found)

    # ---- steps ----

    def run(self, operation: Callable[[M, S, *Ts, Any, Now], None], *request: *Ts) -> asyncio.Future[Any]:
        """Run `operation(machine, step, *request, token, now)`. Returns the token, a future that receives the answer.

        The owner of the future cancels it if the request was abandoned (the connection closed); its answer is dropped.
        """
        token: asyncio.Future[Any] = self._loop.create_future()
        self.accept(self.machine.run(operation, *request, token, self.now()))
        return token

    def accept(self, step: S) -> None:
        """Send the answers that depend on no record, queue the records, and set the timer to the next deadline. A step
        without records follows those that are not written yet, because its answers may show what they have changed.
        """
        for event in step.events:
            self.on_event(event)
        for token, response in step.replies:
            if not token.done():
                token.set_result(response)
        # Also if the records cannot be written: the state may wait for the results.
        for work in step.work:
            done = self._loop.run_in_executor(self._executor, work.function, *work.arguments)
            done.add_done_callback(partial(self._worked, work))
        for call in step.calls:
            self._call(call)
        if step.records:
            if step.atomic and size_bytes(step.records) > self._max_batch_bytes():
                # The step is the newest one, so it can be undone alone.
                self.accept(self.machine.failed([step], ErrorCode.RECORD_LIST_TOO_LARGE, self.now()))
                return
            self._queue(step)
        elif step.follows:
            self._follow_unwritten(step)
        self._set_timer()

    def _worked(self, work: Work, done: asyncio.Future[Any]) -> None:
        """Take the result of work in the background, unless this broker no longer coordinates the partition."""
        if self.state is not LoadState.ACTIVE or done.cancelled():
            return
        error = done.exception()
        if error is not None:
            self.logger.error(
                "work of the %s failed", self.coordinator, extra=facts(work=work.function.__name__, reason=repr(error))
            )
        result = done.result() if error is None else WorkFailed(repr(error))
        then: Any = work.then
        self.accept(self.machine.run(then, *work.about, result, self.now()))

    def _call(self, call: Call) -> None:
        """Call another service, unless this broker no longer coordinates the partition."""
        if self.state is not LoadState.ACTIVE:
            _refuse(call)
            return
        task = self._loop.create_task(self._called(call))
        self._calls[task] = call
        task.add_done_callback(self._calls.pop)

    async def _called(self, call: Call) -> None:
        """Make the call, and run the operation with its result."""
        result: Any
        try:
            result = await self._services[type(call.request)](call.request)
        except KafkaError as error:
            result = CallFailed(error.code, str(error))
        except Exception as error:
            self.logger.exception("a call of the %s failed", self.coordinator, extra=facts(request=repr(call.request)))
            result = CallFailed(ErrorCode.UNKNOWN_SERVER_ERROR, repr(error))
        if self.state is LoadState.ACTIVE:
            then: Any = call.then
            self.accept(self.machine.run(then, *call.about, result, self.now()))

    # ---- outcomes ----

    def _accepts_writes(self) -> bool:
        return self.state is LoadState.ACTIVE

    def _on_written(self, steps: list[S]) -> None:
        self.accept(self.machine.written(steps, self.now()))

    def _on_failed(self, steps: list[S], code: ErrorCode) -> None:
        self.accept(self.machine.failed(steps, code, self.now()))

    def _on_late(self, steps: list[S]) -> None:
        self.accept(self.machine.timed_out(steps, self.now()))

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
            self._give_up(ErrorCode.NOT_COORDINATOR)
            self.accept(self.machine.unload())
        self.state = LoadState.CLOSED
        self.on_loaded()
        for task, call in self._calls.items():
            task.cancel()
            _refuse(call)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


def _refuse(call: Call) -> None:
    """The result of the call will not be taken."""
    waiting = call.waiting
    if waiting is not None and not waiting.token.done():
        waiting.token.set_result(waiting.refused(ErrorCode.NOT_COORDINATOR))


def ignore(_: Event) -> None:
    """Ignore an event; the default of `on_event`."""
