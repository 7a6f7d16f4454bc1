"""The history of a cluster against a real broker whose topics contain past days."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator
from math import isnan
from pathlib import Path

import pytest

from broker_cy.admin.address import parse_addresses
from broker_cy.admin.metadata import TopicPartition
from broker_cy.admin.own_topics import EVENTS_TOPIC, METRICS_TOPIC
from broker_cy.client.clusters import ClusterEntry
from broker_cy.client.errors import ClientError, Failure
from broker_cy.console.listeners import Source
from broker_cy.console.session import Session, now_ms
from broker_cy.metrics.events import Commits, Committed, Rebalance, Stamped, TopicCreated
from dashboard.collector import history_ranges, history_reading
from dashboard.collector.history import History, Range
from dashboard.collector.history_coverage import Coverage
from dashboard.collector.history_measures import PRESENCE, TOPIC_IN, TOPIC_OUT
from dashboard.collector.rings import Key
from tests.dashboard.collector.planted import event_records, sample_at, sample_records, start_with
from tests.support.broker import QUICK, BrokerProcess

DAY_MS = 86_400_000
IN, COUNT = Key(1, "in_bytes_per_s"), Key(1, PRESENCE)
# A sample each second would take minutes to read.
EVERY_MS = 30_000
SPIKE = 987_654_321


class Past:
    """A broker with samples of 160 hours at `times`, one of them with a spike at `spike_ms`, and with events."""

    def __init__(self, broker: BrokerProcess) -> None:
        self.broker = broker
        self.until_ms = now_ms() // 60_000 * 60_000 - 60_000
        self.spike_ms = self.until_ms - 6 * DAY_MS - EVERY_MS
        self.times = range(self.until_ms - 160 * 3_600_000, self.until_ms, EVERY_MS)
        samples = [sample_at(at, SPIKE if at == self.spike_ms else 1_000 + at // EVERY_MS % 50) for at in self.times]
        events: list[Stamped] = []
        for at in range(600):
            at_ms = self.until_ms - 600_000 + at * 1_000
            offsets = [Committed("orders", part, at, at_ms, at_ms - part * 100, at + part * 5) for part in (0, 1)]
            events.append(Stamped(at_ms, 1, Commits("readers", offsets)))
            events.append(Stamped(at_ms, 1, Commits("others", offsets)))
            # A share group that has completed three records behind its start offset.
            shared = [Committed("orders", 0, at, at_ms, at_ms - 100, at + 5, completed=3)]
            events.append(Stamped(at_ms, 1, Commits("sharers", shared)))
            if at % 100 == 0:
                events.append(Stamped(at_ms, 1, Rebalance(f"group-{at // 100 % 2}", at)))
        events.insert(0, Stamped(self.spike_ms, 1, TopicCreated("orders")))
        start_with(broker, {METRICS_TOPIC: sample_records(samples), EVENTS_TOPIC: event_records(events)})


@pytest.fixture(scope="module")
def past(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Past]:
    broker = BrokerProcess(tmp_path_factory.mktemp("history-broker"), QUICK)
    try:
        yield Past(broker)
    finally:
        broker.close()


def session_of(broker: BrokerProcess) -> Session:
    return Session(ClusterEntry("test", parse_addresses(broker.bootstrap)), client_id="test-history", timeout_s=5)


async def reached(condition: Callable[[], object], what: str, timeout_s: float = 60.0) -> None:
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, f"{what} did not come within {timeout_s:g} s"
        await asyncio.sleep(0.01)


def with_history(broker: BrokerProcess, directory: Path | None, job: Callable[[History], Awaitable[None]]) -> None:
    """Run a job with a started history."""

    async def run() -> None:
        session = session_of(broker)
        history = History(session, directory)
        history.start()
        try:
            await job(history)
        finally:
            await history.close()
            await session.close()

    asyncio.run(run())


async def count_of(history: History, from_ms: int, to_ms: int) -> int:
    """Return the number of samples within a range, which must consist of whole minutes."""
    found = await history.series([COUNT], from_ms, to_ms, 5_000)
    line = found.lines[COUNT]
    # One value of 1 for each sample: the mean is 1, and the rings have the counts.
    assert all(each == 1 for each in line.mean if not isnan(each))
    grid = history._state.rings.grid(from_ms, to_ms, 5_000)
    series = history._state.rings.series(COUNT)
    assert series is not None
    first = grid.first * grid.step
    return round(sum(series.buckets(grid.level, first, first + grid.points * grid.step)[3]))


@pytest.mark.full
def test_a_spike_of_one_second_is_found_six_days_later(past: Past) -> None:
    """If this fails, the chart of a week hides what happened within it."""

    async def job(history: History) -> None:
        await reached(lambda: history.is_complete, "all samples")
        assert isinstance(history.error, str | None)
        source: Source = history
        assert source.error is None
        assert history.earliest_ms == history.covered_from_ms == past.times.start
        assert IN in history.names()
        found = await history.series([IN, Key(1, TOPIC_IN, "orders")], now_ms() - 7 * DAY_MS, now_ms(), 300)
        assert len(found.times_ms) <= 300
        for line in found.lines.values():
            peaks = [at for at, value in enumerate(line.high) if value > 2_000]
            assert [found.times_ms[at] <= past.spike_ms < found.times_ms[at] + found.step_ms for at in peaks] == [True]
            assert line.high[peaks[0]] == pytest.approx(SPIKE, rel=1e-6)
            assert line.low[peaks[0]] < 1_100
        assert found.partial == frozenset()
        assert await count_of(history, past.times.start, past.until_ms) == len(past.times)

    with_history(past.broker, None, job)


def test_live_samples_follow_and_listeners_are_called(past: Past) -> None:
    """If this fails, charts do not update until the page is reloaded."""

    async def job(history: History) -> None:
        calls: list[int | None] = []
        history.subscribe(lambda: calls.append(history.covered_from_ms))
        await reached(lambda: history.is_complete and history.age_s is not None, "the first live sample")
        before, newest_ms = len(calls), history._state.rings.newest_ms
        await reached(lambda: history._state.rings.newest_ms > newest_ms and len(calls) > before, "the next sample")
        found = await history.series([COUNT], now_ms() - 60_000, now_ms() + 1_000, 100)
        assert found.step_ms == 1_000
        assert max(each for each in found.lines[COUNT].high if not isnan(each)) == 1
        covered = [each for each in calls if each is not None]
        assert covered[-1] == past.times.start
        assert (await history.heat_map(1, now_ms() - 7 * DAY_MS, now_ms(), 50)).rows[0][1]

    with_history(past.broker, None, job)


@pytest.mark.full
def test_a_restart_gives_the_same_answers_and_reads_only_what_is_new(past: Past, tmp_path: Path) -> None:
    """If this fails, a restart of the dashboard loses history, or takes minutes to show it."""
    answers: list[Range] = []
    marks: list[list[Stamped]] = []
    records: list[int] = []
    to_ms = past.until_ms

    async def job(history: History) -> None:
        await reached(lambda: history.is_complete and history._events.is_complete, "everything")
        answers.append(await history.series(sorted(history.names()), to_ms - 7 * DAY_MS, to_ms, 1_000))
        marks.append(await history.events(0, to_ms))
        records.append(history._samples.records)

    with_history(past.broker, tmp_path / "state", job)
    with_history(past.broker, tmp_path / "state", job)
    with_history(past.broker, None, job)
    first, second, read_again = answers
    common = first.lines.keys() & second.lines.keys()
    assert len(common) > 10
    for key in common:
        # The last point contains samples of now.
        for other in (second, read_again):
            for mine, theirs in (
                (first.lines[key].low, other.lines[key].low),
                (first.lines[key].high, other.lines[key].high),
            ):
                assert repr(theirs[:-1]) == repr(mine[:-1])
    assert first.times_ms == second.times_ms == read_again.times_ms
    assert marks[0] == marks[1] == marks[2]
    assert records[0] >= len(past.times) > 10_000
    assert records[1] < 1_000, "only what was written since"


def test_events_and_rebalances_are_found(past: Past) -> None:
    """If this fails, charts lack their marks, and the timeline of rebalances is empty."""

    async def job(history: History) -> None:
        await reached(lambda: history._events.is_complete, "all events")
        assert history.events_covered_from_ms is not None
        assert history.events_covered_from_ms <= past.spike_ms
        found = await history.events(past.spike_ms, past.until_ms)
        assert [each.event.TYPE for each in found] == ["topic_created", *["rebalance"] * 6]
        assert found[0].time_ms == past.spike_ms
        newest = await history.events(past.spike_ms, past.until_ms, {"rebalance"}, 2)
        assert newest == found[-2:]
        theirs = await history.rebalances("group-1", 0, past.until_ms)
        assert [each.event.key for each in theirs] == ["group-1"] * 3
        assert len(await history.rebalances(None, 0, past.until_ms)) == 6

    with_history(past.broker, None, job)


def test_the_lag_of_a_group_over_time(past: Past) -> None:
    """If this fails, users cannot see since when a group is behind."""

    async def job(history: History) -> None:
        progress: list[int] = []
        from_ms = past.until_ms - 600_000
        found = await history.group_lag("readers", from_ms, past.until_ms, 100, progress.append)
        assert found.from_ms <= from_ms
        assert progress
        assert sorted(progress, reverse=True) == progress
        assert set(found.partitions) == {TopicPartition("orders", 0), TopicPartition("orders", 1)}
        line = found.partitions[TopicPartition("orders", 1)]
        drawn = [at for at, value in enumerate(line.records.high) if not isnan(value)]
        assert len(drawn) >= 80
        assert {line.records.high[at] for at in drawn} == {5.0}
        assert {line.time_ms.mean[at] for at in drawn} == {100.0}
        assert found.left_out == 0
        shared = (await history.group_lag("sharers", from_ms, past.until_ms, 100)).partitions[
            TopicPartition("orders", 0)
        ]
        assert {value for value in shared.records.high if not isnan(value)} == {2.0}
        assert (await history.group_lag("nobody", from_ms, past.until_ms, 100)).partitions == {}

    with_history(past.broker, None, job)


def test_a_range_that_is_too_large_is_read_in_part(past: Past, monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, one chart of a busy cluster loads for minutes, or looks complete although it is not."""
    monkeypatch.setattr(history_ranges, "RECORDS_MAX", 400)

    async def job(history: History) -> None:
        from_ms = past.until_ms - 600_000
        found = await history.group_lag("readers", from_ms, past.until_ms, 100)
        assert from_ms + 300_000 < found.from_ms < past.until_ms - 100_000
        line = found.partitions[TopicPartition("orders", 0)].records
        drawn = [at_ms for at_ms, value in zip(found.times_ms, line.high, strict=True) if not isnan(value)]
        step_ms = found.times_ms[1] - found.times_ms[0]
        assert found.from_ms - step_ms <= drawn[0] <= found.from_ms + step_ms, "the newest part"
        assert drawn[-1] + step_ms >= past.until_ms - 1_000

    with_history(past.broker, None, job)


def test_a_state_directory_that_cannot_be_written_hinders_nothing(
    past: Past, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """If this fails, charts disappear when the disk is full or read-only."""
    (tmp_path / "file").write_text("no directory")

    async def job(history: History) -> None:
        await reached(lambda: history.age_s is not None, "a live sample")

    with_history(past.broker, tmp_path / "file", job)
    assert "was not written" in caplog.text


def test_the_traffic_of_a_topic_without_series_is_read_from_the_samples(past: Past) -> None:
    """If this fails, topics that are not among the busiest have no chart."""

    async def job(history: History) -> None:
        found = await history.topic_traffic("orders", past.until_ms - 3_600_000, past.until_ms, 60)
        assert found.from_ms <= past.until_ms - 3_600_000
        line = found.lines[Key(1, TOPIC_IN, "orders")]
        assert max(each for each in line.high if not isnan(each)) == 1_049
        assert {each for each in found.lines[Key(1, TOPIC_OUT, "orders")].high if not isnan(each)} == {0}
        unknown = Key(1, TOPIC_IN, "unknown")
        missing = await history.series([unknown], past.until_ms - 3_600_000, past.until_ms, 60)
        assert missing.partial == {unknown}
        assert all(map(isnan, missing.lines[unknown].mean))

    with_history(past.broker, None, job)


@pytest.mark.full
def test_a_broker_that_dies_during_the_backfill_is_read_completely(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If this fails, an outage leaves a gap in the charts, or samples count twice."""
    monkeypatch.setattr(history_reading, "STEP", 1_000)
    broker = BrokerProcess(tmp_path, {**QUICK})
    past = Past(broker)
    state = tmp_path / "state"

    async def interrupted(history: History) -> None:
        await reached(lambda: history._samples.records > 3_000, "a part of the samples")
        assert not history.is_complete
        broker.kill()
        await reached(lambda: history.error is not None, "the failure")
        covered = history.covered_from_ms
        assert covered is not None
        assert covered > past.times.start
        broker.restart()
        await reached(lambda: history._samples.records > 6_000 and history.error is None, "more of the samples")

    async def completed(history: History) -> None:
        await reached(lambda: history.is_complete, "the rest")
        assert await count_of(history, past.times.start, past.until_ms) == len(past.times)
        found = await history.series([IN], past.times.start, past.until_ms, 300)
        assert max(each for each in found.lines[IN].high if not isnan(each)) == pytest.approx(SPIKE, rel=1e-6)

    try:
        with_history(broker, state, interrupted)
        with_history(broker, state, completed)
    finally:
        broker.close()


def test_a_topic_that_was_created_again_is_followed(tmp_path: Path) -> None:
    """If this fails, charts do not update while the new topic is shorter than the old one."""
    broker = BrokerProcess(tmp_path, QUICK).start()

    async def job(history: History) -> None:
        await reached(lambda: history._samples.records >= 3, "some samples")
        before = history._samples.state.topic_id
        (await history._client.topics.delete([METRICS_TOPIC])).whole()
        await reached(lambda: history._samples.state.topic_id not in (None, before), "the new topic")
        newest_ms = history._state.rings.newest_ms
        await reached(lambda: history._state.rings.newest_ms > newest_ms and history.error is None, "a new sample")
        await reached(lambda: history.is_complete, "its first samples")
        assert history._samples.state.coverage.newest_start == 0
        newest_ms = history._state.rings.newest_ms // 1_000 * 1_000
        found = await history.series([COUNT], newest_ms - 60_000, newest_ms, 100)
        assert sum(each for each in found.lines[COUNT].mean if not isnan(each)) >= 3, "what was read before remains"

    try:
        with_history(broker, None, job)
    finally:
        broker.close()


@pytest.mark.parametrize(
    ("topic_id", "ranges"),
    [
        ("another topic", [(0, 15_000, 1)]),
        pytest.param(None, [(0, 9, 1), (1_000_000, 1_000_005, 1)], marks=pytest.mark.full),
    ],
    ids=["another topic", "beyond the end"],
)
def test_offsets_that_are_not_those_of_the_topic_are_not_trusted(
    past: Past, topic_id: str | None, ranges: list[tuple[int, int, int]]
) -> None:
    """If this fails, a topic that was created again, or lost its end, is never read, and its charts stay empty."""

    async def run() -> None:
        session = session_of(past.broker)
        history = History(session, None)
        history._state.samples.topic_id = topic_id
        history._state.samples.coverage = Coverage(ranges)
        history.start()
        try:
            await reached(lambda: history.is_complete and history.age_s is not None, "all samples")
            unread = 9 if topic_id is None else 0
            assert await count_of(history, past.times.start, past.until_ms) == len(past.times) - unread
        finally:
            await history.close()
            await session.close()

    asyncio.run(run())


def test_a_cluster_without_samples_says_so(tmp_path: Path) -> None:
    """If this fails, charts of Apache Kafka stay empty without a reason."""
    off = {"brokercy.metrics.sample.interval.ms": "0", "brokercy.events.enable": "false"}
    broker = BrokerProcess(tmp_path, {**QUICK, **off}).start()

    async def job(history: History) -> None:
        told: list[str | None] = []
        history.subscribe(lambda: told.append(history.error))
        await reached(lambda: history.is_absent and told, "the reason")
        assert METRICS_TOPIC in (history.error or "")
        assert "brokercy.metrics.sample.interval.ms=0" in (history.error or "")
        assert history.covered_from_ms is None
        assert not history.is_complete
        found = await history.series([IN], now_ms() - DAY_MS, now_ms(), 100)
        assert all(map(isnan, found.lines[IN].mean))
        assert await history.events(0, now_ms()) == []

    try:
        with_history(broker, tmp_path / "state", job)
    finally:
        broker.close()


def test_queries_that_are_not_valid_are_refused() -> None:
    """If this fails, a viewer with a wrong URL gets a server error or stops the others."""

    async def job() -> None:
        history = History(Session(ClusterEntry("none", parse_addresses("127.0.0.1:1")), client_id="t"), None)
        calls: list[tuple[Callable[[], Awaitable[object]], str]] = [
            (lambda: history.series([IN], 5, 5, 100), "from 5 to 5"),
            (lambda: history.series([IN], -1, 5, 100), "from -1"),
            (lambda: history.series([IN], 0, 5, 1), "1 points: 2 to 5000"),
            (lambda: history.series([Key(1, "nothing")], 0, 5, 10), "measure 'nothing'"),
            (lambda: history.series([Key(at, "groups") for at in range(2_001)], 0, 5, 10), "2001 series"),
            (lambda: history.events(0, 5, {"nothing"}), "event nothing"),
            (lambda: history.rebalances(None, 0, 5, 0), "limit 0: 1 to"),
            (lambda: history.group_lag("g", 9, 5, 100), "from 9 to 5"),
            (lambda: history.topic_traffic("t", 0, 5, 10**9), "1000000000 points"),
        ]
        for ask, reason in calls:
            with pytest.raises(ClientError) as caught:
                await ask()
            assert reason in str(caught.value)
            assert caught.value.failure is Failure.INVALID

    asyncio.run(job())
