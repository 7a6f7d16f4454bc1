"""Requests: latency by API and phase as a heat map, the APIs, the phases of one API, rates over time.

Everything here comes from broker-cy's samples. Figures are of one broker (parameter `broker`; without it, of the one
with the lowest id), because quantiles of several brokers cannot be combined. request_tables.py has the tables.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import isnan
from typing import Any

from dash import html
from dash.development.base_component import Component

from broker_cy.admin.sample_window import TOTAL
from broker_cy.console.figures import Fact, process_facts
from broker_cy.console.listeners import Source
from broker_cy.console.session import now_ms
from broker_cy.reporting.foreign_text import clean
from dashboard.collector.channel import FactsChannel, channel
from dashboard.collector.charts import TimeChannel
from dashboard.collector.history import HeatMap
from dashboard.collector.history_measures import API_ERRORS, API_REQUESTS, latencies
from dashboard.collector.holdings import BrokerChart, OfBroker, recent
from dashboard.collector.patches import State
from dashboard.collector.rings import Key
from dashboard.collector.time_range import LIVE
from dashboard.components.chips import chips
from dashboard.components.panel import listing, page_path, panel, table
from dashboard.components.ranges import ranges
from dashboard.components.shell import shell
from dashboard.context import Context, Page
from dashboard.pages.request_tables import (
    RANGE_POINTS,
    ApiPhases,
    Apis,
    ApisOfRange,
    OfSamples,
    known,
    mean_of,
)

# The API whose phases are shown first: the one that producers wait for.
DEFAULT_API = "Produce"
# As docs/metrics.md describes them.
PHASES = (TOTAL, "queue", "handler", "disk", "data", "other", "send")
# Columns of the heat map, and its rows: if there are more APIs and phases, the first in alphabetical order.
HEAT_COLUMNS_MAX = 150
HEAT_ROWS_MAX = 200
# Columns up to this length are drawn once they are complete, so that frames are patches of one column.
_SHORT_STEP_MS = 10_000
_REST_MS_MIN, _REST_MS_MAX = 1_000, 60_000
_ROW_PIXELS = 20
_HEAT_PIXELS = 90
# Lines of the charts by API: more could not be distinguished.
APIS_CHARTED = 8
ROWS_HIGH = 12
_PHASES_SHOWN = 20


def phase_order(phase: str) -> tuple[int, str]:
    """Return the place of a phase among those of a request: the whole first, then in order of time."""
    return (PHASES.index(phase) if phase in PHASES else len(PHASES), phase)


@channel("request-heat")
class RequestHeat(OfBroker, TimeChannel):
    """The p99 of every API over time; with `phases` = 1, of every API and phase; with `api`, of its phases."""

    SUBJECT = frozenset({"broker", "api", "phases"})

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._state: State | None = None
        self._until_ms = 0

    def sources(self) -> Sequence[Source]:
        return [self.hub.history]

    async def state(self) -> State | None:
        history = self.hub.history
        brokers = sorted({key.broker for key in latencies(history.names())})
        if not brokers:
            return None if history.error is None else {"t": [], "series": [], "v": []}
        now = now_ms()
        if self._state is None or now >= self._until_ms:
            from_ms, to_ms = self.range.bounds(now)
            broker = brokers[0] if self.broker is None else self.broker
            found = await history.heat_map(broker, from_ms, to_ms, HEAT_COLUMNS_MAX)
            self._state = self._drawn(found, from_ms, to_ms)
            # The last column of a long range is shown before it is complete, which makes whole frames, so this is done
            # rarely.
            self._until_ms = now + min(_REST_MS_MAX, max(_REST_MS_MIN, found.step_ms // 4))
        return self._state

    def _drawn(self, found: HeatMap, from_ms: int, to_ms: int) -> State:
        chosen = [
            at for at, row in enumerate(found.rows) if self._shows(*row) and not all(map(isnan, found.p99_us[at]))
        ]
        chosen.sort(key=lambda at: (found.rows[at][0], phase_order(found.rows[at][1])))
        chosen = chosen[:HEAT_ROWS_MAX]
        points = len(found.times_ms)
        if found.step_ms <= _SHORT_STEP_MS:
            last = self.session.samples.last
            newest_ms = now_ms() if last is None else last.time_ms
            while points and found.times_ms[points - 1] + found.step_ms > newest_ms:
                points -= 1
        return {
            "t": found.times_ms[:points],
            "series": [{"name": self._label(*found.rows[at]), "role": ""} for at in chosen],
            "v": [[None if isnan(each) else round(each) for each in found.p99_us[at][:points]] for at in chosen],
            "unit": "us",
            "from_ms": from_ms,
            "to_ms": to_ms,
            "height": _HEAT_PIXELS + _ROW_PIXELS * max(4, len(chosen)),
        }

    def _shows(self, api: str, phase: str) -> bool:
        if self.params.get("api"):
            return api == self.params["api"]
        return phase == TOTAL or self.params.get("phases") == "1"

    def _label(self, api: str, phase: str) -> str:
        if self.params.get("api"):
            return clean(phase)
        return clean(api if phase == TOTAL else f"{api} {phase}")


@channel("api-latency")
class ApiLatency(BrokerChart):
    """The p99 of one API: whole, and each phase."""

    UNIT = "us"
    SHOWS_HIGH = True
    SUBJECT = frozenset({"broker", "api"})
    REQUIRED = frozenset({"api"})

    def lines(self, brokers: Sequence[int]) -> Sequence[tuple[str, Key]]:
        chosen = self.chosen(brokers)[:1]
        keys = [
            key
            for key in latencies(self.hub.history.names())
            if key.subject == self.params["api"] and key.broker in chosen
        ]
        keys.sort(key=lambda key: phase_order(key.phase))
        return [(clean(key.phase), key) for key in keys]


class _ByApi(BrokerChart):
    """A line for each of the APIs with the largest mean in the range."""

    MEASURE = API_REQUESTS
    UNIT = "/s"

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._shown: list[Key] = []

    def lines(self, brokers: Sequence[int]) -> Sequence[tuple[str, Key]]:
        return [(clean(key.subject), key) for key in self._shown]

    async def state(self) -> State | None:
        history = self.hub.history
        keys = [key for key in history.names() if key.measure == self.MEASURE]
        brokers = self.chosen(sorted({key.broker for key in keys}))[:1]
        keys = [key for key in keys if key.broker in brokers]
        from_ms, to_ms = self.range.bounds(now_ms())
        found = (await history.series(keys, from_ms, to_ms, RANGE_POINTS)).lines if keys else {}
        means = {key: mean_of(known(line.mean)) for key, line in found.items()}
        busiest = sorted((key for key in keys if means[key] > 0), key=lambda key: (-means[key], key))[:APIS_CHARTED]
        # In the order of names: a line keeps its colour while rates change.
        self._shown = sorted(busiest)
        return await super().state()


@channel("api-rates")
class ApiRates(_ByApi):
    MEASURE = API_REQUESTS


@channel("api-errors")
class ApiErrorRates(_ByApi):
    MEASURE = API_ERRORS


@channel("process")
class Process(OfSamples, FactsChannel):
    """Resources that the broker's process used in the last second."""

    PARAMS = frozenset({"broker"})

    def facts(self) -> Sequence[Fact] | None:
        samples = recent(list(self.session.samples.items), self.broker, 1)
        return process_facts(samples[0]) if samples else None


def broker_links(context: Context, cluster: str, page: str, broker: str, **query: str) -> list[Component]:
    """Return links to the same page for each broker that writes samples; no links if there is only one."""
    brokers = sorted({sample.broker for sample in context.hub(cluster).session.samples.items})
    if len(brokers) < 2:
        return []
    chosen = broker or str(brokers[0])
    return [chips("Broker", [(f"Broker {each}", page_path(cluster, page, broker=each, **query), each == chosen)
                             for each in map(str, brokers)])]  # fmt: skip


def layout(
    context: Context, cluster: str, range: str = "", api: str = "", broker: str = "", phases: str = "", **_: str
) -> Component:
    one = {"broker": broker} if broker else {}
    chosen = {**one, **({"range": range} if range else {})}
    shown = api or DEFAULT_API
    is_live = range in ("", LIVE)
    toggle = html.A(
        "Whole requests only" if phases else "With phases",
        href=page_path(cluster, "requests", range=range, api=api, broker=broker, phases="" if phases else "1"),
    )
    apis = (
        table("APIs", "apis", Apis.COLUMNS, cluster=cluster, params=one, noun="API", height_rows=ROWS_HIGH,
              note="Over the last ten seconds. p99 and Max are those of the worst second, at most 1/16 too high. "
                   "The latency of a Fetch includes its wait for records. A name links to its phases.")
        if is_live
        else table("APIs", "apis-range", ApisOfRange.COLUMNS, cluster=cluster, params=chosen, noun="API",
                   height_rows=ROWS_HIGH, note="Over the range: mean rates, the highest rate, the mean of all "
                   "requests, and the p99 of the worst second. A name links to its phases.")
    )  # fmt: skip
    return shell(
        context,
        cluster,
        "requests",
        "Requests",
        [
            *broker_links(context, cluster, "requests", broker, range=range, api=api, phases=phases),
            panel("Latency of all APIs", "request-heat", "heat", cluster=cluster,
                  params={**chosen, **({"phases": "1"} if phases else {})}, actions=[toggle],
                  note="The p99 of each API over time, in the broker: the colours are a logarithmic scale.",
                  empty="There were no requests."),
            apis,
            html.Div(
                [
                    listing(f"Phases of {clean(shown)}", "api-phases", ApiPhases.COLUMNS, cluster=cluster,
                            params={**one, "api": shown}, rows=_PHASES_SHOWN,
                            note="Over the last ten seconds. Share: of the time of whole requests.",
                            empty=f"There were no {clean(shown)} requests in the last ten seconds."),
                    panel(f"Latency of {clean(shown)}", "api-latency", "chart", cluster=cluster,
                          params={**chosen, "api": shown}, note="The p99 of whole requests and of each phase."),
                    panel("Requests by API", "api-rates", "chart", cluster=cluster, params=chosen,
                          note=f"Requests per second of the {APIS_CHARTED} busiest APIs of the range."),
                    panel("Errors by API", "api-errors", "chart", cluster=cluster, params=chosen,
                          note="Errors in responses per second.", empty="There were no errors."),
                ],
                className="columns wide",
            ),
            panel(f"Heat map of {clean(shown)}", "request-heat", "heat", cluster=cluster,
                  params={**chosen, "api": shown}, note="The p99 of each phase over time.",
                  empty=f"There were no {clean(shown)} requests."),
            panel("Process", "process", "facts", cluster=cluster, params=one, note="Over the last second."),
        ],
        actions=[ranges(cluster, "requests", range, api=api, broker=broker, phases=phases)],
    )  # fmt: skip


PAGE = Page("requests", "Requests", layout)
