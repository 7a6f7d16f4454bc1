"""One topic over time: bytes in and out, and a heat map of the records written to its partitions.

Bytes are those of the broker's samples: series of the history for the busiest topics; for others, the samples are read
when a viewer opens the chart. The heat map asks the leaders for the offsets at the boundaries of its columns
(ListOffsets by time), so that it reaches back as far as the records do, with Apache Kafka as well: it shows offsets by
the timestamps of records.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from math import isnan
from typing import Any, Final

from broker_cy.admin.metadata import TopicPartition
from broker_cy.client.errors import ClientError
from broker_cy.console.figures import rate
from broker_cy.console.listeners import Source
from broker_cy.console.session import now_ms
from broker_cy.reporting.numbers import count
from dashboard.collector.channel import channel
from dashboard.collector.charts import MARKS_MAX, HistoryChart, TimeChannel, marks
from dashboard.collector.history_measures import TOPIC_IN, TOPIC_OUT
from dashboard.collector.history_ranges import TopicRange
from dashboard.collector.patches import State
from dashboard.collector.rings import Key
from dashboard.collector.time_range import LIVE, POINTS_MAX, RANGES

# Columns of the heat map, and its rows: the partitions with the lowest numbers.
COLUMNS: Final = 60
ROWS_MAX: Final = 128
# Concurrent requests for boundaries.
REQUESTS_MAX: Final = 8
# Lengths of a column in seconds: each divides the next larger unit, so that boundaries are at round times.
_STEPS_S: Final = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1_800, 3_600, 7_200, 10_800, 21_600, 43_200, 86_400)
# Events of a range that are examined.
_EVENTS_MAX: Final = 5_000
# A reading of samples up to now is repeated after this time.
REREAD_S: Final = 60.0


@channel("topic-traffic")
class TopicTraffic(HistoryChart):
    """Bytes in and out."""

    UNIT = "B/s"
    SUBJECT = frozenset({"topic"})
    REQUIRED = SUBJECT
    MEASURES = (("in", TOPIC_IN), ("out", TOPIC_OUT))
    # Only those of this topic and of brokers: see _marks.
    HAS_MARKS = False

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._task: asyncio.Task[None] | None = None
        self._found: TopicRange | None = None
        self._done_ms: int | None = None
        self._failure: ClientError | None = None
        self._read_at_s = 0.0

    def lines(self, brokers: Sequence[int]) -> Sequence[tuple[str, Key]]:
        topic = self.params["topic"]
        held = set(self.hub.history.names())
        its = [broker for broker in brokers if any(Key(broker, measure, topic) in held for _, measure in self.MEASURES)]
        return [
            (label if len(its) == 1 else f"{label}, broker {broker}", Key(broker, measure, topic))
            for label, measure in self.MEASURES
            for broker in its
        ]

    async def state(self) -> State | None:
        brokers = sorted({key.broker for key in self.hub.history.names()})
        from_ms, to_ms = self.range.bounds(now_ms())
        if not brokers or self.lines(brokers):
            state = await super().state()
        elif self.range.from_ms is None and self.range.length_ms <= RANGES[LIVE]:
            state = self._of_samples(from_ms, to_ms)
        else:
            state = self._of_reading(from_ms, to_ms)
        if state is not None:
            state["marks"] = await self._marks(from_ms, to_ms)
        return state

    async def _marks(self, from_ms: int, to_ms: int) -> list[list[Any]]:
        """Return the events about this topic, and about brokers."""
        topic = self.params["topic"]
        found = [
            each
            for each in await self.hub.history.events(from_ms, to_ms, limit=_EVENTS_MAX)
            if getattr(each.event, "group", None) is None and getattr(each.event, "topic", topic) in (topic, None)
        ]
        return marks(found[-MARKS_MAX:], self.scope)

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    def _of_samples(self, from_ms: int, to_ms: int) -> State | None:
        """Return the state from the samples of the last ten minutes, which the session keeps."""
        samples = [each for each in self.session.samples.items if each.time_ms >= from_ms]
        if not samples:
            return None
        topic = self.params["topic"]
        brokers = sorted({each.broker for each in samples})
        times = sorted({each.time_ms // 1_000 * 1_000 for each in samples})
        places = {time_ms: at for at, time_ms in enumerate(times)}
        values: dict[tuple[str, int], list[float | None]] = {}
        for label, _ in self.MEASURES:
            for broker in brokers:
                values[label, broker] = [None] * len(times)
        for sample in samples:
            found = sample.topics.get(topic)
            at = places[sample.time_ms // 1_000 * 1_000]
            values["in", sample.broker][at] = round(rate(sample, found.in_bytes), 3) if found else 0
            values["out", sample.broker][at] = round(rate(sample, found.out_bytes), 3) if found else 0
        names = [label if len(brokers) == 1 else f"{label}, broker {broker}" for label, broker in values]
        return self._state(times, names, list(values.values()), from_ms, to_ms, "")

    def _of_reading(self, from_ms: int, to_ms: int) -> State | None:
        """Return the state from a reading of the samples, which is started if none is new enough."""
        now_s = asyncio.get_running_loop().time()
        is_over = self._found is not None and self.range.to_ms is not None
        if self._task is None and not is_over and now_s - self._read_at_s >= (REREAD_S if self._read_at_s else 0):
            self._done_ms = to_ms
            self._task = asyncio.create_task(self._read(from_ms, to_ms))
        if self._failure is not None:
            raise self._failure
        found = self._found
        if found is None:
            return (
                {"t": [], "series": [], "v": [], "note": f"reading samples: back to @{self._done_ms}"}
                if self._done_ms
                else None
            )
        note = f"samples were read back to @{found.from_ms} only" if found.from_ms > from_ms + 60_000 else ""
        brokers = sorted({key.broker for key in found.lines})
        names: list[str] = []
        values: list[list[float | None]] = []
        for label, measure in self.MEASURES:
            for broker in brokers:
                line = found.lines.get(Key(broker, measure, self.params["topic"]))
                if line is not None:
                    names.append(label if len(brokers) == 1 else f"{label}, broker {broker}")
                    # A mean would hide a spike.
                    values.append([None if isnan(value) else round(value, 3) for value in line.high])
        return self._state(found.times_ms, names, values, from_ms, to_ms, note)

    def _state(
        self,
        times: list[int],
        names: Sequence[str],
        values: list[list[float | None]],
        from_ms: int,
        to_ms: int,
        note: str,
    ) -> State:
        return {
            "t": times,
            "series": [{"name": name, "role": ""} for name in names],
            "v": values,
            "unit": self.UNIT,
            "from_ms": from_ms,
            "to_ms": to_ms,
            "note": note,
        }

    async def _read(self, from_ms: int, to_ms: int) -> None:
        try:
            self._found = await self.hub.history.topic_traffic(
                self.params["topic"], from_ms, to_ms, POINTS_MAX, self._note_progress
            )
            self._failure = None
        except ClientError as error:
            self._failure = error
        finally:
            self._task = None
            self._read_at_s = asyncio.get_running_loop().time()

    def _note_progress(self, done_ms: int) -> None:
        self._done_ms = done_ms


@channel("topic-heat")
class TopicHeat(TimeChannel):
    """Offsets per second by partition (rows) and time (columns)."""

    SUBJECT = frozenset({"topic"})
    REQUIRED = SUBJECT

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        # Offsets at boundaries of columns. Past ones do not change as long as records arrive in time.
        self._known: dict[int, Mapping[int, int]] = {}

    def sources(self) -> Sequence[Source]:
        return [self.session.partitions(self.params["topic"])]

    async def state(self) -> State | None:
        rows = self.session.partitions(self.params["topic"]).value
        if rows is None:
            return None
        partitions = sorted(row.partition for row in rows)
        shown = partitions[:ROWS_MAX]
        from_ms, to_ms = self.range.bounds(now_ms())
        step_ms = step_of(to_ms - from_ms)
        # The last boundary is in the past, so that each column is complete.
        boundaries = list(range(from_ms // step_ms * step_ms, to_ms // step_ms * step_ms + 1, step_ms))
        await self._fetch(boundaries, shown)
        values = [[self._per_second(number, left, left + step_ms) for left in boundaries[:-1]] for number in shown]
        more = len(partitions) - len(shown)
        return {
            "t": boundaries[:-1],
            "series": [{"name": f"partition {number}", "role": ""} for number in shown],
            "v": values,
            "unit": "/s",
            "from_ms": boundaries[0],
            "to_ms": boundaries[-1],
            "note": f"{count(more)} more partitions are not shown" if more > 0 else "",
        }

    def _per_second(self, number: int, left_ms: int, right_ms: int) -> float | None:
        first, last = self._known[left_ms].get(number), self._known[right_ms].get(number)
        if first is None or last is None:
            return None
        # Timestamps may be out of order.
        return round(max(0, last - first) * 1000 / (right_ms - left_ms), 3)

    async def _fetch(self, boundaries: Sequence[int], partitions: Sequence[int]) -> None:
        """Ask for the boundaries that are not known yet. Raises ClientError."""
        self._known = {at: self._known[at] for at in boundaries if at in self._known}
        absent = [at for at in boundaries if at not in self._known]
        if not absent:
            return
        offsets = self.session.client.offsets
        keys = [TopicPartition(self.params["topic"], number) for number in partitions]
        gate = asyncio.Semaphore(REQUESTS_MAX)

        async def ask(at_ms: int) -> None:
            async with gate:
                # Without a record at or after the time, the end is the boundary; the end is requested afterwards, and
                # the records that arrive in between count in the next column.
                outcome = await offsets.at(dict.fromkeys(keys, at_ms))
            found = {key.partition: each.offset for key, each in outcome.found.items()}
            if any(offset is None for offset in found.values()):
                ends = await offsets.latest(key for key in keys if found.get(key.partition, 0) is None)
                found.update({key.partition: end for key, end in ends.found.items()})
            self._known[at_ms] = {number: offset for number, offset in found.items() if offset is not None}

        await asyncio.gather(*map(ask, absent))


def step_of(length_ms: int) -> int:
    """Return the length of a column, in ms, for a range of this length."""
    wanted_s = length_ms / 1000 / COLUMNS
    return (
        next((step for step in _STEPS_S if step >= wanted_s), _STEPS_S[-1] * -(-int(wanted_s) // _STEPS_S[-1])) * 1000
    )
