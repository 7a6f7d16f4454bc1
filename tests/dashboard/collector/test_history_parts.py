"""The parts of the history: offsets that were read, CPU share, busiest topics, events and the values of samples."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from functools import cache
from math import isnan
from pathlib import Path
from zlib import crc32

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from broker_cy.console import figures
from broker_cy.metrics import events
from broker_cy.metrics.events import Commits, Rebalance, Stamped, TopicCreated
from broker_cy.metrics.sample import Api, Sample, Times, Topic, encode
from broker_cy.wire.records import Record, decode_batches, encode_batch
from dashboard.collector import history_state
from dashboard.collector.history_coverage import RANGES_MAX, Coverage
from dashboard.collector.history_marks import Marks
from dashboard.collector.history_measures import (
    DISK_FREE,
    LATENCY,
    MEASURES,
    PRESENCE,
    TOPIC_IN,
    TOPIC_MEASURES,
    Recorder,
    decode,
    presence_of,
)
from dashboard.collector.history_pace import PAUSE_S_MAX, Pace
from dashboard.collector.history_state import State
from dashboard.collector.history_topics import Busiest
from dashboard.collector.rings import Key, Rings

NOW_MS = 1_800_000_000_000


@settings(max_examples=300, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 60), st.integers(0, 20)), min_size=1, max_size=30),
    st.integers(0, 30),
    st.integers(0, 80),
)
def test_reading_gap_by_gap_reads_every_offset_once(parts: list[tuple[int, int]], stop: int, cut: int) -> None:
    """If this fails, samples are counted twice or never after outages and restarts."""
    coverage, read = Coverage(), set()
    for start, size in parts:
        coverage.add(start, start + size, start * 1_000)
        read |= set(range(start, start + size))
    coverage.cut(cut)
    read = {offset for offset in read if offset < cut}
    assert {offset for offset in range(100) if offset in coverage} == read
    coverage.begin_at(90)
    while (gap := coverage.gap(stop)) is not None:
        start = max(gap[0], gap[1] - 7)
        assert stop <= start < gap[1]
        assert not read & set(range(start, gap[1]))
        read |= set(range(start, gap[1]))
        coverage.add(start, gap[1], start * 1_000)
    assert set(range(stop, 90)) <= read
    assert coverage.from_ms == (coverage.newest_start or 0) * 1_000
    assert Coverage(coverage.ranges).ranges == coverage.ranges


def test_the_number_of_ranges_is_bounded() -> None:
    """If this fails, each outage of a cluster makes every note slower."""
    coverage = Coverage()
    for at in range(RANGES_MAX * 2):
        coverage.add(at * 10, at * 10 + 1, at)
    assert len(coverage.ranges) == RANGES_MAX
    assert coverage.end == RANGES_MAX * 20 - 9
    with pytest.raises(ValueError, match="not in order"):
        Coverage([(5, 9, None), (9, 12, None)])


@given(
    st.lists(st.tuples(st.floats(0, 0.05), st.floats(0, 0.2)), min_size=1, max_size=100), st.sampled_from([0.2, 0.5])
)
def test_the_pauses_keep_the_share(work: list[tuple[float, float]], share: float) -> None:
    """If this fails, viewers wait while a dashboard reads a week of samples, or it never ends."""
    cpu_s = clock_s = 0.0
    pauses: list[float] = []

    async def sleep(pause_s: float) -> None:
        nonlocal clock_s
        pauses.append(pause_s)
        clock_s += pause_s

    async def job() -> None:
        nonlocal cpu_s, clock_s
        pace = Pace(share, lambda: cpu_s, lambda: clock_s, sleep)
        pace.begin()
        for used_s, waited_s in work:
            cpu_s += used_s
            clock_s += used_s + waited_s
            await pace.pause()

    asyncio.run(job())
    assert cpu_s <= share * clock_s + 1e-9
    assert max(pauses) <= PAUSE_S_MAX


def test_the_busiest_topics_have_series() -> None:
    """If this fails, the chart of a busy topic is empty while idle ones have theirs."""
    busiest = Busiest(topics_max=2, counted_max=4)
    assert busiest.take((1, "a"), 100) == (True, None)
    assert busiest.take((1, "b"), 1_000) == (True, None)
    assert busiest.take((1, "c"), 150) == (False, None), "not twice as busy"
    assert busiest.take((1, "c"), 100) == (True, (1, "a"))
    assert busiest.partial == {(1, "c")}, "its first 150 bytes are in no series"
    for number in range(10):
        busiest.take((1, f"idle-{number}"), 1)
    assert len(busiest.others) <= 4
    assert busiest.has_forgotten
    assert busiest.take((1, "new"), 10_000) == (True, (1, "c"))
    assert (1, "new") in busiest.partial, "it may be one of those that were forgotten"
    assert busiest.shed() == (1, "b")
    assert set(busiest.held) == {(1, "new")}


def record(event: events.Event, time_ms: int, offset: int) -> Record:
    key, value = events.encode(Stamped(time_ms, 1, event))
    (batch,) = decode_batches(encode_batch([Record(timestamp=time_ms, key=key, value=value)], base_offset=offset))
    return batch.records()[0]


def test_marks_are_found_by_time_kind_and_subject() -> None:
    """If this fails, a chart lacks the event that explains it, or shows those of another group."""

    async def job() -> None:
        marks = Marks()
        for at in (5, 1, 3, 2, 4):
            marks.take(record(TopicCreated(topic=f"t{at}"), NOW_MS + at, at))
            marks.take(record(Rebalance(group=f"g{at % 2}"), NOW_MS + at, 10 + at))
            marks.take(record(Commits(group="g1"), NOW_MS + at, 20 + at))
        found = await marks.found(NOW_MS + 2, NOW_MS + 5, None, None, 100)
        assert [(each.time_ms - NOW_MS, each.event.TYPE) for each in found] == [
            (at, kind) for at in (2, 3, 4) for kind in ("topic_created", "rebalance")
        ]
        found = await marks.found(0, 2 * NOW_MS, {"rebalance"}, "g1", 2)
        assert [each.time_ms - NOW_MS for each in found] == [3, 5], "of too many, the newest"

    asyncio.run(job())


def test_of_too_many_marks_the_oldest_are_dropped() -> None:
    """If this fails, a group that rebalances all the time exhausts the memory, or older events seem not to exist."""
    marks = Marks(marks_max=3)
    for at in range(6):
        marks.take(record(TopicCreated(topic="t"), NOW_MS + at, at))
    assert [mark.time_ms - NOW_MS for mark in marks] == [3, 4, 5]
    assert marks.from_ms == NOW_MS + 3
    marks.take(record(TopicCreated(topic="t"), NOW_MS + 1, 1))
    assert len(marks) == 3, "an older one that is read in the background"
    small = Marks(bytes_max=2 * len(next(iter(marks)).value) + 1)
    for at in range(6):
        small.take(record(TopicCreated(topic="t"), NOW_MS + at, at))
    assert len(small) == 2
    unknown = Record(timestamp=NOW_MS, key=b"k", value=b'{"type":"later_version","version":1}')
    small.take(unknown)
    small.take(Record(timestamp=NOW_MS, key=None, value=b"no event"))
    assert (len(small), small.unreadable) == (2, 1)


def sample_at(time_ms: int, in_bytes: int = 5_000, p99_us: int = 700) -> Sample:
    return Sample(
        time_ms=time_ms,
        broker=7,
        interval_ms=1_000,
        cpu_us=250_000,
        resident_bytes=50 << 20,
        loop_lag=Times(10, 100, 5, 30, 40),
        connections=3,
        disks={"/data": (100, 200)},
        apis={"Fetch": Api(20, {"NONE_LEFT": 2}, 10, 20, {"total": Times(20, 4_000, 100, p99_us, 900)})},
        topics={"orders": Topic(10, in_bytes, 3_000)} if in_bytes else {},
    )


def test_a_sample_becomes_the_figures_of_the_console() -> None:
    """If this fails, terminal and dashboard show different numbers for the same second."""
    rings = Rings()
    recorder = Recorder(rings, Busiest())
    sample = sample_at(NOW_MS)
    recorder.take(encode(sample), NOW_MS)
    recorder.flush()
    grid = rings.grid(NOW_MS, NOW_MS + 1_000, 10)

    def value(measure: str, subject: str = "", phase: str = "") -> tuple[float, float]:
        key = Key(7, measure, subject, phase)
        line = rings.query(key, grid, presence_of(key))
        return line.high[0], line.mean[0]

    assert value("in_bytes_per_s") == (figures.in_bytes_per_s(sample),) * 2 == (5_000, 5_000)
    assert value("cpu_percent") == (25, 25)
    assert value("requests_per_s") == (20, 20)
    assert value("errors_per_s") == (2, 2)
    assert value("members") == (0, 0), "a value of 0 is not stored"
    assert value(DISK_FREE, "/data") == (100, 100)
    assert value(LATENCY, "Fetch", "total") == (700, 200), "the p99, and the mean of all requests"
    assert value("loop_lag_us") == (30, 10)
    assert value(TOPIC_IN, "orders") == (5_000, 5_000)
    assert isnan(value(DISK_FREE, "/other")[0])
    assert {key.measure for key in rings} <= set(MEASURES)


def test_records_that_are_no_samples_are_counted() -> None:
    """If this fails, one damaged record ends the history of a cluster."""
    recorder = Recorder(Rings(), Busiest())
    good = encode(sample_at(NOW_MS))
    huge = good.replace(b"52428800", b"9" * 400), good.replace(b'"count":20', b'"count":' + b"9" * 400)
    for value in (b"", b"{", b"[]", b"1", b'{"version":1,"apis":7}', b'{"version":2}', *huge):
        recorder.take(value, NOW_MS)
        recorder.flush()
    assert recorder.unreadable == 8
    recorder.take(encode(sample_at(NOW_MS + 86_400_000)), NOW_MS)
    assert recorder.ignored == 1, "a broker whose clock is a day ahead must not end all windows"
    recorder.take(good, NOW_MS)
    assert (recorder.unreadable, recorder.ignored) == (8, 1)


def test_decode_reads_the_same_as_the_broker_wrote() -> None:
    """If this fails, the fast decoder loses fields."""
    sample = sample_at(NOW_MS)
    assert decode(encode(sample)) == sample
    later = encode(sample).replace(b'"broker":7', b'"broker":7,"field_of_a_later_version":1')
    assert decode(later) == sample
    assert decode(encode(replace(sample, version=9))) is None


@cache
def full_state() -> State:
    """Return a state that no test changes."""
    state = State("cluster", Rings(), Busiest(topics_max=1), Marks())
    recorder = Recorder(state.rings, state.busiest)
    for age in range(0, 400_000, 100):
        recorder.take(encode(sample_at(NOW_MS - age * 1_000, p99_us=age % 1_000 + 1)), NOW_MS)
    recorder.flush()
    state.busiest.take((7, "busier"), 1 << 40)
    for at in range(50):
        state.marks.take(record(TopicCreated(topic=f"t{at}"), NOW_MS + at, at))
    state.samples.topic_id = "abc"
    state.samples.coverage.add(100, 4_100, NOW_MS)
    return state


def test_a_saved_state_is_the_same_when_loaded(tmp_path: Path) -> None:
    """If this fails, a restart of the dashboard changes its charts."""
    state = full_state()
    path = history_state.path_of(tmp_path, "cluster")
    asyncio.run(history_state.save(path, state))
    found = history_state.load(path, "cluster")
    assert found is not None
    assert [each.name for each in tmp_path.iterdir()] == [path.name]
    assert path.stat().st_mode & 0o077 == 0
    assert sorted(found.rings) == sorted(state.rings)
    assert (found.rings.blocks, found.rings.newest_ms) == (state.rings.blocks, state.rings.newest_ms)
    grid = state.rings.grid(NOW_MS - 500_000_000, NOW_MS, 3_000)
    for key in state.rings:
        assert repr(found.rings.query(key, grid)) == repr(state.rings.query(key, grid))
    assert list(found.marks) == list(state.marks)
    assert (found.samples.topic_id, found.samples.coverage.ranges) == ("abc", [(100, 4_100, NOW_MS)])
    assert found.busiest.held == state.busiest.held
    assert found.busiest.others == state.busiest.others
    assert found.busiest.partial == state.busiest.partial


@pytest.mark.parametrize("damage", ["cut", "bit", "empty", "version", "cluster", "missing"])
def test_a_damaged_or_foreign_state_file_is_ignored(
    damage: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """If this fails, a damaged file keeps the dashboard from starting, or charts show another cluster's data."""
    path = history_state.path_of(tmp_path, "cluster")
    asyncio.run(history_state.save(path, full_state()))
    data = bytearray(path.read_bytes())
    if damage == "cut":
        path.write_bytes(data[: len(data) // 2])
    elif damage == "bit":
        data[len(data) // 2] ^= 1
        path.write_bytes(data)
    elif damage == "empty":
        path.write_bytes(b"")
    elif damage == "version":
        body = bytes(data[:-4]).replace(b'"version":1', b'"version":9')
        path.write_bytes(body + crc32(body).to_bytes(4, "big"))
    elif damage == "missing":
        path.unlink()
    with caplog.at_level("INFO"):
        assert history_state.load(path, "other" if damage == "cluster" else "cluster") is None
    assert str(path) in caplog.text


def test_topics_that_lost_their_series_are_forgotten() -> None:
    """If this fails, the series of a topic that is no longer counted shows its last value as if it were current."""
    rings, busiest = Rings(), Busiest(topics_max=1)
    recorder = Recorder(rings, busiest)
    for at, name in enumerate(("a", "b")):
        sample = replace(sample_at(NOW_MS + at), topics={name: Topic(1, 10 ** (at + 1), 1)})
        recorder.take(encode(sample), NOW_MS)
    recorder.flush()
    topics = {key.subject for key in rings if key.measure in TOPIC_MEASURES}
    assert topics == {"b"}
    assert Key(7, PRESENCE) in set(rings)
