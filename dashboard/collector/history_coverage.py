"""The offsets of a topic that were read: disjoint ranges, in ascending order.

The last range grows at its end as records are written. Before it, the newest gap is read first.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

# Ranges that are kept. Each outage or restart adds one, and reading backward joins them; beyond this number, the two
# oldest are joined, and the records between them are never read.
RANGES_MAX: Final = 64


class Coverage:
    """Ranges `[start, end, from_ms]`: from `start` to `end` (not included); `from_ms` is the time of the first record,
    None if it is not known.

    Invariant: `ranges[i].end < ranges[i + 1].start`.
    """

    def __init__(self, ranges: Iterable[tuple[int, int, int | None]] = ()) -> None:
        self._ranges: list[tuple[int, int, int | None]] = list(ranges)
        for start, end, _ in self._ranges:
            if not 0 <= start <= end:
                raise ValueError(f"offsets {start} to {end} are no range")
        if any(after[0] <= before[1] for before, after in zip(self._ranges, self._ranges[1:], strict=False)):
            raise ValueError(f"ranges {self._ranges} are not in order")

    @property
    def ranges(self) -> list[tuple[int, int, int | None]]:
        return list(self._ranges)

    @property
    def end(self) -> int | None:
        """Return the offset after the newest record that was read; None before the first `begin_at`."""
        return self._ranges[-1][1] if self._ranges else None

    @property
    def newest_start(self) -> int | None:
        """Return the offset from which on everything was read."""
        return self._ranges[-1][0] if self._ranges else None

    @property
    def from_ms(self) -> int | None:
        """Return the time of the record at `newest_start`; None if nothing was read yet."""
        return self._ranges[-1][2] if self._ranges else None

    def __contains__(self, offset: int) -> bool:
        return any(start <= offset < end for start, end, _ in self._ranges)

    def begin_at(self, offset: int) -> None:
        """Begin a range at the end of the topic, from which new records are read."""
        self.add(offset, offset, None)

    def add(self, start: int, end: int, from_ms: int | None) -> None:
        """Note that a range was read; `from_ms` is the time of its first record."""
        joined = (start, end, from_ms)
        rest = []
        for each in self._ranges:
            if each[1] < joined[0] or joined[1] < each[0]:
                rest.append(each)
                continue
            first, second = (each, joined) if each[0] <= joined[0] else (joined, each)
            time_ms = first[2] if first[2] is not None else second[2]
            joined = (first[0], max(first[1], second[1]), time_ms)
        self._ranges = sorted([*rest, joined], key=lambda each: each[0])
        if len(self._ranges) > RANGES_MAX:
            oldest, second = self._ranges[:2]
            self._ranges[:2] = [(oldest[0], second[1], oldest[2])]

    def cut(self, end: int) -> None:
        """Forget what is at or after `end`: the log is shorter than it was."""
        self._ranges = [(start, min(each, end), from_ms) for start, each, from_ms in self._ranges if start < end]

    def gap(self, stop: int) -> tuple[int, int] | None:
        """Return the newest range from `stop` on that was not read, before the newest one that was; None if there is
        none.
        """
        if not self._ranges or self._ranges[-1][0] <= stop:
            return None
        before = self._ranges[-2][1] if len(self._ranges) > 1 else 0
        return max(stop, before), self._ranges[-1][0]


@dataclass(slots=True)
class TopicState:
    """The ranges of a topic that were read, as offsets, and its id; the id is None before it is known."""

    topic_id: str | None = None
    coverage: Coverage = field(default_factory=Coverage)
