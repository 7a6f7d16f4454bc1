"""Channels of charts over time. Their states:

chart     {"t": [ms], "series": [{"name", "role"}], "v": [[value or null] for each series], "unit",
           "marks": [[ms, text, tone]], "from_ms", "to_ms", "note"}; `role` is "low" or "high" for the edges of the
           band of the line before, else empty; "connect": true draws lines across points without a value
heat      the same without marks: a row for each series
timeline  {"order": [name of row], "bars": [{"row", "name", "from", "to", "text", "tone" or "colour", "href"}],
           "from_ms", "to_ms", "least_ms", "note"}; `name` is that of the legend, whose bars have the same tone or
           colour (0 to 7); `text` may have several lines; a click opens the path `href`; a bar is drawn at least
           `least_ms` long, so that short ones can be seen

Units are those of `core.units` in assets/a_core.js: B, B/s, us, ms, duration (in ms, up to days), /s, % or none.
Without a range a chart shows the last ten minutes. `@ms` in a note is a time, which the browser writes in the viewer's
zone.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import isnan
from typing import Any, ClassVar

from broker_cy.client.event_text import kind_of, line_of, subject_of
from broker_cy.console.event_text import tone_of
from broker_cy.console.listeners import Source
from broker_cy.console.session import now_ms
from broker_cy.metrics.events import Stamped
from broker_cy.reporting.foreign_text import clean
from dashboard.collector.channel import Channel, Params
from dashboard.collector.history import SAMPLE_MS
from dashboard.collector.history import Range as FoundRange
from dashboard.collector.history_measures import PRESENCE
from dashboard.collector.patches import State
from dashboard.collector.rings import Key
from dashboard.collector.seen_events import seen_events
from dashboard.collector.time_range import POINTS_MAX, Range, parse_range
from dashboard.security.roles import Scope

MARKS_MAX = 100
LINES_MAX = 40


class Ranged(Channel):
    """Channels with the parameter `range`, whatever else they are."""

    @classmethod
    def check(cls, params: Params) -> dict[str, str]:
        found = super().check(params)
        parse_range(found.get("range", ""))
        return found

    @property
    def range(self) -> Range:
        return parse_range(self.params.get("range", ""))


class TimeChannel(Ranged):
    """Base of charts over time. Their parameters are `range` and those of `SUBJECT`."""

    SUBJECT: ClassVar[frozenset[str]] = frozenset()
    PARAMS = frozenset({"range"})

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        cls.PARAMS = frozenset({"range"}) | cls.SUBJECT


class HistoryChart(TimeChannel):
    """Lines of measures of the history (history_measures.MEASURES). With several brokers, each has a line.

    If a point is longer than the interval between samples, the line has a band from the smallest to the largest value,
    so that no spike is lost.
    """

    UNIT: ClassVar[str] = ""
    # (label, measure); `lines` returns other series.
    MEASURES: ClassVar[Sequence[tuple[str, str]]] = ()
    HAS_MARKS: ClassVar[bool] = True
    # For latencies: the worst value of a point says more than the mean.
    SHOWS_HIGH: ClassVar[bool] = False

    def sources(self) -> Sequence[Source]:
        return [self.hub.history, self.session.events] if self.HAS_MARKS else [self.hub.history]

    def lines(self, brokers: Sequence[int]) -> Sequence[tuple[str, Key]]:
        """Return the series of a chart, each with its label."""
        return [
            (label if len(brokers) == 1 else f"{label}, broker {broker}", Key(broker, measure))
            for label, measure in self.MEASURES
            for broker in brokers
        ]

    async def state(self) -> State | None:
        history = self.hub.history
        brokers = sorted({key.broker for key in history.names()})
        if not brokers:
            return None if history.error is None else {"t": [], "series": [], "v": []}
        from_ms, to_ms = self.range.bounds(now_ms())
        lines = self.lines(brokers)[:LINES_MAX]
        presences = {key.broker: Key(key.broker, PRESENCE) for _, key in lines}
        keys = [*(key for _, key in lines), *presences.values()]
        found = await history.series(keys, from_ms, to_ms, POINTS_MAX)
        points = self._complete(found)
        is_thinned = found.step_ms > SAMPLE_MS
        series: list[dict[str, str]] = []
        values: list[list[float | None]] = []
        for label, key in lines:
            line = found.lines[key]
            parts = [("", line.high if self.SHOWS_HIGH or not is_thinned else line.mean)]
            if is_thinned and not self.SHOWS_HIGH:
                parts += [("low", line.low), ("high", line.high)]
            for role, each in parts:
                series.append({"name": label, "role": role})
                whole = each if is_thinned else bridged(each, found.lines[presences[key.broker]].high)
                values.append([None if isnan(value) else round(value, 3) for value in whole[:points]])
        state: State = {
            "t": found.times_ms[:points],
            "series": series,
            "v": values,
            "unit": self.UNIT,
            "from_ms": found.times_ms[0] if found.times_ms else from_ms,
            "to_ms": found.times_ms[points - 1] + found.step_ms if points else to_ms,
            "note": self._note(from_ms),
        }
        if self.HAS_MARKS:
            state["marks"] = marks(await history.events(from_ms, to_ms, limit=MARKS_MAX), self.scope)
        return state

    def _complete(self, found: FoundRange) -> int:
        """Return how many points are complete. A point that still changes would make every frame a whole one."""
        settled_ms = self.hub.history.settled_ms or now_ms()
        points = len(found.times_ms)
        while points and found.times_ms[points - 1] + found.step_ms > settled_ms:
            points -= 1
        return points

    def _note(self, from_ms: int) -> str:
        """Return a note on the part of the range that is unknown or not read yet."""
        history = self.hub.history
        if not history.is_complete and history.covered_from_ms is not None and history.covered_from_ms > from_ms:
            return f"reading older samples: back to @{history.covered_from_ms}"
        if history.earliest_ms is not None and history.earliest_ms > from_ms + SAMPLE_MS:
            return f"samples begin at @{history.earliest_ms}"
        return ""


def bridged(values: Sequence[float], present: Sequence[float]) -> list[float]:
    """Fill single points without a sample (`present` is NaN) from the point after them.

    Samples are a few milliseconds more than a second apart, so that every few minutes a second has none; the sample in
    the second after it is about both.
    """
    found = list(values)
    for at in range(len(found) - 1):
        if isnan(present[at]) and not isnan(present[at + 1]) and (at == 0 or not isnan(present[at - 1])):
            found[at] = found[at + 1]
    return found


def marks(events: Iterable[Stamped], scope: Scope) -> list[list[Any]]:
    """Return events as marks of a chart, as far as the viewer may see them."""
    return [
        [
            each.time_ms,
            clean(f"{kind_of(each.event)} {subject_of(each)}: {line_of(each.event)}"),
            tone_of(each.event).name,
        ]
        for each in seen_events(events, scope)
    ]
