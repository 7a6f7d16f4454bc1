"""The skew of records over the partitions of a topic, and of traffic over the brokers of a cluster.

`partitions(commits)`, one row for each partition that a group committed:
    cluster, topic, partition
    records           records appended between its first and its last known end
    seconds           from the first to the last commit, without the time in which the topic was created again
    records_per_s     records / seconds, null with only one commit
    share             its part of the records of the topic's partitions, 0 to 1, null if the topic has none
    fair_share        1 / partitions of the topic
    times_fair        share / fair_share
    gini              Gini coefficient of the topic: 0 for equal partitions, (n - 1) / n if one of n has everything
    hot               share above the factor of the fair share, and records_per_s at the least rate or above it
    first_at, last_at times of the first and the last commit

`topics(partitions)`, one row for each topic:
    cluster, topic, partitions, records, gini, hot (number of its hot partitions), hottest (the partition with the
    most records), hottest_share (0 to 1)

`brokers(topic_rates)`, one row for each broker:
    cluster, broker, in_records_per_s, in_bytes_per_s, out_bytes_per_s (over the time from the cluster's first sample to
    its last, as a sample without traffic is not in the table), share (of the cluster's in_bytes, 0 to 1), fair_share,
    times_fair, gini (of the cluster), hot (share above the factor of the fair share, and in_bytes_per_s at the least
    rate or above it)

A partition's end is known if a group commits it: partitions without commits are missing, and a partition's records are
those between its own first and last commit. A topic whose ends go back was created again: its count starts again there.
The ends are compared by minute, by the highest of each minute: a topic that is created again within one minute is not
noticed.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

NAME = "skew"
HELP = "share of each partition and broker, Gini coefficients, hot partitions"

# Twice the fair share: with four partitions, one has more than all others together.
HOT_FACTOR = 2.0
# Below it, even the largest share of a topic is too little load to be moved.
LEAST_RECORDS_PER_S = 10.0
LEAST_BYTES_PER_S = 10_000.0
_PARTITION = ("cluster", "topic", "partition")
_TOPIC = ("cluster", "topic")


def partitions(
    commits: DataFrame, factor: float = HOT_FACTOR, least_records_per_s: float = LEAST_RECORDS_PER_S
) -> DataFrame:
    """Return the share of each partition. Raises ValueError for a factor below 1 or a negative rate."""
    _check(factor, "least_records_per_s", least_records_per_s)
    found = growth(commits)
    of_topic = Window.partitionBy(*_TOPIC)
    fair = 1 / F.count("*").over(of_topic)
    total = F.sum("records").over(of_topic)
    found = found.withColumns({"share": F.when(total > 0, F.col("records") / total), "fair_share": fair})
    found = _with_gini(found, "records", _TOPIC, "partition")
    return found.select(
        *_PARTITION, "records", "seconds", "records_per_s", "share", "fair_share",
        (F.col("share") / F.col("fair_share")).alias("times_fair"), "gini",
        _hot(factor, F.col("records_per_s") >= least_records_per_s).alias("hot"), "first_at", "last_at",
    )  # fmt: skip


def growth(commits: DataFrame) -> DataFrame:
    """Return the records appended to each partition between its first and its last commit: `records`, `seconds`,
    `records_per_s`, `first_at`, `last_at` by cluster, topic and partition.
    """
    # The highest end of a minute does not depend on the order of commits of several groups in one ms, and this step
    # needs no sorting: the window below sorts minutes, not commits.
    minutes = commits.where(F.col("commit_at").isNotNull()).groupBy(*_PARTITION, _minute().alias("minute"))
    known = minutes.agg(
        F.min("end").alias("lowest"),
        F.max("end").alias("highest"),
        F.min("commit_at").alias("first_at"),
        F.max("commit_at").alias("last_at"),
    )
    in_order = Window.partitionBy(*_PARTITION).orderBy("minute")
    before, before_at = F.lag("highest").over(in_order), F.lag("last_at").over(in_order)
    is_new = before.isNull() | (F.col("highest") < before)
    steps = known.select(
        *_PARTITION, "first_at", "last_at",
        F.when(is_new, F.col("highest") - F.col("lowest")).otherwise(F.col("highest") - before).alias("records"),
        (_seconds("last_at") - F.when(is_new, _seconds("first_at")).otherwise(_seconds(before_at))).alias("seconds"),
    )  # fmt: skip
    found = steps.groupBy(*_PARTITION).agg(
        F.sum("records").alias("records"),
        F.sum("seconds").alias("seconds"),
        F.min("first_at").alias("first_at"),
        F.max("last_at").alias("last_at"),
    )
    return found.withColumn("records_per_s", F.when(F.col("seconds") > 0, F.col("records") / F.col("seconds")))


def topics(found: DataFrame) -> DataFrame:
    """Return the topics of `partitions`."""
    # The lower one of two equal partitions, so that the result does not depend on the order of rows.
    hottest = F.max(F.struct("records", (-F.col("partition")).alias("minus"), "share"))
    by_topic = found.groupBy(*_TOPIC).agg(
        F.count("*").alias("partitions"),
        F.sum("records").alias("records"),
        F.first("gini").alias("gini"),
        F.sum(F.col("hot").cast("long")).alias("hot"),
        hottest.alias("most"),
    )
    return by_topic.select(
        *_TOPIC, "partitions", "records", "gini", "hot",
        (-F.col("most.minus")).alias("hottest"), F.col("most.share").alias("hottest_share"),
    )  # fmt: skip


def brokers(
    topic_rates: DataFrame, factor: float = HOT_FACTOR, least_bytes_per_s: float = LEAST_BYTES_PER_S
) -> DataFrame:
    """Return the share of each broker. Raises ValueError for a factor below 1 or a negative rate."""
    _check(factor, "least_bytes_per_s", least_bytes_per_s)
    found = broker_topics(topic_rates).groupBy("cluster", "broker").agg(
        *(F.sum(name).alias(name) for name in RATES)
    )  # fmt: skip
    of_cluster = Window.partitionBy("cluster")
    total = F.sum("in_bytes_per_s").over(of_cluster)
    found = found.withColumns({
        "share": F.when(total > 0, F.col("in_bytes_per_s") / total),
        "fair_share": 1 / F.count("*").over(of_cluster),
    })  # fmt: skip
    found = _with_gini(found, "in_bytes_per_s", ("cluster",), "broker")
    return found.select(
        "cluster", "broker", *RATES, "share", "fair_share",
        (F.col("share") / F.col("fair_share")).alias("times_fair"), "gini",
        _hot(factor, F.col("in_bytes_per_s") >= least_bytes_per_s).alias("hot"),
    )  # fmt: skip


RATES = ("in_records_per_s", "in_bytes_per_s", "out_bytes_per_s")


def broker_topics(topic_rates: DataFrame) -> DataFrame:
    """Return the rates of each topic on each broker (`RATES`, by cluster, broker and topic), over the time that the
    cluster's samples cover.
    """
    ends = topic_rates.groupBy("cluster").agg(
        (
            F.max(F.unix_millis("at")) - F.min(F.unix_millis("at") - F.coalesce(F.col("interval_ms"), F.lit(0)))
        ).alias("span_ms")
    )  # fmt: skip
    sums = topic_rates.groupBy("cluster", "broker", "topic").agg(
        *(F.sum(_count_of(name)).alias(_count_of(name)) for name in RATES)
    )
    span_s = F.col("span_ms") / 1000
    rates = [F.when(span_s > 0, F.col(_count_of(name)) / span_s).otherwise(0.0).alias(name) for name in RATES]
    return sums.join(F.broadcast(ends), "cluster").select("cluster", "broker", "topic", *rates)


def _count_of(rate: str) -> str:
    return rate.removesuffix("_per_s")


def _minute() -> Column:
    return F.floor(F.unix_millis("commit_at") / 60_000)


def _seconds(column: str | Column) -> Column:
    return F.unix_millis(F.col(column) if isinstance(column, str) else column) / 1000


def _hot(factor: float, busy: Column) -> Column:
    return F.coalesce((F.col("share") > factor * F.col("fair_share")) & busy, F.lit(False))


def _with_gini(found: DataFrame, value: str, of: tuple[str, ...], tie: str) -> DataFrame:
    """Return the rows with `gini`, the Gini coefficient of a column over those with the same `of`; null if the sum of
    the column is 0.
    """
    whole = Window.partitionBy(*of)
    ranked = found.withColumn("_rank", F.row_number().over(whole.orderBy(value, tie)))
    count, total = F.count("*").over(whole), F.sum(value).over(whole)
    weighted = F.sum(F.col("_rank") * F.col(value)).over(whole)
    gini = (2 * weighted / total - (count + 1)) / count
    return ranked.withColumn("gini", F.when(total > 0, gini)).drop("_rank")


def _check(factor: float, name: str, rate: float) -> None:
    if factor < 1:
        raise ValueError(f"factor is {factor:g}: a hot partition has at least its fair share, so 1 or more is allowed")
    if rate < 0:
        raise ValueError(f"{name} is {rate:g}: 0 or more is allowed")
