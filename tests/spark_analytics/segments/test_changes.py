"""A broker cleans, merges and deletes segments between the plan and the read, and while they are read."""

from __future__ import annotations

from pathlib import Path

import pytest

from spark_analytics.segments import batches, options
from spark_analytics.segments import read as reading
from spark_analytics.segments.errors import DamageError
from spark_analytics.segments.files import segments
from spark_analytics.segments.report import Counters
from spark_analytics.segments.source import arrow_schema, schema_of
from tests.spark_analytics.segments.logs import Log, offsets, ranges
from tests.spark_analytics.segments.logs import records as new_records

BASES = (0, 20, 40)
COUNT = 60


@pytest.fixture
def log(tmp_path: Path) -> Log:
    """Three segments of four batches of five records."""
    made = Log(tmp_path)
    for base in BASES:
        if base:
            made.roll()
        for _ in range(4):
            made.append(new_records(5, made.next_offset))
    return made


def renamed(log: Log, base: int, mark: str) -> None:
    for suffix in ("log", "index", "timeindex"):
        path = log.path(suffix, base)
        path.rename(f"{path}{mark}")


def merged(log: Log, step: int) -> None:
    """Merge the first two segments, as a cleaner does, up to a step: the new files exist, the old ones are renamed, and
    the new ones have their names.
    """
    data = log.path("log", 0).read_bytes() + log.path("log", 20).read_bytes()
    Path(f"{log.path('log', 0)}.swap").write_bytes(data)
    if step > 0:
        renamed(log, 0, ".deleted")
    if step > 1:
        renamed(log, 20, ".deleted")
    if step > 2:
        Path(f"{log.path('log', 0)}.swap").rename(log.path("log", 0))


def read_in_steps(log: Log, monkeypatch: pytest.MonkeyPatch, at: int, step: int) -> list[int]:
    """Read five rows at a time, and merge before row `at`."""
    monkeypatch.setattr(reading, "ROWS_MAX", 5)
    # So that one file is also read in several steps.
    monkeypatch.setattr(batches, "CHUNK_BYTES", 300)
    chosen = options.parse(options.as_text([log.root], ["t"]))
    (planned,), _ = ranges(log.root)
    found: list[int] = []
    done = False
    rows = reading.read(planned, chosen, arrow_schema(schema_of(chosen)), Counters())
    while True:
        if len(found) >= at and not done:
            merged(log, step)
            done = True
        batch = next(rows, None)
        if batch is None:
            return found
        found += batch.column("offset").to_pylist()


@pytest.mark.parametrize("step", range(4))
@pytest.mark.parametrize("at", [0, 5, 15, 20, 25, 40, 45])
def test_a_merge_at_any_time_loses_and_doubles_nothing(
    log: Log, monkeypatch: pytest.MonkeyPatch, at: int, step: int
) -> None:
    """If this fails, a topic that is compacted while it is read has missing or duplicated records."""
    assert read_in_steps(log, monkeypatch, at, step) == list(range(COUNT))


@pytest.mark.parametrize("step", range(4))
def test_a_merge_before_the_plan_loses_and_doubles_nothing(log: Log, step: int) -> None:
    """If this fails, a directory in which a broker stopped while it cleaned is read in part."""
    merged(log, step)
    assert offsets(log.root) == list(range(COUNT))
    assert offsets(log.root, range_bytes=100) == list(range(COUNT))


def test_files_of_an_unfinished_cleaning_are_not_read(log: Log) -> None:
    """If this fails, a segment that the cleaner is still writing is read as complete."""
    Path(f"{log.path('log', 0)}.cleaned").write_bytes(b"half")
    assert [each.base_offset for each in segments(str(log.directory))] == list(BASES)
    assert offsets(log.root) == list(range(COUNT))


@pytest.mark.parametrize("on_damage", ["stop", "skip"])
def test_retention_that_overtakes_the_plan_is_named(log: Log, on_damage: str) -> None:
    """If this fails, records that were deleted before they were read are silently missing."""
    chosen = options.parse(options.as_text([log.root], ["t"], on_damage=on_damage))
    (planned,), _ = ranges(log.root)
    renamed(log, 0, ".deleted")
    counters = Counters()
    rows = reading.read(planned, chosen, arrow_schema(schema_of(chosen)), counters)
    if on_damage == "stop":
        with pytest.raises(DamageError, match="segments before offset 20 were deleted after the read was planned"):
            next(rows)
        return
    assert [each for batch in rows for each in batch.column("offset").to_pylist()] == list(range(20, COUNT))
    assert counters.damaged == 1


def test_a_log_that_became_shorter_is_named(log: Log) -> None:
    """If this fails, a log that was truncated, or a recreated topic, is read as complete."""
    chosen = options.parse(options.as_text([log.root], ["t"]))
    (planned,), _ = ranges(log.root)
    renamed(log, 40, ".deleted")
    with pytest.raises(DamageError, match=r"at byte 0, where offset 40 is expected: the log ends here"):
        list(reading.read(planned, chosen, arrow_schema(schema_of(chosen)), Counters()))


def test_gaps_that_compaction_leaves_are_no_damage(tmp_path: Path) -> None:
    """If this fails, a compacted topic cannot be read."""
    log = Log(tmp_path)
    log.append(new_records(3))
    log.next_offset = 50
    log.append(new_records(3, 50))
    log.next_offset = 90
    log.roll()
    log.append(new_records(1, 90))
    assert offsets(tmp_path) == [0, 1, 2, 50, 51, 52, 90]
    assert offsets(tmp_path, starting_offset=10, ending_offset=51) == [50]
    assert offsets(tmp_path, starting_offset=60) == [90]
