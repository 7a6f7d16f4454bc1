"""Traffic of brokers and topics by period, and CPU of brokers, reduced to the lines that a chart has room for."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from spark_analytics.jobs import throughput
from spark_analytics.report.content import LINES_MAX, Cluster, Rates
from spark_analytics.report.ranks import best, place_of

RATES = ("in_bytes_per_s", "out_bytes_per_s", "records_per_s")
Points = dict[int, Any]


def traffic(
    topic_rates: DataFrame, samples: DataFrame, clusters: Mapping[str, Cluster], period_ms: int
) -> dict[str, dict[str, Any]]:
    """Return `nodes` and `topics` of each cluster, with their numbers."""
    rates = throughput.throughput(topic_rates, samples, period_ms)
    rates = rates.select("cluster", "broker", "topic", _number("period", period_ms), *RATES).persist()
    sums = [F.sum(name).alias(name) for name in RATES]
    by_node = _cpu(samples, period_ms).join(
        rates.groupBy("cluster", "broker", "period").agg(*sums), ["cluster", "broker", "period"], "left"
    )
    by_topic = rates.groupBy("cluster", "topic", "period").agg(*sums)
    nodes, node_names = _lines(by_node, "broker", (*RATES, "cpu_share"))
    topics, topic_names = _lines(by_topic, "topic", RATES)
    found = {}
    for cluster in clusters.values():
        first, last = (each // period_ms for each in (cluster.start_ms, cluster.last_ms))
        of_nodes, of_topics = nodes[cluster.name], topics[cluster.name]
        covered = {at for points in of_nodes.values() for at in points}
        grid = range(first, last + 1)
        known, many = node_names.get(cluster.name, ([], 0))
        named, topics_total = topic_names.get(cluster.name, ([], 0))
        found[cluster.name] = {
            "nodes": tuple(
                _rates(name, [points.get(at) for at in grid], True)
                for name, points in _named([f"broker {each}" for each in known], many, "brokers", of_nodes)
            ),
            "nodes_total": many,
            "topics": tuple(
                _rates(name, [points.get(at, _SILENT) if at in covered else None for at in grid], False)
                for name, points in _named(named, topics_total, "topics", of_topics)
            ),
            "topics_total": topics_total,
        }
    return found


_SILENT = dict.fromkeys(RATES, 0.0)


def _number(column: str, period_ms: int) -> Column:
    return F.floor(F.unix_millis(column) / period_ms).alias("period")


def _cpu(samples: DataFrame, period_ms: int) -> DataFrame:
    """Return the CPU of each broker and period that has samples."""
    grouped = samples.groupBy("cluster", "broker", _number("at", period_ms))
    cores = F.sum("cpu_us") / 1000 / F.sum("interval_ms")
    return grouped.agg(F.when(F.sum("interval_ms") > 0, cores).alias("cpu_share"))


def _lines(
    rows: DataFrame, key: str, columns: tuple[str, ...]
) -> tuple[dict[str, dict[int, Points]], dict[str, tuple[list[Any], int]]]:
    """Return the points of each cluster and place, and the keys of the places with the number of all keys."""
    rows = rows.persist()
    weights = rows.groupBy("cluster", key).agg(F.coalesce(F.sum("in_bytes_per_s"), F.lit(0)).alias("weight"))
    most = best(weights, LINES_MAX, [F.desc("weight"), F.col(key)])
    keys = {name: [row[key] for row in of] for name, of in most.items()}
    summed = rows.withColumn("place", place_of(key, keys, LINES_MAX)).groupBy("cluster", "place", "period")
    found: dict[str, dict[int, Points]] = defaultdict(lambda: defaultdict(dict))
    for row in summed.agg(*(F.coalesce(F.sum(name), F.lit(0.0)).alias(name) for name in columns)).collect():
        found[row.cluster][row.place][row.period] = row.asDict()
    return found, {name: (of, most[name][0].total) for name, of in keys.items()}


def _named(names: list[str], many: int, noun: str, points: dict[int, Points]) -> list[tuple[str, Points]]:
    """Return the lines with their names; the last one may be the sum of all others."""
    found = [(name, points.get(place, {})) for place, name in enumerate(names)]
    if many > LINES_MAX:
        rest = many - LINES_MAX
        found.append((f"{rest} other {noun if rest > 1 else noun[:-1]}", points.get(LINES_MAX, {})))
    return found


def _rates(name: str, points: list[Any], has_cpu: bool) -> Rates:
    lines = {
        each: tuple(None if point is None else point[each] for point in points)
        for each in (*RATES, *(("cpu_share",) if has_cpu else ()))
    }
    return Rates(name, **lines)
