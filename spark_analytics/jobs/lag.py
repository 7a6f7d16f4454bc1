"""The lag of groups in records and in time, with the console's status, by partition and minute.

`lag` returns one row for each cluster, group, topic, partition and minute, as of the last sample of the minute:

    cluster, group, topic, partition
    minute              start of the minute (UTC)
    sampled_at          time of the sample: the end of the minute's last tick of 10 s that has one
    committed           the offset that the group reads next; for a share group, the end less its lag, because members
                        complete records in any order
    end                 end of the partition: the highest that a commit of any group has reported by then
    lag_records         end - committed, at least 0
    lag_max_records     the greatest of the minute's samples
    time_lag_ms         age of the record at `committed` (of a share group, at its start offset), by its timestamp; 0
                        without lag; null if the timestamp is not known
    time_lag_max_ms     the same, or its upper bound; never null. If the group had read everything when its commit
                        was reported, the record arrived later, so it is not older than the report
    commits             reported commits of the minute: at most one each second
    commit_at           time of the last commit
    idle_ms             from then to the sample
    end_age_ms          from the last tick in which a commit of any group reported the end to the sample; 0 in that tick
    status              OK, UNKNOWN, WARN, REWOUND, STALLED or STOPPED, by `broker_cy.admin.lag.judge` over the last 12
                        samples, as in the console
    abandoned           no commit for longer than a bound (10 min by default), while the end moved
    incarnation         how often the topic was created again (the end went back) since the first row: of another
                        incarnation, no offset counts, and no sample is in the window

`by_group` returns one row for each cluster, group and minute: `partitions`, `lag_records` (sum), `time_lag_ms` (of the
slowest partition; null if one is not known), `time_lag_max_ms`, `abandoned` (partitions), and `status` of the worst
partition.

Limits of carrying a last commit forward: no event reports that a consumer stops, so its last commit counts until the
group commits again, for at most `Bounds.carry_ms` (a day). Meanwhile, only commits of other groups advance the end of
the partition. Without them, the end counts as known for `Bounds.end_age_max_ms` (10 min); then rows are missing (a gap,
not a lag of 0) until a commit reports it again. If a group is the only one of its topic, the job can therefore see it
stop, but not see it abandoned.

A sample differs from the console's: the console requests the end at its sample, and here the end is that of the last
commit (`end_age_ms` ago). If the table `rebalances` is given, the last rebalance says whether a group has members;
without one, `judge` decides by the times of commits alone. Records that were deleted before the group read them still
count as lag in records.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

import pandas as pd
from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from broker_cy.admin.lag import Status
from spark_analytics.jobs.lag_windows import (
    DEFAULTS,
    OUTPUT,
    ROWS,
    TICK_MS,
    UNKNOWN,
    Bounds,
    changes_of,
    follow,
    last_of_ticks,
    new_state,
)

NAME = "lag"
HELP = "lag of groups in records and time, by partition and minute, with the console's status and abandoned partitions"

KEYS = ("cluster", "topic", "partition")
OUTPUT_SCHEMA = "cluster string, topic string, partition bigint, " + ", ".join(
    f"`{name}` {kind}" for name, kind in OUTPUT
)
_COLUMNS = (
    "cluster",
    "group",
    "topic",
    "partition",
    "minute",
    "sampled_at",
    "committed",
    "end",
    "lag_records",
    "lag_max_records",
    "time_lag_ms",
    "time_lag_max_ms",
    "commits",
    "commit_at",
    "idle_ms",
    "end_age_ms",
    "status",
    "abandoned",
    "incarnation",
)
# The value of a row that is not a change of members.
_NO_CHANGE = -1


def lag(
    commits: DataFrame,
    rebalances: DataFrame | None = None,
    *,
    bounds: Bounds = DEFAULTS,
    until: datetime | None = None,
) -> DataFrame:
    """Return the rows described above from the table `commits`; `rebalances` says which groups had members.

    `until` is the time up to which last commits are carried forward; by default that of the cluster's last commit. One
    Python worker holds all rows of a partition: about 100 bytes for each group and 10 s with a commit.
    """
    ticks = _ticks(commits)
    if rebalances is not None:
        ticks = ticks.unionByName(_changes(commits, rebalances))
    if until is None:
        ends = commits.groupBy("cluster").agg((_tick(F.max("at")) + 1).alias("until"))
        ticks = ticks.join(F.broadcast(ends), "cluster")
    else:
        ticks = ticks.withColumn("until", _tick(F.lit(until)) + 1)
    return output(ticks.groupBy(*KEYS).applyInPandas(_follower(bounds), OUTPUT_SCHEMA))


def by_group(found: DataFrame) -> DataFrame:
    """Return the groups by minute from the rows of `lag`."""
    known = F.count("time_lag_ms") == F.count("*")
    names = F.array(*(F.lit(each.name) for each in sorted(Status)))
    worst = F.max(F.array_position(names, F.col("status")))
    return found.groupBy("cluster", "group", "minute").agg(
        F.count("*").alias("partitions"),
        F.sum("lag_records").alias("lag_records"),
        F.when(known, F.max("time_lag_ms")).alias("time_lag_ms"),
        F.max("time_lag_max_ms").alias("time_lag_max_ms"),
        F.count_if("abandoned").alias("abandoned"),
        F.element_at(names, worst.cast("int")).alias("status"),
    )


def rows_of(commits: DataFrame, *further: Column) -> DataFrame:
    """Return commits as the rows of `lag_windows`, one for each, with `further` columns."""
    return commits.select(
        *KEYS,
        "group",
        _tick(F.col("at")).alias("tick"),
        F.unix_millis("at").alias("at_ms"),
        # Only share groups complete records behind their offset.
        (F.col("offset") + F.coalesce(F.col("completed"), F.lit(0))).alias("committed"),
        F.coalesce(F.unix_millis("commit_at"), F.unix_millis("at")).alias("commit_ms"),
        F.coalesce(F.unix_millis("record_at"), F.lit(UNKNOWN)).alias("record_ms"),
        "end",
        F.lit(1).cast("long").alias("commits"),
        *further,
    )


def output(found: DataFrame) -> DataFrame:
    """Return the rows of OUTPUT_SCHEMA with their times as timestamps."""
    times = {"minute": "minute_ms", "sampled_at": "sampled_ms", "commit_at": "commit_ms"}
    return found.select(*(F.timestamp_millis(times[name]).alias(name) if name in times else name for name in _COLUMNS))


def _tick(at: Column) -> Column:
    return F.floor(F.unix_millis(at) / TICK_MS).cast("long")


def _ticks(commits: DataFrame) -> DataFrame:
    """Return the last commit of each group's partition in each tick, so that few rows go to Python."""
    # Two brokers may report the same group in the same ms while its coordinator moves: the one with the higher id
    # counts, regardless of the order of the rows (times have no fraction of a ms).
    newest = F.unix_micros("at") + F.pmod(F.col("broker"), F.lit(1000))
    last = [F.max_by(name, "newest").alias(name) for name in ("at_ms", "committed", "commit_ms", "record_ms", "end")]
    made = rows_of(commits, newest.alias("newest"))
    found = made.groupBy(*KEYS, "group", "tick").agg(*last, F.sum("commits").alias("commits"))
    return found.select(*KEYS, *ROWS, F.lit(_NO_CHANGE).alias("has_members"))


def _changes(commits: DataFrame, rebalances: DataFrame) -> DataFrame:
    """Return a row for each partition of a group, and each time at which it gained its first member or lost its last
    one.
    """
    ordered = Window.partitionBy("cluster", "group").orderBy("at", "generation")
    has = F.col("members_after") > 0
    before = F.lag(has).over(ordered)
    changes = (
        rebalances.withColumn("has_members", has.cast("int"))
        .withColumn("changed", before.isNull() | (before != has))
        .where("changed")
        .select("cluster", "group", F.unix_millis("at").alias("at_ms"), "has_members")
    )
    zero = F.lit(0).cast("long")
    return (
        commits.select(*KEYS, "group")
        .distinct()
        .join(changes, ["cluster", "group"])
        .select(
            *KEYS,
            "group",
            zero.alias("tick"),
            "at_ms",
            *(zero.alias(name) for name in ("committed", "commit_ms", "record_ms", "end", "commits")),
            "has_members",
        )
    )


def _follower(bounds: Bounds) -> Callable[[tuple[object, ...], pd.DataFrame], pd.DataFrame]:
    def of_partition(key: tuple[object, ...], rows: pd.DataFrame) -> pd.DataFrame:
        until = int(rows["until"].iloc[0])
        are_changes = rows["has_members"] != _NO_CHANGE
        members = changes_of(rows.loc[are_changes, ["group", "at_ms", "has_members"]])
        ticks = last_of_ticks(rows.loc[~are_changes, list(ROWS)])
        found = follow(new_state(ticks), until, bounds, members=members)
        return with_keys(key, found)

    return of_partition


def with_keys(key: tuple[object, ...], found: pd.DataFrame) -> pd.DataFrame:
    """Return the rows with the columns of the partition in front."""
    for place, (name, value) in enumerate(zip(KEYS, key, strict=True)):
        found.insert(place, name, value)
    return found
