"""One partition of a copy flow: what was fetched, sent, answered and committed."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, Protocol

from broker_cy.client.transaction import SEQUENCE_MASK
from broker_mirror.formats.offset_syncs import OffsetSync
from broker_mirror.pacing import SyncPacing

IN_FLIGHT_MAX: Final = 5
"""Batches of a partition without an answer. A broker recognizes the last five of a producer, if one is sent again."""

Key = tuple[str, int]
"""A topic and a partition."""


class Piece(Protocol):
    """One batch to produce: see restamp.pyi."""

    @property
    def first(self) -> int: ...
    @property
    def last(self) -> int: ...
    @property
    def next_offset(self) -> int: ...
    @property
    def count(self) -> int: ...
    @property
    def size_bytes(self) -> int: ...
    @property
    def max_timestamp(self) -> int: ...
    @property
    def runs(self) -> tuple[tuple[int, int, int], ...]: ...


@dataclass(slots=True)
class Sent:
    """A batch that was sent under a sequence. `base_offset`: of its copy, -1 if the leader does not say."""

    piece: Piece
    sequence: int
    in_flight: bool = True
    is_stored: bool = False
    base_offset: int = -1


@dataclass(slots=True)
class Problem:
    """The reason why a partition waits. `until_ms`: when it is tried again; None: not before the flow starts again."""

    text: str
    until_ms: int | None


class CopyPartition:
    """Invariant, once positions are known: committed <= reached <= the first offset of `sent` and `queue` <= position.

    `committed` is the next offset of the source, as the committed offsets have it; `reached` the one after the last
    batch with an answer, or after records that transforms have left out; `position` the next one to fetch.
    """

    __slots__ = (
        "attempts",
        "bytes_max",
        "committed",
        "copied",
        "filtered_to",
        "held_since_ms",
        "is_suspect",
        "latency_ms",
        "max_timestamp",
        "note",
        "pacing",
        "position",
        "problem",
        "queue",
        "reached",
        "retry_at_ms",
        "sent",
        "sequence",
        "source",
        "source_end",
        "target",
        "target_end",
        "total_bytes",
        "total_records",
        "waiting_bytes",
    )

    def __init__(self, source: Key, target: Key, lag_max: int = 100) -> None:
        """`lag_max`: see SyncPacing."""
        self.source, self.target = source, target
        # The syncs of a flow without transactions.
        self.pacing = SyncPacing(*source, lag_max)
        self.position: int | None = None
        self.reached = self.committed = 0
        # The offset after the last record that transforms have left out.
        self.filtered_to = 0
        self.queue: deque[Piece] = deque()
        self.sent: deque[Sent] = deque()
        self.sequence = 0
        # (offset in the source, offset in the target, records) of each run without a sync.
        self.copied: list[tuple[int, int, int]] = []
        # The largest batch that the target accepts, as far as it is known.
        self.bytes_max = 0x7FFFFFFF
        self.problem: Problem | None = None
        # A loss that does not stop the partition.
        self.note: str | None = None
        # Whether its last transaction failed because of it: the next one has no other partition.
        self.is_suspect = False
        # When to send again the batches that a leader did not take; None if no batch waits for that.
        self.retry_at_ms: int | None = None
        self.held_since_ms = 0
        self.attempts = 0
        # Bytes of `queue` and `sent`.
        self.waiting_bytes = 0
        self.source_end: int | None = None
        self.target_end: int | None = None
        self.max_timestamp: int | None = None
        self.latency_ms: int | None = None
        self.total_records = self.total_bytes = 0

    def begin_at(self, offset: int) -> None:
        """Copy from this offset of the source on."""
        self.position = self.reached = self.committed = offset
        self.filtered_to = 0

    def is_waiting(self, now_ms: int) -> bool:
        """Return whether a problem stops the partition now."""
        return self.problem is not None and (self.problem.until_ms is None or now_ms < self.problem.until_ms)

    @property
    def is_dirty(self) -> bool:
        """Return whether batches were sent, or records left out, since the last commit."""
        return bool(self.sent) or self.reached != self.committed

    @property
    def in_flight(self) -> bool:
        return any(each.in_flight for each in self.sent)

    def take(self, pieces: list[Piece], next_offset: int, filtered_to: int = 0) -> None:
        """Take fetched batches; without any, the source had only markers, aborted records and records that transforms
        have left out: `filtered_to` is the offset after the last of these.
        """
        self.queue.extend(pieces)
        self.waiting_bytes += sum(each.size_bytes for each in pieces)
        self.position = next_offset
        self.filtered_to = max(self.filtered_to, filtered_to)
        self._pass()

    def _pass(self) -> None:
        """Pass what has no batch, once no batch is before it. Markers and aborted records need no commit. Records that
        were left out get one: a flow that starts again would fetch and decode all of them once more, and they would
        count as its lag.
        """
        if self.queue or self.sent or self.position is None:
            return
        if self.filtered_to > self.committed:
            self.reached = self.position
        elif self.reached == self.committed:
            self.reached = self.committed = self.position

    def next_to_send(self) -> Sent | None:
        """Return the next batch to send for the first time; None while enough of them have no answer."""
        if not self.queue or self.retry_at_ms is not None or len(self.sent) >= IN_FLIGHT_MAX:
            return None
        sent = Sent(self.queue.popleft(), self.sequence)
        self.sequence = (self.sequence + sent.piece.count) & SEQUENCE_MASK
        self.sent.append(sent)
        return sent

    def again(self) -> Iterator[Sent]:
        """Send again what has no answer, in its order. No batch may be in flight."""
        self.retry_at_ms = None
        for each in self.sent:
            if not each.is_stored:
                each.in_flight = True
                yield each

    def stored(self, sequence: int, base_offset: int) -> list[Piece]:
        """Note the answer for a batch; returns the batches that are done: all before them have an answer too."""
        for each in self.sent:
            if each.sequence == sequence:
                each.in_flight, each.is_stored, each.base_offset = False, True, base_offset
        done = []
        while self.sent and self.sent[0].is_stored:
            first = self.sent.popleft()
            piece = first.piece
            self.waiting_bytes -= piece.size_bytes
            self.reached = piece.next_offset
            self.max_timestamp = piece.max_timestamp
            if first.base_offset >= 0:
                self.target_end = first.base_offset + piece.count
                for source, index, count in piece.runs:
                    self._copied(source, first.base_offset + index, count)
            done.append(piece)
        if done:
            self._pass()
        return done

    def _copied(self, source: int, target: int, count: int) -> None:
        """Add a run, or extend the last one if it continues it on both sides."""
        if self.copied:
            from_source, from_target, before = self.copied[-1]
            if source - from_source == target - from_target == before:
                self.copied[-1] = from_source, from_target, before + count
                return
        self.copied.append((source, target, count))

    def syncs(self) -> list[OffsetSync]:
        """Return the offset syncs of the runs since the last commit."""
        topic, partition = self.source
        return [
            OffsetSync(topic, partition, source + count - 1, target + count - 1, count)
            for source, target, count in self.copied
        ]

    def paced(self) -> tuple[OffsetSync, ...]:
        """Return the offset syncs that do not wait for the next commit, for the runs since the last call."""
        runs, self.copied = self.copied, []
        return tuple(sync for run in runs for sync in self.pacing.copied(*run))

    def commit(self, offset: int) -> None:
        """The offsets up to `offset` are committed."""
        self.committed = offset
        self._pass()

    def requeue(self) -> None:
        """Take back the first batch without an answer and all after it, to send them under new sequences: one that
        has an answer would else be followed by an older one.
        """
        self.queue.extendleft(each.piece for each in reversed(self.sent))
        self.waiting_bytes = sum(each.size_bytes for each in self.queue)
        self.sent.clear()
        self.retry_at_ms, self.attempts = None, 0

    def rewind(self) -> None:
        """Forget everything since the last commit; it is fetched again."""
        self.queue.clear()
        self.sent.clear()
        self.copied.clear()
        self.waiting_bytes = 0
        self.retry_at_ms, self.attempts = None, 0
        self.reached = self.committed
        if self.position is not None:
            self.position = self.committed
