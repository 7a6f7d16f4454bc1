"""Time series in memory, at three resolutions: buckets of 1 s for an hour, of 10 s for a day, of 60 s for 7 days.

A bucket has the minimum, maximum, sum and count of its values. It is addressed by its absolute number (time divided by
the resolution), so values may arrive late and in any order; a value that is older than a window is ignored there.
Windows end at the newest value of all series: this module reads no clock.

Memory: buckets are allocated in blocks of 360 (6 min, 1 h and 6 h), the first time that a value falls into one. A block
is one array of C floats: 360 minimums, maximums, sums and counts, 5,840 bytes with its header. A series with values in
every bucket of all windows has 65 blocks, 380 KB; one that is always 0 has none, as zeros are not stored (see
`Rings.query`). Floats of four bytes have seven digits, more than a chart shows, and halve the memory. Minimum and
maximum of a bucket are the exact values, rounded to such a float.

Invariants: a bucket without values has minimum inf, maximum -inf, sum 0 and count 0, so that min(), max() and sum() of
any slice are correct. A value in one resolution is in all coarser ones, too.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import compress
from math import inf, nan
from typing import Final, NamedTuple

RESOLUTIONS_MS: Final = (1_000, 10_000, 60_000)
# Buckets of each window: an hour, a day, 7 days. Up to a block more is kept.
SPANS: Final = (3_600, 8_640, 10_080)
BLOCK: Final = 360
BLOCK_FLOATS: Final = 4 * BLOCK
BLOCK_BYTES: Final = BLOCK_FLOATS * 4 + 80
# The limits of one cluster: 128 MiB of blocks, and series. New ones beyond them are refused and counted.
BLOCKS_MAX: Final = (128 << 20) // BLOCK_BYTES
SERIES_MAX: Final = 20_000
COARSEST: Final = len(RESOLUTIONS_MS) - 1

# A range may end this long after the newest value.
_AHEAD_MS: Final = RESOLUTIONS_MS[COARSEST] * SPANS[COARSEST]

_EMPTY = array("f", [inf] * BLOCK + [-inf] * BLOCK + [0.0] * (2 * BLOCK))


class Key(NamedTuple):
    """A series: broker, measure (see history_measures), its subject (an API, a topic, a directory; "" for the whole
    broker), and the phase of a latency.
    """

    broker: int
    measure: str
    subject: str = ""
    phase: str = ""


Places = list[tuple[int, int, int]]
"""Where a time is in the rings: resolution, number of the block, and place in it."""


class Grid(NamedTuple):
    """The points of a query: `points` points of `step` buckets of the ring `level`. The first point has the absolute
    number `first`, in units of `step`.
    """

    level: int
    step: int
    first: int
    points: int

    @property
    def step_ms(self) -> int:
        return self.step * RESOLUTIONS_MS[self.level]

    @property
    def times_ms(self) -> list[int]:
        """Return the start of each point."""
        return [(self.first + at) * self.step_ms for at in range(self.points)]


@dataclass(frozen=True, slots=True)
class Line:
    """Smallest, largest and mean value of each point of a grid; NaN where there is no value."""

    low: list[float]
    high: list[float]
    mean: list[float]


class Series:
    """The rings of one series, made by `Rings.series`. Do not keep it: the series may be dropped."""

    __slots__ = ("_rings", "blocks")

    def __init__(self, rings: Rings) -> None:
        self._rings = rings
        # By resolution, the blocks by their absolute number.
        self.blocks: tuple[dict[int, array[float]], ...] = tuple({} for _ in RESOLUTIONS_MS)

    def put(self, places: Places, low: float, high: float, total: float, count: float) -> None:
        """Add values of one bucket: see `Rings.places`.

        `total` and `count` give the mean; for a latency they come from other values than `low` and `high`.
        """
        for level, number, place in places:
            block = self.blocks[level].get(number)
            if block is None:
                rings = self._rings
                if rings.blocks >= rings.blocks_max:
                    rings.refused += 1
                    continue
                block = self.blocks[level][number] = _EMPTY[:]
                rings.blocks += 1
            if low < block[place]:
                block[place] = low
            if high > block[place + BLOCK]:
                block[place + BLOCK] = high
            block[place + 2 * BLOCK] += total
            block[place + 3 * BLOCK] += count

    def forget_before(self, floors: list[int]) -> int:
        """Drop the blocks below `floors`; returns how many."""
        dropped = 0
        for blocks, floor in zip(self.blocks, floors, strict=True):
            for number in [number for number in blocks if number < floor]:
                del blocks[number]
                dropped += 1
        return dropped

    def buckets(self, level: int, first: int, end: int) -> tuple[array[float], ...]:
        """Minimums, maximums, sums and counts of the buckets from `first` to `end` (not included)."""
        columns = tuple(array("f") for _ in range(4))
        blocks = self.blocks[level]
        while first < end:
            number, place = divmod(first, BLOCK)
            size = min(BLOCK - place, end - first)
            block = blocks.get(number, _EMPTY)
            for at, column in enumerate(columns):
                column.extend(block[at * BLOCK + place : at * BLOCK + place + size])
            first += size
        return columns


class Rings:
    """The series of one cluster. `refused` counts the values beyond the limits."""

    def __init__(self, *, blocks_max: int = BLOCKS_MAX, series_max: int = SERIES_MAX) -> None:
        self.blocks_max = blocks_max
        self._series_max = series_max
        self._series: dict[Key, Series] = {}
        self.newest_ms = 0
        # By resolution, the first block of the window.
        self.floors = [0] * len(RESOLUTIONS_MS)
        self.blocks = 0
        self.refused = 0

    def __len__(self) -> int:
        return len(self._series)

    def __iter__(self) -> Iterator[Key]:
        return iter(self._series)

    def items(self) -> Iterator[tuple[Key, Series]]:
        yield from self._series.items()

    @property
    def size_bytes(self) -> int:
        return self.blocks * BLOCK_BYTES

    def series(self, key: Key) -> Series | None:
        """Return the series, created if there is none yet; None if there are too many."""
        found = self._series.get(key)
        if found is None:
            if len(self._series) >= self._series_max:
                self.refused += 1
                return None
            found = self._series[key] = Series(self)
        return found

    def drop(self, key: Key) -> None:
        """Forget a series; an unknown one is ignored."""
        found = self._series.pop(key, None)
        if found is not None:
            self.blocks -= sum(map(len, found.blocks))

    def advance(self, time_ms: int) -> None:
        """Note the time of a value: the windows end at the newest one. An older time changes nothing."""
        if time_ms <= self.newest_ms:
            return
        self.newest_ms = time_ms
        floors = [
            time_ms // resolution // BLOCK - span // BLOCK
            for resolution, span in zip(RESOLUTIONS_MS, SPANS, strict=True)
        ]
        if floors != self.floors:
            self.floors = floors
            for series in self._series.values():
                self.blocks -= series.forget_before(floors)

    def floor_ms(self, level: int) -> int:
        """Return where the window of a resolution starts."""
        return max(0, self.floors[level]) * BLOCK * RESOLUTIONS_MS[level]

    def level_of(self, time_ms: int) -> int | None:
        """Return the finest resolution whose window contains a time; None if it is older than all."""
        for level in range(len(RESOLUTIONS_MS)):
            if time_ms >= self.floor_ms(level):
                return level
        return None

    def places(self, time_ms: int, level: int = 0) -> Places:
        """Return the places of a time in the resolution `level` and the coarser ones whose window contains it.

        They are valid until the next `advance`.
        """
        found = []
        for at in range(level, len(RESOLUTIONS_MS)):
            number, place = divmod(time_ms // RESOLUTIONS_MS[at], BLOCK)
            if number >= self.floors[at]:
                found.append((at, number, place))
        return found

    def add(self, key: Key, time_ms: int, value: float) -> None:
        """Add one value to all windows that contain its time."""
        self.advance(time_ms)
        places = self.places(time_ms)
        if places and (series := self.series(key)) is not None:
            series.put(places, value, value, value, 1)

    def grid(self, from_ms: int, to_ms: int, points_max: int) -> Grid:
        """Return the points of a query from `from_ms` to `to_ms` (not included), at most `points_max`.

        The ring is the coarsest one that still has at least as many buckets as points, and whose window contains
        `from_ms`: minimum and maximum of a point are the same from a finer ring, for more work. Points start at
        multiples of their length, so that a moving range does not change those that were drawn before. The range is
        reduced to the window of the coarsest ring and to the newest value.
        """
        from_ms = max(from_ms, self.floor_ms(COARSEST))
        # Later times have no values, and an unbounded length would be a single point.
        to_ms = min(to_ms, self.newest_ms + _AHEAD_MS)
        grid = grid_of(from_ms, to_ms, points_max, [self.floor_ms(level) for level in range(len(RESOLUTIONS_MS))])
        last = self.newest_ms // grid.step_ms
        return grid._replace(points=max(0, min(grid.points, last - grid.first + 1)))

    def query(self, key: Key, grid: Grid, presence: Key | None = None) -> Line:
        """Return the values of a series on a grid; all NaN for an unknown series.

        `presence` names a series with one value for each time at which `key` had a value or was 0: it restores the
        zeros, which are not stored.
        """
        series = self._series.get(key)
        present = None if presence is None else self._series.get(presence)
        gap = [nan] * grid.points
        if series is None and present is None:
            return Line(gap, list(gap), list(gap))
        first, end = grid.first * grid.step, (grid.first + grid.points) * grid.step
        columns = (Series(self) if series is None else series).buckets(grid.level, first, end)
        counts = None if present is None else present.buckets(grid.level, first, end)[3]
        return merged(columns, counts, grid.step)


def grid_of(from_ms: int, to_ms: int, points_max: int, floors_ms: list[int] | None = None) -> Grid:
    """See Rings.grid; without `floors_ms` all windows contain the range. Raises ValueError for `points_max` below 2."""
    if points_max < 2:
        raise ValueError(f"{points_max} points: at least 2 are needed")
    if to_ms <= from_ms:
        return Grid(0, 1, max(0, from_ms) // RESOLUTIONS_MS[0], 0)
    wanted_ms = (to_ms - from_ms) / points_max
    level = max((at for at, each in enumerate(RESOLUTIONS_MS) if each <= wanted_ms), default=0)
    while floors_ms is not None and level < COARSEST and from_ms < floors_ms[level]:
        level += 1
    resolution = RESOLUTIONS_MS[level]
    # It depends only on the length and not on the start, so that it stays the same while the range moves.
    step = max(1, -(-((to_ms - from_ms) // resolution + 1) // (points_max - 1)))
    first, last = from_ms // (resolution * step), (to_ms - 1) // (resolution * step)
    return Grid(level, step, first, last - first + 1)


def merged(columns: tuple[array[float], ...], counts: array[float] | None, step: int) -> Line:
    """Merge each `step` buckets into one point, with the zeros where `counts` is more than the values' own count."""
    low, high = _grouped(min, columns[0], step), _grouped(max, columns[1], step)
    totals, own = _grouped(sum, columns[2], step), _grouped(sum, columns[3], step)
    present = own if counts is None else _grouped(sum, counts, step)
    mean = []
    for at, count in enumerate(own):
        if present[at] > count:
            count, low[at], high[at] = present[at], min(low[at], 0.0), max(high[at], 0.0)
        elif low[at] > high[at]:
            low[at] = high[at] = nan
        mean.append(totals[at] / count if count else low[at])
    return Line(low, high, mean)


def _grouped(reduce: Callable[[Iterable[float]], float], column: array[float], step: int) -> list[float]:
    """Reduce each `step` values to one."""
    return list(column) if step == 1 else list(map(reduce, zip(*[iter(column)] * step, strict=True)))


def worst(lines: Mapping[Key, Line] | Iterable[Line]) -> list[float]:
    """Return the largest value of several lines of one grid at each point; NaN where none has one."""
    rows = [line.high for line in (lines.values() if isinstance(lines, Mapping) else lines)]
    # NaN is unequal to itself.
    return [max(compress(column, [each == each for each in column]), default=nan) for column in zip(*rows, strict=True)]
