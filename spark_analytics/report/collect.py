"""Reduces the results of the jobs over a lake to the content of a report: Spark counts and ranks, and only rows within
the limits of `content` are sent to the driver.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import reduce
from typing import TYPE_CHECKING, Any

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from broker_cy import __version__
from spark_analytics.jobs import forecast, nodes, rebalances, skew
from spark_analytics.lake import Lake, LakeError, Span
from spark_analytics.progress import Progress
from spark_analytics.report import groups, traffic
from spark_analytics.report.content import (
    ANOMALIES_MAX,
    CLUSTERS_MAX,
    DISKS_MAX,
    FORECASTS_MAX,
    GAPS_MAX,
    HOT_MAX,
    MINUTE_MS,
    NAMES_MAX,
    POINTS_MAX,
    REBALANCES_MAX,
    SPENDERS_MAX,
    UNEVEN_MAX,
    Anomaly,
    Backtest,
    Cluster,
    Disk,
    Forecast,
    Gap,
    HotPartition,
    Rebalance,
    Report,
    Spender,
    Uneven,
    period_of,
    start_of,
)
from spark_analytics.report.ranks import best, is_one_of, ms

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TABLES = ("samples", "api_phases", "topic_rates", "commits", "rebalances", "moves", "triggers", "events")
# The costs of rebalances by these: a member gets a new id each time it starts, and groups are in the other table.
SPENDERS = ("reason", "client_id", "host")
Parts = dict[str, dict[str, Any]]


def collect(spark: SparkSession, lake: Lake, span: Span, clusters: Sequence[str]) -> Report:
    """Return the report on clusters of a lake (empty: all). Raises LakeError if the span has no data."""
    progress = Progress(spark)
    asked = list(clusters) or lake.check(())
    shown, left_out = asked[:CLUSTERS_MAX], asked[CLUSTERS_MAX:]
    with progress.during("report: reading the lake"):
        tables = {name: lake.read(spark, name, span, shown) for name in TABLES}
        heads = _heads(tables, shown)
    if not heads:
        raise LakeError(f"{lake.path} holds nothing from {span} of {', '.join(shown)}")
    period_ms = period_of(min(each.first_ms for each in heads), max(each.last_ms for each in heads))
    found = {each.name: replace(each, start_ms=_start(each, period_ms)) for each in heads}
    steps: dict[str, Callable[[], Parts]] = {
        "throughput": lambda: traffic.traffic(tables["topic_rates"], tables["samples"], found, period_ms),
        "gaps": lambda: gaps(tables["samples"]),
        "lag": lambda: groups.groups(tables["commits"], tables["rebalances"], found, period_ms),
        "rebalances": lambda: _rebalances(tables),
        "skew": lambda: _skew(tables["commits"]),
        "nodes": lambda: _anomalies(tables["samples"], tables["api_phases"]),
        "disks": lambda: _disks(tables["samples"]),
    }
    for name, step in steps.items():
        with progress.during(f"report: {name}"):
            _add(found, step())
        spark.catalog.clearCache()
    with progress.during("report: forecast"):
        _add(found, _forecasts(tables["topic_rates"], found))
    return Report(
        str(lake.path), str(span), time.time_ns() // 1_000_000, __version__, period_ms, tuple(found.values()),
        tuple(left_out),
    )  # fmt: skip


def _add(found: dict[str, Cluster], parts: Mapping[str, Mapping[str, Any]]) -> None:
    for name, fields in parts.items():
        found[name] = replace(found[name], **fields)


def _start(cluster: Cluster, period_ms: int) -> int:
    """Return the first period that is shown."""
    last = start_of(cluster.last_ms, period_ms)
    return max(start_of(cluster.first_ms, period_ms), last - (POINTS_MAX - 1) * period_ms)


def _heads(tables: Mapping[str, DataFrame], clusters: Sequence[str]) -> list[Cluster]:
    """Return the number of rows of each table, and their first and last time."""
    counts: dict[str, dict[str, int]] = defaultdict(dict)
    times: dict[str, list[int]] = defaultdict(list)
    whole = reduce(DataFrame.unionByName, (
        table.select("cluster", F.lit(name).alias("name"), "at") for name, table in tables.items()
    ))  # fmt: skip
    ends = F.count("*").alias("rows"), ms(F.min("at")).alias("first"), ms(F.max("at")).alias("last")
    for row in whole.groupBy("cluster", "name").agg(*ends).collect():
        counts[row.cluster][row.name] = row["rows"]
        times[row.cluster] += [row["first"], row["last"]]
    return [
        Cluster(each, counts[each], min(times[each]), max(times[each]), min(times[each]))
        for each in clusters
        if each in counts
    ]


def gaps(samples: DataFrame) -> Parts:
    """Return the times of more than a minute without samples between two samples of a broker."""
    minute = F.floor(F.unix_millis("at") / MINUTE_MS)
    by_minute = samples.groupBy("cluster", "broker", minute.alias("minute")).agg(
        F.min(F.unix_millis("at") - F.coalesce(F.col("interval_ms"), F.lit(0))).alias("first"),
        F.max(F.unix_millis("at")).alias("last"),
    )
    before = F.lag("last").over(Window.partitionBy("cluster", "broker").orderBy("minute"))
    gaps = by_minute.select("cluster", "broker", before.alias("start"), F.col("first").alias("end"))
    gaps = gaps.where(F.col("end") - F.col("start") > MINUTE_MS).withColumn("long", F.col("end") - F.col("start"))
    rows = best(gaps, GAPS_MAX, [F.desc("long"), F.col("start")], sums=("long",))
    return {
        name: {
            "gaps": tuple(Gap(row.broker, row.start, row.end) for row in of),
            "gaps_total": of[0].total,
            "gaps_ms": of[0].long_sum,
        }
        for name, of in rows.items()
    }


def _rebalances(tables: Mapping[str, DataFrame]) -> Parts:
    names = ("rebalances", "moves", "triggers", "commits", "topic_rates", "samples")
    costs = rebalances.rebalances(*(tables[name] for name in names)).persist()
    order = [F.desc("records"), F.desc("stalled_s"), F.col("at"), F.col("group"), F.col("generation")]
    listed = [F.slice(name, 1, NAMES_MAX + 1).alias(name) for name in ("members", "clients", "hosts")]
    shown = costs.select(
        "cluster", "group", "generation", "at", "cause", *listed, "moves", "stall_max_ms", "stalled_s", "records",
        ms(F.col("at")).alias("at_ms"),
    )  # fmt: skip
    found: Parts = {}
    for name, of in best(shown, REBALANCES_MAX, order).items():
        dear = tuple(
            Rebalance(
                row.at_ms, row.group, row.generation, row.cause, tuple(row.members), tuple(row.clients),
                tuple(row.hosts), row.moves or 0, row.stall_max_ms or 0, row.stalled_s, row.records,
            )
            for row in of
        )  # fmt: skip
        found[name] = {"rebalances": dear, "rebalances_total": of[0].total, "spenders": ()}
    costly = reduce(DataFrame.unionByName, (
        rebalances.spenders(costs, tables["triggers"], by).withColumnRenamed(by, "name").withColumn("by", F.lit(by))
        for by in SPENDERS
    ))  # fmt: skip
    order = [F.desc("records"), F.desc("stalled_s"), F.col("name")]
    for name, of in best(costly, SPENDERS_MAX, order, of=("cluster", "by")).items():
        found[name]["spenders"] = tuple(
            Spender(row.by, row.name, row.rebalances, row.stalled_s, row.records, row.records_share)
            for row in sorted(of, key=lambda row: SPENDERS.index(row.by))
        )
    return found


def _skew(commits: DataFrame) -> Parts:
    parts = skew.partitions(commits).persist()
    found: Parts = {
        row.cluster: {"partitions_total": row.partitions}
        for row in parts.groupBy("cluster").agg(F.count("*").alias("partitions")).collect()
    }
    order = [F.desc("times_fair"), F.col("topic"), F.col("partition")]
    for name, of in best(parts.where("hot"), HOT_MAX, order).items():
        found[name]["hot_total"] = of[0].total
        found[name]["hot"] = tuple(
            HotPartition(row.topic, row.partition, row.share, row.fair_share, row.records_per_s) for row in of
        )
    topics = skew.topics(parts).where("gini IS NOT NULL AND partitions > 1")
    for name, of in best(topics, UNEVEN_MAX, [F.desc("gini"), F.col("topic")]).items():
        found[name]["uneven"] = tuple(
            Uneven(row.topic, row.partitions, row.gini, row.hottest, row.hottest_share) for row in of
        )
    return found


def _anomalies(samples: DataFrame, api_phases: DataFrame) -> Parts:
    found = nodes.anomalies(samples, api_phases).withColumns({
        "start_ms": ms(F.col("start_at")), "end_ms": ms(F.col("end_at")), "height": F.abs("score"),
    })  # fmt: skip
    order = [F.desc("height"), F.col("start_ms"), F.col("broker"), F.col("metric"), F.col("method")]
    return {
        name: {
            "anomalies": tuple(
                Anomaly(row.broker, row.metric, row.start_ms, row.end_ms, row.minutes, row.score, row.words)
                for row in sorted(of, key=lambda row: (row.start_ms, row.broker, row.metric, row.method))
            ),
            "anomalies_total": of[0].total,
        }
        for name, of in best(found, ANOMALIES_MAX, order).items()
    }


def _disks(samples: DataFrame) -> Parts:
    order = [F.asc_nulls_last("full_days"), F.desc("used_bytes"), F.col("broker"), F.col("path")]
    return {
        name: {
            "disks": tuple(
                Disk(
                    row.broker, row.path, row.used_bytes, row.total_bytes, row.growth_bytes_per_day, row.full_days,
                    row.full_days_low, row.full_days_high, _backtest(row), row.reason,
                )
                for row in of
            ),
            "disks_total": of[0].total,
        }
        for name, of in best(forecast.disks(samples), DISKS_MAX, order).items()
    }  # fmt: skip


def _forecasts(topic_rates: DataFrame, clusters: Mapping[str, Cluster]) -> Parts:
    """Return the forecasts of the topics with the most bytes."""
    names = {each.name: [line.name for line in each.topics[: min(FORECASTS_MAX, each.topics_total)]]
             for each in clusters.values()}  # fmt: skip
    hours = forecast.topics(topic_rates).where(is_one_of("topic", names)).withColumn("at_ms", ms(F.col("at")))
    rows: dict[tuple[str, str], list[Any]] = defaultdict(list)
    for row in sorted(hours.collect(), key=lambda row: int(row.at_ms or 0)):
        rows[row.cluster, row.topic].append(row)
    return {
        cluster: {
            "forecasts": tuple(
                _forecast(topic, rows[cluster, topic]) for topic in topics if (cluster, topic) in rows
            )
        }
        for cluster, topics in names.items()
    }  # fmt: skip


def _forecast(topic: str, of: Sequence[Any]) -> Forecast:
    if of[0].at_ms is None:
        return Forecast(topic, reason=of[0].reason)
    return Forecast(
        topic,
        of[0].at_ms,
        tuple(row.in_bytes_per_s for row in of),
        tuple(row.in_bytes_per_s_low for row in of),
        tuple(row.in_bytes_per_s_high for row in of),
        of[0].growth_bytes_per_s_per_day,
        _backtest(of[0]),
    )


def _backtest(row: Any) -> Backtest | None:
    if row.backtest_hours is None:
        return None
    return Backtest(row.backtest_mape, row.backtest_coverage, row.backtest_hours)
