"""Events of a cluster as marks on charts: all but the commits of groups, the newest of them in memory.

An event is kept as the bytes of its record, and decoded when a chart needs it: the event of one rebalance may list
2,000 partitions.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import AsyncIterator, Collection, Iterable, Iterator
from typing import Final, NamedTuple

from broker_cy.client.turns import Turns
from broker_cy.metrics import events
from broker_cy.metrics.events import Rebalance, Stamped
from broker_cy.wire.records import Record

# Events and their bytes that are kept; beyond either limit, the oldest are dropped.
MARKS_MAX: Final = 20_000
BYTES_MAX: Final = 16 << 20
# Most events of one answer.
LIMIT_MAX: Final = 5_000
# Every value begins with its type: see events.prefix_of.
_PREFIX: Final = b'{"type":"'
_ROUTINE: Final = tuple(events.prefix_of(events.EVENTS[each]) for each in sorted(events.ROUTINE))


class Mark(NamedTuple):
    """An event that is not decoded; the order is that of time, and of offsets at the same time."""

    time_ms: int
    offset: int
    kind: str
    subject: str
    value: bytes


class Marks:
    """The newest events. `from_ms`: older events were dropped because there were too many; None if none were."""

    def __init__(self, marks_max: int = MARKS_MAX, bytes_max: int = BYTES_MAX) -> None:
        self._marks: list[Mark] = []
        self._marks_max = marks_max
        self._bytes_max = bytes_max
        self.size_bytes = 0
        self.from_ms: int | None = None
        self.unreadable = 0

    def __len__(self) -> int:
        return len(self._marks)

    def __iter__(self) -> Iterator[Mark]:
        return iter(self._marks)

    def take(self, record: Record) -> None:
        """Keep an event, unless it is routine or older than a dropped one."""
        value = record.value or b""
        if value.startswith(_ROUTINE):
            return
        end = value.find(b'"', len(_PREFIX))
        if not value.startswith(_PREFIX) or end < 0:
            self.unreadable += 1
            return
        kind = value[len(_PREFIX) : end].decode("utf-8", "replace")
        if kind in events.EVENTS:
            subject = (record.key or b"").decode("utf-8", "replace")
            self.add(Mark(record.timestamp, record.offset, events.EVENTS[kind].TYPE, subject, value))

    def add(self, mark: Mark) -> None:
        if self.from_ms is not None and mark.time_ms < self.from_ms:
            return
        insort(self._marks, mark)
        self.size_bytes += len(mark.value)
        dropped = 0
        while len(self._marks) - dropped > self._marks_max or self.size_bytes > self._bytes_max:
            self.size_bytes -= len(self._marks[dropped].value)
            dropped += 1
        if dropped:
            self.from_ms = self._marks[dropped - 1].time_ms + 1
            del self._marks[:dropped]

    def flush(self) -> None:
        """Nothing is held back: see history_reading.Sink."""

    async def found(
        self, from_ms: int, to_ms: int, kinds: Collection[str] | None, subject: str | None, limit: int
    ) -> list[Stamped]:
        """Return the events from `from_ms` to `to_ms` (not included), the oldest first; only the newest if there are
        too many.
        """
        first, end = (bisect_left(self._marks, (time_ms,)) for time_ms in (from_ms, to_ms))
        chosen: list[Mark] = []
        for mark in reversed(self._marks[first:end]):
            if len(chosen) >= limit:
                break
            if (kinds is None or mark.kind in kinds) and subject in (None, mark.subject):
                chosen.append(mark)
        return [stamped async for stamped in self._decoded(reversed(chosen))]

    async def _decoded(self, marks: Iterable[Mark]) -> AsyncIterator[Stamped]:
        turns = Turns()
        for mark in marks:
            try:
                stamped = events.decode(mark.value)
            except ValueError:
                self.unreadable += 1
                continue
            if stamped is not None:
                yield stamped
            await turns.pause()


REBALANCES: Final = frozenset({Rebalance.TYPE})
