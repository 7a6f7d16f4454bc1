"""Throughput by broker, topic and period: rates over the covered time, ranks with idle samples, reported gaps."""

from __future__ import annotations

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.testing import assertDataFrameEqual

from spark_analytics.jobs import throughput as job
from tests.spark_analytics.jobs.job_frames import at, frame, rate, sample, table

# Broker 1 has samples for 4 s of the first minute (the last one is idle), none for the second, and restarts in the
# third. Broker 2 has one long sample.
SAMPLES = [sample(1), sample(3, 2_000), sample(4, left_out=2), sample(121), sample(59, 60_000, broker=2)]
RATES = [
    rate(1, "t", (100, 1_000, 500)),
    rate(3, "t", (400, 4_000, 0), 2_000),
    rate(121, "t", (50, 500, 0)),
    rate(59, "t", (600, 6_000, 1_200), 60_000, broker=2),
]


@pytest.fixture(scope="module")
def tables(spark: SparkSession) -> tuple[DataFrame, DataFrame]:
    return table(spark, "topic_rates", RATES), table(spark, "samples", SAMPLES)


def test_a_minute_has_the_rates_of_the_time_that_samples_cover(
    spark: SparkSession, tables: tuple[DataFrame, DataFrame]
) -> None:
    """If this fails, rates are diluted by gaps, or by the nominal interval, or idle samples are left out of the
    ranks.
    """
    found = job.throughput(*tables)
    one = (500, 5_000, 500, 3, 4_000, 4 / 60, 125.0, 1_250.0, 125.0)
    ranks = (100.0, 200.0, 200.0, 1_000.0, 2_000.0, 2_000.0, 0.0, 500.0, 500.0, 1)
    again = (50, 500, 0, 1, 1_000, 1 / 60, 50.0, 500.0, 0.0, *(50.0,) * 3, *(500.0,) * 3, *(0.0,) * 3, 0)
    two = (600, 6_000, 1_200, 1, 60_000, 1.0, 10.0, 100.0, 20.0, *(10.0,) * 3, *(100.0,) * 3, *(20.0,) * 3, 0)
    expected = [
        ("c", 1, "t", at(0), *one, *ranks),
        ("c", 1, "t", at(120), *again),
        ("c", 2, "t", at(0), *two),
    ]
    assertDataFrameEqual(found, frame(spark, found, expected))


def test_an_hour_and_the_totals_over_brokers(spark: SparkSession, tables: tuple[DataFrame, DataFrame]) -> None:
    """If this fails, hours are not sums of their minutes, or a cluster's total is not the sum of its brokers'."""
    found = job.by_topic(job.throughput(*tables, job.HOUR_MS))
    expected = [("c", "t", at(0), 2, 1_150, 11_500, 1_700, 110 + 10.0, 1_100 + 100.0, 100 + 20.0, 5_000 / 3_600_000)]
    assertDataFrameEqual(found, frame(spark, found, expected))


def test_coverage_tells_a_gap_from_silence(spark: SparkSession, tables: tuple[DataFrame, DataFrame]) -> None:
    """If this fails, a minute in which a broker was down looks like one without traffic."""
    found = job.coverage(tables[1])
    expected = [
        ("c", 1, at(0), 3, 4_000, 4 / 60, 1),
        ("c", 1, at(120), 1, 1_000, 1 / 60, 0),
        ("c", 2, at(0), 1, 60_000, 1.0, 0),
    ]
    assertDataFrameEqual(found, frame(spark, found, expected))


def test_empty_tables_give_an_empty_table(spark: SparkSession, tables: tuple[DataFrame, DataFrame]) -> None:
    """If this fails, a lake without samples yet breaks the job, or its result has other columns."""
    empty = job.throughput(table(spark, "topic_rates", []), table(spark, "samples", []))
    assert empty.schema == job.throughput(*tables).schema
    assert empty.isEmpty()


@pytest.mark.parametrize("period_ms", [0, -60_000, 7_000_000])
def test_a_period_must_divide_a_day(tables: tuple[DataFrame, DataFrame], period_ms: int) -> None:
    """If this fails, periods start at another time each day, and days cannot be compared."""
    with pytest.raises(ValueError, match=f"period of {period_ms} ms"):
        job.throughput(*tables, period_ms)
