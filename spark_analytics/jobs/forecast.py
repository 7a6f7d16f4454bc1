"""Forecasts from hourly means: a trend and the hours of the week (of the day with less than two weeks of history).

`topics(topic_rates)`, one row for each topic and hour to come, from the hour after the last complete one:
    cluster, topic, at                 the hour; null if there is no forecast
    in_bytes_per_s                     expected
    in_bytes_per_s_low, _high          the band that holds 90 % of the hours
    growth_bytes_per_s_per_day         slope of the trend
    backtest_mape, backtest_coverage, backtest_hours
    reason                             why there is no forecast: one row with nulls; else null

`disks(samples)`, one row for each log directory of each broker:
    cluster, broker, path
    used_bytes, total_bytes            at the last hour
    growth_bytes_per_day               slope of the trend
    full_days                          days from the last hour until the trend reaches total_bytes
    full_days_low, full_days_high      its band: the earliest and the latest; null beyond the forecast's range
    backtest_mape, backtest_coverage, backtest_hours
    reason                             why no days are given: too little history, or not full in that time; else null

The backtest trains on the first three quarters of the time and predicts the last: `backtest_mape` is the mean of
|error| / value over the hours with a value (0.1 is 10 %), `backtest_coverage` the share of hours in the band (0.9 is
what the band promises), `backtest_hours` the number of hours that were compared; null if three quarters are too little.

The least history is 72 hours from the first to the last hour, with at least 48 of them known. An hour is known if
samples cover at least half of it. A topic's history begins with its first record; a sample without it counts as 0.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import DoubleType, IntegerType, LongType, StringType, StructField, StructType, TimestampType

from spark_analytics.jobs.trend import HOURS_OF_DAY, LEAST_HOURS, Backtest, Fit, backtest, fit

NAME = "forecast"
HELP = "predicted bytes of topics, days until disks are full, with bands and the error of a backtest"

AHEAD_DAYS = 7
AHEAD_DAYS_MOST = 366
# A disk that is full in more than a year needs no action today.
WITHIN_DAYS = 365.0
LEAST_KNOWN_HOURS = 2 * HOURS_OF_DAY
_COVERED_LEAST_S = 1800
_HOUR_MS = 3_600_000

_BACKTEST = (
    StructField("backtest_mape", DoubleType()),
    StructField("backtest_coverage", DoubleType()),
    StructField("backtest_hours", LongType()),
    StructField("reason", StringType()),
)
TOPICS = StructType([
    StructField("cluster", StringType()),
    StructField("topic", StringType()),
    StructField("at", TimestampType()),
    StructField("in_bytes_per_s", DoubleType()),
    StructField("in_bytes_per_s_low", DoubleType()),
    StructField("in_bytes_per_s_high", DoubleType()),
    StructField("growth_bytes_per_s_per_day", DoubleType()),
    *_BACKTEST,
])  # fmt: skip
DISKS = StructType([
    StructField("cluster", StringType()),
    StructField("broker", IntegerType()),
    StructField("path", StringType()),
    StructField("used_bytes", LongType()),
    StructField("total_bytes", LongType()),
    StructField("growth_bytes_per_day", DoubleType()),
    StructField("full_days", DoubleType()),
    StructField("full_days_low", DoubleType()),
    StructField("full_days_high", DoubleType()),
    *_BACKTEST,
])  # fmt: skip


def topics(topic_rates: DataFrame, ahead_days: int = AHEAD_DAYS) -> DataFrame:
    """Return the forecast of each topic. Raises ValueError for `ahead_days` outside 1 to AHEAD_DAYS_MOST."""
    if not 1 <= ahead_days <= AHEAD_DAYS_MOST:
        raise ValueError(f"ahead_days is {ahead_days}: 1 to {AHEAD_DAYS_MOST} are allowed")
    hours = ahead_days * HOURS_OF_DAY
    hourly = _topic_hours(topic_rates).groupBy("cluster", "topic")
    found = hourly.applyInPandas(lambda frame: _topic(frame, hours), _as_hours(TOPICS, "at"))
    return found.withColumn("at", _time("at")).select(*TOPICS.fieldNames())


def disks(samples: DataFrame, within_days: float = WITHIN_DAYS) -> DataFrame:
    """Return the time when each disk will be full. Raises ValueError for `within_days` of 0 or less."""
    if not within_days > 0:
        raise ValueError(f"within_days is {within_days:g}: more than 0 is allowed")
    rows = samples.select("cluster", "broker", "at", F.explode("disks").alias("path", "room"))
    rows = rows.select(
        "cluster", "broker", "path", "at", _hour("at").alias("hour"),
        F.element_at("room", 1).alias("free"), F.element_at("room", 2).alias("total"),
    ).where("total > 0 AND free IS NOT NULL")  # fmt: skip
    hourly = rows.groupBy("cluster", "broker", "path", "hour").agg(
        F.avg(F.col("total") - F.col("free")).alias("used"),
        F.max_by(F.col("total") - F.col("free"), "at").alias("used_last"),
        F.max_by("total", "at").alias("total"),
    )
    return hourly.groupBy("cluster", "broker", "path").applyInPandas(lambda frame: _disk(frame, within_days), DISKS)


def _topic_hours(topic_rates: DataFrame) -> DataFrame:
    """Return the mean `rate` of each topic in each hour that samples of its cluster cover, by cluster, topic, hour."""
    rows = topic_rates.withColumn("hour", _hour("at"))
    sums = rows.groupBy("cluster", "topic", "hour").agg(F.sum("in_bytes").alias("in_bytes"))
    # The covered time is that of the broker with the most samples: the others may have had no traffic.
    each_sample = rows.groupBy("cluster", "broker", "hour", "at").agg(F.max("interval_ms").alias("interval_ms"))
    by_broker = each_sample.groupBy("cluster", "broker", "hour").agg((F.sum("interval_ms") / 1000).alias("covered_s"))
    covered = by_broker.groupBy("cluster", "hour").agg(F.max("covered_s").alias("covered_s"))
    known = covered.where(F.col("covered_s") >= _COVERED_LEAST_S)
    first = sums.where("in_bytes > 0").groupBy("cluster", "topic").agg(F.min("hour").alias("first"))
    hours = first.join(F.broadcast(known), "cluster").where("hour >= first")
    joined = hours.join(sums, ["cluster", "topic", "hour"], "left")
    rate = F.coalesce("in_bytes", F.lit(0)) / F.col("covered_s")
    return joined.select("cluster", "topic", "hour", rate.cast("double").alias("rate"))


def _hour(column: str) -> Column:
    """Return the hours since 1970 of a time. A sample belongs to the hour in which its interval ends."""
    return F.floor(F.unix_millis(column) / _HOUR_MS)


def _time(column: str) -> Column:
    return F.timestamp_millis(F.col(column) * _HOUR_MS)


def _as_hours(schema: StructType, name: str) -> StructType:
    """Return the schema with a time as a number of hours: this avoids the problems of pandas with zones."""
    return StructType([StructField(name, LongType()) if each.name == name else each for each in schema])


def _model(frame: pd.DataFrame, column: str) -> tuple[Fit | None, Backtest | None, str | None]:
    """Return the fit of a sorted series and its backtest, or why there is none."""
    hours = frame["hour"].to_numpy(np.int64)
    values = frame[column].to_numpy(np.float64)
    span = int(hours[-1] - hours[0]) + 1
    if span < LEAST_HOURS or len(hours) < LEAST_KNOWN_HOURS:
        return (
            None,
            None,
            (f"too little history: {len(hours)} hours in {span} (needed: {LEAST_KNOWN_HOURS} in {LEAST_HOURS})"),
        )
    return fit(hours, values), backtest(hours, values, 0.0), None


def _topic(frame: pd.DataFrame, hours: int) -> pd.DataFrame:
    """Return the forecast of one topic."""
    frame = frame.sort_values("hour")
    model, tested, reason = _model(frame, "rate")
    constant: dict[str, Any] = {
        "cluster": frame["cluster"].iloc[0],
        "topic": frame["topic"].iloc[0],
        **_tested(tested, reason),
    }
    if model is None:
        return _frame(_as_hours(TOPICS, "at"), [constant])
    at = int(frame["hour"].iloc[-1]) + 1 + np.arange(hours, dtype=np.int64)
    expected, low, high = (np.maximum(each, 0.0) for each in model.predict(at))
    constant["growth_bytes_per_s_per_day"] = model.slope * HOURS_OF_DAY
    rows = [
        {**constant, "at": hour, "in_bytes_per_s": middle, "in_bytes_per_s_low": least, "in_bytes_per_s_high": most}
        for hour, middle, least, most in zip(at.tolist(), expected.tolist(), low.tolist(), high.tolist(), strict=True)
    ]
    return _frame(_as_hours(TOPICS, "at"), rows)


def _disk(frame: pd.DataFrame, within_days: float) -> pd.DataFrame:
    """Return the forecast of one disk."""
    frame = frame.sort_values("hour")
    model, tested, reason = _model(frame, "used")
    last = frame.iloc[-1]
    row: dict[str, Any] = {name: last[name] for name in ("cluster", "broker", "path")}
    row |= {"used_bytes": int(last["used_last"]), "total_bytes": int(last["total"])}
    if model is not None:
        row["growth_bytes_per_day"] = model.slope * HOURS_OF_DAY
        room = row["total_bytes"] - model.level(int(last["hour"]))
        slowest, fastest = model.slopes
        row["full_days"] = _days(room, model.slope, within_days)
        row["full_days_low"] = _days(room - model.level_band, fastest, within_days)
        row["full_days_high"] = _days(room + model.level_band, slowest, within_days)
        if row["full_days"] is None:
            reason = f"not full within {within_days:g} days"
    return _frame(DISKS, [row | _tested(tested, reason)])


def _days(room: float, slope: float, most: float) -> float | None:
    """Return the days until the free space is used up at a rate in bytes per hour; None if that takes more than `most`
    days.
    """
    if room <= 0:
        return 0.0
    if slope <= 0:
        return None
    days = room / slope / HOURS_OF_DAY
    return days if days <= most else None


def _tested(tested: Backtest | None, reason: str | None) -> dict[str, Any]:
    if tested is None:
        return {"reason": reason}
    return {
        "backtest_mape": tested.mape, "backtest_coverage": tested.coverage, "backtest_hours": tested.hours,
        "reason": reason,
    }  # fmt: skip


_KINDS = {LongType: "Int64", IntegerType: "Int32", DoubleType: "Float64", StringType: "object"}


def _frame(schema: StructType, rows: list[dict[str, Any]]) -> pd.DataFrame:
    """Return the rows with the columns and types of the schema; missing values of a row are null."""
    return pd.DataFrame({
        each.name: pd.array([row.get(each.name) for row in rows], dtype=_KINDS[type(each.dataType)])
        for each in schema
    })  # fmt: skip
