"""Lag by partition and minute: values that are carried forward, exact values, and the end of a window."""

from __future__ import annotations

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.testing import assertDataFrameEqual

from broker_cy.admin.lag import Status, worst
from spark_analytics.jobs import lag as job
from spark_analytics.jobs.lag_windows import Bounds
from tests.spark_analytics.jobs.job_frames import Commit, at, commits, frame, table

BOUNDS = Bounds(abandoned_after_ms=60_000)
# `keeps` reports the end each 10 s until 3 min: 10 records come every 10 s.
KEEPS = [Commit(10 * n + 5, "keeps", 10 * n + 10, 10 * n + 10, broker=1 + n % 2) for n in range(18)]
ROWS = [
    *KEEPS,
    # The group had read everything, then stopped: the time of its first unread record is unknown.
    Commit(16, "stopped", 20, 20),
    # The group falls behind: the record at its offset is known each time.
    *(Commit(10 * n + 6, "slow", n + 1, 10 * n + 10, record_s=n / 10 - 2) for n in range(18)),
    # The group rewinds, and has not caught up at the end of the minute.
    Commit(36, "back", 40, 40),
    Commit(46, "back", 10, 50, record_s=9, commit_s=45.5),
    # The topic is recreated: the commits of "gone" belong to the old one; "new" starts again without a rewind.
    Commit(5, "gone", 500, 1_000, record_s=1, topic="again"),
    Commit(20, "new", 900, 1_000, record_s=1, topic="again"),
    Commit(65, "new", 3, 8, record_s=64, topic="again"),
    # A share group: a member holds the record at its start offset, and others complete records behind it.
    *(Commit(10 * n + 7, "shared", 2, 10 * n + 10, record_s=1, completed=10 * n) for n in range(6)),
    Commit(67, "shared", 70, 70, completed=0),
]


@pytest.fixture(scope="module")
def found(spark: SparkSession) -> DataFrame:
    return job.lag(commits(spark, ROWS), bounds=BOUNDS).cache()


def rows_of(found: DataFrame, group: str) -> list[tuple[object, ...]]:
    """Return (minute, committed, end, lag, most of the minute, time lag, its bound, status, abandoned)."""
    lags = ("lag_records", "lag_max_records", "time_lag_ms", "time_lag_max_ms")
    names = ("committed", "end", *lags, "status", "abandoned")
    minute = (F.unix_millis("minute") / 60_000 - F.lit(at(0).timestamp() / 60)).cast("int").alias("number")
    rows = found.where(F.col("group") == group).select(minute, *names).orderBy("number").collect()
    return [tuple(row) for row in rows]


def test_all_columns_of_a_minute(spark: SparkSession, found: DataFrame) -> None:
    """If this fails, a time, a count or a type of a row is wrong."""
    rows = found.where((F.col("group") == "back") & (F.col("minute") == F.lit(at(0))))
    numbers = (10, 60, 50, 50, 51_000, 51_000, 2, at(45.5), 14_500, 0)
    expected = [("c", "back", "t", 0, at(0), at(60), *numbers, "REWOUND", False, 0)]
    assertDataFrameEqual(rows, frame(spark, found, expected))


def test_a_stopped_consumer_falls_behind(found: DataFrame) -> None:
    """If this fails, the lag of a group freezes when its consumer stops, or it is reported as abandoned too early or
    never.
    """
    assert rows_of(found, "stopped") == [
        # Until 66 s, its idle time is no reason.
        (0, 20, 60, 40, 40, None, 44_000, "OK", False),
        (1, 20, 120, 100, 100, None, 104_000, "OK", True),
        (2, 20, 180, 160, 160, None, 164_000, "STOPPED", True),
    ]


def test_share_groups_complete_records_in_any_order(found: DataFrame) -> None:
    """If this fails, the lag of a share group counts records that its members have completed, or the age of the record
    that one of them holds is lost.
    """
    first, second, _ = rows_of(found, "shared")
    assert first == (0, 52, 60, 8, 8, 59_000, 59_000, "OK", False)
    assert second[1:3] == (70, 120)


def test_a_slow_consumer_has_an_exact_time_lag(found: DataFrame) -> None:
    """If this fails, the time lag is not from the record at the committed offset, or a growing lag is no warning."""
    assert rows_of(found, "slow") == [
        (0, 6, 60, 54, 54, 61_500, 61_500, "WARN", False),
        (1, 12, 120, 108, 108, 120_900, 120_900, "WARN", False),
        (2, 18, 180, 162, 162, 180_300, 180_300, "WARN", False),
    ]


def test_two_brokers_report_one_group(found: DataFrame) -> None:
    """If this fails, a group whose coordinator moves to another broker is cut in two."""
    assert rows_of(found, "keeps") == [
        (minute, 60 * minute + 60, 60 * minute + 60, 0, 0, 0, 0, "OK", False) for minute in range(3)
    ]


def test_a_topic_that_was_created_again_begins_again(found: DataFrame) -> None:
    """If this fails, offsets of a deleted topic count in the new one, or its first commit looks like a rewind."""
    assert rows_of(found, "gone") == [(0, 500, 1_000, 500, 500, 59_000, 59_000, "STOPPED", False)]
    minutes = rows_of(found, "new")
    assert minutes[0] == (0, 900, 1_000, 100, 100, 59_000, 59_000, "STOPPED", False)
    # The old topic has no sample in this minute, nor in the window.
    assert minutes[1] == (1, 3, 8, 5, 5, 56_000, 56_000, "STOPPED", False)
    later = found.where("topic = 'again' and minute > '2026-03-02 10:00:30'")
    assert {row.incarnation for row in later.collect()} == {1}


def test_a_group_has_the_status_of_its_worst_partition(spark: SparkSession) -> None:
    """If this fails, a group with one bad partition looks well, or its sums are wrong."""
    parts = [
        *(Commit(10 * n + 6, "g", n, 10 * n + 5, record_s=0) for n in range(6)),
        *(Commit(10 * n + 6, "g", n, n, partition=1) for n in range(6)),
    ]
    found = job.lag(commits(spark, parts)).cache()
    statuses = [Status[row.status] for row in found.collect()]
    groups = job.by_group(found)
    expected = [("c", "g", at(0), 2, 50, 60_000, 60_000, 0, worst(statuses).name)]
    assert set(statuses) == {Status.OK, Status.WARN}
    assertDataFrameEqual(groups, frame(spark, groups, expected))


@pytest.mark.parametrize(("members", "status"), [(2, "STALLED"), (0, "STOPPED")])
def test_a_rebalance_tells_whether_a_group_has_members(spark: SparkSession, members: int, status: str) -> None:
    """If this fails, a consumer that hangs is reported as one that ended, or vice versa."""
    rows = [Commit(6, "g", 1, 5, record_s=1), *(Commit(10 * n + 5, "x", 5, 5) for n in range(18))]
    events = [
        {"at": at(second), "group": "g", "generation": n, "members_after": count}
        for n, (second, count) in enumerate([(1, 1), (2, 1), (30, members)])
    ]
    found = job.lag(commits(spark, rows), table(spark, "rebalances", events))
    last = found.where((F.col("group") == "g") & (F.col("minute") == F.lit(at(120)))).collect()
    assert [row.status for row in last] == [status]


def test_a_gap_has_no_rows(spark: SparkSession) -> None:
    """If this fails, a time without reports of the partition's end looks like one with a known lag, or a group is
    carried forward forever.
    """
    rows = [Commit(5, "g", 1, 5, record_s=1), Commit(6, "x", 5, 5), Commit(605, "x", 5, 5), Commit(1_200, "x", 5, 5)]
    bounds = Bounds(carry_ms=660_000, end_age_max_ms=120_000)
    found = job.lag(commits(spark, rows), bounds=bounds, until=at(3_600)).select("group", "minute").collect()
    minutes = {
        group: [round(row.minute.timestamp() - at(0).timestamp()) // 60 for row in found if row.group == group]
        for group in ("g", "x")
    }
    # The end counts as known for two minutes after a report; after 11 minutes, g is no longer carried forward.
    assert {group: sorted(each) for group, each in minutes.items()} == {
        "g": [0, 1, 2, 10, 11],
        "x": [0, 1, 2, 10, 11, 12, 20, 21, 22],
    }


def test_empty_tables_give_an_empty_table(spark: SparkSession, found: DataFrame) -> None:
    """If this fails, a lake without commits breaks the job, or its result has other columns."""
    empty = job.lag(commits(spark, []), table(spark, "rebalances", []))
    assert empty.schema == found.schema
    assert empty.isEmpty()
