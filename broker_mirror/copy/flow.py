"""The copy of a flow's partitions without input or output: positions, transactions, problems.

    STARTING -> LOADING -> IDLE -> BEGINNING -> OPEN -> WRITING -> COMMITTING -> IDLE ...
                                     any of them -> ABORTING -> IDLE, or ENDED

A host carries out the actions that `step` returns, and reports each outcome by the method that the action names. Time
is an argument. Exactly once: the batches of a transaction, the offsets of the source that they reach, and offset syncs
where their topic is in the target, are committed together; after a failure the transaction is aborted, and each of its
partitions is fetched again from its last commit. Otherwise batches are sent as an idempotent producer, and the reached
offsets are written at intervals: after a failure records may be copied twice, and their order is kept.

A partition with a problem waits, and the others go on. It is tried again in a transaction of its own, so that it cannot
make batches of others fail again and again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from broker_mirror.copy.actions import (
    Action,
    Announce,
    Begin,
    End,
    Identity,
    Initialize,
    Load,
    Produce,
    Stage,
    Verdict,
    Write,
)
from broker_mirror.copy.assignment import Assignment
from broker_mirror.copy.partition import CopyPartition, Key, Piece, Problem, Sent
from broker_mirror.formats.offset_syncs import OffsetSync

BUFFER_BYTES_MAX: Final = 12 << 20
"""Bytes of batches that were fetched and have no answer of the target: beyond that, nothing is fetched."""
PARTITION_BYTES_MAX: Final = 4 << 20
"""The same for one partition."""
TRANSACTION_BYTES: Final = 32 << 20
TRANSACTION_MS: Final = 40
"""A transaction with this size or this age is committed. Consumers of the target see its records then."""
PROBLEM_WAIT_MS: Final = 30_000
"""How long a partition with a problem waits before it is tried again."""
PATIENCE_MS: Final = 5_000
"""How long a batch is sent again before its transaction is given up."""
BACKOFF_MIN_MS: Final = 50
BACKOFF_MAX_MS: Final = 1_000


class CopyMachine:
    """The machine. `partitions` are those of the source."""

    def __init__(
        self,
        *,
        transactional: bool,
        syncs_in_target: bool,
        flush_interval_ms: int = 60_000,
        emits_syncs: bool = True,
        lag_max: int = 100,
    ) -> None:
        """`lag_max`: see SyncPacing."""
        self.transactional, self.syncs_in_target = transactional, syncs_in_target
        self.flush_interval_ms, self.emits_syncs = flush_interval_ms, emits_syncs
        self.stage = Stage.STARTING
        self._assignment = Assignment(lag_max)
        self.identity: Identity = (-1, -1)
        # Why the flow has ended; and the last failure of a transaction.
        self.error: str | None = None
        self.is_fenced = False
        self.trouble: str | None = None
        self.transactions = self.aborts = 0
        self._stops = False
        # Whether the action of the stage was returned.
        self._is_asked = False
        self._opened_ms = self._flushed_ms = self._rested_until_ms = 0
        self._bytes = 0
        self._only: Key | None = None
        self._writing: dict[Key, int] = {}
        # Offset syncs for the source: those of the commit that is in progress, and those that are due.
        self._next_announced: tuple[OffsetSync, ...] = ()
        self._announced: tuple[OffsetSync, ...] = ()
        # Partitions that may have a batch to send or are dirty, in turn.
        self._busy: dict[Key, None] = {}

    @property
    def partitions(self) -> dict[Key, CopyPartition]:
        return self._assignment.partitions

    # ------------------------------------------------------------------------------------------------ wishes

    def assign(self, wanted: Mapping[Key, Key]) -> None:
        """Copy these partitions of the source, each into a partition of the target, instead of the present ones. It
        takes effect between two transactions.
        """
        self._assignment.wanted = dict(wanted)

    def begin_again(self, keys: Iterable[Key]) -> bool:
        """Load the begins of these partitions again, once all that was fetched of them is committed. Return whether one
        of them did not wait for that already.
        """
        return self._assignment.begin_again(keys)

    def stop(self) -> None:
        """End after the commit of what was sent."""
        self._stops = True

    @property
    def buffered_bytes(self) -> int:
        return sum(each.waiting_bytes for each in self.partitions.values())

    def fetches(self, now_ms: int, among: Iterable[Key]) -> dict[Key, int]:
        """Return the partitions to fetch, with their offsets."""
        if self._stops or self.stage is Stage.ENDED or self.buffered_bytes >= BUFFER_BYTES_MAX:
            return {}
        found = {}
        for key in among:
            each = self.partitions.get(key)
            if each is None or each.position is None or each.is_waiting(now_ms):
                continue
            if each.waiting_bytes < PARTITION_BYTES_MAX:
                found[key] = each.position
        return found

    # ------------------------------------------------------------------------------------------------ fetching

    def fetched(
        self, key: Key, offset: int, pieces: list[Piece], next_offset: int, end: int, filtered_to: int = 0
    ) -> bool:
        """Take what was fetched from `offset` on; False if another offset is wanted now. `end`: of the source;
        `filtered_to`: see CopyPartition.take.
        """
        each = self.partitions.get(key)
        if each is None or each.position != offset:
            return False
        each.source_end = end
        if each.problem is not None and not each.is_suspect:
            each.problem = None
        if next_offset > offset:
            each.take(pieces, next_offset, filtered_to)
            if each.queue or each.is_dirty:
                self._busy[key] = None
        return True

    def lost(self, key: Key, offset: int, start: int) -> None:
        """The source has deleted the records from `offset` to `start` before they were copied."""
        each = self.partitions.get(key)
        if each is not None and each.position == offset and start > offset:
            each.note = f"offsets {offset} to {start - 1} were deleted in the source before they were copied"
            each.take([], start)

    def problem(self, key: Key, text: str, now_ms: int, *, lasts: bool = False) -> None:
        """A partition cannot be fetched; with `lasts` not before the flow starts again."""
        if (each := self.partitions.get(key)) is not None:
            each.problem = Problem(text, None if lasts else now_ms + PROBLEM_WAIT_MS)

    # ------------------------------------------------------------------------------------------------ steps

    def step(self, now_ms: int) -> list[Action]:
        """Return the actions that are due, each once."""
        out: list[Action] = []
        if self._announced:
            out.append(Announce(self._announced))
            self._announced = ()
        before = None
        while before is not self.stage:
            before = self.stage
            self._advance(now_ms, out)
        return out

    def _advance(self, now_ms: int, out: list[Action]) -> None:
        match self.stage:
            case Stage.STARTING:
                if now_ms >= self._rested_until_ms:
                    self._ask(out, Initialize())
            case Stage.LOADING:
                self._assignment.apply()
                self._busy = {key: None for key in self._busy if key in self.partitions}
                self._ask(out, Load(tuple(sorted(self._assignment.missing))))
            case Stage.IDLE:
                self._advance_idle(now_ms)
            case Stage.BEGINNING:
                self._ask(out, Begin())
            case Stage.OPEN:
                self._advance_open(now_ms, out)
            case Stage.COMMITTING:
                self._ask(out, End(commit=True))
            case Stage.ABORTING:
                # A batch that is still on its way could else arrive in the next transaction.
                if not self._in_flight():
                    self._ask(out, End(commit=False))
            case Stage.RENEWING:
                if not self._in_flight():
                    for each in self.partitions.values():
                        each.requeue()
                    self._to(Stage.STARTING)
            case _:
                pass

    def _to(self, stage: Stage) -> None:
        self.stage, self._is_asked = stage, False

    def _ask(self, out: list[Action], action: Action) -> None:
        if not self._is_asked:
            self._is_asked = True
            out.append(action)

    def _advance_idle(self, now_ms: int) -> None:
        if self._stops:
            self._to(Stage.ENDED)
        elif self._assignment.wanted is not None or self._assignment.has_to_load(now_ms):
            self._to(Stage.LOADING)
        elif now_ms >= self._rested_until_ms:
            # A partition that waits would have a transaction without a batch. One that is dirty has left records out.
            ready = [
                key
                for key in self._busy
                if ((each := self.partitions[key]).queue or each.is_dirty) and not each.is_waiting(now_ms)
            ]
            self._only = next((key for key in ready if self.partitions[key].is_suspect), None)
            if ready:
                self._to(Stage.BEGINNING)

    def _advance_open(self, now_ms: int, out: list[Action]) -> None:
        assignment = self._assignment
        if not self.transactional and assignment.wanted is None and assignment.has_to_load(now_ms):
            self._to(Stage.LOADING)
            return
        closes = self._is_due(now_ms)
        for key in list(self._busy):
            each = self.partitions[key]
            if each.retry_at_ms is not None:
                if not each.in_flight and now_ms >= each.retry_at_ms:
                    out.extend(self._produce(each, sent) for sent in each.again())
                continue
            if closes or each.is_waiting(now_ms) or (each.is_suspect and self.transactional and key != self._only):
                continue
            if self._only is not None and key != self._only:
                continue
            while (sent := each.next_to_send()) is not None:
                self._bytes += sent.piece.size_bytes
                out.append(self._produce(each, sent))
        if closes and not any(self.partitions[key].sent for key in self._busy):
            self._close(out, now_ms)

    def _produce(self, each: CopyPartition, sent: Sent) -> Produce:
        return Produce(each.source, each.target, sent.piece, sent.sequence, self.identity)

    def _is_due(self, now_ms: int) -> bool:
        """Return whether no further batch is sent before the next commit."""
        if self._stops or self._assignment.wanted is not None:
            return True
        if self.transactional:
            return self._bytes >= TRANSACTION_BYTES or now_ms - self._opened_ms >= TRANSACTION_MS
        return now_ms - self._flushed_ms >= self.flush_interval_ms

    def _close(self, out: list[Action], now_ms: int) -> None:
        dirty = [each for key in self._busy if (each := self.partitions[key]).is_dirty]
        self._writing = {each.source: each.reached for each in dirty}
        if not dirty:
            self._flushed_ms = now_ms
            if self.transactional:
                self._to(Stage.COMMITTING)
            else:
                self._committed()
            return
        self._to(Stage.WRITING)
        self._is_asked = True
        syncs = tuple(sync for each in dirty for sync in self._syncs_of(each)) if self.emits_syncs else ()
        are_written = self.transactional and self.syncs_in_target
        self._next_announced = () if are_written else syncs
        self._flushed_ms = now_ms
        out.append(Write(dict(self._writing), syncs if are_written else ()))

    def _syncs_of(self, each: CopyPartition) -> list[OffsetSync]:
        """Return the offset syncs that a commit has: those of a transaction, or the one that waits."""
        if self.transactional:
            return each.syncs()
        waiting = each.pacing.due()
        return [] if waiting is None else [waiting]

    # ------------------------------------------------------------------------------------------------ outcomes

    def initialized(self, identity: Identity) -> None:
        self._take_identity(identity)
        self._to(Stage.LOADING)

    def _take_identity(self, identity: Identity) -> None:
        if identity != self.identity:
            self.identity = identity
            self._assignment.renew()

    def loaded(self, offsets: Mapping[Key, int], problems: Mapping[Key, str], now_ms: int) -> None:
        """Take the offsets at which partitions begin, and the reasons for those that have none."""
        self._assignment.loaded(offsets)
        for key, text in problems.items():
            self.problem(key, text, now_ms)
        self._flushed_ms = now_ms
        self._to(Stage.IDLE if self.transactional else Stage.OPEN)

    def began(self, identity: Identity, now_ms: int) -> None:
        self._take_identity(identity)
        self._opened_ms, self._bytes = now_ms, 0
        self._to(Stage.OPEN)

    def stored(self, action: Produce, base_offset: int, latency_ms: int | None = None) -> None:
        """The leader has the batch; `base_offset` is -1 if it does not say where. `latency_ms` is the age of its newest
        record, None if that has no timestamp.
        """
        if action.identity != self.identity or (each := self.partitions.get(action.source)) is None:
            return
        each.attempts, each.latency_ms = 0, latency_ms
        for piece in each.stored(action.sequence, base_offset):
            each.total_records += piece.count
            each.total_bytes += piece.size_bytes
        if not self.transactional:
            syncs = each.paced()
            if self.emits_syncs:
                self._announced += syncs

    def refused(self, action: Produce, verdict: Verdict, text: str, now_ms: int) -> None:
        """The batch failed."""
        each = self.partitions.get(action.source)
        if action.identity != self.identity or each is None:
            return
        for sent in each.sent:
            if sent.sequence == action.sequence:
                sent.in_flight = False
        if self.stage in (Stage.ABORTING, Stage.RENEWING):
            return
        if verdict is Verdict.ORDER:
            is_first = bool(each.sent) and each.sent[0].sequence == action.sequence
            verdict = Verdict.FAILED if is_first else Verdict.RETRY
        if verdict is Verdict.RETRY:
            if each.retry_at_ms is None:
                each.held_since_ms = now_ms if each.attempts == 0 else each.held_since_ms
                each.attempts += 1
                wait_ms = min(BACKOFF_MAX_MS, BACKOFF_MIN_MS << min(each.attempts, 10))
                each.retry_at_ms = now_ms + wait_ms
            if now_ms - each.held_since_ms < PATIENCE_MS:
                return
        if verdict is Verdict.TOO_LARGE and action.piece.count > 1:
            each.bytes_max = max(1, min(each.bytes_max, action.piece.size_bytes) // 2)
        elif verdict is not Verdict.FAILED:
            each.problem = Problem(text, now_ms + (PATIENCE_MS if verdict is Verdict.RETRY else PROBLEM_WAIT_MS))
            each.is_suspect = True
        self.failed(text, now_ms)

    def failed(self, text: str, now_ms: int) -> None:
        """The transaction, or the producer id, is given up."""
        if self.stage in (Stage.ABORTING, Stage.RENEWING, Stage.ENDED):
            return
        self.trouble = text
        self._rested_until_ms = now_ms + BACKOFF_MAX_MS
        if self.transactional:
            self._to(Stage.ABORTING)
            return
        self.aborts += 1
        for each in self.partitions.values():
            if each.is_suspect and each.is_waiting(now_ms):
                self._drop(each)
        self._to(Stage.RENEWING)

    def _drop(self, each: CopyPartition) -> None:
        """Fetch again what has no answer."""
        for sent in each.sent:
            sent.is_stored = False
        each.requeue()
        each.queue.clear()
        each.waiting_bytes = 0
        each.position = each.reached

    def written(self) -> None:
        """The offsets are a part of the transaction; without one, they are committed."""
        if self.stage is not Stage.WRITING:
            return
        if self.transactional:
            self._to(Stage.COMMITTING)
        else:
            self._committed()

    def ended(self, *, commit: bool) -> None:
        """The transaction was committed, or aborted."""
        if commit:
            self._committed()
            return
        self.aborts += 1
        self._writing, self._next_announced = {}, ()
        for each in self.partitions.values():
            if each.is_dirty:
                each.rewind()
        self._busy = {key: None for key in self._busy if self.partitions[key].queue}
        self._to(Stage.IDLE)

    def _committed(self) -> None:
        for key, offset in self._writing.items():
            each = self.partitions[key]
            each.copied.clear()
            each.commit(offset)
            if each.is_suspect:
                each.is_suspect, each.problem = False, None
        if self._writing:
            self.transactions += 1
            self.trouble = None
        self._writing = {}
        self._announced, self._next_announced = self._announced + self._next_announced, ()
        # Another partition is the first one next time.
        turn = list(self._busy)
        self._busy = {
            key: None for key in [*turn[1:], *turn[:1]] if (each := self.partitions[key]).queue or each.is_dirty
        }
        if self.transactional:
            self._to(Stage.IDLE)
        elif self._stops:
            self._to(Stage.ENDED)
        else:
            self._to(Stage.LOADING if self._assignment.wanted is not None else Stage.OPEN)

    def ended_by(self, error: str, *, fenced: bool) -> None:
        """Another owner has the transactional id (`fenced`), or the flow cannot go on."""
        self.error, self.is_fenced = error, fenced
        self._to(Stage.ENDED)

    def _in_flight(self) -> bool:
        return any(self.partitions[key].in_flight for key in self._busy)

    def wakeup_ms(self, now_ms: int) -> int:
        """Return when `step` may have something to do although nothing was reported."""
        times = [now_ms + PROBLEM_WAIT_MS]
        if self.stage is Stage.OPEN:
            times.append(
                self._opened_ms + TRANSACTION_MS if self.transactional else self._flushed_ms + self.flush_interval_ms
            )
            times += [at for key in self._busy if (at := self.partitions[key].retry_at_ms) is not None]
        elif self.stage in (Stage.STARTING, Stage.IDLE) and now_ms < self._rested_until_ms:
            times.append(self._rested_until_ms)
        times += [
            each.problem.until_ms
            for each in self.partitions.values()
            if each.problem is not None and each.problem.until_ms is not None and each.problem.until_ms > now_ms
        ]
        return min(times)
