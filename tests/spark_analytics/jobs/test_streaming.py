"""The streams of throughput and lag: the rows of the batch, once each, and a count of late rows."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.listener import QueryTerminatedEvent
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.testing import assertDataFrameEqual

from spark_analytics.jobs import lag as lag_job
from spark_analytics.jobs import streaming as job
from spark_analytics.jobs import throughput as throughput_job
from spark_analytics.jobs.lag_windows import Bounds
from spark_analytics.schema import TABLES
from tests.spark_analytics.jobs.job_frames import Commit, Row, at, rate, row_of, sample, table

pytestmark = pytest.mark.full

Stream = Callable[[str], DataFrame]
DELAY = "20 seconds"


@pytest.fixture
def source(spark: SparkSession, tmp_path: Path) -> Callable[[str, list[list[Row]]], DataFrame]:
    """Make a stream of a table; each list of rows is a batch."""

    def of(name: str, batches: list[list[Row]]) -> DataFrame:
        folder = tmp_path / name
        folder.mkdir()
        for number, rows in enumerate(batches):
            # Files are read in the order of their times.
            pq.write_table(table(spark, name, rows).toArrow(), folder / f"{number}.parquet", coerce_timestamps="us")
        return spark.readStream.schema(TABLES[name]).option("maxFilesPerTrigger", 1).parquet(str(folder))

    return of


@pytest.fixture
def run(spark: SparkSession, tmp_path: Path) -> Iterator[Callable[[DataFrame], tuple[DataFrame, StreamingQuery]]]:
    """Run a stream over all existing data, and return its rows."""

    def of(stream: DataFrame) -> tuple[DataFrame, StreamingQuery]:
        # Each partition of a shuffle has a separate store, which takes time to open.
        spark.conf.set("spark.sql.shuffle.partitions", 1)
        writer = stream.writeStream.outputMode("append").format("memory").queryName("found")
        query = writer.option("checkpointLocation", str(tmp_path / "checkpoint")).trigger(availableNow=True).start()
        query.awaitTermination()
        return spark.table("found"), query

    before = str(spark.conf.get("spark.sql.shuffle.partitions"))
    yield of
    spark.conf.set("spark.sql.shuffle.partitions", before)


class Ended(job.LateRows):
    """Notes when a query has ended, and so has reported all of its progress."""

    def __init__(self) -> None:
        super().__init__()
        self.ended = threading.Event()

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:
        self.ended.set()


def commit_rows(batches: list[list[Commit]]) -> list[list[Row]]:
    return [[row_of(each) for each in rows] for rows in batches]


def over(found: DataFrame, column: str, before_s: float) -> DataFrame:
    """Return the rows of the batch whose period the watermark has passed."""
    return found.where(F.col(column) < F.lit(at(before_s)))


def test_throughput_of_a_stream_is_that_of_the_batch(spark: SparkSession, source: Any, run: Any) -> None:
    """If this fails, the stream has other rows than the batch, or late rows are neither included nor counted."""
    samples = [
        [sample(1), sample(30), sample(5, broker=2), sample(130)],
        [sample(25), sample(61), sample(200)],
        [sample(3), sample(300)],
    ]
    rates = [
        [
            rate(1, "t", (100, 10, 5)),
            rate(30, "t", (300, 30, 5)),
            rate(5, "t", (7, 7, 7), broker=2),
            rate(130, "t", (1, 1, 1)),
        ],
        # The watermark is at 110 s, and makes rows late from the next batch on.
        [rate(61, "u", (50, 5, 5)), rate(25, "t", (200, 20, 5)), rate(200, "u", (1, 1, 1))],
        [rate(3, "t", (9_999, 9, 9)), rate(300, "t", (1, 1, 1))],
    ]
    found, query = run(job.throughput(source("topic_rates", rates), source("samples", samples), DELAY))
    in_time = [[row for batch in batches for row in batch if row["at"] != at(3)] for batches in (rates, samples)]
    whole = throughput_job.throughput(table(spark, "topic_rates", in_time[0]), table(spark, "samples", in_time[1]))
    assertDataFrameEqual(found, over(whole, "period", 240))
    # One row of each table. (The watermark is at 280 s in the end.)
    assert job.late_rows(query) == 2


def test_lag_of_a_stream_is_that_of_the_batch(spark: SparkSession, source: Any, run: Any) -> None:
    """If this fails, the stream has other rows than the batch, loses rows without a commit in their minute, or late
    rows are neither included nor counted.
    """
    other = [Commit(10 * n + 5, "x", 10 * n, 10 * n + 10, record_s=10 * n + 1, partition=1) for n in range(60)]
    batches = [
        [*other[:8], Commit(8, "g", 5, 9, record_s=2), Commit(3, "x", 0, 9, record_s=2)],
        # Before the watermark's minute is over, and not in time order.
        [
            *other[8:20],
            Commit(70, "g", 7, 90, record_s=4),
            Commit(66, "x", 20, 80, record_s=20),
            Commit(62, "g", 6, 70),
        ],
        # The watermark is at 175 s. The group x rewinds; g has stopped.
        [
            *other[20:30],
            Commit(30, "g", 4, 9, record_s=1),
            Commit(31, "x", 4, 9),
            Commit(200, "x", 10, 300, record_s=9),
        ],
        # The topic is recreated.
        [*other[30:45], Commit(400, "x", 1, 8, record_s=399), Commit(405, "x", 2, 9, record_s=401)],
        other[45:],
    ]
    bounds = Bounds(abandoned_after_ms=60_000, carry_ms=300_000, end_age_max_ms=180_000)
    late = Ended()
    spark.streams.addListener(late)
    found, query = run(job.lag(source("commits", commit_rows(batches)), DELAY, bounds=bounds))
    in_time = [each for batch in batches for each in batch if each.at_s not in (30, 31)]
    whole = lag_job.lag(table(spark, "commits", commit_rows([in_time])[0]), bounds=bounds)
    # The last commit is at 595 s, so the watermark is in the minute that begins at 540 s.
    assertDataFrameEqual(found, over(whole, "minute", 540))
    assert job.late_rows(query) == 2
    assert {row.status for row in found.collect()} >= {"WARN", "STOPPED", "REWOUND"}
    # Listeners are called some time later.
    assert late.ended.wait(60)
    spark.streams.removeListener(late)
    assert late.of(query) == 2


@pytest.mark.parametrize("text", ["", "20", "-1 seconds", "1.5 hours", "a while"])
def test_a_watermark_is_a_duration(spark: SparkSession, text: str) -> None:
    """If this fails, a wrong delay gives an error from Spark's parser, or no error."""
    with pytest.raises(ValueError, match=f"a watermark of '{text}': a whole number"):
        job.lag(table(spark, "commits", []), text)
