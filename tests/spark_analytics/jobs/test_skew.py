"""Shares of partitions and brokers, Gini coefficients, and hot partitions."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession
from pyspark.testing import assertDataFrameEqual

from spark_analytics.jobs import skew
from tests.spark_analytics.jobs.job_frames import Commit, at, commits, frame, rate, table

ENDS = [
    # Two groups agree on the end of partition 0; of two commits in one ms, one saw an older end.
    Commit(0, "a", 0, 1_000, topic="t"),
    Commit(30, "b", 0, 1_500, topic="t"),
    Commit(90, "a", 0, 4_000, topic="t"),
    Commit(100, "a", 0, 7_000, topic="t"),
    Commit(100, "b", 0, 6_990, topic="t"),
    Commit(0, "a", 0, 0, partition=1, topic="t"),
    Commit(100, "a", 0, 1_000, partition=1, topic="t"),
    Commit(0, "a", 0, 500, partition=2, topic="t"),
    Commit(100, "a", 0, 1_500, partition=2, topic="t"),
    # One commit: no time, no rate.
    Commit(50, "a", 0, 9, partition=3, topic="t"),
    # Recreated between 60 s and 120 s: 200 records before, and 40 after, in 60 s and 10 s.
    Commit(0, "a", 0, 100, topic="again"),
    Commit(60, "a", 0, 300, topic="again"),
    Commit(120, "a", 0, 10, topic="again"),
    Commit(130, "a", 0, 50, topic="again"),
]


def test_shares_are_those_of_the_growth_of_ends(spark: SparkSession) -> None:
    """If this fails, records of several groups count twice, those of a recreated topic are lost, or a share, a Gini
    coefficient or a hot partition is wrong.
    """
    found = skew.partitions(commits(spark, ENDS), 2.5, 60.0)
    # Sorted 0, 1000, 1000, 6000: Gini = 2 x (2 x 1000 + 3 x 1000 + 4 x 6000) / (4 x 8000) - 5 / 4 = 0.5625.
    expected = [
        ("c", "t", 0, 6_000, 100.0, 60.0, 0.75, 0.25, 3.0, 0.5625, True, at(0), at(100)),
        ("c", "t", 1, 1_000, 100.0, 10.0, 0.125, 0.25, 0.5, 0.5625, False, at(0), at(100)),
        ("c", "t", 2, 1_000, 100.0, 10.0, 0.125, 0.25, 0.5, 0.5625, False, at(0), at(100)),
        ("c", "t", 3, 0, 0.0, None, 0.0, 0.25, 0.0, 0.5625, False, at(50), at(50)),
        ("c", "again", 0, 240, 70.0, 240 / 70, 1.0, 1.0, 1.0, 0.0, False, at(0), at(130)),
    ]
    assertDataFrameEqual(found, frame(spark, found, expected))


@pytest.mark.parametrize(("factor", "least", "hot"), [(2.5, 60.1, 0), (3.0, 60.0, 0)])
def test_a_hot_partition_is_above_both_bounds(spark: SparkSession, factor: float, least: float, hot: int) -> None:
    """If this fails, the factor or the least rate of hot partitions is ignored."""
    found = skew.topics(skew.partitions(commits(spark, ENDS[:10]), factor, least))
    assertDataFrameEqual(found, frame(spark, found, [("c", "t", 4, 8_000, 0.5625, hot, 0, 0.75)]))


def test_brokers_are_compared_over_the_same_time(spark: SparkSession) -> None:
    """If this fails, a broker that was idle for a while, and wrote no rates then, seems to have more traffic."""
    rows = [
        rate(10, "t", (100, 9_000, 1_000), 10_000, broker=1),
        rate(10, "u", (50, 21_000, 0), 10_000, broker=1),
        rate(100, "t", (10, 10_000, 500), 10_000, broker=2),
    ]
    found = skew.brokers(table(spark, "topic_rates", rows), 1.2, 300.0)
    # Two brokers, sorted 100 and 300: Gini = 2 x (100 + 2 x 300) / (2 x 400) - 3 / 2 = 0.25.
    expected = [
        ("c", 1, 1.5, 300.0, 10.0, 0.75, 0.5, 1.5, 0.25, True),
        ("c", 2, 0.1, 100.0, 5.0, 0.25, 0.5, 0.5, 0.25, False),
    ]
    assertDataFrameEqual(found, frame(spark, found, expected))


def test_nothing_gives_nothing(spark: SparkSession) -> None:
    """If this fails, a lake without commits or rates causes an error or has rows, instead of empty skew tables."""
    parts = skew.partitions(commits(spark, []))
    assert parts.columns[:6] == ["cluster", "topic", "partition", "records", "seconds", "records_per_s"]
    assert dict(parts.dtypes)["gini"] == "double"
    assert dict(parts.dtypes)["hot"] == "boolean"
    assert parts.collect() == []
    assert skew.topics(parts).collect() == []
    assert skew.brokers(table(spark, "topic_rates", [])).collect() == []


@pytest.mark.parametrize(("factor", "least", "message"), [(0.9, 1.0, "factor is 0.9"), (2.0, -1.0, "is -1: 0 or more")])
def test_bounds_that_make_no_sense_are_refused(spark: SparkSession, factor: float, least: float, message: str) -> None:
    """If this fails, a wrong bound silently makes every partition hot, or none."""
    with pytest.raises(ValueError, match=message):
        skew.partitions(commits(spark, []), factor, least)
    with pytest.raises(ValueError, match=message):
        skew.brokers(table(spark, "topic_rates", []), factor, least)
