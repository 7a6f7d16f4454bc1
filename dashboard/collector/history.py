"""The history of one cluster, for any range that its own topics reach back.

Samples (`__broker_metrics`) become series in memory (rings.py), and events (`__cluster_events`) become marks. Both
topics are followed, and what was written before is read in the background, the newest first and with a fifth of a core;
charts say how far that is (`covered_from_ms`). With a state directory, a restart continues where the last run ended.

The topics are read here, and not through the followers of the session, which keep ten minutes: with the offset of each
record, every sample counts exactly once, also after an outage, and a restart knows what is missing.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from broker_cy.client.errors import ClientError, Failure
from broker_cy.client.turns import Turns
from broker_cy.console.listeners import Listener, Listeners, call
from broker_cy.console.session import Session, now_ms
from broker_cy.metrics.events import EVENTS, Stamped
from broker_cy.wire.records import Record
from dashboard.collector import history_ranges, history_state
from dashboard.collector.history_marks import LIMIT_MAX, REBALANCES, Marks
from dashboard.collector.history_measures import (
    MEASURES,
    TOPIC_MEASURES,
    Recorder,
    latencies,
    presence_of,
)
from dashboard.collector.history_pace import Pace
from dashboard.collector.history_ranges import GroupLagRange, Progress, TopicRange
from dashboard.collector.history_reading import Reading
from dashboard.collector.history_state import State
from dashboard.collector.history_topics import Busiest
from dashboard.collector.rings import BLOCKS_MAX, COARSEST, RESOLUTIONS_MS, SPANS, Key, Line, Rings

_LOG = logging.getLogger(__name__)

# Shortest interval of the samples of one broker, by default.
SAMPLE_MS: Final = 1_000
# A broker without samples for this long does not delay the newest points of the others.
SILENT_MS: Final = 10_000
# The window that is read.
WINDOW_MS: Final = RESOLUTIONS_MS[COARSEST] * SPANS[COARSEST]
# Points of one answer: a screen has fewer columns.
POINTS_MAX: Final = 5_000
# Series of one answer: the heat map of a broker has some hundreds.
SERIES_A_CALL: Final = 2_000
# A restart reads the records that were written since the file was saved: five minutes take less than a second.
SAVE_S: Final = 300.0
RETRY_S: Final = 2.0
# At this number of blocks, the least busy topic loses its series.
_BLOCKS_HIGH: Final = BLOCKS_MAX * 9 // 10


@dataclass(frozen=True, slots=True)
class Range:
    """Series of one range, on common points. `times_ms` is the start of each point and `step_ms` its length.

    In `partial` series a gap may be uncounted traffic: those topics were not among the busiest then.
    """

    times_ms: list[int]
    step_ms: int
    lines: dict[Key, Line]
    partial: frozenset[Key]


@dataclass(frozen=True, slots=True)
class HeatMap:
    """Latency by API and phase (rows) over time (columns), in microseconds: the p99 of the worst sample, and the mean
    of all requests; NaN where there were none.
    """

    times_ms: list[int]
    step_ms: int
    rows: list[tuple[str, str]]
    p99_us: list[list[float]]
    mean_us: list[list[float]]


class _Samples:
    """Takes the records of the topic of samples: see history_reading.Sink."""

    def __init__(self, recorder: Recorder, rings: Rings, busiest: Busiest, clock_ms: Callable[[], int]) -> None:
        self._recorder = recorder
        self._rings = rings
        self._busiest = busiest
        self._clock_ms = clock_ms

    def take(self, record: Record) -> None:
        self._recorder.take(record.value or b"", self._clock_ms())

    def flush(self) -> None:
        self._recorder.flush()
        if self._rings.blocks > _BLOCKS_HIGH and (place := self._busiest.shed()) is not None:
            self._recorder.drop_topic(*place)


class History:
    """The data of all charts of one cluster. It belongs to the event loop of its session.

    It is a Source (broker_cy.console.listeners): `error` says why there is no newer data, and listeners are called when
    there is. `state_directory` None: nothing is saved, and a restart reads the topics again.
    """

    def __init__(self, session: Session, state_directory: Path | None, *, clock_ms: Callable[[], int] = now_ms) -> None:
        self._client = session.client
        self._directory = state_directory
        self._clock_ms = clock_ms
        self.listeners = Listeners()
        self._error: str | None = None
        self._gate = asyncio.Lock()
        self._task: asyncio.Task[None] | None = None
        self._is_reading = False
        self._set_up(State("", Rings(), Busiest(), Marks()))

    def _set_up(self, state: State) -> None:
        """Continue from a state, before anything is read."""
        self._state = state
        recorder = Recorder(state.rings, state.busiest)
        self._recorder = recorder
        pace, turn, client = Pace(), asyncio.Lock(), self._client
        self._samples = Reading(
            client,
            client.samples,
            _Samples(recorder, state.rings, state.busiest, self._clock_ms),
            state.samples,
            pace,
            window_ms=WINDOW_MS,
            gate=self._gate,
            turn=turn,
            now_ms=self._clock_ms,
            news=self._tell,
        )
        self._events = Reading(
            client,
            client.events,
            state.marks,
            state.events,
            pace,
            window_ms=WINDOW_MS,
            gate=self._gate,
            turn=turn,
            now_ms=self._clock_ms,
            news=self._tell,
        )

    def start(self) -> None:
        """Load the state file, if there is one, and begin to read."""
        if self._task is None:
            self._task = asyncio.create_task(self._run())

    async def close(self) -> None:
        """Stop reading, and save the state."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        await asyncio.gather(self._samples.close(), self._events.close())
        if self._is_reading:
            self._is_reading = False
            await self._save()

    @property
    def error(self) -> str | None:
        """Return the reason why there are no newer samples."""
        return self._error or self._samples.error

    @property
    def events_error(self) -> str | None:
        """Return the reason why there are no newer events."""
        return self._error or self._events.error

    @property
    def is_absent(self) -> bool:
        """Return whether the cluster has no samples: it is Apache Kafka, or samples are disabled."""
        return self._samples.is_absent

    @property
    def age_s(self) -> float | None:
        """Return the time since the last sample arrived; None if none did since the start."""
        heard_at_s = self._samples.heard_at_s
        return None if heard_at_s is None else asyncio.get_running_loop().time() - heard_at_s

    @property
    def earliest_ms(self) -> int | None:
        """Return the time of the oldest sample of the last 7 days in the topic; None if it is not known."""
        return self._samples.earliest_ms

    @property
    def covered_from_ms(self) -> int | None:
        """Return the time from which on all samples were read; None if none was. Older ones may be there, too."""
        return self._samples.covered_from_ms

    @property
    def settled_ms(self) -> int | None:
        """Return the time before which no further sample is expected: a sample of a broker is at least SAMPLE_MS after
        the one before. None if no sample was taken since the start.
        """
        newest = self._recorder.newest_ms.values()
        latest_ms = max(newest, default=0)
        return min((each + SAMPLE_MS for each in newest if each > latest_ms - SILENT_MS), default=None)

    @property
    def is_complete(self) -> bool:
        """Return whether all samples of the last 7 days that the topic has were read."""
        return self._samples.is_complete

    @property
    def events_covered_from_ms(self) -> int | None:
        """Return the time from which on all events are known; None if none was read. If there are too many, the oldest
        are dropped.
        """
        covered_ms, kept_ms = self._events.covered_from_ms, self._state.marks.from_ms
        return covered_ms if covered_ms is None or kept_ms is None else max(covered_ms, kept_ms)

    @property
    def size_bytes(self) -> int:
        """Return the memory of series and events."""
        return self._state.rings.size_bytes + self._state.marks.size_bytes

    def subscribe(self, listener: Listener) -> None:
        """Call `listener` when there is new data, and when `error` or the progress changed."""
        self.listeners.add(listener)
        if self.error or self.covered_from_ms is not None:
            call(listener)

    def unsubscribe(self, listener: Listener) -> None:
        self.listeners.remove(listener)

    def names(self) -> list[Key]:
        """Return the series that have values."""
        return sorted(self._state.rings)

    async def series(self, names: Iterable[Key], from_ms: int, to_ms: int, points_max: int) -> Range:
        """Return series from `from_ms` to `to_ms` (not included), reduced to `points_max` points by minimum and
        maximum.

        A series without values is NaN, or 0 where a sample without a value means 0. Raises ClientError (INVALID).
        """
        keys = list(dict.fromkeys(names))
        _check(from_ms, to_ms, points_max)
        if len(keys) > SERIES_A_CALL:
            raise ClientError(Failure.INVALID, f"{len(keys)} series: at most {SERIES_A_CALL} are allowed")
        for key in keys:
            if key.measure not in MEASURES:
                raise ClientError(
                    Failure.INVALID,
                    f"unknown measure; known: {', '.join(MEASURES)}",
                    what=f"measure '{key.measure}'",
                )
        rings, busiest = self._state.rings, self._state.busiest
        grid = rings.grid(from_ms, to_ms, points_max)
        turns = Turns()
        lines: dict[Key, Line] = {}
        partial: set[Key] = set()
        for key in keys:
            presence = presence_of(key)
            if key.measure in TOPIC_MEASURES:
                place = (key.broker, key.subject)
                if place in busiest.partial or place not in busiest.held:
                    presence = None
                    partial.add(key)
            lines[key] = rings.query(key, grid, presence)
            await turns.pause()
        return Range(grid.times_ms, grid.step_ms, lines, frozenset(partial))

    async def heat_map(self, broker: int, from_ms: int, to_ms: int, columns_max: int) -> HeatMap:
        """Return the latency of every API and phase that a broker has served. Raises ClientError (INVALID)."""
        keys = [key for key in latencies(self._state.rings) if key.broker == broker][:SERIES_A_CALL]
        found = await self.series(keys, from_ms, to_ms, columns_max)
        return HeatMap(
            found.times_ms,
            found.step_ms,
            [(key.subject, key.phase) for key in keys],
            [found.lines[key].high for key in keys],
            [found.lines[key].mean for key in keys],
        )

    async def topic_traffic(
        self, topic: str, from_ms: int, to_ms: int, points_max: int, progress: Progress | None = None
    ) -> TopicRange:
        """Read the traffic of a topic that has no series from the samples: see history_ranges. Raises ClientError."""
        _check(from_ms, to_ms, points_max)
        return await history_ranges.topic_traffic(self._client, topic, from_ms, to_ms, points_max, progress)

    async def events(
        self, from_ms: int, to_ms: int, kinds: Collection[str] | None = None, limit: int = LIMIT_MAX
    ) -> list[Stamped]:
        """Return the events of a range, without commits, the oldest first; at most the newest `limit`.

        `kinds` are types of metrics.events.EVENTS; None: all. Raises ClientError (INVALID).
        """
        return await self._marks(from_ms, to_ms, kinds, None, limit)

    async def rebalances(self, group_id: str | None, from_ms: int, to_ms: int, limit: int = LIMIT_MAX) -> list[Stamped]:
        """Return the rebalances of a group, or of all groups (None), the oldest first; only the newest if there are too
        many.
        """
        return await self._marks(from_ms, to_ms, REBALANCES, group_id, limit)

    async def group_lag(
        self, group_id: str, from_ms: int, to_ms: int, points_max: int, progress: Progress | None = None
    ) -> GroupLagRange:
        """Read the lag of a group over time from its commits: see history_ranges. Raises ClientError."""
        _check(from_ms, to_ms, points_max)
        return await history_ranges.group_lag(self._client, group_id, from_ms, to_ms, points_max, progress)

    async def _marks(
        self, from_ms: int, to_ms: int, kinds: Collection[str] | None, subject: str | None, limit: int
    ) -> list[Stamped]:
        _check(from_ms, to_ms, 2)
        if not 1 <= limit <= LIMIT_MAX:
            raise ClientError(Failure.INVALID, f"limit {limit}: 1 to {LIMIT_MAX} are allowed")
        for kind in kinds or ():
            if kind not in EVENTS:
                raise ClientError(Failure.INVALID, f"unknown type; known: {', '.join(EVENTS)}", what=f"event {kind}")
        return await self._state.marks.found(from_ms, to_ms, kinds, subject, limit)

    def _tell(self) -> None:
        self.listeners.call()

    async def _run(self) -> None:
        while self._directory is not None:
            try:
                await self._load(self._directory)
                break
            except ClientError as error:
                self._error = str(error)
                self._tell()
                await asyncio.sleep(RETRY_S)
        self._error = None
        self._is_reading = True
        self._samples.start()
        self._events.start()
        while True:
            await asyncio.sleep(SAVE_S)
            await self._save()

    async def _load(self, directory: Path) -> None:
        """Continue from the state file of this cluster, if there is one. Raises ClientError."""
        cluster_id = (await self._client.cluster.describe()).cluster_id
        path = history_state.path_of(directory, cluster_id)
        state = await asyncio.to_thread(history_state.load, path, cluster_id)
        self._set_up(state or State(cluster_id, Rings(), Busiest(), Marks()))

    async def _save(self) -> None:
        if self._directory is None:
            return
        path = history_state.path_of(self._directory, self._state.cluster_id)
        async with self._gate:
            try:
                await history_state.save(path, self._state)
            except (OSError, TypeError) as error:
                _LOG.warning("state file %s was not written: %s", path, error)


def _check(from_ms: int, to_ms: int, points_max: int) -> None:
    """Raise ClientError if a range is not valid."""
    if from_ms < 0 or to_ms <= from_ms:
        raise ClientError(Failure.INVALID, f"from {from_ms} to {to_ms}: times in ms since 1970, the first one smaller")
    if not 2 <= points_max <= POINTS_MAX:
        raise ClientError(Failure.INVALID, f"{points_max} points: 2 to {POINTS_MAX} are allowed")
