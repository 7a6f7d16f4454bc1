"""Tables of a synthetic cluster with planted anomalies whose answers are known: for tests and large measurements.

Rows are computed by Spark from their numbers (`spark.range`): a seed gives the same rows regardless of their division,
and 10^8 of them need no memory of the driver. All noise is a hash of the seed and of the row's place.

Traffic follows a day and a week: `1 + 0.4 sin(day) + 0.15 sin(week)`, the same for all topics, with a slower wave for
each partition. A partition's end is the integral of its rate, so that commits of several groups agree on it. Only the
anomalies of an `Answers` change the rows: `Answers()` is a quiet cluster.
"""

from __future__ import annotations

import math
from datetime import datetime

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, DataType, LongType, MapType, StringType, StructType

from spark_analytics.planted import DAY_S, MOVES, PATHS, PHASES, SLOW_PHASES, Answers, Dear, Size
from spark_analytics.schema import TABLES

WEEK_S = 7 * DAY_S
QUIET = Answers()
RECORD_BYTES = 200
# Records per s and partition, mean: 3 topics of 4 partitions on 3 brokers have 160 kB/s in a broker.
RECORDS_PER_S = 200.0
DISK_BYTES = 10**12
_DAILY, _WEEKLY, _OWN = 0.4, 0.15, 0.1


def tables(
    spark: SparkSession, size: Size, seed: int = 1, answers: Answers = QUIET, cluster: str = "made-up"
) -> dict[str, DataFrame]:
    """Return the tables of a cluster (all of `spark_analytics.schema` but events)."""
    made = _Made(spark, size, seed, answers)
    found = {
        "samples": made.samples(),
        "api_phases": made.api_phases(),
        "topic_rates": made.topic_rates(),
        "commits": made.commits(),
        "rebalances": made.rebalances(),
        "moves": made.moves(),
        "triggers": made.triggers(),
    }
    return {name: _as_table(frame, TABLES[name], cluster) for name, frame in found.items()}


def _as_table(frame: DataFrame, schema: StructType, cluster: str) -> DataFrame:
    """Return the rows with all columns of a table; columns that are not generated are 0 or empty."""
    frame = frame.withColumns({"cluster": F.lit(cluster), "day": F.to_date("at")})
    return frame.select(*(
        (F.col(each.name) if each.name in frame.columns else _empty(each.dataType)).cast(each.dataType).alias(each.name)
        for each in schema
    ))  # fmt: skip


def _empty(kind: DataType) -> Column:
    if isinstance(kind, MapType):
        return F.create_map().cast(kind)
    if isinstance(kind, ArrayType):
        return F.array().cast(kind)
    if isinstance(kind, StructType):
        return F.struct(*(_empty(each.dataType).cast(each.dataType).alias(each.name) for each in kind))
    return F.lit("") if isinstance(kind, StringType) else F.lit(0) if isinstance(kind, LongType) else F.lit(None)


def _wave(at_s: Column, period_s: float, part: float, phase: Column | float = 0.0) -> tuple[Column, Column]:
    """Return a sine of time, and its integral from 0."""
    turn = 2 * math.pi / period_s
    angle = at_s * turn + phase
    start = F.cos(phase) if isinstance(phase, Column) else F.lit(math.cos(phase))
    return part * F.sin(angle), (part / turn) * (start - F.cos(angle))


class _Made:
    """The rows of the tables. Times are seconds since the start until they become timestamps."""

    def __init__(self, spark: SparkSession, size: Size, seed: int, answers: Answers) -> None:
        self._spark, self._size, self._seed, self._answers = spark, size, seed, answers
        self._start_s = int(size.start.timestamp())
        # Shares of the cluster's traffic: the first topic has the most.
        weights = [1 / (number + 1) for number in range(size.topics)]
        self._rates = [RECORDS_PER_S * size.topics * size.partitions * each / sum(weights) for each in weights]
        hot = {(each.topic, each.partition): each.share for each in answers.hot}
        self._shares: list[list[float]] = []
        for topic in range(size.topics):
            given = {
                part: hot[f"topic-{topic}", part] for part in range(size.partitions) if (f"topic-{topic}", part) in hot
            }
            rest = (1 - sum(given.values())) / max(1, size.partitions - len(given))
            self._shares.append([given.get(part, rest) for part in range(size.partitions)])

    def _uniform(self, salt: str, *columns: Column) -> Column:
        """Return a number from 0 to below 1 that depends only on the seed, the salt and the columns."""
        return F.pmod(F.xxhash64(F.lit(self._seed), F.lit(salt), *columns), F.lit(1 << 30)) / float(1 << 30)

    def _noise(self, sigma: float, salt: str, *columns: Column) -> Column:
        """Return a factor around 1: the exponential of a normal value."""
        length = F.sqrt(-2 * F.log(1 - self._uniform(f"{salt} length", *columns)))
        return F.exp(sigma * length * F.cos(2 * math.pi * self._uniform(f"{salt} angle", *columns)))

    def _at(self, at_s: Column) -> Column:
        return F.timestamp_millis(F.floor((at_s + self._start_s) * 1000))

    def _load(self, at_s: Column) -> Column:
        """Return the traffic at a time, as a multiple of its mean."""
        return 1 + _wave(at_s, DAY_S, _DAILY)[0] + _wave(at_s, WEEK_S, _WEEKLY)[0]

    def _summed_load(self, at_s: Column) -> Column:
        return at_s + _wave(at_s, DAY_S, _DAILY)[1] + _wave(at_s, WEEK_S, _WEEKLY)[1]

    def _pick(self, values: list[float], index: Column) -> Column:
        return F.element_at(F.array(*(F.lit(float(each)) for each in values)), (index + 1).cast("int"))

    def _within(self, start: datetime, end: datetime) -> Column:
        from_s, until_s = ((each.timestamp() - self._start_s) for each in (start, end))
        return (F.col("s") > from_s) & (F.col("s") <= until_s)

    def _ticks(self, extra: int = 1) -> DataFrame:
        """Return a row for each sample (`s` is its time) and number below `extra` (`extra`)."""
        size = self._size
        rows = self._spark.range(size.brokers * (size.seconds // size.sample_s) * extra)
        place = F.floor(F.col("id") / extra)
        rows = rows.select(
            (F.col("id") % extra).cast("int").alias("extra"),
            (place % size.brokers).cast("int").alias("broker"),
            # A sample is written at the end of its interval, just before the next minute begins.
            ((F.floor(place / size.brokers) + 1) * size.sample_s - 0.5).alias("s"),
        )
        return rows.withColumns({"at": self._at(F.col("s")), "interval_ms": F.lit(size.sample_s * 1000)})

    def samples(self) -> DataFrame:
        at_s, broker, interval = F.col("s"), F.col("broker"), self._size.sample_s
        surge = F.lit(1.0)
        for each in self._answers.surges:
            surge = F.when(self._within(each.start, each.end), each.times).otherwise(surge)
        cpu_share = (0.05 + 0.25 * self._load(at_s)) * surge * self._noise(0.05, "cpu", broker, at_s)
        count = F.lit(interval * 10)
        lag_us = 900 * self._noise(0.2, "loop", broker, at_s)
        lag = F.struct(
            count.cast("long").alias("count"), (count * 100).cast("long").alias("sum_us"),
            F.lit(90).cast("long").alias("p50_us"), lag_us.cast("long").alias("p99_us"),
            (3 * lag_us).cast("long").alias("max_us"),
        )  # fmt: skip
        written = RECORD_BYTES * self._load(at_s) * sum(self._rates) / self._size.brokers * interval
        return self._ticks().withColumns({
            "uptime_ms": F.floor(at_s * 1000),
            "cpu_us": F.floor(cpu_share * interval * 1e6),
            "resident_bytes": F.floor(4e8 * self._noise(0.02, "resident", broker, at_s)),
            "disk_written_bytes": F.floor(written * self._noise(0.05, "written", broker, at_s)),
            "loop_lag": lag,
            "connections": F.lit(20),
            "partitions": F.lit(self._size.topics * self._size.partitions // self._size.brokers),
            "members": F.lit(2 * self._size.groups),
            "disks": F.map_from_arrays(F.array(*map(F.lit, PATHS)), F.array(*(self._room(path) for path in PATHS))),
        })  # fmt: skip

    def _room(self, path: str) -> Column:
        """Return free and total bytes of a disk."""
        at_s = F.col("s")
        used = 0.4 + _wave(at_s, DAY_S, 0.01)[0]
        for each in self._answers.filling:
            if each.path == path:
                slope = (1 - 0.45) / (each.full_at.timestamp() - self._start_s)
                used = F.when(F.col("broker") == each.broker, used + 0.05 + slope * at_s).otherwise(used)
        used = used + 0.002 * (self._uniform(f"disk {path}", F.col("broker"), at_s) - 0.5)
        return F.array(F.floor(DISK_BYTES * (1 - F.greatest(F.lit(0.0), F.least(F.lit(1.0), used)))), F.lit(DISK_BYTES))

    def _broker_rates(self) -> list[list[float]]:
        """Return the mean rate in records/s of each topic (row) on each broker."""
        found = [[0.0] * self._size.brokers for _ in self._rates]
        for topic, shares in enumerate(self._shares):
            for part, share in enumerate(shares):
                found[topic][self._size.broker_of(topic, part)] += share * self._rates[topic]
        return found

    def topic_rates(self) -> DataFrame:
        at_s, broker, topic, interval = F.col("s"), F.col("broker"), F.col("extra"), self._size.sample_s
        flat = [rate for row in self._broker_rates() for rate in row]
        rate = self._pick(flat, topic * self._size.brokers + broker)
        summed = self._summed_load(at_s) - self._summed_load(at_s - interval)
        records = F.floor(rate * summed * self._noise(0.03, "topic", broker, topic, at_s))
        rows = self._ticks(self._size.topics).withColumn("in_records", records)
        return rows.withColumns({
            "topic": F.concat(F.lit("topic-"), topic.cast("string")),
            "in_bytes": F.col("in_records") * RECORD_BYTES,
            "out_bytes": F.col("in_records") * RECORD_BYTES * self._size.groups,
        })  # fmt: skip

    def api_phases(self) -> DataFrame:
        at_s, broker, place, interval = F.col("s"), F.col("broker"), F.col("extra"), self._size.sample_s
        slow = F.lit(1.0)
        for each in self._answers.slow:
            slow = F.when((broker == each.broker) & self._within(each.start, each.end), each.times).otherwise(slow)
        is_slow = place.isin([number for number, each in enumerate(PHASES) if each[:2] in SLOW_PHASES])
        # Noise of one sample's phases is independent; one p99 in a hundred is three times as high.
        outlier = F.when(self._uniform("outlier", broker, place, at_s) < 0.01, 3.0).otherwise(1.0)
        p99 = self._pick([each[2] for each in PHASES], place) * self._noise(0.15, "p99", broker, place, at_s) * outlier
        p99 = F.floor(p99 * F.when(is_slow, slow).otherwise(1.0))
        names = [F.array(*(F.lit(each[index]) for each in PHASES)) for index in (0, 1)]
        api, phase = (F.element_at(each, place + 1) for each in names)
        per_broker = sum(self._rates) / self._size.brokers * interval
        records = per_broker * self._load(at_s)
        factors = {"Produce": 0.02, "Fetch": 0.04, "Metadata": 0.001}
        factor = self._pick([factors[each[0]] for each in PHASES], place)
        # A request's counts are the same in all its phases.
        same = self._noise(0.03, "requests", broker, api, at_s)
        carried = F.floor(records * RECORD_BYTES * same)
        return self._ticks(len(PHASES)).withColumns({
            "api": api,
            "phase": phase,
            "requests": F.floor(records * factor * same),
            "in_bytes": F.when(api == "Produce", carried).otherwise(1000),
            "out_bytes": F.when(api == "Fetch", carried * self._size.groups).otherwise(1000),
            "count": F.floor(records * factor * same),
            "sum_us": F.floor(records * factor * p99 / 3),
            "p50_us": F.floor(p99 / 4),
            "p99_us": p99,
            "max_us": p99 * 2,
        })  # fmt: skip

    def commits(self) -> DataFrame:
        size = self._size
        places = size.groups * size.topics * size.partitions
        place = F.col("id") % places
        rows = self._spark.range(places * (size.seconds // size.commit_s)).select(
            (place % size.partitions).alias("partition"),
            (F.floor(place / size.partitions) % size.topics).alias("topic_number"),
            F.floor(place / (size.partitions * size.topics)).alias("group_number"),
            F.floor(F.col("id") / places).alias("step"),
        )
        numbers = (F.col("group_number"), F.col("topic_number"), F.col("partition"), F.col("step"))
        rows = rows.withColumns({
            "s": (F.col("step") + 0.9 * self._uniform("commit", *numbers)) * size.commit_s,
            "group": F.concat(F.lit("group-"), F.col("group_number").cast("string")),
            "topic": F.concat(F.lit("topic-"), F.col("topic_number").cast("string")),
        })  # fmt: skip
        lag_s = 1 + 2 * self._uniform("lag", *numbers)
        for each in self._answers.growing:
            since = F.col("s") - (each.start.timestamp() - self._start_s)
            here = (
                (F.col("group") == each.group) & (F.col("topic") == each.topic) & (F.col("partition") == each.partition)
            )
            lag_s = F.when(here & (since > 0), lag_s + (1 - each.reads) * since).otherwise(lag_s)
        # No record is older than the start.
        rows = rows.withColumn("read_s", F.greatest(F.col("s") - lag_s, F.lit(0.0)))
        rows = rows.withColumns({"end": self._end(F.col("s")), "offset": self._end(F.col("read_s"))})
        at = self._at(F.col("s"))
        return rows.withColumns({
            "broker": (F.col("group_number") % size.brokers).cast("int"),
            "at": at,
            "commit_at": at,
            "record_at": F.when(F.col("offset") < F.col("end"), self._at(F.col("read_s"))),
            "completed": F.lit(0).cast("long"),
        })  # fmt: skip

    def _end(self, at_s: Column) -> Column:
        """Return the end of a partition at a time: the integral of its rate."""
        flat = [share * rate for shares, rate in zip(self._shares, self._rates, strict=True) for share in shares]
        rate = self._pick(flat, F.col("topic_number") * self._size.partitions + F.col("partition"))
        phase = 2 * math.pi * self._uniform("wave", F.col("topic_number"), F.col("partition"))
        return F.floor(rate * (self._summed_load(at_s) + _wave(at_s, 7_200, _OWN, phase)[1]))

    def _rebalances(self, extra: int = 1) -> DataFrame:
        """Return a row for each rebalance and number below `extra`."""
        size = self._size
        place = F.floor(F.col("id") / extra)
        rows = self._spark.range(size.groups * (size.seconds // size.rebalance_s) * extra).select(
            (F.col("id") % extra).alias("extra"),
            (place % size.groups).alias("group_number"),
            (F.floor(place / size.groups) + 1).alias("generation"),
        )
        when = F.col("generation") - 0.5 + 0.3 * self._uniform("rebalance", F.col("group_number"), F.col("generation"))
        rows = rows.withColumns({
            "s": when * size.rebalance_s,
            "group": F.concat(F.lit("group-"), F.col("group_number").cast("string")),
        })  # fmt: skip
        return rows.withColumns({
            "broker": (F.col("group_number") % size.brokers).cast("int"), "at": self._at(F.col("s"))
        })  # fmt: skip

    def _is(self, each: Dear) -> Column:
        return (F.col("group") == each.group) & (F.col("generation") == each.generation)

    def _stall_ms(self, number: Column) -> Column:
        stall = 200 + 1800 * self._uniform("stall", F.col("group"), F.col("generation"), number)
        for each in self._answers.dear:
            stall = F.when(self._is(each), float(each.stall_ms)).otherwise(stall)
        return F.floor(stall)

    @property
    def _moves(self) -> int:
        return min(MOVES, self._size.partitions)

    def rebalances(self) -> DataFrame:
        stalls = [self._stall_ms(F.lit(number).cast("long")) for number in range(self._moves)]
        longest = F.greatest(*stalls) if len(stalls) > 1 else stalls[0]
        rows = self._rebalances().withColumn("stall_max_ms", longest)
        return rows.withColumns({
            "protocol": F.lit("range"),
            "result": F.lit("stable"),
            "started_at": self._at(F.col("s") - F.col("stall_max_ms") / 1000),
            "join_ms": F.floor(F.col("stall_max_ms") * 0.7),
            "sync_ms": F.col("stall_max_ms") - F.floor(F.col("stall_max_ms") * 0.7),
            "total_ms": F.col("stall_max_ms"),
            "members_before": F.lit(2),
            "members_after": F.lit(2),
            "moves_total": F.lit(self._moves),
            "kept": F.lit(self._size.topics * self._size.partitions - self._moves),
        })  # fmt: skip

    def moves(self) -> DataFrame:
        size, number = self._size, F.col("extra")
        return self._rebalances(self._moves).withColumns({
            "topic": F.concat(F.lit("topic-"), (F.col("generation") % size.topics).cast("string")),
            "partition": (F.col("generation") + number) % size.partitions,
            "source": F.concat(F.col("group"), F.lit("-member-0")),
            "target": F.concat(F.col("group"), F.lit("-member-1")),
            "stall_ms": self._stall_ms(number),
        })  # fmt: skip

    def triggers(self) -> DataFrame:
        chance = F.floor(4 * self._uniform("trigger", F.col("group"), F.col("generation"))).cast("int")
        client, host = (
            F.concat(F.lit("app-"), chance.cast("string")),
            F.concat(F.lit("10.0.0."), (chance + 1).cast("string")),
        )
        for each in self._answers.dear:
            client = F.when(self._is(each), each.client_id).otherwise(client)
            host = F.when(self._is(each), each.host).otherwise(host)
        reasons = F.array(*(F.lit(each) for each in ("join", "leave", "session_timeout", "rejoin")))
        return self._rebalances().withColumns({
            "reason": F.element_at(reasons, chance + 1),
            "member_id": F.concat(F.col("group"), F.lit("-member-0")),
            "client_id": client,
            "host": host,
        })  # fmt: skip
