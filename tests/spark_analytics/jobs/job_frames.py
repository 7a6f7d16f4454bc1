"""Small tables for the tests of the jobs: times are seconds after START, a full hour."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

from pyspark.sql import DataFrame, SparkSession

from spark_analytics.schema import TABLES

START = datetime(2026, 3, 2, 10, tzinfo=UTC)
START_MS = int(START.timestamp()) * 1000
Row = dict[str, Any]


def at(seconds: float) -> datetime:
    return START + timedelta(milliseconds=round(seconds * 1000))


def table(spark: SparkSession, name: str, rows: list[Row]) -> DataFrame:
    """Return rows of a table; columns that are not given are null, `cluster` is "c" and `broker` 1."""
    return spark.createDataFrame(
        [{"cluster": "c", "broker": 1, "day": START.date(), **row} for row in rows], TABLES[name]
    )


def frame(spark: SparkSession, like: DataFrame, rows: list[tuple[Any, ...]]) -> DataFrame:
    """Return expected rows with the columns of a result."""
    return spark.createDataFrame(rows, like.schema)


class Commit(NamedTuple):
    """A row of `commits`; it was committed at `commit_s`, by default when it was reported."""

    at_s: float
    group: str
    offset: int
    end: int
    record_s: float | None = None
    commit_s: float | None = None
    partition: int = 0
    topic: str = "t"
    broker: int = 1
    completed: int | None = None


def commits(spark: SparkSession, rows: list[Commit]) -> DataFrame:
    return table(spark, "commits", [row_of(each) for each in rows])


def row_of(commit: Commit) -> Row:
    return {
        "broker": commit.broker,
        "at": at(commit.at_s),
        "group": commit.group,
        "topic": commit.topic,
        "partition": commit.partition,
        "offset": commit.offset,
        "commit_at": at(commit.at_s if commit.commit_s is None else commit.commit_s),
        "record_at": None if commit.record_s is None else at(commit.record_s),
        "end": commit.end,
        "completed": commit.completed,
    }


def sample(at_s: float, interval_ms: int = 1_000, broker: int = 1, left_out: int = 0) -> Row:
    return {"broker": broker, "at": at(at_s), "interval_ms": interval_ms, "topics_left_out": left_out}


def rate(at_s: float, topic: str, counts: tuple[int, int, int], interval_ms: int = 1_000, broker: int = 1) -> Row:
    """A row of `topic_rates` with (records, bytes in, bytes out)."""
    return {
        "broker": broker,
        "at": at(at_s),
        "interval_ms": interval_ms,
        "topic": topic,
        **dict(zip(("in_records", "in_bytes", "out_bytes"), counts, strict=True)),
    }
