"""The cost of rebalances: stalls x rates, bounds, and causes."""

from __future__ import annotations

from typing import NamedTuple

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.testing import assertDataFrameEqual

from spark_analytics.jobs import rebalances as job
from tests.spark_analytics.jobs.job_frames import Commit, Row, at, commits, frame, rate, sample, table


class Tables(NamedTuple):
    events: DataFrame
    moves: DataFrame
    triggers: DataFrame
    commits: DataFrame
    topic_rates: DataFrame
    samples: DataFrame


def rebalance(at_s: float, group: str, generation: int, moves_total: int, kept: int, stall_max_ms: int) -> Row:
    return {
        "at": at(at_s),
        "group": group,
        "generation": generation,
        "total_ms": 900,
        "join_ms": 600,
        "sync_ms": 300,
        "members_before": 2,
        "members_after": 3,
        "moves_total": moves_total,
        "kept": kept,
        "stall_max_ms": stall_max_ms,
    }


def move(at_s: float, group: str, generation: int, topic: str, partition: int, stall_ms: int) -> Row:
    return {
        "at": at(at_s),
        "group": group,
        "generation": generation,
        "topic": topic,
        "partition": partition,
        "stall_ms": stall_ms,
    }


def trigger(at_s: float, group: str, generation: int, reason: str, member: int) -> Row:
    return {
        "at": at(at_s),
        "group": group,
        "generation": generation,
        "reason": reason,
        "member_id": f"m{member}",
        "client_id": f"c{member}",
        "host": "h",
    }


@pytest.fixture(scope="module")
def tables(spark: SparkSession) -> Tables:
    return Tables(
        table(
            spark,
            "rebalances",
            [
                # The event lists two of its four moves.
                rebalance(200, "g", 3, 4, 0, 5_000),
                rebalance(700, "g", 4, 0, 4, 0),
                rebalance(300, "k", 1, 3, 5, 3_000) | {"broker": 2},
            ],
        ),
        table(
            spark,
            "moves",
            [
                move(200, "g", 3, "t", 0, 5_000),
                move(200, "g", 3, "t", 1, 2_000),
                move(300, "k", 1, "w", 0, 3_000),
                move(300, "k", 1, "u", 0, 1_000),
                move(300, "k", 1, "u", 1, -1),
            ],
        ),
        table(
            spark,
            "triggers",
            [
                trigger(200, "g", 3, "session_timeout", 1),
                trigger(200, "g", 3, "join", 2),
                trigger(700, "g", 4, "leave", 1),
            ],
        ),
        commits(
            spark,
            [
                # 10 records/s of partition 0; one report of partition 1 is not enough.
                Commit(0, "g", 0, 0),
                Commit(100, "x", 500, 1_000),
                Commit(100, "x", 7, 7, partition=1),
                # This topic was recreated.
                Commit(0, "x", 900, 1_000, topic="w"),
                Commit(100, "x", 50, 50, topic="w"),
            ],
        ),
        # 30 records/s of the topic, with two known partitions. In another slot, it does not count.
        table(spark, "topic_rates", [rate(5, "t", (60, 0, 0)), rate(605, "t", (9_000, 0, 0))]),
        table(spark, "samples", [sample(5), sample(6), sample(605)]),
    )


@pytest.mark.full
def test_the_dearest_first_with_what_is_bounded(spark: SparkSession, tables: Tables) -> None:
    """If this fails, the cost of a rebalance is not its stalls times the rates of that time, or moves that its event
    does not list are left out of the upper bound.
    """
    found = job.rebalances(*tables)
    phases = (900, 600, 300, 2, 3)
    costs = (4, 2, 0, 5_000, 7.0, 7 + 2 * 2.0, 50 + 30.0, 80 + 4 * 12.5, 0, 0)
    of = "classic"
    expected = [
        ("c", "g", 3, of, at(200), "join, session_timeout", ["m1", "m2"], ["c1", "c2"], ["h"], *phases, *costs),
        ("c", "k", 1, of, at(300), "unknown", [], [], [], *phases, 3, 3, 5, 3_000, 4.0, 4.0, 0.0, 0.0, 2, 1),
        ("c", "g", 4, of, at(700), "leave", ["m1"], ["c1"], ["h"], *phases, 0, 0, 4, 0, 0.0, 0.0, 0.0, 0.0, 0, 0),
    ]
    assertDataFrameEqual(found, frame(spark, found, expected), checkRowOrder=True)


@pytest.mark.full
def test_rates_say_where_they_are_from(spark: SparkSession, tables: Tables) -> None:
    """If this fails, a rate belongs to another time, or to a former topic of the same name."""
    found = job.rates(tables.commits, tables.moves, tables.topic_rates, tables.samples)
    expected = [
        ("c", "t", 0, at(0), 10.0, "ends"),
        ("c", "t", 1, at(0), 15.0, "topic"),
        ("c", "u", 0, at(0), None, None),
        ("c", "u", 1, at(0), None, None),
        ("c", "w", 0, at(0), None, None),
    ]
    assertDataFrameEqual(found, frame(spark, found, expected))


def test_spenders_share_the_cost_of_a_rebalance(spark: SparkSession, tables: Tables) -> None:
    """If this fails, a rebalance with two triggers counts twice, or one without triggers counts for no cause."""
    costs = job.rebalances(*tables).cache()
    reasons = job.spenders(costs, tables.triggers, "reason")
    expected = [
        ("c", "join", 1, 3.5, 40.0, 0.5),
        ("c", "session_timeout", 1, 3.5, 40.0, 0.5),
        ("c", "unknown", 1, 4.0, 0.0, 0.0),
        ("c", "leave", 1, 0.0, 0.0, 0.0),
    ]
    assertDataFrameEqual(reasons, frame(spark, reasons, expected), checkRowOrder=True)
    hosts = job.spenders(costs, tables.triggers, "host")
    assertDataFrameEqual(
        hosts, frame(spark, hosts, [("c", "h", 2, 7.0, 80.0, 1.0), ("c", "unknown", 1, 4.0, 0.0, 0.0)])
    )
    groups = job.spenders(costs, tables.triggers, "group")
    assertDataFrameEqual(groups, frame(spark, groups, [("c", "g", 2, 7.0, 80.0, 1.0), ("c", "k", 1, 4.0, 0.0, 0.0)]))
    costs.unpersist()


def test_spenders_are_of_a_known_kind(tables: Tables) -> None:
    """If this fails, a misspelled kind gives a Spark error without the allowed values."""
    with pytest.raises(ValueError, match="costs by 'rack': choose one of reason, member_id, client_id, host, group"):
        job.spenders(tables.events, tables.triggers, "rack")


@pytest.mark.full
def test_empty_tables_give_an_empty_table(spark: SparkSession, tables: Tables) -> None:
    """If this fails, a lake without rebalances breaks the job, or its result has other columns."""
    names = ("rebalances", "moves", "triggers", "commits", "topic_rates", "samples")
    empty = job.rebalances(*(table(spark, name, []) for name in names))
    assert empty.schema == job.rebalances(*tables).schema
    assert empty.isEmpty()
    assert job.spenders(empty, tables.triggers, "reason").isEmpty()
