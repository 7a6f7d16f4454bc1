"""Lag of a group over time, in records and in time: a line for each of the partitions with the largest values.

The last ten minutes are live: the feed of the page samples the group, and older points come from the events of its
commits. Other ranges come from these events alone (collector/group_readings.py). A point that covers several commits
has the largest value of them, so that no spike is lost.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from math import isnan
from typing import Any, ClassVar, Final

from broker_cy.admin.group_values import SHARE
from broker_cy.admin.metadata import TopicPartition
from broker_cy.console.feed_values import GroupView
from broker_cy.console.history import Follower
from broker_cy.console.listeners import Source
from broker_cy.console.session import now_ms
from broker_cy.reporting.foreign_text import clean
from broker_cy.reporting.numbers import plural
from dashboard.collector.channel import channel
from dashboard.collector.charts import TimeChannel, marks
from dashboard.collector.frames import Health
from dashboard.collector.group_readings import GroupReading
from dashboard.collector.history_ranges import GroupLagRange, LagLines
from dashboard.collector.patches import State
from dashboard.collector.rings import Line
from dashboard.collector.time_range import POINTS_MAX
from dashboard.pages.groups import seen_view
from dashboard.pages.rebalance_rows import seen_rebalances

# Lines of a chart: each of the eight colours, solid and dashed.
LINES_MAX: Final = 16
# Partitions whose values are kept for the live chart, because they were once among those with the largest values.
KEPT_MAX: Final = 64
# If there are more rebalances, none is marked, because the lines would hide the values.
MARKS_MAX: Final = 40

Values = Mapping[TopicPartition, float]


class Recent:
    """The points of the last `length_ms`, at most POINTS_MAX, with the partitions that were among the largest."""

    def __init__(self, length_ms: int) -> None:
        self._length_ms = length_ms
        self._points: deque[tuple[int, Values]] = deque(maxlen=POINTS_MAX)
        self._kept: dict[TopicPartition, None] = {}

    @property
    def first_ms(self) -> int | None:
        return self._points[0][0] if self._points else None

    def add(self, at_ms: int, values: Values) -> None:
        """Add a newer point."""
        self._points.append((at_ms, self._chosen(values)))
        while self._points[0][0] < at_ms - self._length_ms:
            self._points.popleft()

    def add_older(self, points: Sequence[tuple[int, Values]]) -> None:
        """Add the points that are older than all others. `points` are in ascending order."""
        first_ms = self.first_ms
        newer = list(self._points)
        older = [(at_ms, self._chosen(values)) for at_ms, values in points if first_ms is None or at_ms < first_ms]
        self._points = deque([*older, *newer], maxlen=POINTS_MAX)

    def _chosen(self, values: Values) -> Values:
        for key in heapq.nlargest(LINES_MAX, values, key=lambda each: values[each]):
            if len(self._kept) < KEPT_MAX:
                self._kept[key] = None
        return {key: values[key] for key in self._kept if key in values}

    def lines(self) -> tuple[list[int], dict[TopicPartition, list[float | None]]]:
        """Return the times, and the values of each partition."""
        times = [at_ms for at_ms, _ in self._points]
        return times, {key: [values.get(key) for _, values in self._points] for key in self._kept}


class GroupChart(TimeChannel):
    """Base of both charts: `value_of` and `line_of` select what is shown."""

    SUBJECT = frozenset({"group"})
    REQUIRED = frozenset({"group"})
    UNIT: ClassVar[str] = ""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.group = self.params["group"]
        self._is_live = not self.params.get("range") or self.params["range"] == "10m"
        self._over = self.range
        self._reading: GroupReading | None = self.hub.group_readings.use(self.group, self._over)
        self._recent = Recent(self._over.length_ms)
        self._seen_at_ms = 0
        # Up to this time, live points come from commits; None if none does.
        self._commits_until_ms: int | None = None
        # The reading that was drawn, and its state.
        self._drawn_of: GroupLagRange | None = None
        self._drawn: State = {}

    def values(self, view: GroupView) -> Values:
        """Return the newest value of each partition."""
        raise NotImplementedError

    def line_of(self, lines: LagLines) -> Line:
        raise NotImplementedError

    def sampled(self) -> Iterable[tuple[int, Values]]:
        """Return the earlier samples, if there are no events of commits."""
        return ()

    def sources(self) -> Sequence[Source]:
        reading = [] if self._reading is None else [self._reading]
        if self._is_live:
            return [self.session.group(self.group), *reading]
        return [self.session.events, *reading]

    def health(self) -> Health:
        if self._is_live:
            feed = self.session.group(self.group)
            return Health(None if feed.age_s is None else round(feed.age_s * 1000), feed.error or "")
        events, reading = self.session.events, self._reading
        error = ("" if reading is None else reading.error) or events.error or ""
        # A reading does not age: the axis shows its end.
        has_read = reading is not None and reading.found is not None
        return Health(0 if has_read else None, error, isinstance(events, Follower) and events.is_absent)

    async def close(self) -> None:
        await self._release()

    async def _release(self) -> None:
        if self._reading is not None:
            self._reading = None
            await self.hub.group_readings.release(self.group, self._over)

    async def state(self) -> State | None:
        from_ms, to_ms = self._over.bounds(now_ms())
        state = await self._live() if self._is_live else self._read()
        if state is None:
            return None
        found = seen_rebalances(
            await self.hub.history.rebalances(self.group, from_ms, to_ms, MARKS_MAX + 1), self.scope
        )
        if len(found) > MARKS_MAX:
            found = []
            left_out = f"more than {MARKS_MAX} rebalances, which are not marked"
            state["note"] = "; ".join(filter(None, (state["note"], left_out)))
        return {
            "unit": self.UNIT,
            "connect": True,
            "from_ms": from_ms,
            "to_ms": to_ms,
            **state,
            "marks": marks(found, self.scope),
        }

    async def _live(self) -> State | None:
        newest = self.session.group(self.group).value
        if newest is None:
            return None
        view = seen_view(newest, self.scope)
        if view.at_ms > self._seen_at_ms:
            self._seen_at_ms = view.at_ms
            self._recent.add(view.at_ms, self.values(view))
        reading = self._reading
        if reading is not None and (reading.found is not None or reading.error is not None):
            if reading.found is not None:
                self._commits_until_ms = self._recent.first_ms
                self._recent.add_older(self._points(reading.found))
            else:
                self._recent.add_older(sorted(self.sampled(), key=lambda point: point[0]))
            await self._release()
        times, lines = self._recent.lines()
        note = ""
        if self._reading is not None:
            note = "reading the commits of the last ten minutes"
        elif self._commits_until_ms is not None and times[0] < self._commits_until_ms:
            is_share = view.description.group_type == SHARE
            when = "when records were completed" if is_share else "at the group's commits, when its lag is smallest"
            note = f"before @{self._commits_until_ms}: {when}"
        return self._shown(times, lines, len(view.lag.partitions), note)

    def _points(self, found: GroupLagRange) -> list[tuple[int, Values]]:
        """Return the points of a reading at which a partition has a value."""
        seen = {
            key: self.line_of(lines).high for key, lines in found.partitions.items() if self.scope.sees_topic(key.topic)
        }
        points: list[tuple[int, Values]] = []
        for at, at_ms in enumerate(found.times_ms):
            values = {key: line[at] for key, line in seen.items() if not isnan(line[at])}
            if values:
                points.append((at_ms, values))
        return points

    def _read(self) -> State:
        reading = self._reading
        if reading is None or (reading.found is None and reading.error is not None):
            # The panel shows the error; the points drawn so far are from a reading that failed.
            return {"t": [], "series": [], "v": [], "note": ""}
        found = reading.found
        if found is None or reading.bounds is None:
            from_ms, to_ms = self._over.bounds(now_ms())
            done = "" if reading.progress_ms is None else f": back to @{reading.progress_ms}"
            return {"t": [from_ms, to_ms], "series": [], "v": [], "note": f"reading the group's commits{done}"}
        if found is not self._drawn_of:
            self._drawn_of, self._drawn = found, self._draw(found, *reading.bounds)
        return dict(self._drawn)

    def _draw(self, found: GroupLagRange, from_ms: int, to_ms: int) -> State:
        lines = {
            key: [None if isnan(value) else value for value in self.line_of(lines).high]
            for key, lines in found.partitions.items()
            if self.scope.sees_topic(key.topic)
        }
        notes = []
        if found.from_ms > from_ms:
            notes.append(f"commits before @{found.from_ms} were not read: the topic of events has too many records")
        if found.left_out and self.scope.sees_everything:
            notes.append(f"{plural(found.left_out, 'partition')} left out")
        return {**self._shown(found.times_ms, lines, len(lines), "; ".join(notes)), "from_ms": from_ms, "to_ms": to_ms}

    def _shown(
        self, times: Sequence[int], lines: Mapping[TopicPartition, Sequence[float | None]], total: int, note: str
    ) -> State:
        """Return the lines with the largest values, in the order of the partitions."""
        peaks = {key: max((value for value in line if value is not None), default=-1.0) for key, line in lines.items()}
        chosen = sorted(
            heapq.nlargest(LINES_MAX, (key for key in peaks if peaks[key] >= 0), key=lambda key: peaks[key])
        )
        if len(chosen) < total:
            note = f"the {len(chosen)} partitions with the largest values, of {total:,}{'; ' if note else ''}{note}"
        return {
            "t": list(times) if chosen else [],
            "series": [{"name": clean(str(key)), "role": ""} for key in chosen],
            "v": [list(lines[key]) for key in chosen],
            "note": note,
        }


@channel("group-lag-records")
class LagOverTime(GroupChart):
    """Lag of each partition in records."""

    def values(self, view: GroupView) -> Values:
        return {part.partition: part.lag for part in view.lag.partitions if part.lag is not None}

    def line_of(self, lines: LagLines) -> Line:
        return lines.records

    def sampled(self) -> Iterable[tuple[int, Values]]:
        points: dict[int, dict[TopicPartition, float]] = {}
        for key in self.session.lag_history.last(self.group):
            if self.scope.sees_topic(key.topic):
                for sample in self.session.lag_history.samples(self.group, key):
                    points.setdefault(sample.at_ms, {})[key] = sample.lag
        return points.items()


@channel("group-lag-time")
class TimeLagOverTime(GroupChart):
    """Lag of each partition in time."""

    UNIT = "duration"

    def values(self, view: GroupView) -> Values:
        times = view.times_ms
        return {
            part.partition: value for part in view.lag.partitions if (value := times.get(part.partition)) is not None
        }

    def line_of(self, lines: LagLines) -> Line:
        return lines.time_ms
