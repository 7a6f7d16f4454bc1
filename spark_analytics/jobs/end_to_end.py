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
    measured                          steps of which the timestamp of the first record is known
    p50_ms, p90_ms, p99_ms, max_ms    latency of these records, by the nearest rank; null if `measured` is 0
    over_max_ms                       the most by which one of these latencies may be too high
    bounded                           the other steps
    bounded_p99_ms, bounded_max_ms    latency of their records is at most this; null if `bounded` is 0

What is exact, and what is a bound:

- Offsets, timestamps and times of commits are exact. Brokers report commits at most once a second for a partition, the
  last one of it. A commit in between may have been the first past the record, so a latency is an upper bound. It is too
  high by less than a second, and by no more than the distance of the two commits. (With more than 1,000 partitions
  committed in a second, brokers report some of them later, and only the distance of the commits bounds it.)
- One record is measured for each step, the first. It waits longest of the step's records unless timestamps go back, so
  the figures are upper bounds for all records, not a sample of them.
- Where the group had read everything when it committed, the timestamp of the next record is not known. That record came
  after the commit was reported, so the time from then to the next commit bounds its latency.
- Records that are read again after a rewind are not counted again. A topic that was deleted and created again (the end
  of the partition went back) starts over; the step across it is not counted.
- A latency is not negative: where the clock of a producer is ahead of that of the broker, it is 0.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from spark_analytics.jobs.ranks import quantile

NAME = "end-to-end"
HELP = "time from each record's timestamp to the first commit past it, by group, topic and minute"

# How often brokers report commits (broker_cy.server.commit_sampler.PERIOD_S).
REPORT_MS = 1_000
# Offsets have less bits than this; of more lives of a partition, the last ones are taken for one.
_OFFSET_BITS = 50
_LIVES_MAX = 2 ** (62 - _OFFSET_BITS)
_PARTITION = ("cluster", "group", "topic", "partition")


def end_to_end(commits: DataFrame) -> DataFrame:
    """Return the rows described above from the table `commits`.

    The latencies of a minute are collected to be ranked: one for each partition of the topic and second.
    """
    measured, bounded = F.col("latency_ms").isNotNull(), F.col("bound_ms").isNotNull()
    latencies = F.sort_array(F.collect_list("latency_ms"))
    bounds = F.sort_array(F.collect_list("bound_ms"))
    found = (
        steps(commits)
        .groupBy("cluster", "group", "topic", F.date_trunc("minute", "commit_at").alias("minute"))
        .agg(
            F.count("*").alias("steps"),
            F.sum("records").alias("records"),
            F.count_if(measured).alias("measured"),
            latencies.alias("latencies"),
            F.max("over_ms").alias("over_max_ms"),
            F.count_if(bounded).alias("bounded"),
            bounds.alias("bounds"),
        )
    )
    return found.select(
        "cluster",
        "group",
        "topic",
        "minute",
        "steps",
        "records",
        "measured",
        *(_rank("latencies", "measured", share).alias(name) for name, share in _LATENCIES),
        "over_max_ms",
        "bounded",
        _rank("bounds", "bounded", 0.99).alias("bounded_p99_ms"),
        _rank("bounds", "bounded", 1.0).alias("bounded_max_ms"),
    )


_LATENCIES = (("p50_ms", 0.5), ("p90_ms", 0.9), ("p99_ms", 0.99), ("max_ms", 1.0))


def _rank(values: str, count: str, share: float) -> Column:
    return quantile(F.col(values), F.col(count), share).cast("long")


def steps(commits: DataFrame) -> DataFrame:
    """Return the steps: cluster, group, topic, partition, `commit_at` of the commit past the record, `records`, and
    either `latency_ms` with `over_ms`, or `bound_ms`.
    """
    ordered = Window.partitionBy(*_PARTITION).orderBy("at", "commit_at", "offset")
    # The end of a partition goes back if its topic was created again. The places of a later life are all beyond those
    # of earlier ones, so that one sort serves for both.
    fell = F.coalesce(F.col("end") < F.lag("end").over(ordered), F.lit(False))
    life = F.least(F.sum(fell.cast("long")).over(ordered), F.lit(_LIVES_MAX))
    lives = commits.withColumn("place", F.shiftleft(life, _OFFSET_BITS) + F.col("offset"))
    marked = lives.withColumn("mark", F.max("place").over(ordered))
    here = F.col("place") == F.col("mark")
    # A rewound group commits lower offsets under the same mark: these say nothing about the record at the mark.
    nothing_there = here & F.col("record_at").isNull()
    marks = marked.groupBy(*_PARTITION, "mark").agg(
        F.min(F.when(here, F.col("commit_at"))).alias("commit_at"),
        F.max(F.when(here, F.col("commit_at"))).alias("last_commit_at"),
        F.max(F.when(here, F.col("record_at"))).alias("record_at"),
        F.max(F.when(nothing_there, F.col("at"))).alias("nothing_until"),
    )
    after = Window.partitionBy(*_PARTITION).orderBy("mark")
    following = F.lead("mark").over(after)
    same_life = F.shiftright(following, _OFFSET_BITS) == F.shiftright("mark", _OFFSET_BITS)
    pairs = marks.select(
        *_PARTITION,
        F.lead("commit_at").over(after).alias("commit_at"),
        F.when(same_life, following - F.col("mark")).alias("records"),
        "record_at",
        "nothing_until",
        F.col("last_commit_at").alias("before_at"),
    ).where(F.col("records").isNotNull())
    latency = _since("record_at")
    over = F.least(latency, _since("before_at"), F.lit(REPORT_MS))
    return pairs.select(
        *_PARTITION,
        "commit_at",
        "records",
        latency.alias("latency_ms"),
        F.when(latency.isNotNull(), over).alias("over_ms"),
        F.when(F.col("record_at").isNull(), _since("nothing_until")).alias("bound_ms"),
    )


def _since(column: str) -> Column:
    """The ms from a time to the later commit, at least 0; null if the time is null."""
    span = F.unix_millis("commit_at") - F.unix_millis(column)
    return F.when(F.col(column).isNotNull(), F.greatest(span, F.lit(0)))
