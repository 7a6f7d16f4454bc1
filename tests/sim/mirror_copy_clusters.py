"""The two clusters of the mirror's simulation: a source whose logs change, and a target that loses answers.

A record is a number. A partition of the source has batches of records at offsets, of plain producers and of
transactions, some aborted; compaction removes records, and a topic may be truncated or created again. The target checks
producer ids, epochs and sequences as a broker does, and has transactions with markers.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import NamedTuple

from broker_mirror.copy.partition import Key

CACHED = 5


@dataclass(frozen=True, slots=True)
class FakePiece:
    """A batch to produce, whose payload is its values."""

    first: int
    last: int
    values: tuple[int, ...]
    runs: tuple[tuple[int, int, int], ...]
    size_bytes: int
    max_timestamp: int = 0

    @property
    def next_offset(self) -> int:
        return self.last + 1

    @property
    def count(self) -> int:
        return len(self.values)


class Fetched(NamedTuple):
    """An answer of the source as a flow takes it: see CopyMachine.fetched."""

    pieces: list[FakePiece]
    next_offset: int
    filtered_to: int


@dataclass(slots=True)
class SourceBatch:
    """`values` by offset; None for a marker, and `aborted` for a batch that readers of committed data skip."""

    base: int
    last: int
    values: dict[int, int]
    aborted: bool = False


class SourcePartition:
    """The log of one partition."""

    def __init__(self, draw: Random) -> None:
        self._draw = draw
        self.batches: list[SourceBatch] = []
        self.end = 0
        self.is_other = False

    def produce(self, values: list[int], *, aborted: bool) -> None:
        """Append a batch, and the marker of its transaction in most cases."""
        offsets = range(self.end, self.end + len(values))
        self.batches.append(SourceBatch(self.end, offsets[-1], dict(zip(offsets, values, strict=True)), aborted))
        self.end += len(values)
        if aborted or self._draw.random() < 0.3:
            self.batches.append(SourceBatch(self.end, self.end, {}))
            self.end += 1

    def compact(self, keep: int) -> None:
        """Remove some records of batches before the offset `keep`; their offsets stay."""
        for batch in self.batches:
            if batch.last >= keep or batch.aborted:
                continue
            for offset in list(batch.values):
                if self._draw.random() < 0.3:
                    del batch.values[offset]

    def truncate(self) -> None:
        """Lose the last batches."""
        for batch in self.batches[len(self.batches) // 2 :]:
            self.batches.remove(batch)
        self.end = self.batches[-1].last + 1 if self.batches else 0
        self.is_other = True

    def readable(self) -> list[tuple[int, int]]:
        """Return the offsets and values that readers of committed data get."""
        return [pair for each in self.batches if not each.aborted for pair in sorted(each.values.items())]

    def fetch(self, offset: int, keeps: Callable[[int], bool]) -> Fetched:
        """Return batches from an offset on, which need not begin one. Transforms leave out the values that are not
        kept.
        """
        pieces: list[FakePiece] = []
        next_offset, filtered_to = offset, 0
        for batch in self.batches:
            if batch.last < offset:
                continue
            records = sorted((at, value) for at, value in batch.values.items() if at >= offset and not batch.aborted)
            kept = [(at, value) for at, value in records if keeps(value)]
            filtered_to = max([filtered_to, *(at + 1 for at, value in records if not keeps(value))])
            if kept:
                pieces.append(_piece(kept))
            next_offset = batch.last + 1
            if len(pieces) >= self._draw.randrange(1, 5):
                break
        return Fetched(pieces, next_offset, filtered_to)


def _piece(records: list[tuple[int, int]]) -> FakePiece:
    runs: list[tuple[int, int, int]] = []
    for index, (offset, _) in enumerate(records):
        if runs and runs[-1][0] + runs[-1][2] == offset:
            runs[-1] = (*runs[-1][:2], runs[-1][2] + 1)
        else:
            runs.append((offset, index, 1))
    values = tuple(value for _, value in records)
    return FakePiece(records[0][0], records[-1][0], values, tuple(runs), 1000 * len(values))


class Refusal(Exception):
    """The answer of the target has this error."""


@dataclass(slots=True)
class Stored:
    """A record of the target, or a marker. `transaction`: the open or ended transaction that it belongs to."""

    value: object
    transaction: int | None


@dataclass(slots=True)
class ProducerEntry:
    """The state of a producer in a partition: the next sequence, and the last batches with their offsets."""

    epoch: int
    next_sequence: int = 0
    batches: list[tuple[int, int, int]] = field(default_factory=list)


class Target:
    """The target: partitions, the partition of the committed offsets, and the coordinator of one transactional id."""

    def __init__(self) -> None:
        self.logs: defaultdict[Key, list[Stored | None]] = defaultdict(list)
        self._producers: defaultdict[Key, dict[int, ProducerEntry]] = defaultdict(dict)
        self.offsets: list[tuple[int | None, dict[Key, int]]] = []
        # Whether each transaction was committed; None while it is open.
        self.outcomes: dict[int, bool | None] = {}
        self._producer_id, self._epoch = 0, -1
        # How the last transaction ended, if no other epoch has begun since.
        self._last_end: bool | None = None
        self._open: int | None = None
        self._touched: set[Key] = set()
        self._last_id = 1000
        self.forbidden: set[Key] = set()

    # --- the coordinator

    def initialize(self, *, transactional: bool) -> tuple[int, int]:
        """Return a producer id, or the next epoch of the transactional one, whose transaction is aborted."""
        if not transactional:
            self._last_id += 1
            return self._last_id, 0
        self._finish(commit=False)
        self._epoch += 1
        self._last_end = None
        return self._producer_id, self._epoch

    def _check(self, identity: tuple[int, int]) -> None:
        if identity != (self._producer_id, self._epoch):
            raise Refusal("fenced")

    def end(self, identity: tuple[int, int], *, commit: bool) -> tuple[int, int]:
        """End the transaction; returns the identity of the next one. The same request again has the same answer."""
        if identity == (self._producer_id, self._epoch - 1) and self._last_end == commit:
            return self._producer_id, self._epoch
        self._check(identity)
        self._finish(commit=commit)
        self._last_end = commit
        self._epoch += 1
        return self._producer_id, self._epoch

    def _finish(self, *, commit: bool) -> None:
        if self._open is not None:
            self.outcomes[self._open] = commit
            for key in self._touched:
                self.logs[key].append(None)
        self._open, self._touched = None, set()

    def _transaction(self) -> int:
        if self._open is None:
            self._open = len(self.outcomes)
            self.outcomes[self._open] = None
        return self._open

    # --- leaders

    def produce(
        self, key: Key, identity: tuple[int, int], sequence: int, values: tuple[int, ...], *, transactional: bool
    ) -> int:
        """Append a batch; returns its offset, also that of one that is here already. Raises Refusal."""
        if key in self.forbidden:
            raise Refusal("refused")
        transaction = None
        if transactional:
            self._check(identity)
        entry = self._producers[key].get(identity[0])
        if entry is None or entry.epoch != identity[1]:
            if sequence != 0:
                raise Refusal("order")
            entry = self._producers[key][identity[0]] = ProducerEntry(identity[1])
        for first, count, offset in entry.batches[-CACHED:]:
            if (first, count) == (sequence, len(values)):
                return offset
        if sequence != entry.next_sequence:
            raise Refusal("order")
        if transactional:
            transaction = self._transaction()
            self._touched.add(key)
        log = self.logs[key]
        offset = len(log)
        log.extend(Stored(value, transaction) for value in values)
        entry.next_sequence += len(values)
        entry.batches.append((sequence, len(values), offset))
        return offset

    def write(self, identity: tuple[int, int], offsets: dict[Key, int], *, transactional: bool) -> None:
        if transactional:
            self._check(identity)
        self.offsets.append((self._transaction() if transactional else None, dict(offsets)))

    # --- readers of committed data

    def is_committed(self, transaction: int | None) -> bool:
        return transaction is None or self.outcomes[transaction] is True

    def readable(self, key: Key) -> list[tuple[int, object]]:
        return [
            (offset, each.value)
            for offset, each in enumerate(self.logs[key])
            if each is not None and self.is_committed(each.transaction)
        ]

    def committed(self) -> dict[Key, int]:
        found: dict[Key, int] = {}
        for transaction, offsets in self.offsets:
            if self.is_committed(transaction):
                found.update(offsets)
        return found
