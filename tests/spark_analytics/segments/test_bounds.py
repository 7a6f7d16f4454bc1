"""Bounds by offset and time: the right records, and only the bytes that are needed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from broker_cy.storage.checkpoints import LOG_START_OFFSETS, write_offsets
from broker_cy.wire.records import Record
from spark_analytics.segments.plan import Wanted
from tests.spark_analytics.segments.logs import TIME_MS, Log, offsets, ranges, rows
from tests.spark_analytics.segments.logs import records as new_records

SEGMENTS, BATCHES, PER_BATCH = 5, 40, 10
COUNT = SEGMENTS * BATCHES * PER_BATCH


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A log of 2,000 records, one for each second, in 5 segments of 40 batches."""
    log = Log(tmp_path_factory.mktemp("log"))
    for _ in range(SEGMENTS):
        for _ in range(BATCHES):
            log.append(new_records(PER_BATCH, log.next_offset, value_bytes=500))
        log.roll()
    return log.root


@pytest.mark.parametrize(
    ("start", "end"), [(0, COUNT), (0, 1), (399, 401), (1234, 1240), (1995, 3000), (7, 7), (5000, 6000)]
)
def test_offsets_bound_what_is_read(root: Path, start: int, end: int) -> None:
    """If this fails, bounds by offset include or leave out records at their edge."""
    assert offsets(root, starting_offset=start, ending_offset=end) == list(range(start, min(end, COUNT)))


@pytest.mark.parametrize(("start", "end"), [(0, 1), (399, 401), (805, 825), (1999, 2000)])
def test_times_bound_what_is_read(root: Path, start: int, end: int) -> None:
    """If this fails, a time does not select the first record at that time or later, as in Spark's Kafka source."""
    bounds = {"starting_timestamp": TIME_MS + start * 1000 - 999, "ending_timestamp": TIME_MS + end * 1000 - 999}
    assert offsets(root, **bounds) == list(range(start, end))


def test_times_without_a_record(root: Path) -> None:
    """If this fails, a start after all records reads some, or an end after all records leaves some out."""
    late = TIME_MS + COUNT * 1000
    assert offsets(root, starting_timestamp=late) == []
    assert len(offsets(root, ending_timestamp=late, starting_timestamp=0)) == COUNT


@pytest.mark.parametrize(
    "bounds",
    [
        {"starting_timestamp": TIME_MS + 1_010_000, "ending_timestamp": TIME_MS + 1_030_000},
        {"starting_offset": 1010, "ending_offset": 1030},
    ],
)
def test_a_hundredth_of_the_log_reads_few_bytes(root: Path, bounds: dict[str, Any]) -> None:
    """If this fails, the indexes are not used, and reading a short time span of a large topic takes as long as all of
    it.
    """
    found, counters = rows(root, **bounds)
    assert [row["offset"] for row in found] == list(range(1010, 1030))
    size = sum(path.stat().st_size for path in root.rglob("*.log"))
    # The log is small: the headers and index entries of each search weigh more than in a segment of 1 GB.
    assert counters.bytes_read < size * 0.03


def test_without_indexes_the_same_records_are_read(root: Path, tmp_path: Path) -> None:
    """If this fails, a missing index changes the result instead of the bytes read."""
    folder = tmp_path / "t-0"
    folder.mkdir()
    for path in root.glob("t-0/*.log"):
        (folder / path.name).write_bytes(path.read_bytes())
    bounds = {"starting_timestamp": TIME_MS + 805_000, "ending_offset": 1207}
    assert offsets(tmp_path, **bounds) == list(range(805, 1207)) == offsets(root, **bounds)


def test_an_index_that_was_allocated_in_advance_ends_in_zeros(root: Path, tmp_path: Path) -> None:
    """If this fails, the index files of Kafka's active segments, with zeros at their end, lead to wrong places."""
    folder = tmp_path / "t-0"
    folder.mkdir()
    for path in root.glob("t-0/*"):
        zeros = b"" if path.suffix == ".log" else bytes(2400)
        (folder / path.name).write_bytes(path.read_bytes() + zeros)
    for name in (f"{COUNT:020d}.index", f"{COUNT:020d}.timeindex"):
        (folder / name).write_bytes(bytes(2400))
    bounds = {"starting_timestamp": TIME_MS + 805_000, "ending_timestamp": TIME_MS + 1_207_000}
    assert offsets(tmp_path, **bounds) == list(range(805, 1207))


def test_the_index_of_another_segment_does_no_harm(root: Path, tmp_path: Path) -> None:
    """If this fails, an index that cleaning has just replaced makes the reader jump into the middle of a batch."""
    folder = tmp_path / "t-0"
    folder.mkdir()
    log = Log(tmp_path)
    while log.next_offset < 400:
        log.append(new_records(8, log.next_offset))
    log.path("index").write_bytes((root / "t-0" / f"{0:020d}.index").read_bytes())
    assert offsets(tmp_path, starting_offset=203, ending_offset=377) == list(range(203, 377))


def test_large_segments_are_divided_and_small_ones_put_together(root: Path) -> None:
    """If this fails, a segment of 1 GB is one task, or 1,000 small segments are 1,000 tasks."""
    size = sum(path.stat().st_size for path in root.rglob("*.log"))
    for parts in (2, 5, 20):
        found, _ = ranges(root, range_bytes=size // parts)
        assert parts * 0.6 <= len(found) <= parts * 1.7
        assert [each.start for each in found[1:]] == [each.end for each in found[:-1]]
        assert (found[0].start, found[-1].end) == (0, COUNT)


def test_filters_narrow_the_plan(root: Path) -> None:
    """If this fails, a read with pushed-down filters reads more than the offsets and times that they select."""
    assert [(each.start, each.end) for each in ranges(root, wanted=Wanted(start=10, end=20))[0]] == [(10, 20)]
    since = ranges(root, wanted=Wanted(since_ms=TIME_MS + 1_500_000))[0]
    assert [(each.start, each.end) for each in since] == [(1500, COUNT)]
    assert ranges(root, wanted=Wanted(partitions=frozenset({1})))[0] == []
    assert ranges(root, wanted=Wanted(topics=frozenset({"u"})))[0] == []
    assert ranges(root, wanted=Wanted(since_ms=TIME_MS + COUNT * 1000))[0] == []


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.lists(st.integers(0, 50), min_size=1, max_size=4), min_size=1, max_size=12),
    st.integers(0, 12),
    st.integers(0, 52),
)
def test_times_in_any_order(
    tmp_path_factory: pytest.TempPathFactory, times: list[list[int]], roll: int, wanted: int
) -> None:
    """If this fails, a time bound is wrong if producers' clocks go back: it must select the first record that is as
    late.
    """
    log = Log(tmp_path_factory.mktemp("times"))
    for number, batch in enumerate(times):
        if number == roll:
            log.roll()
        log.append([Record(0, TIME_MS + each, None, b"") for each in batch])
    every = [each for batch in times for each in batch]
    first = next((offset for offset, each in enumerate(every) if each >= wanted), len(every))
    assert offsets(log.root, starting_timestamp=TIME_MS + wanted) == list(range(first, len(every)))
    assert offsets(log.root, ending_timestamp=TIME_MS + wanted) == list(range(first))


def test_the_high_watermark_ends_what_is_read(tmp_path: Path) -> None:
    """If this fails, records that the broker has not committed to its replicas are read."""
    log = Log(tmp_path)
    log.append(new_records(20))
    assert offsets(tmp_path) == list(range(20))
    log.mark(13)
    assert offsets(tmp_path) == list(range(13))
    assert offsets(tmp_path, ending_offset=20) == list(range(13))


def test_deleted_records_are_not_read(tmp_path: Path) -> None:
    """If this fails, records before the log start offset, which DeleteRecords removed, come back."""
    log = Log(tmp_path)
    log.append(new_records(20))
    write_offsets(f"{tmp_path}/{LOG_START_OFFSETS}", {("t", 0): 5})
    assert offsets(tmp_path) == list(range(5, 20))
    assert offsets(tmp_path, starting_offset=2, ending_offset=7) == [5, 6]


def test_append_time_is_the_time_of_each_record(tmp_path: Path) -> None:
    """If this fails, records of a topic with LogAppendTime have the producers' times, or the type of the others."""
    log = Log(tmp_path)
    log.append(new_records(3), log_append_time_ms=TIME_MS + 7)
    log.append([Record(0, -1, None, None)])
    found, _ = rows(tmp_path)
    times = [(row["timestamp"].timestamp() * 1000, row["timestampType"]) for row in found]
    assert times == [(TIME_MS + 7, 1)] * 3 + [(-1, 0)]


def test_several_topics_directories_and_partitions(tmp_path: Path) -> None:
    """If this fails, a broker with several log directories is read in part."""
    for root, topic, partition in (("a", "t", 0), ("b", "t", 1), ("b", "u", 0), ("b", "t-x", 0)):
        Log(tmp_path / root, topic, partition).append(new_records(2))
    from spark_analytics.segments import options, plan
    from spark_analytics.segments.report import Counters
    from spark_analytics.segments.walk import Damage

    chosen = options.parse({"path": f"{tmp_path}/a,{tmp_path}/b", "topic": "t,u"})
    found = plan.batch_ranges(chosen, Wanted(), Damage(False, Counters()))
    assert [(each.topic, each.partition, each.end) for each in found] == [("t", 0, 2), ("t", 1, 2), ("u", 0, 2)]


def test_an_empty_partition_has_no_task(tmp_path: Path) -> None:
    """If this fails, a topic without records, or a folder without files, is an error."""
    Log(tmp_path)
    (tmp_path / "t-1").mkdir()
    assert ranges(tmp_path)[0] == []
