"""The time from a record to the first commit past it."""

from __future__ import annotations

from pyspark.sql import SparkSession
from pyspark.testing import assertDataFrameEqual

from spark_analytics.jobs import end_to_end as job
from tests.spark_analytics.jobs.job_frames import Commit, at, commits, frame

ROWS = [
    # The record at 10 is committed past 2.4 s later, somewhere in the second before that.
    Commit(1, "g", 10, 20, record_s=0.5, commit_s=0.9),
    Commit(3, "g", 20, 20, commit_s=2.9),
    # Nothing was there to read until 3 s: its latency is at most 1.5 s.
    Commit(5, "g", 25, 30, record_s=4.4, commit_s=4.5),
    # A rewind: these were committed before, and the record at 25 is committed past only later.
    Commit(6, "g", 5, 30, record_s=0.1, commit_s=5.9, broker=2),
    Commit(6.5, "g", 15, 30, record_s=0.1, commit_s=6.4, broker=2),
    Commit(7, "g", 30, 30, commit_s=6.9, broker=2),
    # The topic was deleted and created again.
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
    """If this fails, latencies are measured over rewinds or lives of a topic, or a bound passes for a measurement."""
    found = job.end_to_end(commits(spark, ROWS))
    expected = [
        ("c", "g", "t", at(0), 4, 21, 3, 2_400, 2_500, 2_500, 2_500, 1_000, 1, 1_500, 1_500),
        ("c", "g", "t", at(60), 1, 2, 1, 800, 800, 800, 800, 400, 0, None, None),
        ("c", "h", "t", at(0), 1, 1, 1, 0, 0, 0, 0, 0, 0, None, None),
    ]
    assertDataFrameEqual(found, frame(spark, found, expected))


def test_steps_of_a_partition(spark: SparkSession) -> None:
    """If this fails, a step has another record, or more records than were committed for the first time."""
    found = job.steps(commits(spark, [each for each in ROWS if each.group == "g" and each.partition == 0]))
    key = ("c", "g", "t", 0)
    expected = [
        (*key, at(2.9), 10, 2_400, 1_000, None),
        (*key, at(4.5), 5, None, None, 1_500),
        (*key, at(6.9), 5, 2_500, 1_000, None),
        (*key, at(70.3), 2, 800, 400, None),
    ]
    assertDataFrameEqual(found, frame(spark, found, expected))


def test_empty_tables_give_an_empty_table(spark: SparkSession) -> None:
    """If this fails, a lake without commits breaks the job, or its result has other columns."""
    empty = job.end_to_end(commits(spark, []))
    assert empty.schema == job.end_to_end(commits(spark, ROWS)).schema
    assert empty.isEmpty()
