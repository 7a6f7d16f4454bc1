"""The cost of rebalances: the records that waited while no member read their partitions, by cause.

`rebalances` returns one row for each rebalance, the most expensive (`records`) first:

    cluster, group, generation  (of groups of the newer types, the epoch)
    group_type          classic, consumer, share or streams
    at                  time of its event: when the group was stable again, or empty
    cause               reasons of its triggers, in alphabetical order, each once: "join, session_timeout"; "unknown"
                        without
    members, clients, hosts     arrays of the member ids, client ids and hosts of its triggers (at most 100 triggers
                                each)
    total_ms, join_ms, sync_ms  its duration, and that of its phases
    members_before, members_after
    moves               partitions that changed their owner, or had no owner for a while
    moves_listed        how many of them the event lists (at most 2,000, the longest stalls)
    kept                partitions that were read without interruption
    stall_max_ms        the longest stall
    stalled_s           partition-seconds: sum of the stalls of the listed partitions
    stalled_most_s      the same with the unlisted ones: upper bound
    records             records that waited: sum of stall x rate over the listed partitions whose rate is known
    records_most        the same with the unlisted ones: upper bound
    unrated             listed stalls of partitions whose rate is not known; they are missing in `records`
    unowned             listed partitions that had no owner before: their stall is unknown and not counted

`spenders` returns the costs by cause, member, client, host or group, the most expensive first:

    cluster, NAME       NAME is `reason`, `member_id`, `client_id`, `host` or `group`
    rebalances          number of rebalances in which it took part (for groups: that it had)
    stalled_s, records  its share of them: a rebalance with several triggers counts for each by its part, so sums stay
                        true
    records_share       share of all records of the cluster that waited: 0 to 1; null if none did

The rate of a partition (`rates`) is that of the 10 minutes that contain the event:

1. the growth of its end over the time between two of its commits' reports, of any group (exact, if the end did not go
   back);
2. else, if the table `topic_rates` has the topic, its records over the time that samples cover, divided evenly among
   the partitions that are known from commits and moves (an estimate: partitions are seldom equal);
3. else unknown.

The cost of unlisted partitions is bounded, not scaled: each was stalled at most as long as the shortest listed stall,
and is assumed to have the average rate of the listed ones. The upper bounds are `stalled_most_s` and `records_most`.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from broker_cy.metrics.events import CLASSIC_GROUP
from spark_analytics.jobs import throughput

NAME = "rebalances"
HELP = "records that waited for each rebalance, by cause, member, client, host and group, the most expensive first"

# Long enough to contain commits of the group outside the stall, short enough for the rate at that time of the day.
RATE_MS = 600_000
SPENDERS = ("reason", "member_id", "client_id", "host", "group")
UNKNOWN_CAUSE = "unknown"
# A share of the range of a partition's ends: less growth from the first to the last end means that the topic was
# created again.
_SOUND_SHARE = 0.9
# Generations start again if a group was deleted.
_REBALANCE = ("cluster", "group", "generation", "at")
_PLACE = ("cluster", "topic", "partition", "slot")


def rebalances(
    events: DataFrame,
    moves: DataFrame,
    triggers: DataFrame,
    commits: DataFrame,
    topic_rates: DataFrame,
    samples: DataFrame,
) -> DataFrame:
    """Return the rebalances described above from the tables of the same names (`events` is the table `rebalances`)."""
    stalls = _stalls(moves, rates(commits, moves, topic_rates, samples))
    found = events.join(stalls, list(_REBALANCE), "left").join(_causes(triggers), list(_REBALANCE), "left")
    unlisted = F.greatest(F.col("moves_total") - _zero("moves_listed"), F.lit(0))
    unlisted_s = unlisted * _zero("stall_least_s")
    return found.select(
        "cluster",
        "group",
        "generation",
        # Older events are those of classic groups.
        F.coalesce("group_type", F.lit(CLASSIC_GROUP)).alias("group_type"),
        "at",
        F.coalesce("cause", F.lit(UNKNOWN_CAUSE)).alias("cause"),
        *(F.coalesce(name, F.array().cast("array<string>")).alias(name) for name in ("members", "clients", "hosts")),
        "total_ms",
        "join_ms",
        "sync_ms",
        "members_before",
        "members_after",
        F.col("moves_total").alias("moves"),
        _zero("moves_listed").alias("moves_listed"),
        "kept",
        "stall_max_ms",
        _zero("stalled_s").alias("stalled_s"),
        (_zero("stalled_s") + unlisted_s).alias("stalled_most_s"),
        _zero("records").alias("records"),
        (_zero("records") + unlisted_s * _zero("per_s")).alias("records_most"),
        _zero("unrated").alias("unrated"),
        _zero("unowned").alias("unowned"),
    ).orderBy(F.desc("records"), F.desc("stalled_s"), *_REBALANCE)


def spenders(costs: DataFrame, triggers: DataFrame, by: str) -> DataFrame:
    """Return the costs (of `rebalances`) by one of SPENDERS. Raises ValueError for another one."""
    if by not in SPENDERS:
        raise ValueError(f"costs by {by!r}: choose one of {', '.join(SPENDERS)}")
    if by == "group":
        parts = costs.withColumn("part", F.lit(1.0))
    else:
        number = F.count("*").over(Window.partitionBy(*_REBALANCE))
        shares = triggers.withColumn("part", 1 / number).groupBy(*_REBALANCE, by).agg(F.sum("part").alias("part"))
        name = F.coalesce(F.when(F.col(by) != "", F.col(by)), F.lit(UNKNOWN_CAUSE))
        parts = costs.join(shares, list(_REBALANCE), "left").withColumn(by, name)
        parts = parts.withColumn("part", F.coalesce("part", F.lit(1.0)))
    found = parts.groupBy("cluster", by).agg(
        F.count("*").alias("rebalances"),
        F.sum(F.col("stalled_s") * F.col("part")).alias("stalled_s"),
        F.sum(F.col("records") * F.col("part")).alias("records"),
    )
    total = F.sum("records").over(Window.partitionBy("cluster"))
    share = F.when(total > 0, F.col("records") / total)
    return found.withColumn("records_share", share).orderBy(F.desc("records"), F.desc("stalled_s"), "cluster", by)


def rates(commits: DataFrame, moves: DataFrame, topic_rates: DataFrame, samples: DataFrame) -> DataFrame:
    """Return the rates of the partitions of `moves`: cluster, topic, partition, `slot` (start of the 10 minutes),
    `per_s` (records per second; null if not known), and `source`: `ends`, `topic`, or null.
    """
    places = _slotted(moves).select(*_PLACE).distinct()
    ends = _slotted(commits).where(F.col("end").isNotNull())
    # `end` never decreases in the life of a topic, so its minimum and maximum are about the first and the last. Reports
    # of several groups are not exactly in the order in which they read it.
    seconds = (F.unix_millis(F.max("at")) - F.unix_millis(F.min("at"))) / 1000
    first, last = F.min_by("end", "at"), F.max_by("end", "at")
    sound = (last - first >= _SOUND_SHARE * (F.max("end") - F.min("end"))) & (seconds > 0)
    by_ends = ends.groupBy(*_PLACE).agg(F.when(sound, (last - first) / seconds).alias("ends_per_s"))
    known = commits.select("cluster", "topic", "partition").unionByName(moves.select("cluster", "topic", "partition"))
    partitions = known.groupBy("cluster", "topic").agg(F.count_distinct("partition").alias("partitions"))
    totals = throughput.by_topic(throughput.throughput(topic_rates, samples, RATE_MS))
    by_topic = totals.join(partitions, ["cluster", "topic"]).select(
        "cluster",
        "topic",
        F.col("period").alias("slot"),
        (F.col("records_per_s") / F.col("partitions")).alias("topic_per_s"),
    )
    joined = places.join(by_ends, list(_PLACE), "left").join(by_topic, ["cluster", "topic", "slot"], "left")
    source = F.when(F.col("ends_per_s").isNotNull(), "ends").when(F.col("topic_per_s").isNotNull(), "topic")
    return joined.select(*_PLACE, F.coalesce("ends_per_s", "topic_per_s").alias("per_s"), source.alias("source"))


def _slotted(table: DataFrame) -> DataFrame:
    start_ms = F.floor(F.unix_millis("at") / RATE_MS) * RATE_MS
    return table.withColumn("slot", F.timestamp_millis(start_ms))


def _stalls(moves: DataFrame, found: DataFrame) -> DataFrame:
    """Return the sums of the listed moves, by rebalance; `per_s` is the average rate of the stalled partitions."""
    owned = F.col("stall_ms") >= 0
    seconds = F.when(owned, F.col("stall_ms") / 1000)
    stalled = F.col("stall_ms") > 0
    return (
        _slotted(moves)
        .join(found, list(_PLACE), "left")
        .groupBy(*_REBALANCE)
        .agg(
            F.count("*").alias("moves_listed"),
            F.sum(seconds).alias("stalled_s"),
            # The stall of partitions without a previous owner is unknown. The event lists them last, so the partitions
            # that it leaves out have no known stall, either.
            F.min(F.when(owned, F.col("stall_ms") / 1000).otherwise(F.lit(0.0))).alias("stall_least_s"),
            F.sum(seconds * F.col("per_s")).alias("records"),
            F.avg(F.when(owned, F.col("per_s"))).alias("per_s"),
            F.count_if(stalled & F.col("per_s").isNull()).alias("unrated"),
            F.count_if(~owned).alias("unowned"),
        )
    )


def _causes(triggers: DataFrame) -> DataFrame:
    """Return the causes and triggers of each rebalance. The order of its triggers is not in the table."""

    def names(column: str) -> Column:
        return F.sort_array(F.collect_set(F.when(F.col(column) != "", F.col(column))))

    return triggers.groupBy(*_REBALANCE).agg(
        F.array_join(names("reason"), ", ").alias("cause"),
        names("member_id").alias("members"),
        names("client_id").alias("clients"),
        names("host").alias("hosts"),
    )


def _zero(name: str) -> Column:
    return F.coalesce(F.col(name), F.lit(0))
