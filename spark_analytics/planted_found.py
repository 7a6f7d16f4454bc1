"""Checks the tables of `broker-analytics run all --out` for a synthetic cluster: the planted anomalies
(`spark_analytics.planted`) that were found, and false alarms.

An answer is found if the job names it with the right place, time and size: a slow broker and a surge (of each broker)
by `nodes`, a hot partition by `skew`, the traffic that it adds to its broker by `throughput`, a group that falls behind
by `lag`, with its verdict, and by `end-to-end`, an expensive rebalance with its cause by `rebalances`, a disk that
fills by `forecast`.

A false alarm is an anomaly of a broker at a time without a planted one, a hot partition or a filling disk that is not
planted, or consecutive minutes in which a group that keeps up has a verdict other than OK and UNKNOWN, or is abandoned.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

from pyspark.sql import Column, DataFrame, Row, SparkSession, Window
from pyspark.sql import functions as F

from spark_analytics.jobs import end_to_end, forecast, lag, nodes, rebalances, skew, throughput
from spark_analytics.lake import url
from spark_analytics.planted import Answers, Growing, Size, Slow, Surge

RECALL_LEAST = 0.95
# An anomaly that begins at the end of another one, or lasts a few minutes longer, is its echo.
ECHO = timedelta(minutes=5)
# The time until the window of a verdict contains nothing from before.
SETTLES = timedelta(minutes=5)
WARNED_LEAST = 0.9
"""The share of minutes with a verdict among those in which a group falls behind."""
WITHIN = 0.05
"""The tolerance for the lag in time and the age of records."""
SHARE_WITHIN = 0.01
FULL_WITHIN = timedelta(hours=12)


@dataclass
class Judged:
    """The findings: for each job its planted answers in words, and whether each was found. `false` has the false alarms
    in words.
    """

    answers: dict[str, list[tuple[str, bool]]] = field(default_factory=dict)
    false: list[str] = field(default_factory=list)

    def add(self, job: str, words: str, is_found: bool) -> None:
        self.answers.setdefault(job, []).append((words, is_found))

    @property
    def planted(self) -> int:
        return sum(len(each) for each in self.answers.values())

    @property
    def missed(self) -> list[str]:
        return [f"{job}: {words}" for job, each in self.answers.items() for words, is_found in each if not is_found]

    @property
    def recall(self) -> float:
        """The part of the answers that was found, 0 to 1."""
        return 1 - len(self.missed) / max(1, self.planted)

    @property
    def jobs_found(self) -> list[str]:
        """The jobs that found at least RECALL_LEAST of their answers."""
        return [
            job
            for job, each in self.answers.items()
            if sum(is_found for _, is_found in each) >= RECALL_LEAST * len(each)
        ]


def judge(spark: SparkSession, tables: Path, size: Size, answers: Answers) -> Judged:
    """Compare the tables of one synthetic cluster with the anomalies planted in it."""

    def read(job: str, name: str) -> DataFrame:
        return spark.read.parquet(url(tables / job / name))

    found = Judged()
    of_brokers(found, read(nodes.NAME, "anomalies").collect(), size, answers)
    _hot(found, read(skew.NAME, "partitions").where("hot").collect(), answers)
    _traffic(found, read(throughput.NAME, "hours"), size, answers)
    _behind(found, read(lag.NAME, "partitions"), size, answers)
    _late(found, read(end_to_end.NAME, "minutes"), size, answers)
    _dear(found, read(rebalances.NAME, "rebalances"), answers)
    _filling(found, read(forecast.NAME, "disks").where("full_days IS NOT NULL").collect(), size, answers)
    return found


def utc(at: datetime) -> datetime:
    """Spark's times without a zone are in this machine's zone."""
    return at.astimezone(UTC)


def overlaps(row: Row, each: Slow | Surge) -> bool:
    """Return whether an anomaly is at the time of a planted one."""
    return utc(row.start_at) < each.end + ECHO and utc(row.end_at) > each.start - ECHO


def of_brokers(found: Judged, anomalies: Sequence[Row], size: Size, answers: Answers) -> None:
    """Compare the rows of `nodes.anomalies`."""
    for each in answers.slow:
        rows = [row for row in anomalies if row.broker == each.broker and row.metric == "produce_total_p99_us"]
        found.add(
            nodes.NAME,
            f"broker {each.broker} slow from {each.start} to {each.end}",
            any(overlaps(row, each) for row in rows),
        )
    for surge in answers.surges:
        of_cpu = [row for row in anomalies if (row.metric, row.method) == ("cpu_share", "history")]
        for broker in range(size.brokers):
            is_found = any(row.broker == broker and overlaps(row, surge) for row in of_cpu)
            found.add(nodes.NAME, f"surge of broker {broker} from {surge.start} to {surge.end}", is_found)
    found.false += [
        f"{row.words}, from {utc(row.start_at)}"
        for row in anomalies
        if not any(row.broker == each.broker and overlaps(row, each) for each in answers.slow)
        and not any(overlaps(row, each) for each in answers.surges)
    ]


def _hot(found: Judged, rows: Sequence[Row], answers: Answers) -> None:
    shares = {(row.topic, row.partition): row.share for row in rows}
    for each in answers.hot:
        share = shares.pop((each.topic, each.partition), 0.0)
        found.add(skew.NAME, f"{each} has {share:.3f}", abs(share - each.share) <= SHARE_WITHIN)
    found.false += [f"{topic}-{partition} hot with {share:.3f}" for (topic, partition), share in shares.items()]


def _traffic(found: Judged, hours: DataFrame, size: Size, answers: Answers) -> None:
    """The records of the topic of a hot partition are on the broker that leads it, and on the other brokers by their
    parts.
    """
    for each in answers.hot:
        rows = hours.where(F.col("topic") == each.topic).groupBy("broker").agg(F.sum("records").alias("records"))
        records = {row.broker: row.records for row in rows.collect()}
        expected = [0.0] * size.brokers
        for part in range(size.partitions):
            share = each.share if part == each.partition else (1 - each.share) / (size.partitions - 1)
            expected[size.broker_of(int(each.topic.removeprefix("topic-")), part)] += share
        total = max(1, sum(records.values()))
        shares = [records.get(broker, 0) / total for broker in range(size.brokers)]
        is_found = all(abs(a - b) <= SHARE_WITHIN for a, b in zip(shares, expected, strict=True))
        found.add(throughput.NAME, f"{each.topic} by broker {shares}, of {expected}", is_found)


def _behind(found: Judged, minutes: DataFrame, size: Size, answers: Answers) -> None:
    falls_behind = F.lit(False)
    for each in answers.growing:
        is_it = _is(each) & (F.col("partition") == each.partition)
        falls_behind |= is_it & (F.col("minute") >= each.start - timedelta(minutes=1))
        rows = minutes.where(is_it & (F.col("minute") >= each.start + SETTLES)).orderBy("minute").collect()
        warned = sum(row.status == "WARN" for row in rows) / max(1, len(rows))
        last_ms = rows[-1].time_lag_ms if rows else 0
        is_found = warned >= WARNED_LEAST and _near(last_ms, _behind_s(each, size))
        found.add(lag.NAME, f"{each} has WARN for {warned:.1%}, and {last_ms} ms at the end", is_found)
    alarms = minutes.where((~F.col("status").isin("OK", "UNKNOWN") | F.col("abandoned")) & ~falls_behind)
    in_order = Window.partitionBy("group", "topic", "partition").orderBy("minute")
    firsts = alarms.withColumn("before", F.lag("minute").over(in_order)).where(
        "before IS NULL OR minute > before + INTERVAL 1 MINUTE"
    )
    found.false += [
        f"{row.group} of {row.topic}-{row.partition} {row.status} at {utc(row.minute)}" for row in firsts.collect()
    ]


def _late(found: Judged, minutes: DataFrame, size: Size, answers: Answers) -> None:
    """The records that a group reads last belong to the partition on which it falls behind."""
    for each in answers.growing:
        rows = minutes.where(_is(each)).orderBy(F.desc("minute")).limit(3).collect()
        slowest_ms = max((row.max_ms or 0 for row in rows), default=0)
        is_found = _near(slowest_ms, _behind_s(each, size) + size.commit_s)
        found.add(end_to_end.NAME, f"{each} delays records by {slowest_ms} ms", is_found)


def _is(each: Growing) -> Column:
    return (F.col("group") == each.group) & (F.col("topic") == each.topic)


def _behind_s(each: Growing, size: Size) -> float:
    return (1 - each.reads) * (size.end - each.start).total_seconds()


def _near(found_ms: int | None, expected_s: float) -> bool:
    return found_ms is not None and abs(found_ms / 1000 - expected_s) <= WITHIN * expected_s


def _dear(found: Judged, costs: DataFrame, answers: Answers) -> None:
    """Compare the most expensive rebalances with the planted ones."""
    dearest = costs.orderBy(F.desc("records")).limit(len(answers.dear)).collect()
    rows = {(row.group, row.generation): row for row in dearest}
    for each in answers.dear:
        row = rows.get((each.group, each.generation))
        is_found = row is not None and (row.clients, row.hosts, row.stall_max_ms) == (
            [each.client_id],
            [each.host],
            each.stall_ms,
        )
        found.add(rebalances.NAME, str(each), is_found)


def _filling(found: Judged, rows: Sequence[Row], size: Size, answers: Answers) -> None:
    full = {(row.broker, row.path): size.end + timedelta(days=row.full_days) for row in rows}
    for each in answers.filling:
        at = full.pop((each.broker, each.path), None)
        is_found = at is not None and abs(at - each.full_at) <= FULL_WITHIN
        found.add(forecast.NAME, f"{each} by {at}", is_found)
    found.false += [f"{path} of broker {broker} full at {at}" for (broker, path), at in full.items()]
