"""The time from a record to the first commit past it."""

from __future__ import annotations

from datetime import datetime

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.testing import assertDataFrameEqual

from spark_analytics.jobs import end_to_end as job
from spark_analytics.jobs.commit_steps import NAMES, UNKNOWN, minutes_of
from spark_analytics.jobs.in_order import ID
from tests.spark_analytics.jobs.job_frames import Commit, at, commits, frame, row_of

ROWS = [
    # The first commit past the record at 10 is 2.4 s later, or up to a second earlier.
    Commit(1, "g", 10, 20, record_s=0.5, commit_s=0.9),
    Commit(3, "g", 20, 20, commit_s=2.9),
    # No record was available until 3 s: its latency is at most 1.5 s.
    Commit(5, "g", 25, 30, record_s=4.4, commit_s=4.5),
    # A rewind: these offsets were committed before, and the commit past the record at 25 comes later.
    Commit(6, "g", 5, 30, record_s=0.1, commit_s=5.9, broker=2),
    Commit(6.5, "g", 15, 30, record_s=0.1, commit_s=6.4, broker=2),
    Commit(7, "g", 30, 30, commit_s=6.9, broker=2),
    # The topic was deleted and recreated.
    Commit(70, "g", 2, 4, record_s=69.5, commit_s=69.9),
    Commit(71, "g", 4, 4, commit_s=70.3),
    # The record arrives between two commits of the same offset.
    Commit(1, "g", 5, 5, partition=1),
    Commit(2, "g", 5, 6, record_s=1.7, commit_s=1.9, partition=1),
    Commit(4, "g", 6, 6, commit_s=3.9, partition=1),
    # The producer's clock is ahead.
    Commit(1, "h", 0, 1, record_s=30),
    Commit(2, "h", 1, 1),
]


def test_latencies_by_minute(spark: SparkSession) -> None:
    """If this fails, latencies are measured across rewinds or a topic's recreation, or a bound counts as a
    measurement.
    """
    found = job.end_to_end(commits(spark, ROWS))
    expected = [
        ("c", "g", "t", at(0), 4, 21, 3, 2_400, 2_500, 2_500, 2_500, 1_000, 1, 1_500, 1_500),
        ("c", "g", "t", at(60), 1, 2, 1, 800, 800, 800, 800, 400, 0, None, None),
        ("c", "h", "t", at(0), 1, 1, 1, 0, 0, 0, 0, 0, 0, None, None),
    ]
    assertDataFrameEqual(found, frame(spark, found, expected))


@pytest.mark.parametrize("size", [1, 2, 3, 5, 1000])
def test_steps_do_not_depend_on_how_rows_are_divided(size: int) -> None:
    """If this fails, a step at the end of a batch is lost, or belongs to another record."""
    rows = [row_of(each) for each in ROWS if each.group == "g" and each.partition == 0]
    of = pa.RecordBatch.from_pylist([
        {
            ID: 7, **{name: row.get(name, "c") for name in NAMES}, "at_ms": _ms(row["at"]),
            "commit_ms": _ms(row["commit_at"]), "offset": row["offset"], "end": row["end"],
            "record_ms": UNKNOWN if row["record_at"] is None else _ms(row["record_at"]),
        }
        for row in rows
    ])  # fmt: skip
    made = minutes_of(of.slice(start, size) for start in range(0, len(rows), size))
    found = [row for batch in made for row in batch.to_pylist()]
    assert [each for row in found for each in row["latencies"]] == [2_400, 2_500, 800]
    assert [each for row in found for each in row["bounds"]] == [1_500]
    assert sum(row["steps"] for row in found) == 4
    assert sum(row["records"] for row in found) == 22
    assert max(row["over_max_ms"] or 0 for row in found) == 1_000
    assert {row["minute_ms"] for row in found} == {_ms(at(0)), _ms(at(60))}


def test_equal_commits_are_one_run_over_batches() -> None:
    """If this fails, an idle group that repeatedly commits the same offset has steps without records."""
    names = dict.fromkeys(NAMES, "c")
    rows = [
        {ID: 7, **names, "at_ms": at_ms, "commit_ms": at_ms, "offset": 10, "end": 10, "record_ms": UNKNOWN}
        for at_ms in range(1_000, 9_000, 1_000)
    ]
    rows.append({**rows[-1], "at_ms": 9_500, "commit_ms": 9_400, "offset": 12, "end": 12})
    # Another partition begins with a higher offset: it is not a step of the first one.
    rows.append({**rows[-1], ID: 8, "at_ms": 1_000, "commit_ms": 1_000, "offset": 50, "end": 50})
    of = pa.RecordBatch.from_pylist(rows)
    (found,) = [row for batch in minutes_of(of.slice(at, 1) for at in range(len(rows))) for row in batch.to_pylist()]
    assert found == {
        **names, "minute_ms": 0, "steps": 1, "records": 2, "latencies": [], "over_max_ms": None, "bounds": [1_400],
    }  # fmt: skip


def _ms(time: datetime) -> int:
    return round(time.timestamp() * 1000)


def test_empty_tables_give_an_empty_table(spark: SparkSession) -> None:
    """If this fails, a lake without commits breaks the job, or its result has other columns."""
    empty = job.end_to_end(commits(spark, []))
    assert empty.schema == job.end_to_end(commits(spark, ROWS)).schema
    assert empty.isEmpty()
