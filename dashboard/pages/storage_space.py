"""Free space over time with a forecast, and unflushed data: panels of the storage page."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import isnan
from typing import Any

from broker_cy.console.columns import log_dirs
from broker_cy.console.listeners import Source
from broker_cy.console.session import now_ms
from broker_cy.reporting.foreign_text import clean
from broker_cy.reporting.numbers import duration, size
from broker_cy.reporting.tone import Tone
from dashboard.collector.channel import Cell, Column, TableChannel, channel
from dashboard.collector.charts import Ranged
from dashboard.collector.columns import table_column
from dashboard.collector.history_measures import DISK_FREE
from dashboard.collector.holdings import BrokerChart
from dashboard.collector.patches import State
from dashboard.collector.rings import Key, Line

# Points of the line through the free space; fewer known points give no trend.
_TREND_POINTS = 200
_TREND_POINTS_MIN = 10
# A forecast beyond this is not useful.
_AHEAD_MS_MAX = 10 * 365 * 86_400_000
_DAY_MS = 86_400_000


@channel("unflushed")
class Unflushed(BrokerChart):
    UNIT = "B"
    MEASURES = (("not flushed", "unflushed_bytes"),)


class _OfDirectories(BrokerChart):
    def lines(self, brokers: Sequence[int]) -> Sequence[tuple[str, Key]]:
        keys = [key for key in self.hub.history.names() if key.measure == DISK_FREE and key.broker in brokers]
        return [
            (clean(key.subject if len(brokers) == 1 else f"{key.subject}, broker {key.broker}"), key) for key in keys
        ]


@channel("disk-free")
class DiskFree(_OfDirectories):
    """Free bytes of the volume of each log directory."""

    UNIT = "B"


@dataclass(frozen=True, slots=True)
class Forecast:
    """A directory whose free space changes by `per_day_bytes`; None: too little is known. `full_in_ms` is None unless
    it shrinks.
    """

    broker_id: int
    path: str
    free_bytes: float
    per_day_bytes: float | None
    full_in_ms: float | None


def forecast_of(key: Key, times_ms: Sequence[int], line: Line) -> Forecast | None:
    """Return the line of least squares through the free space; None if no value is known."""
    points = [(time_ms, value) for time_ms, value in zip(times_ms, line.mean, strict=True) if not isnan(value)]
    if not points:
        return None
    free = points[-1][1]
    if len(points) < _TREND_POINTS_MIN:
        return Forecast(key.broker, key.subject, free, None, None)
    middle_ms = sum(time_ms for time_ms, _ in points) / len(points)
    middle = sum(value for _, value in points) / len(points)
    spread = sum((time_ms - middle_ms) ** 2 for time_ms, _ in points)
    slope = sum((time_ms - middle_ms) * (value - middle) for time_ms, value in points) / spread
    full_in_ms = -free / slope if slope < 0 else None
    if full_in_ms is not None and full_in_ms > _AHEAD_MS_MAX:
        full_in_ms = None
    return Forecast(key.broker, key.subject, free, slope * _DAY_MS, full_in_ms)


def _change(row: Forecast) -> str:
    if row.per_day_bytes is None:
        return "too few samples"
    return ("+" if row.per_day_bytes >= 0 else "-") + size(abs(row.per_day_bytes))


def _full(row: Forecast) -> str | Cell:
    if row.full_in_ms is None:
        return "-" if row.per_day_bytes is None else "not in sight"
    tone = Tone.BAD if row.full_in_ms < _DAY_MS else Tone.WARN if row.full_in_ms < 7 * _DAY_MS else Tone.PLAIN
    return Cell(f"in {duration(row.full_in_ms)}", tone)


@channel("disk-forecast")
class DiskForecast(Ranged, TableChannel[Forecast]):
    """The time when each log directory is full, if its free space keeps changing as in the range."""

    SUBJECT = frozenset({"range"})
    COLUMNS = (
        table_column(log_dirs.BROKER.by(lambda row: row.broker_id)),
        table_column(log_dirs.DIRECTORY.by(lambda row: row.path), is_flex=True),
        table_column(log_dirs.FREE.by(lambda row: row.free_bytes)),
        Column("change", "Change a day", _change, None, True),
        Column("full", "Full", _full, None, True),
    )

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._rows: list[Forecast] | None = None

    def sources(self) -> Sequence[Source]:
        return [self.hub.history]

    async def state(self) -> State | None:
        keys = [key for key in self.hub.history.names() if key.measure == DISK_FREE]
        if keys:
            from_ms, to_ms = self.range.bounds(now_ms())
            found = await self.hub.history.series(keys, from_ms, to_ms, _TREND_POINTS)
            forecasts = [forecast_of(key, found.times_ms, found.lines[key]) for key in keys]
            self._rows = [each for each in forecasts if each is not None]
        return await super().state()

    def rows(self) -> Iterable[Forecast] | None:
        return self._rows

    def row_id(self, row: Forecast) -> str:
        return f"{row.broker_id} {row.path}"
