"""The predicted effect of a reassignment, with figures computed by hand; and refused plans."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.testing import assertDataFrameEqual

from spark_analytics.jobs import what_if
from spark_analytics.reassignment import Reassignment
from tests.spark_analytics.jobs.job_frames import Commit, at, commits, frame, rate, sample, table

# Topic t: 80 records/s on broker 1 and 20 on broker 2; topic u: 10 on broker 2; broker 3 is empty.
RATES = [
    rate(10, "t", (800, 80_000, 160_000), 10_000, broker=1),
    rate(10, "t", (200, 20_000, 40_000), 10_000, broker=2),
    rate(10, "u", (100, 10_000, 10_000), 10_000, broker=2),
]
SHARES = "cluster string, topic string, partition bigint, share double, records_per_s double"


@pytest.fixture(scope="module")
def shares(spark: SparkSession) -> DataFrame:
    rows = [("c", "t", 0, 0.6, 60.0), ("c", "t", 1, 0.4, 40.0), ("c", "u", 0, 1.0, 10.0), ("c", "v", 0, None, None)]
    return spark.createDataFrame(rows, SHARES)


@pytest.fixture(scope="module")
def samples(spark: SparkSession) -> DataFrame:
    return table(spark, "samples", [sample(10, 10_000, broker=broker) for broker in (1, 2, 3)])


def loads(spark: SparkSession, plan: list[Reassignment], shares: DataFrame, samples: DataFrame) -> DataFrame:
    return what_if.load(what_if.plan_of(spark, "c", plan), shares, table(spark, "topic_rates", RATES), samples)


def test_a_known_source_gives_the_load_to_the_target(
    spark: SparkSession, shares: DataFrame, samples: DataFrame
) -> None:
    """If this fails, the predicted load is not that of the partition, or an empty broker cannot be a target."""
    found = loads(spark, [Reassignment("t", 0, 3, 1), Reassignment("u", 0, 2, 2)], shares, samples)
    expected = [
        ("c", 1, 0, 1, 80.0, 8_000.0, 16_000.0, 20.0, 2_000.0, 4_000.0, True),
        ("c", 2, 0, 0, 30.0, 3_000.0, 5_000.0, 30.0, 3_000.0, 5_000.0, True),
        ("c", 3, 1, 0, 0.0, 0.0, 0.0, 60.0, 6_000.0, 12_000.0, True),
    ]
    assertDataFrameEqual(found, frame(spark, found, expected))


@pytest.mark.full
def test_an_unknown_source_is_an_expected_value(spark: SparkSession, shares: DataFrame, samples: DataFrame) -> None:
    """If this fails, a partition without a known source is taken from no broker, so that the plan creates load, or is
    treated as if its source were known.
    """
    found = loads(spark, [Reassignment("t", 0, 3)], shares, samples)
    # 60 % of each broker's load of t: 48 and 12 of 60 records/s.
    expected = [
        ("c", 1, 0, 0, 80.0, 8_000.0, 16_000.0, 32.0, 3_200.0, 6_400.0, False),
        ("c", 2, 0, 0, 30.0, 3_000.0, 5_000.0, 18.0, 1_800.0, 2_600.0, False),
        ("c", 3, 1, 0, 0.0, 0.0, 0.0, 60.0, 6_000.0, 12_000.0, False),
    ]
    assertDataFrameEqual(found, frame(spark, found, expected))


def move(group: str, topic: str, stall_ms: int) -> dict[str, Any]:
    return {"group": group, "generation": 1, "topic": topic, "partition": 0, "stall_ms": stall_ms, "at": at(1)}


def test_stalls_are_the_medians_of_what_is_nearest(spark: SparkSession, shares: DataFrame) -> None:
    """If this fails, the predicted stall is not that of the group and topic if it is known, a move without an owner
    counts as one without a stall, or a group without a history has a stall of 0.
    """
    moves = [move("a", "t", stall) for stall in (1_000, 3_000, 2_000, -1)]
    moves += [move("b", "u", 500), move("c", "u", 700)]
    groups = [Commit(1, "a", 0, 1), Commit(1, "b", 0, 1), Commit(1, "d", 0, 1), Commit(1, "e", 0, 1, topic="v")]
    plan = what_if.plan_of(spark, "c", [Reassignment("t", 0, 3), Reassignment("v", 0, 3)])
    found = what_if.stalls(plan, shares, table(spark, "moves", moves), commits(spark, groups))
    expected = [
        ("c", "t", 0, 3, "a", 2_000.0, 3, "group and topic", 60.0, 120.0),
        ("c", "t", 0, 3, "b", 500.0, 1, "group", 60.0, 30.0),
        ("c", "t", 0, 3, "d", 2_000.0, 3, "topic", 60.0, 120.0),
        ("c", "v", 0, 3, "e", None, 0, "none", None, None),
    ]
    assertDataFrameEqual(found, frame(spark, found, expected))


@pytest.mark.full
def test_no_plan_and_no_data_give_nothing(spark: SparkSession, shares: DataFrame, samples: DataFrame) -> None:
    """If this fails, an empty plan changes loads, or empty tables are an error."""
    none = spark.createDataFrame([], what_if.PLAN)
    load = what_if.load(none, shares, table(spark, "topic_rates", []), samples)
    stalls = what_if.stalls(none, shares, table(spark, "moves", []), commits(spark, []))
    assert load.columns[-1] == "sources_known"
    assert stalls.columns[-1] == "stalled_records"
    assert load.collect() == []
    assert stalls.collect() == []


@pytest.mark.parametrize(
    ("plan", "message"),
    [
        ([Reassignment("x", 0, 1)], r"no commits of a topic 'x' in cluster 'c' \(there: t, u, v\)"),
        ([Reassignment("t", 7, 1)], r"no commits of partition 7 of 't' \(there: 0, 1\)"),
        ([Reassignment("t", 0, 9)], r"t-0: no target broker 9 in cluster 'c' \(there: 1, 2, 3\)"),
        ([Reassignment("t", 0, 1, 8)], r"t-0: no source broker 8 in cluster 'c' \(there: 1, 2, 3\)"),
    ],
)
def test_a_plan_for_what_is_not_there_is_refused(
    spark: SparkSession, shares: DataFrame, samples: DataFrame, plan: list[Reassignment], message: str
) -> None:
    """If this fails, a typing error in a plan gives a prediction without the partition, instead of a message."""
    with pytest.raises(ValueError, match=message):
        what_if.validate(what_if.plan_of(spark, "c", plan), shares, samples)


@pytest.mark.full
def test_a_plan_for_what_is_there_is_accepted(spark: SparkSession, shares: DataFrame, samples: DataFrame) -> None:
    """If this fails, sound plans are refused, or a plan for another cluster is not."""
    plan = [Reassignment("t", 0, 3), Reassignment("t", 1, 1, 2)]
    what_if.validate(what_if.plan_of(spark, "c", plan), shares, samples)
    with pytest.raises(ValueError, match=r"no cluster 'other' \(there: c\)"):
        what_if.validate(what_if.plan_of(spark, "other", plan), shares, samples)


def test_a_plan_names_each_partition_once(spark: SparkSession, shares: DataFrame, samples: DataFrame) -> None:
    """If this fails, a plan moves a partition to two brokers, or an empty plan gets a prediction."""
    with pytest.raises(ValueError, match="t-0 twice"):
        what_if.plan_of(spark, "c", [Reassignment("t", 0, 1), Reassignment("t", 0, 2)])
    with pytest.raises(ValueError, match="has 0 partitions"):
        what_if.plan_of(spark, "c", [])
    twice = spark.createDataFrame([("c", "t", 0, 1, None), ("c", "t", 0, 2, None)], what_if.PLAN)
    with pytest.raises(ValueError, match="t-0 twice"):
        what_if.validate(twice, shares, samples)
