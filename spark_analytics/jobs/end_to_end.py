"""From the timestamp of a record to the first commit past it, by group, topic and minute.

A commit's row names the offset that the group reads next, the timestamp of the record there, and the time of the
commit. The next commit of the group past that offset is the first one that covers the record: the distance is the
latency of that record.

`end_to_end` returns one row for each cluster, group, topic and minute (of the later commit) with at least one step. A
step is an advance of the committed offset of one partition past every offset that was committed there before:

    cluster, group, topic
    minute                            start of the minute (UTC)
    steps                             advances of committed offsets
    records                           offsets that were committed by them for the first time
    measured                          steps with a known timestamp of the first record
    p50_ms, p90_ms, p99_ms, max_ms    latency of these records, by the nearest rank; null if `measured` is 0
    over_max_ms                       the most by which one of these latencies may be too high
    bounded                           the other steps
    bounded_p99_ms, bounded_max_ms    latency of their records is at most this; null if `bounded` is 0

Exact values and bounds:

- Offsets, timestamps and times of commits are exact. For a partition, brokers report at most one commit a second, the
  last one. A commit in between may have been the first past the record, so a latency is an upper bound. It is too
  high by less than a second, and by no more than the distance of the two commits. (With more than 1,000 partitions
  committed in a second, brokers report some of them later, and only the distance of the commits bounds it.)
- One record is measured for each step, the first. It waits longest of the step's records unless timestamps go back, so
  the figures are upper bounds for all records, not a sample of them.
- If the group had read everything when it committed, the timestamp of the next record is not known. That record came
  after the commit was reported, so the time from then to the next commit bounds its latency.
- Records that are read again after a rewind are not counted again. A topic that was deleted and created again (the end
  of the partition went back) starts over; the step across it is not counted.
- A latency is not negative: if the clock of a producer is ahead of the broker's, it is 0.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from spark_analytics.jobs.commit_steps import NAMES, SCHEMA, UNKNOWN, minutes_of
from spark_analytics.jobs.in_order import map_in_order
from spark_analytics.jobs.ranks import quantile

NAME = "end-to-end"
HELP = "time from each record's timestamp to the first commit past it, by group, topic and minute"

_LATENCIES = (("p50_ms", 0.5), ("p90_ms", 0.9), ("p99_ms", 0.99), ("max_ms", 1.0))


def end_to_end(commits: DataFrame) -> DataFrame:
    """Return the rows described above from the table `commits`.

    The latencies of a minute are collected to be ranked: one for each partition of the topic and second.
    """
    rows = commits.select(
        *NAMES,
        "partition",
        F.unix_millis("at").alias("at_ms"),
        F.unix_millis(F.coalesce("commit_at", "at")).alias("commit_ms"),
        "offset",
        F.coalesce(F.unix_millis("record_at"), F.lit(UNKNOWN)).alias("record_ms"),
        "end",
    )
    key = ("cluster", "group", "topic", "partition")
    parts = map_in_order(rows, key, ("at_ms", "commit_ms", "offset"), minutes_of, SCHEMA)
    found = parts.groupBy(*NAMES, F.timestamp_millis("minute_ms").alias("minute")).agg(
        F.sum("steps").alias("steps"),
        F.sum("records").alias("records"),
        _all("latencies"),
        F.max("over_max_ms").alias("over_max_ms"),
        _all("bounds"),
    )
    measured, bounded = F.size("latencies").cast("long"), F.size("bounds").cast("long")
    return found.select(
        *NAMES,
        "minute",
        "steps",
        "records",
        measured.alias("measured"),
        *(_rank("latencies", share).alias(name) for name, share in _LATENCIES),
        "over_max_ms",
        bounded.alias("bounded"),
        _rank("bounds", 0.99).alias("bounded_p99_ms"),
        _rank("bounds", 1.0).alias("bounded_max_ms"),
    )


def _all(name: str) -> Column:
    return F.sort_array(F.flatten(F.collect_list(name))).alias(name)


def _rank(values: str, share: float) -> Column:
    return quantile(F.col(values), F.size(values), share).cast("long")
