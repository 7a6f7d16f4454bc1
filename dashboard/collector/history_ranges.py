"""Ranges that are read from the topics on request: the lag of one group over time, and the traffic of a topic without
series of its own.

Records are read in steps, the newest first, up to a limit: the answer says from which time on it is complete.
Cancelling the call ends the reading.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from math import nan
from typing import Any, Final

import orjson

from broker_cy.admin import AdminClient
from broker_cy.admin.metadata import TopicPartition
from broker_cy.admin.own_topics import OwnTopic
from broker_cy.admin.records import Start
from broker_cy.client.turns import Turns
from broker_cy.console.figures import rate
from broker_cy.metrics import events
from broker_cy.metrics.events import Commits
from broker_cy.metrics.sample import Topic
from broker_cy.wire.records import Record
from dashboard.collector.history_measures import BROKERS_MAX, TOPIC_MEASURES, decode
from dashboard.collector.history_pace import Pace
from dashboard.collector.history_reading import ANSWER_BYTES
from dashboard.collector.rings import Grid, Key, Line, grid_of

# A viewer waits for these, so they may take more of a core than the reading in the background.
SHARE: Final = 0.5
# The bounds of one call: records of the topic, whether they match or not, and bytes of records that are decoded.
RECORDS_MAX: Final = 200_000
BYTES_MAX: Final = 64 << 20
# Records that are read at once, the first and the largest step.
_FIRST_STEP: Final = 500
_STEP_MAX: Final = 8_000
# Partitions of a group whose lag is returned: those with the lowest topic and number.
PARTITIONS_MAX: Final = 1_000
_COMMITS: Final = events.prefix_of(Commits)

Progress = Callable[[int], None]
"""Called with the time, in ms since 1970, from which on the answer is complete so far."""


@dataclass(frozen=True, slots=True)
class LagLines:
    """Lag of a partition at its commits: in records, and in ms (the age of the next record at the commit)."""

    records: Line
    time_ms: Line


@dataclass(frozen=True, slots=True)
class GroupLagRange:
    """Lag of a group over time. `from_ms`: complete from there on. `left_out`: partitions beyond PARTITIONS_MAX."""

    times_ms: list[int]
    partitions: dict[TopicPartition, LagLines]
    from_ms: int
    left_out: int


@dataclass(frozen=True, slots=True)
class TopicRange:
    """Traffic of a topic, by broker and measure; `from_ms`: complete from there on."""

    times_ms: list[int]
    lines: dict[Key, Line]
    from_ms: int


class Cells:
    """Values on a grid that are not known in advance: minimum, maximum, sum and count of each point with values."""

    def __init__(self, grid: Grid) -> None:
        self._grid = grid
        self._cells: dict[int, list[float]] = {}

    def add(self, time_ms: int, value: float) -> None:
        at = time_ms // self._grid.step_ms - self._grid.first
        if not 0 <= at < self._grid.points:
            return
        cell = self._cells.get(at)
        if cell is None:
            self._cells[at] = [value, value, value, 1]
            return
        cell[0], cell[1] = min(cell[0], value), max(cell[1], value)
        cell[2] += value
        cell[3] += 1

    def line(self) -> Line:
        empty = [nan, nan, nan, 1.0]
        cells = [self._cells.get(at, empty) for at in range(self._grid.points)]
        return Line([cell[0] for cell in cells], [cell[1] for cell in cells], [cell[2] / cell[3] for cell in cells])


class _Backward:
    """Reads a range of time, the newest records first, within the bounds of one call."""

    def __init__(self, client: AdminClient, topic: OwnTopic[Any], progress: Progress | None) -> None:
        self._client = client
        self._topic = topic
        self._progress = progress
        self.size_bytes = 0

    async def read(self, from_ms: int, to_ms: int, take: Callable[[Record], bool], containing: bytes | None) -> int:
        """Pass the records of a range to `take`, which says whether a record was decoded. Returns the time from which
        on all were read. Raises ClientError.
        """
        first = (await self._topic.span(Start.time(max(0, from_ms)))).start
        end = (await self._topic.span(Start.time(max(0, to_ms)))).start
        stop = max(first, end - RECORDS_MAX)
        pace, step = Pace(SHARE), _FIRST_STEP
        done_ms = to_ms
        while end > stop and self.size_bytes < BYTES_MAX:
            start = max(stop, end - step)
            oldest_ms = await self._read(start, end, take, containing, pace)
            done_ms = done_ms if oldest_ms is None else min(done_ms, oldest_ms)
            end, step = start, min(_STEP_MAX, step * 2)
            if self._progress is not None:
                self._progress(done_ms)
        return from_ms if end <= first else done_ms

    async def _read(
        self, start: int, end: int, take: Callable[[Record], bool], containing: bytes | None, pace: Pace
    ) -> int | None:
        key = self._topic.partition
        oldest = (await self._client.records.timestamps({key: start})).whole().get(key)
        turns = Turns()
        pace.begin()
        async with self._client.records.reader(
            {key: start},
            ends={key: end},
            fetch_bytes_max=ANSWER_BYTES,
            partition_bytes_max=ANSWER_BYTES,
            containing=containing,
        ) as reader:
            async for chunk in reader:
                for record in chunk.records:
                    if take(record):
                        self.size_bytes += len(record.value or b"")
                    await turns.pause()
                await pace.pause()
        return oldest


async def group_lag(
    client: AdminClient,
    group_id: str,
    from_ms: int,
    to_ms: int,
    points_max: int,
    progress: Progress | None = None,
) -> GroupLagRange:
    """Return the lag of a group at its commits, from `from_ms` to `to_ms`. Raises ClientError."""
    grid = grid_of(from_ms, to_ms, points_max)
    cells: dict[TopicPartition, tuple[Cells, Cells]] = {}
    left_out: set[TopicPartition] = set()
    subject = group_id.encode("utf-8", "surrogatepass")
    # As json writes it in the record.
    needle = b'"group":' + json.dumps(group_id, ensure_ascii=False).encode("utf-8", "surrogatepass")

    def take(record: Record) -> bool:
        value = record.value or b""
        if record.key != subject or not value.startswith(_COMMITS):
            return False
        try:
            for each in orjson.loads(value)["offsets"]:
                _note_lag(cells, left_out, grid, each)
        except (ValueError, KeyError, TypeError):
            return False
        return True

    done_ms = await _Backward(client, client.events, progress).read(from_ms, to_ms, take, needle)
    turns = Turns()
    lines = {}
    for key in sorted(cells):
        lines[key] = LagLines(cells[key][0].line(), cells[key][1].line())
        await turns.pause()
    return GroupLagRange(grid.times_ms, lines, done_ms, len(left_out))


def _note_lag(
    cells: dict[TopicPartition, tuple[Cells, Cells]], left_out: set[TopicPartition], grid: Grid, found: dict[str, Any]
) -> None:
    key = TopicPartition(found["topic"], found["partition"])
    theirs = cells.get(key)
    if theirs is None:
        if len(cells) >= PARTITIONS_MAX:
            if len(left_out) < PARTITIONS_MAX:
                left_out.add(key)
            return
        theirs = cells[key] = Cells(grid), Cells(grid)
    commit_ms, record_ms = found["commit_ms"], found["record_time_ms"]
    # Events of older brokers, and of groups that commit, have no records completed behind the offset.
    theirs[0].add(commit_ms, max(0, found["end"] - found["offset"] - found.get("completed", 0)))
    # Without a record at the committed offset, the group has read everything.
    theirs[1].add(commit_ms, 0 if record_ms < 0 else max(0, commit_ms - record_ms))


async def topic_traffic(
    client: AdminClient,
    topic: str,
    from_ms: int,
    to_ms: int,
    points_max: int,
    progress: Progress | None = None,
) -> TopicRange:
    """Return the traffic of a topic at each broker, from the samples of a range. Raises ClientError."""
    grid = grid_of(from_ms, to_ms, points_max)
    cells: dict[Key, Cells] = {}

    def take(record: Record) -> bool:
        try:
            sample = decode(record.value or b"")
        except ValueError:
            return False
        if sample is None:
            return False
        found = sample.topics.get(topic) or Topic()
        for measure, amount in zip(TOPIC_MEASURES, (found.in_bytes, found.out_bytes, found.in_records), strict=True):
            key = Key(sample.broker, measure, topic)
            if key not in cells:
                if len(cells) >= BROKERS_MAX * len(TOPIC_MEASURES):
                    continue
                cells[key] = Cells(grid)
            cells[key].add(sample.time_ms, rate(sample, amount))
        return True

    done_ms = await _Backward(client, client.samples, progress).read(from_ms, to_ms, take, None)
    return TopicRange(grid.times_ms, {key: each.line() for key, each in cells.items()}, done_ms)
