"""Tables of the page of the requests: the APIs of the last ten seconds or of a range, and the phases of one API."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import isnan
from typing import Any, ClassVar

from broker_cy.admin.sample_window import TOTAL
from broker_cy.console.columns import requests
from broker_cy.console.figures import ApiRow, PhaseRow, api_rows, phase_rows
from broker_cy.console.listeners import Source
from broker_cy.console.session import now_ms
from broker_cy.reporting.numbers import micros, short
from dashboard.collector.channel import Column, TableChannel, channel, linked
from dashboard.collector.charts import Ranged
from dashboard.collector.columns import table_column
from dashboard.collector.history_measures import API_ERRORS, API_REQUESTS, LATENCY
from dashboard.collector.holdings import OfBroker, recent
from dashboard.collector.patches import State
from dashboard.collector.rings import Key, Line
from dashboard.components.panel import page_path

# Points over which rates and latencies of a range are summed.
RANGE_POINTS = 120
# A range is summed again after this part of its length, within limits: one new second hardly changes a day.
_REST_PART = 1_000
_REST_MS = (2_000, 60_000)


class OfSamples(OfBroker):
    """Channels of one broker's newest samples."""

    def sources(self) -> Sequence[Source]:
        return [self.session.samples]


class _Apis(OfSamples, TableChannel[Any]):
    """Tables of APIs; the name of each is a link to its phases."""

    def row_id(self, row: Any) -> str:
        return str(row.name)

    def _cells(self, row: Any) -> list[Any]:
        first, *rest = super()._cells(row)
        query = {name: self.params.get(name, "") for name in ("range", "broker")}
        return [linked(first, page_path(self.hub.name, "requests", api=row.name, **query)), *rest]


@channel("apis")
class Apis(_Apis):
    """Requests of the last ten seconds by API."""

    SUBJECT = frozenset({"broker"})
    SORT = "requests"
    IS_DESCENDING = True
    COLUMNS: ClassVar[Sequence[Column[Any]]] = (
        table_column(requests.API, 180, is_flex=True),
        table_column(requests.REQUESTS, 135),
        table_column(requests.ERRORS, 90),
        table_column(requests.IN, 110),
        table_column(requests.OUT, 110),
        table_column(requests.MEAN, 110),
        table_column(requests.P99, 110),
        table_column(requests.MAX, 110),
    )

    def rows(self) -> Iterable[ApiRow] | None:
        samples = recent(list(self.session.samples.items), self.broker)
        return api_rows(samples) if samples else None


@dataclass(frozen=True, slots=True)
class RangeRow:
    """An API over a range: mean and largest rates, mean latency of all requests, and the p99 of the worst second."""

    name: str
    per_s: float
    most_per_s: float
    errors_per_s: float
    mean_us: float | None
    p99_us: float | None


def rest_ms(length_ms: int) -> int:
    """Return how long the figures of a range of this length are kept, in ms."""
    low, high = _REST_MS
    return min(high, max(low, length_ms // _REST_PART))


def known(values: Iterable[float]) -> list[float]:
    return [value for value in values if not isnan(value)]


def mean_of(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else 0.0


def range_row(name: str, requests: Line, errors: Line | None, times: Line | None) -> RangeRow:
    """Sum the points of a range, which have equal lengths."""
    weighted = (
        []
        if times is None
        else [
            (mean, weight)
            for mean, weight in zip(times.mean, requests.mean, strict=True)
            if not isnan(mean) and not isnan(weight)
        ]
    )
    weight = sum(each for _, each in weighted)
    return RangeRow(
        name,
        mean_of(known(requests.mean)),
        max(known(requests.high), default=0.0),
        0.0 if errors is None else mean_of(known(errors.mean)),
        sum(mean * each for mean, each in weighted) / weight if weight else None,
        None if times is None else max(known(times.high), default=None),
    )


@channel("apis-range")
class ApisOfRange(_Apis, Ranged):
    """Requests of a range by API."""

    SUBJECT = frozenset({"broker", "range"})
    SORT = "requests"
    IS_DESCENDING = True
    COLUMNS: ClassVar[Sequence[Column[Any]]] = (
        table_column(requests.API.by(lambda row: row.name), 180, is_flex=True),
        table_column(requests.REQUESTS.by(lambda row: row.per_s), 135),
        Column("most", "Most/s", lambda row: short(row.most_per_s), lambda row: row.most_per_s, True, 110),
        table_column(requests.ERROR_RATE, 110),
        table_column(requests.MEAN.by(lambda row: row.mean_us), 110),
        Column("p99", "Worst p99", lambda row: micros(row.p99_us), lambda row: row.p99_us, True, 120),
    )

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._rows: list[RangeRow] | None = None
        self._until_ms = 0

    def sources(self) -> Sequence[Source]:
        return [self.hub.history]

    async def state(self) -> State | None:
        history = self.hub.history
        keys = [key for key in history.names() if key.measure == API_REQUESTS]
        now = now_ms()
        if keys and now >= self._until_ms:
            broker = min(key.broker for key in keys) if self.broker is None else self.broker
            apis = [key.subject for key in keys if key.broker == broker]
            from_ms, to_ms = self.range.bounds(now)
            self._until_ms = now + rest_ms(to_ms - from_ms)
            wanted = [key for api in apis for key in _keys_of(broker, api)]
            found = (await history.series(wanted, from_ms, to_ms, RANGE_POINTS)).lines
            self._rows = [range_row(api, *(found[key] for key in _keys_of(broker, api))) for api in apis]
        return await super().state()

    def rows(self) -> Iterable[RangeRow] | None:
        return self._rows


def _keys_of(broker: int, api: str) -> tuple[Key, Key, Key]:
    return Key(broker, API_REQUESTS, api), Key(broker, API_ERRORS, api), Key(broker, LATENCY, api, TOTAL)


@channel("api-phases")
class ApiPhases(OfSamples, TableChannel[PhaseRow]):
    """The phases of one API over the last ten seconds."""

    SUBJECT = frozenset({"broker", "api"})
    REQUIRED = frozenset({"api"})
    COLUMNS = (
        table_column(requests.PHASE, is_flex=True),
        table_column(requests.PHASE_COUNT),
        table_column(requests.PHASE_MEAN),
        table_column(requests.PHASE_P50),
        table_column(requests.PHASE_P99),
        table_column(requests.PHASE_MAX),
        table_column(requests.PHASE_SHARE),
    )

    def rows(self) -> Iterable[PhaseRow] | None:
        samples = recent(list(self.session.samples.items), self.broker)
        return phase_rows(self.params["api"], samples) if samples else None

    def row_id(self, row: PhaseRow) -> str:
        return row.name
