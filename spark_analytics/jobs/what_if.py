"""The effect of a reassignment of partitions: the load of each broker after it, and the cost of moving the partitions.

`load(plan, shares, topic_rates, samples)`, one row for each broker of the plan's clusters:
    cluster, broker
    moved_in, moved_out                 partitions of the plan that it takes over, and gives away (known sources only)
    in_records_per_s, in_bytes_per_s, out_bytes_per_s                      now
    in_records_per_s_after, in_bytes_per_s_after, out_bytes_per_s_after    predicted
    sources_known                       whether the plan names the current broker of each of the cluster's partitions

`stalls(plan, shares, moves, commits)`, one row for each partition of the plan and group that commits its topic:
    cluster, topic, partition, target, group
    stall_ms          median of the past stalls, null if there were none
    moves             number of past stalls in this median
    basis             their selection: group and topic, group, topic, or none
    records_per_s     the partition's rate, null if it is not known
    stalled_records   stall_ms / 1000 x records_per_s: records that arrive while no member reads them

`shares` is the output of `skew.partitions`. A partition's load is its share of its topic's load, in records and bytes:
samples count by topic, so equal record sizes in all partitions of a topic are assumed. Samples do not tell which broker
leads a partition, either. If the plan does not name the source, the expected value is subtracted from each broker: the
partition may be on any broker that serves the topic, with a probability equal to that broker's part of the topic's
traffic.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import astuple

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import IntegerType, LongType, StringType, StructField, StructType

from spark_analytics.jobs.skew import RATES, broker_topics
from spark_analytics.reassignment import PlanError, Reassignment, check_once

NAME = "what-if"
HELP = "load of each broker and stalls of each group that a reassignment of partitions would cause"

PLAN = StructType([
    StructField("cluster", StringType()),
    StructField("topic", StringType()),
    StructField("partition", LongType()),
    StructField("target", IntegerType()),
    StructField("source", IntegerType()),
])  # fmt: skip
# A plan is a text written by a person or a tool. A larger one is not a valid plan, and validation would read it into
# the driver.
PLAN_MAX = 100_000
# Existing names that a message lists.
_NAMES_LISTED = 20
_PLACE = ("cluster", "topic", "partition")


def plan_of(spark: SparkSession, cluster: str, reassignments: Sequence[Reassignment]) -> DataFrame:
    """Return a plan as a DataFrame. Raises PlanError if it is empty, too long, or names a partition twice."""
    if not 0 < len(reassignments) <= PLAN_MAX:
        raise PlanError(f"the plan has {len(reassignments)} partitions: 1 to {PLAN_MAX} are allowed")
    check_once(reassignments)
    return spark.createDataFrame([(cluster, *astuple(each)) for each in reassignments], PLAN)


def validate(plan: DataFrame, shares: DataFrame, samples: DataFrame) -> None:
    """Raise PlanError if the plan names a cluster, topic, partition or broker that is not in the data, with the
    existing ones. This function reads the data: at most PLAN_MAX rows of the plan, and the distinct brokers and
    partitions of its topics, into the driver.
    """
    rows = plan.limit(PLAN_MAX + 1).collect()
    if not 0 < len(rows) <= PLAN_MAX:
        raise PlanError(
            f"the plan has {'no' if not rows else f'more than {PLAN_MAX}'} partitions: 1 to {PLAN_MAX} are allowed"
        )
    brokers: dict[str, set[int]] = {}
    for row in samples.select("cluster", "broker").distinct().collect():
        brokers.setdefault(row.cluster, set()).add(row.broker)
    topics: dict[str, set[str]] = {}
    for row in shares.select("cluster", "topic").distinct().collect():
        topics.setdefault(row.cluster, set()).add(row.topic)
    wanted = F.broadcast(plan.select("cluster", "topic").distinct())
    partitions: dict[tuple[str, str], set[int]] = {}
    for row in shares.join(wanted, ["cluster", "topic"], "left_semi").select(*_PLACE).distinct().collect():
        partitions.setdefault((row.cluster, row.topic), set()).add(row.partition)
    seen: set[tuple[str, str, int]] = set()
    for row in rows:
        if row.cluster not in brokers:
            raise PlanError(f"no cluster {row.cluster!r} (there: {_told(brokers)})")
        if row.topic not in topics.get(row.cluster, ()):
            names = _told(topics.get(row.cluster, ()))
            raise PlanError(f"no commits of a topic {row.topic!r} in cluster {row.cluster!r} (there: {names})")
        there = partitions[row.cluster, row.topic]
        if row.partition not in there:
            raise PlanError(f"no commits of partition {row.partition} of {row.topic!r} (there: {_told(there)})")
        for role, broker in (("target", row.target), ("source", row.source)):
            if broker not in brokers[row.cluster] and (broker is not None or role == "target"):
                raise PlanError(
                    f"{row.topic}-{row.partition}: no {role} broker {broker} in cluster {row.cluster!r} "
                    f"(there: {_told(brokers[row.cluster])})"
                )
        if (place := (row.cluster, row.topic, row.partition)) in seen:
            raise PlanError(f"the plan names {row.topic}-{row.partition} twice: one target is allowed")
        seen.add(place)


def _told(names: object) -> str:
    """Return names for a message, the first ones of many."""
    found = sorted(names)  # type: ignore[call-overload]
    text = ", ".join(map(str, found[:_NAMES_LISTED]))
    return f"{text} and {len(found) - _NAMES_LISTED} more" if len(found) > _NAMES_LISTED else text or "none"


def load(plan: DataFrame, shares: DataFrame, topic_rates: DataFrame, samples: DataFrame) -> DataFrame:
    """Return the load of each broker before and after a plan that `validate` accepted."""
    plan = F.broadcast(plan)
    now = broker_topics(topic_rates)
    parts = plan.join(shares.select(*_PLACE, "share"), list(_PLACE)).withColumn(
        "share", F.coalesce("share", F.lit(0.0))
    )
    totals = now.groupBy("cluster", "topic").agg(*(F.sum(rate).alias(rate) for rate in RATES))
    moved = parts.join(totals, ["cluster", "topic"])
    of_share = [(F.col("share") * F.col(rate)).alias(rate) for rate in RATES]
    gained = moved.select("cluster", F.col("target").alias("broker"), *of_share)
    known = moved.where("source IS NOT NULL").select("cluster", F.col("source").alias("broker"), *of_share)
    # The expected value: on each broker, the partition's share of the broker's part of the topic.
    unknown = parts.where("source IS NULL").join(now, ["cluster", "topic"]).select("cluster", "broker", *of_share)
    lost = known.unionByName(unknown).select("cluster", "broker", *((-F.col(rate)).alias(rate) for rate in RATES))
    changes = gained.unionByName(lost).groupBy("cluster", "broker").agg(
        *(F.sum(rate).alias(f"{rate}_change") for rate in RATES)
    )  # fmt: skip
    before = now.groupBy("cluster", "broker").agg(*(F.sum(rate).alias(rate) for rate in RATES))
    clusters = plan.groupBy("cluster").agg(F.every(F.col("source").isNotNull()).alias("sources_known"))
    brokers = samples.select("cluster", "broker").unionByName(topic_rates.select("cluster", "broker")).distinct()
    found = brokers.join(F.broadcast(clusters), "cluster")
    for each in (before, changes, _counted(plan, "target", "moved_in"), _counted(plan, "source", "moved_out")):
        found = found.join(each, ["cluster", "broker"], "left")
    rates = [F.coalesce(rate, F.lit(0.0)).alias(rate) for rate in RATES]
    # If the plan names a wrong source, that broker does not lead the partition; still, no load is below 0.
    after = [
        F.greatest(F.coalesce(rate, F.lit(0.0)) + F.coalesce(f"{rate}_change", F.lit(0.0)), F.lit(0.0)).alias(
            f"{rate}_after"
        )
        for rate in RATES
    ]
    counts = [F.coalesce(name, F.lit(0)).alias(name) for name in ("moved_in", "moved_out")]
    return found.select("cluster", "broker", *counts, *rates, *after, "sources_known")


def _counted(plan: DataFrame, role: str, name: str) -> DataFrame:
    known = plan.where(F.col(role).isNotNull() & ~F.col("target").eqNullSafe(F.col("source")))
    return known.groupBy("cluster", F.col(role).alias("broker")).agg(F.count("*").alias(name))


def stalls(plan: DataFrame, shares: DataFrame, moves: DataFrame, commits: DataFrame) -> DataFrame:
    """Return the predicted stall of each group that commits a topic of a plan that `validate` accepted.

    It is the median of the group's past stalls on the topic; without any, of its stalls on other topics; and otherwise
    of stalls of other groups on the topic. A partition that had no owner before (-1) did not stall anyone.
    """
    past = moves.where(F.col("stall_ms") >= 0)
    names = {"both": ("cluster", "group", "topic"), "own": ("cluster", "group"), "others": ("cluster", "topic")}
    places = F.broadcast(plan).join(shares.select(*_PLACE, "records_per_s"), list(_PLACE))
    groups = commits.select("cluster", "topic", "group").distinct()
    found = places.join(groups, ["cluster", "topic"])
    for name, columns in names.items():
        medians = past.groupBy(*columns).agg(F.median("stall_ms").alias(name), F.count("*").alias(f"{name}_moves"))
        found = found.join(medians, list(columns), "left")
    basis = F.when(F.col("both").isNotNull(), "group and topic").when(F.col("own").isNotNull(), "group")
    stall_ms = F.coalesce("both", "own", "others")
    return found.select(
        *_PLACE, "target", "group", stall_ms.alias("stall_ms"),
        F.coalesce("both_moves", "own_moves", "others_moves", F.lit(0)).alias("moves"),
        basis.when(F.col("others").isNotNull(), "topic").otherwise("none").alias("basis"),
        "records_per_s", (stall_ms / 1000 * F.col("records_per_s")).alias("stalled_records"),
    )  # fmt: skip
