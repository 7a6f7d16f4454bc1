"""Writes the records of a coordinator's steps into its partition, in their order, and reports the outcome of each
batch.

Records of all steps that arrive while a write is under way share the next batch. A batch that cannot be written is
undone together with everything after it, because later steps depend on it. Batches before it are in the log: each has
an outcome of its own.

The answers of a step are due after its timeout (`offsets.commit.timeout.ms`; the timeout of a transaction). Its records
are in the log by then. If they are not committed, its requests are answered with REQUEST_TIMED_OUT and the records
stay: as in Kafka, they may be committed later.
"""

from __future__ import annotations

import asyncio
import itertools
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Final, Generic, TypeVar

from broker_cy.coordinator.step import CoordinatorStep, Record
from broker_cy.core.errors import ErrorCode, KafkaError
from broker_cy.storage.errors import StorageError
from broker_cy.wire import records as wire_records

if TYPE_CHECKING:
    from broker_cy.core.clock import Clock
    from broker_cy.replica.partition import Partition

# The maximum overhead in bytes of a batch besides its records, and of a record besides key and value.
BATCH_BYTES = 61
RECORD_BYTES_MAX = 32
# Steps in the log that are not committed yet, and steps without records behind them, about 2 KB each: waiting requests
# no longer bound the answered ones. Beyond it, no step is appended. A follower that stands still leaves the in-sync set
# before that.
STAGED_MAX: Final = 50_000
# Answers that are due at about the same time are given together.
DUE_TOGETHER_S: Final = 0.01

S = TypeVar("S", bound=CoordinatorStep)


class StagedBatch(Generic[S]):
    """A batch in the log, and the steps (or parts of steps) whose records it has. `append` is its future if it has
    one.
    """

    __slots__ = ("append", "is_written", "steps")

    def __init__(self, steps: list[S], append: asyncio.Future[int] | None = None) -> None:
        self.steps = steps
        self.append = append
        self.is_written = False


class RecordWriter(Generic[S]):
    """The writing half of a coordinator's runtime; the runtime defines the effects of outcomes."""

    codec = 0
    """Compression of the records."""

    def __init__(
        self,
        partition: Partition,
        leader_epoch: int,
        clock: Clock,
        loop: asyncio.AbstractEventLoop,
        max_batch_bytes: Callable[[], int],
    ) -> None:
        """`leader_epoch` is the epoch of this broker's leadership of the partition. `max_batch_bytes` returns the
        topic's current max.message.bytes.
        """
        self.partition = partition
        self.leader_epoch = leader_epoch
        self._clock = clock
        self._loop = loop
        self._max_batch_bytes = max_batch_bytes
        # The oldest first. Those behind a written one are never lost, and those behind a lost one are lost with it.
        self._staged: deque[StagedBatch[S]] = deque()
        self._staged_steps = 0
        # Steps that are not in the log yet. Almost all hold the answer to a request, and the requests of a connection
        # are bounded. The others are bounded by the state: the end of a group's phase or of a transaction, one step
        # for each transactional id, and one step of deletions (`coordinator.base`).
        self._pending: list[S] = []
        self._flush_scheduled = False
        self._due_timer: asyncio.TimerHandle | None = None
        self._due_at_ms = 0

    # ---- of the runtime ----

    def _accepts_writes(self) -> bool:
        raise NotImplementedError

    def _timeout_ms(self, step: S) -> int:
        """How long the answers of this step may wait for its records."""
        raise NotImplementedError

    def _on_written(self, steps: list[S]) -> None:
        """The records of these steps are committed."""
        raise NotImplementedError

    def _on_failed(self, steps: list[S], code: ErrorCode) -> None:
        """The records of these steps, the newest ones, cannot be written."""
        raise NotImplementedError

    def _on_late(self, steps: list[S]) -> None:
        """The answers of these steps are due, whose records are in the log and not committed."""
        raise NotImplementedError

    # ---- unwritten records ----

    @property
    def is_writing(self) -> bool:
        """Whether the outcome of some records is not known yet."""
        return bool(self._staged or self._pending)

    @property
    def has_staged(self) -> bool:
        """Whether records are in the log that are not committed yet."""
        return bool(self._staged)

    def unwritten(self) -> Iterable[S]:
        """The steps whose records are not written, or not committed, yet: the oldest first."""
        return itertools.chain.from_iterable((*(batch.steps for batch in self._staged), self._pending))

    # ---- appends ----

    def _queue(self, step: S) -> None:
        """Append the records of a step at the end of this turn of the loop, or once those before it are committed."""
        if not self._accepts_writes():
            return
        self._pending.append(step)
        self._expect(step)
        self._schedule_flush()

    def _follow_unwritten(self, step: S) -> None:
        """A step without records has the outcome of the newest records before it; without any, it is written."""
        if not self.is_writing:
            self._on_written([step])
            return
        if self._pending:
            self._pending.append(step)
        elif self._staged_steps < STAGED_MAX:
            self._staged[-1].steps.append(step)
            self._staged_steps += 1
        else:
            self._on_failed([step], ErrorCode.COORDINATOR_NOT_AVAILABLE)
            return
        self._expect(step)

    def _schedule_flush(self) -> None:
        if not self._flush_scheduled and not self._staged:
            self._flush_scheduled = True
            self.partition.before_flush(self._flush)

    def _flush(self) -> None:
        """Append the pending records; the partition writes them at the end of this turn of the loop."""
        self._flush_scheduled = False
        if not self._staged and self._pending and self._accepts_writes():
            self._stage_pending()

    def _stage_pending(self) -> None:
        """Stage the pending records, behind the batches that are not committed yet."""
        steps, self._pending = self._pending, []
        batches = deque(self._batches(steps))
        try:
            self._check_epoch()
            while batches:
                data, parts = batches[0]
                batch = StagedBatch(parts)
                self.partition.append_then(data, self._clock.wall_ms(), partial(self._completed, batch))
                self._add_staged(batch)
                batches.popleft()
        except (KafkaError, StorageError) as error:
            # The batches before it are in the log.
            self._on_failed([step for _, parts in batches for step in parts], code_of(error))

    def _add_staged(self, batch: StagedBatch[S]) -> None:
        self._staged.append(batch)
        self._staged_steps += len(batch.steps)

    def _check_epoch(self) -> None:
        """Raise KafkaError if the partition is in another leader epoch: another coordinator may have its state."""
        if self.partition.leader_epoch != self.leader_epoch:
            raise KafkaError(
                ErrorCode.NOT_LEADER_OR_FOLLOWER,
                f"{self.partition.topic}-{self.partition.index} is in leader epoch {self.partition.leader_epoch}, and "
                f"this coordinator is that of epoch {self.leader_epoch}",
            )

    def _check_room(self) -> None:
        """Raise KafkaError if too many records wait to be committed, or if others have to be appended first."""
        if self._pending or self._staged_steps >= STAGED_MAX:
            raise KafkaError(
                ErrorCode.COORDINATOR_NOT_AVAILABLE,
                f"{self._staged_steps} operations wait for the followers of {self.partition.topic}-"
                f"{self.partition.index}; retry when they have caught up",
            )

    def _follow(self, step: S, append: asyncio.Future[int]) -> None:
        """A step whose records, or marker, were appended alone: `append` has the outcome."""
        batch = StagedBatch([step], append)
        self._add_staged(batch)
        append.add_done_callback(partial(self._settled, batch))

    def _settled(self, batch: StagedBatch[S], append: asyncio.Future[int]) -> None:
        if append.cancelled():
            self._completed(batch, KafkaError(ErrorCode.NOT_COORDINATOR))
        else:
            self._completed(batch, append.exception())

    def _make_way(self) -> None:
        """Stage everything that was accepted so far, so that the next append comes after it."""
        # Deliver known outcomes first: batches that are staged behind a lost one would be undone with it.
        for batch in list(self._staged):
            if batch.append is not None and batch.append.done():
                self._settled(batch, batch.append)
        if self._pending:
            self._stage_pending()

    def _batches(self, steps: list[S]) -> list[tuple[bytes, list[S]]]:
        """The records of the steps in batches of at most max.message.bytes, with the steps of each; an atomic step is
        not split.
        """
        now_ms = self._clock.wall_ms()
        limit = self._max_batch_bytes()
        batches: list[tuple[bytes, list[S]]] = []
        parts: list[S] = []
        size = BATCH_BYTES

        def close() -> None:
            nonlocal parts, size
            if parts:
                found = [
                    wire_records.Record(timestamp=now_ms, key=key, value=value)
                    for part in parts
                    for key, value in part.records
                ]
                batches.append((wire_records.encode_batch(found, codec=self.codec), parts))
            parts, size = [], BATCH_BYTES

        for step in steps:
            begin = before = 0
            for end, added in _pieces(step):
                if size + added > limit:
                    if before > begin:
                        parts.append(step.part(begin, before))
                        begin = before
                    close()
                size += added
                before = end
            parts.append(step.part(begin, before) if begin else step)
        close()
        return batches

    # ---- outcomes ----

    def _completed(self, batch: StagedBatch[S], error: BaseException | None) -> None:
        """Handle the outcome of a batch, unless it was abandoned before."""
        if batch.is_written or batch not in self._staged:
            return
        if isinstance(error, KafkaError) and error.code is ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND:
            # It is committed, and the in-sync set has become too small since: undoing it would contradict the log.
            error = None
        if error is not None:
            self._undo_from(self._staged.index(batch), code_of(error))
            return
        batch.is_written = True
        written: list[S] = []
        while self._staged and self._staged[0].is_written:
            written += self._staged.popleft().steps
        if written:
            self._staged_steps -= len(written)
            self._on_written(written)
        if self._pending:
            self._schedule_flush()

    def _undo_from(self, at: int, code: ErrorCode) -> None:
        """Undo the staged batches from `at` on, and everything after them."""
        steps: list[S] = []
        for batch in itertools.islice(self._staged, at, None):
            steps += batch.steps
        self._staged_steps -= len(steps)
        while len(self._staged) > at:
            self._staged.pop()
        steps += self._pending
        self._pending = []
        self._on_failed(steps, code)

    # ---- deadlines ----

    def _expect(self, step: S) -> None:
        """Have the answers of this step given in time."""
        step.due_ms = int(self._clock.monotonic() * 1000) + self._timeout_ms(step)
        if self._due_timer is None or step.due_ms < self._due_at_ms:
            self._wake_at(step.due_ms)

    def _wake_at(self, due_ms: int) -> None:
        if self._due_timer is not None:
            self._due_timer.cancel()
        self._due_at_ms = due_ms
        delay_s = max(due_ms / 1000 - self._clock.monotonic(), DUE_TOGETHER_S)
        self._due_timer = self._loop.call_later(delay_s, self._on_due)

    def _on_due(self) -> None:
        self._due_timer = None
        now_ms = int(self._clock.monotonic() * 1000)
        if any(step.is_due(now_ms) for step in self._pending):
            # Those before them are not committed yet.
            if self._staged_steps < STAGED_MAX:
                self._stage_pending()
            else:
                undone, self._pending = self._pending, []
                self._on_failed(undone, ErrorCode.REQUEST_TIMED_OUT)
        late = [step for batch in self._staged for step in batch.steps if step.is_due(now_ms)]
        if late:
            self._on_late(late)
        left = [step.due_ms for step in self.unwritten() if step.due_ms is not None and not step.is_late]
        if left:
            self._wake_at(min(left))

    def _give_up(self, code: ErrorCode) -> None:
        """Undo everything that is not written. Staged records may still be committed."""
        self._undo_from(0, code)
        if self._due_timer is not None:
            self._due_timer.cancel()
            self._due_timer = None


def _pieces(step: CoordinatorStep) -> Iterator[tuple[int, int]]:
    """The parts of a step that must be in one batch: the number of records up to each end, and its size in bytes."""
    if step.atomic:
        yield len(step.records), size_bytes(step.records) - BATCH_BYTES
        return
    for number, record in enumerate(step.records, 1):
        yield number, size_bytes([record]) - BATCH_BYTES


def code_of(error: BaseException) -> ErrorCode:
    """Return Kafka's error code for a failed append."""
    if isinstance(error, KafkaError):
        return error.code
    return ErrorCode.KAFKA_STORAGE_ERROR if isinstance(error, StorageError) else ErrorCode.UNKNOWN_SERVER_ERROR


def size_bytes(group: list[Record]) -> int:
    """Return an upper bound for the size of one batch of the records, before compression."""
    return BATCH_BYTES + sum(RECORD_BYTES_MAX + len(key) + len(value or b"") for key, value in group)
