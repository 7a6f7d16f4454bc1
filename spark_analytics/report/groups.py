"""The lag of groups by period, with their verdicts, reduced to the worst groups."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from broker_cy.admin.lag import Status
from spark_analytics.jobs import lag
from spark_analytics.report.content import BAD, GROUPS_MAX, SHARE_LEAST, Cluster, Group, GroupPoint
from spark_analytics.report.ranks import best, is_one_of


def groups(
    commits: DataFrame, rebalances: DataFrame, clusters: Mapping[str, Cluster], period_ms: int
) -> dict[str, dict[str, Any]]:
    """Return `groups`, the worst first, with their number, and the number of groups that are bad at the end."""
    names = F.array(*(F.lit(each.name) for each in sorted(Status)))
    minutes = lag.by_group(lag.lag(commits, rebalances)).select(
        "cluster", "group", F.unix_millis("minute").alias("at"), "lag_records", "time_lag_max_ms", "abandoned",
        (F.array_position(names, F.col("status")) - 1).cast("int").alias("status"),
    ).persist()  # fmt: skip
    bad = [int(each) for each in BAD]
    last = [F.max_by(name, "at").alias(f"last_{name}") for name in ("lag_records", "status", "abandoned")]
    of_status = [F.count_if(F.col("status") == int(each)).alias(each.name) for each in Status]
    totals = minutes.groupBy("cluster", "group").agg(
        F.count_if(F.col("status").isin(bad)).alias("bad"), F.max("lag_records").alias("lag_most"),
        F.max("time_lag_max_ms").alias("time_most"),
        *last, *of_status,
    ).withColumn("bad_last", F.col("last_status").isin(bad).cast("int"))  # fmt: skip
    order = [F.desc("bad"), F.desc_nulls_last("time_most"), F.desc("lag_most"), F.col("group")]
    worst = best(totals, GROUPS_MAX, order, sums=("bad_last",))
    shown = is_one_of("group", {name: [row.group for row in of] for name, of in worst.items()})
    points = _points(minutes.where(shown), clusters, period_ms)
    return {
        name: {
            "groups": tuple(_group(row, points[name, row.group]) for row in of),
            "groups_total": of[0].total,
            "groups_bad": of[0].bad_last_sum,
        }
        for name, of in worst.items()
    }


def _points(
    minutes: DataFrame, clusters: Mapping[str, Cluster], period_ms: int
) -> dict[tuple[str, str], list[GroupPoint]]:
    """Return the greatest lags of each period, and the worst status that lasted for more than a few minutes."""
    period = F.floor(F.col("at") / period_ms).alias("period")
    lasted = [
        F.when(F.count_if(F.col("status") >= int(each)) >= SHARE_LEAST * F.count("*"), int(each))
        for each in sorted(Status)
    ]
    worst = [F.max(name).alias(name) for name in ("lag_records", "time_lag_max_ms")]
    worst.append(F.greatest(*lasted).alias("status"))
    found: dict[tuple[str, str], list[GroupPoint]] = defaultdict(list)
    rows = minutes.groupBy("cluster", "group", period).agg(*worst).collect()
    for row in sorted(rows, key=lambda row: int(row.period)):
        if row.period * period_ms >= clusters[row.cluster].start_ms:
            point = GroupPoint(row.period * period_ms, row.lag_records, row.time_lag_max_ms, Status(row.status))
            found[row.cluster, row.group].append(point)
    return found


def _group(row: Any, points: list[GroupPoint]) -> Group:
    return Group(
        row.group, Status(row.last_status), row.last_lag_records, row.lag_most, row.time_most, row.last_abandoned,
        {each: row[each.name] for each in Status if row[each.name]}, tuple(points),
    )  # fmt: skip
