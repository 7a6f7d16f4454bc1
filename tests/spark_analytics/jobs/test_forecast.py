"""Forecasts of series with a known trend and season, and series without a forecast."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import numpy as np
import pytest
from pyspark.sql import SparkSession
from pyspark.testing import assertDataFrameEqual

from spark_analytics.jobs import forecast
from spark_analytics.jobs.trend import HOURS_OF_WEEK, LEAST_HOURS, backtest, fit
from tests.spark_analytics.jobs.job_frames import START, at, frame, table

FIRST = int(START.timestamp()) // 3600
TOTAL = 1_000_000


def series(days: int, slope: float = 0.0, noise: float = 0.0) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Return hours, and 1000 + slope x hour + a wave of the day and one of the week + noise."""
    hours = FIRST + np.arange(days * 24)
    known = 1_000 + slope * (hours - FIRST) + 100 * np.sin(hours * np.pi / 12) + 50 * np.sin(hours * np.pi / 84)
    return hours, known + noise * np.random.default_rng(1).standard_normal(len(hours))


def test_a_trend_with_hours_of_the_week_is_found() -> None:
    """If this fails, the slope includes a part of the season, or the forecast differs from the series."""
    hours, values = series(28, slope=0.5)
    model = fit(hours, values)
    assert model.slope == pytest.approx(0.5, abs=1e-9)
    expected, low, high = model.predict(hours + HOURS_OF_WEEK)
    assert expected == pytest.approx(values + 0.5 * HOURS_OF_WEEK, abs=1e-6)
    assert high - low == pytest.approx(0, abs=1e-6)


def test_the_band_holds_nine_of_ten_values() -> None:
    """If this fails, the share of values within the band is far from the stated one."""
    tested = backtest(*series(56, slope=0.1, noise=20.0))
    assert tested is not None
    assert 0.85 <= tested.coverage <= 0.95
    assert tested.mape == pytest.approx(0.8 * 20 / 1_100, rel=0.4)
    assert tested.hours == 14 * 24


def test_hours_that_are_not_known_are_no_zeros() -> None:
    """If this fails, a gap of samples bends the trend, or an hour of the week that was never seen has no forecast."""
    hours, values = series(21, slope=0.5)
    known = (hours % HOURS_OF_WEEK != 5) & ((hours < FIRST + 200) | (hours > FIRST + 260))
    model = fit(hours[known], values[known])
    assert model.slope == pytest.approx(0.5, abs=1e-6)
    assert np.isfinite(model.predict(hours + HOURS_OF_WEEK)[0]).all()


def test_a_backtest_needs_an_earlier_part() -> None:
    """If this fails, a backtest reports an error without data."""
    assert backtest(*series(1)) is None
    assert backtest(np.empty(0, np.int64), np.empty(0)) is None


def disk(hour: int, path: str, used: int, broker: int = 1) -> dict[str, Any]:
    return {"broker": broker, "at": at(hour * 3600 + 60), "disks": {path: [TOTAL - used, TOTAL]}}


def test_days_until_a_disk_is_full(spark: SparkSession) -> None:
    """If this fails, disks are reported as full too early, too late or not at all, or one that does not fill is."""
    hours = range(96)
    rows = [disk(hour, "/fills", 100_000 + 1_000 * hour) for hour in hours]
    rows += [disk(hour, "/stays", 500_000) for hour in hours] + [disk(hour, "/new", 7) for hour in range(50)]
    found = forecast.disks(table(spark, "samples", rows))
    # At the last hour 195,000 bytes are used: 805 hours are left at 1,000 per hour.
    days = 805 / 24
    few = "too little history: 50 hours in 50 (needed: 48 in 72)"
    expected = [
        ("c", 1, "/fills", 195_000, TOTAL, 24_000.0, days, days, days, 0.0, 1.0, 24, None),
        ("c", 1, "/stays", 500_000, TOTAL, 0.0, None, None, None, 0.0, 1.0, 24, "not full within 365 days"),
        ("c", 1, "/new", 7, TOTAL, None, None, None, None, None, None, None, few),
    ]
    assertDataFrameEqual(found, frame(spark, found, expected), atol=1e-6)


def test_a_far_day_is_none(spark: SparkSession) -> None:
    """If this fails, the limit of the forecast's horizon is ignored."""
    rows = [disk(hour, "/fills", 100_000 + 1_000 * hour) for hour in range(96)]
    found = forecast.disks(table(spark, "samples", rows), within_days=30)
    assert [(row.full_days, row.reason) for row in found.collect()] == [(None, "not full within 30 days")]


def rate_of(hour: int, topic: str, in_bytes: int, broker: int = 1) -> dict[str, Any]:
    row = {"at": at(hour * 3600 + 1_800), "interval_ms": 3_600_000, "topic": topic, "in_bytes": in_bytes}
    return row | {"broker": broker}


def test_bytes_of_topics(spark: SparkSession) -> None:
    """If this fails, the rates of brokers are not added, an hour without the topic is not 0 bytes, an hour without any
    samples is, or a topic's history begins before the topic.
    """
    # Hour 40 is missing for all. The steady topic grows by 1 byte/s each hour, half of it on each broker.
    rows = [
        rate_of(hour, "steady", 1_800 * (1_000 + hour), broker) for hour in range(96) if hour != 40 for broker in (1, 2)
    ]
    rows += [rate_of(hour, "rare", 3_600_000) for hour in range(0, 96, 24)] + [rate_of(90, "new", 1)]
    found = forecast.topics(table(spark, "topic_rates", rows), ahead_days=1).cache()
    few = "too little history: 6 hours in 6 (needed: 48 in 72)"
    steady = [
        ("c", "steady", START + timedelta(hours=hour), *(1_000.0 + hour,) * 3, 24.0, 0.0, 1.0, 24, None)
        for hour in range(96, 120)
    ]
    rare = [
        ("c", "rare", START + timedelta(hours=hour), *(1_000.0 * (hour == 96),) * 3, 0.0, 0.0, 1.0, 24, None)
        for hour in range(96, 120)
    ]
    expected = frame(spark, found, [*steady, *rare, ("c", "new", *(None,) * 8, few)])
    assertDataFrameEqual(found, expected, atol=1e-6)
    found.unpersist()


def test_nothing_gives_nothing(spark: SparkSession) -> None:
    """If this fails, a lake without samples causes an error, or gives columns of other types than one with samples."""
    topics, disks = forecast.topics(table(spark, "topic_rates", [])), forecast.disks(table(spark, "samples", []))
    assert topics.schema == forecast.TOPICS
    assert disks.schema == forecast.DISKS
    assert topics.collect() == []
    assert disks.collect() == []


def test_bounds_that_make_no_sense_are_refused(spark: SparkSession) -> None:
    """If this fails, a forecast of no hours, or of more than can be stored, is started."""
    with pytest.raises(ValueError, match="ahead_days is 0: 1 to 366"):
        forecast.topics(table(spark, "topic_rates", []), ahead_days=0)
    with pytest.raises(ValueError, match="within_days is 0"):
        forecast.disks(table(spark, "samples", []), within_days=0)
    assert LEAST_HOURS == 72
