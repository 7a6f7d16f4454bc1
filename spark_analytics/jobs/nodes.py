"""Anomalies of brokers: against the other brokers of their cluster, and against their own history.

`anomalies(samples, api_phases)`, one row for each anomaly:
    cluster, broker
    metric               a name of METRICS; its unit is at its end
    method               brokers (differs from the other brokers) or history (differs from the usual value)
    start_at, end_at     first minute, and end of the last one
    minutes              minutes that were anomalous; a gap of a few minutes does not end an anomaly
    peak_at              minute with the highest score
    peak, normal         value of the broker there, and the median of the others or the usual value there
    score                robust z-score there: (value - median) / (1.4826 x MAD), below 0 if the value is too low
    words                the anomaly as a sentence

`minutes(samples, api_phases)`, one row for each broker and minute: cluster, broker, minute (since 1970),
`traffic_bytes_per_s` (the mean of the cluster's brokers), and a column for each metric (null if it is not known).

`brokers`: robust z-scores over the brokers of each minute, if at least three are known. `history`: a CUSUM of the
z-scores against the same hour of the week in the weeks before. Both have a lower limit of spreads, so that small
differences between equal brokers do not count as large ones. Both use only minutes in which the cluster's brokers have
a minimum traffic: differences in an idle cluster are only noise (see Cruise Control's issue 1142). A p99 counts with at
least 20 requests in the minute. The phases in which a Fetch waits for records (data, total) are left out.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F
from pyspark.sql.types import DoubleType, IntegerType, LongType, StringType, StructField, StructType

from spark_analytics.jobs.deviation import BROKERS_LEAST, Numbers, Values, cusum, row_medians, usual, z_scores

NAME = "nodes"
HELP = "brokers that differ from the others of their cluster or from their own history"

MINUTE_MS = 60_000


@dataclass(frozen=True)
class Metric:
    """A metric: its name in words, and the lower limits of its spread, as a part of the normal value and as an amount.
    A metric with `low` is also anomalous if it is too low, such as the traffic of an idle broker.
    """

    words: str
    relative: float
    absolute: float
    low: bool = False


_PHASES = {"Produce": ("queue", "handler", "disk", "send", "total"), "Fetch": ("queue", "handler", "disk", "send")}
METRICS: dict[str, Metric] = {
    "in_bytes_per_s": Metric("bytes in", 0.1, 10_000, low=True),
    "out_bytes_per_s": Metric("bytes out", 0.1, 10_000, low=True),
    "requests_per_s": Metric("requests", 0.1, 5, low=True),
    "cpu_share": Metric("CPU", 0.1, 0.02, low=True),
    "loop_lag_p99_us": Metric("loop lag p99", 0.25, 2_000),
    "resident_bytes": Metric("resident memory", 0.1, 64e6),
    "major_faults_per_s": Metric("major faults", 0.25, 5),
    "disk_read_bytes_per_s": Metric("disk reads", 0.25, 1e6),
    "disk_written_bytes_per_s": Metric("disk writes", 0.25, 1e6),
    **{
        f"{api.lower()}_{phase}_p99_us": Metric(f"{api} p99" if phase == "total" else f"{api} {phase} p99", 0.25, 1_000)
        for api, phases in _PHASES.items()
        for phase in phases
    },
}


@dataclass(frozen=True)
class Limits:
    """The criteria of an anomaly. Raises ValueError for invalid values."""

    score_least: float = 5.0
    """The z-score of a minute against the other brokers."""
    cusum_limit: float = 15.0
    minutes_least: int = 3
    """The minimum number of anomalous minutes of an anomaly: one or two are noise of p99s."""
    gap_minutes: int = 2
    """Consecutive normal minutes that do not end an anomaly."""
    traffic_least_bytes_per_s: float = 10_000.0
    """The minimum traffic, in and out: the mean of the cluster's brokers."""
    history_weeks: int = 2

    def __post_init__(self) -> None:
        least = {
            "score_least": 1.0, "cusum_limit": 1.0, "minutes_least": 1, "gap_minutes": 0,
            "traffic_least_bytes_per_s": 0.0, "history_weeks": 1,
        }  # fmt: skip
        for name, allowed in least.items():
            if not (value := getattr(self, name)) >= allowed:
                raise ValueError(f"{name} is {value:g}: {allowed:g} or more is allowed")


_REQUESTS_LEAST = 20
_BROKER = ("cluster", "broker")
_FLAGGED = StructType([
    StructField("cluster", StringType()),
    StructField("broker", IntegerType()),
    StructField("metric", StringType()),
    StructField("method", StringType()),
    StructField("minute", LongType()),
    StructField("value", DoubleType()),
    StructField("normal", DoubleType()),
    StructField("score", DoubleType()),
])  # fmt: skip


def anomalies(samples: DataFrame, api_phases: DataFrame, limits: Limits = Limits()) -> DataFrame:
    """Return the anomalies of all brokers."""
    found = minutes(samples, api_phases)
    # Each minute goes to a day of its cluster and to its broker, so that the tables are read once for both. One group
    # is in memory at a time: the minutes of a broker are 80 MB in a year (525,600 rows of 20 columns).
    day = F.floor(F.col("minute") / 1440)
    keys = [("brokers", day), ("history", F.col("broker").cast("long"))]
    places = F.array(*(F.struct(F.lit(method).alias("method"), key.alias("key")) for method, key in keys))
    twice = found.withColumn("place", F.explode(places)).select("*", "place.method", "place.key").drop("place")
    return _merged(
        twice.groupBy("cluster", "method", "key").applyInPandas(lambda frame: _flagged(frame, limits), _FLAGGED), limits
    )


def _flagged(frame: pd.DataFrame, limits: Limits) -> pd.DataFrame:
    return _between(frame, limits) if frame["method"].iloc[0] == "brokers" else _in_time(frame, limits)


def minutes(samples: DataFrame, api_phases: DataFrame) -> DataFrame:
    """Return the metrics of each broker and minute."""
    parts = _sample_parts(samples).unionByName(_api_parts(api_phases), allowMissingColumns=True)
    sums = parts.groupBy(*_BROKER, "minute").agg(
        *(F.sum(name).alias(name) for name in parts.columns if name not in (*_BROKER, "minute", "resident_bytes")),
        F.max("resident_bytes").alias("resident_bytes"),
    )
    seconds = F.when(F.col("interval_ms") > 0, F.col("interval_ms") / 1000)
    # A minute with samples but without requests of an API has 0 requests.
    rates = [
        (F.coalesce(name, F.lit(0)) / seconds).alias(f"{name}_per_s")
        for name in ("in_bytes", "out_bytes", "requests", "major_faults", "disk_read_bytes", "disk_written_bytes")
    ]
    p99s = [_p99(name.removesuffix("_p99_us")).alias(name) for name in METRICS if name.endswith("_p99_us")]
    known = sums.where("interval_ms > 0").select(
        *_BROKER, "minute", *rates, (F.col("cpu_us") / 1e6 / seconds).alias("cpu_share"),
        F.col("resident_bytes").cast("double").alias("resident_bytes"), *p99s,
    )  # fmt: skip
    of_cluster = Window.partitionBy("cluster", "minute")
    traffic = F.avg(F.col("in_bytes_per_s") + F.col("out_bytes_per_s")).over(of_cluster)
    return known.select(*_BROKER, "minute", traffic.alias("traffic_bytes_per_s"), *METRICS)


def _sample_parts(samples: DataFrame) -> DataFrame:
    lag = F.col("loop_lag")
    return samples.select(
        *_BROKER, _minute(), "interval_ms", "cpu_us", "resident_bytes", "major_faults", "disk_read_bytes",
        "disk_written_bytes", lag["count"].alias("loop_lag_count"),
        (lag["count"] * lag["p99_us"]).alias("loop_lag_weighted"),
    )  # fmt: skip


def _api_parts(api_phases: DataFrame) -> DataFrame:
    """Return the sums of an API's phases by sample; requests and bytes, which each phase's row repeats, count once."""
    names = [(phase, api) for api, phases in _PHASES.items() for phase in phases]
    phases = sorted({phase for phase, _ in names})
    by_api = api_phases.groupBy(*_BROKER, "at", "api").agg(
        *(F.max(name).alias(name) for name in ("requests", "in_bytes", "out_bytes")),
        *(F.sum(F.when(F.col("phase") == each, F.col("count"))).alias(f"{each}_count") for each in phases),
        *(
            F.sum(F.when(F.col("phase") == each, F.col("count") * F.col("p99_us"))).alias(f"{each}_weighted")
            for each in phases
        ),
    )
    return by_api.select(
        *_BROKER, _minute(), "requests", "in_bytes", "out_bytes",
        *(
            F.when(F.col("api") == api, F.col(f"{phase}_{part}")).alias(f"{api.lower()}_{phase}_{part}")
            for phase, api in names
            for part in ("count", "weighted")
        ),
    )  # fmt: skip


def _minute() -> Column:
    return F.floor(F.unix_millis("at") / MINUTE_MS).alias("minute")


def _p99(name: str) -> Column:
    """Return the mean of the samples' p99s, weighted by their counts; null if it has few requests."""
    count = F.col(f"{name}_count")
    return F.when(count >= _REQUESTS_LEAST, F.col(f"{name}_weighted") / count)


def _between(frame: pd.DataFrame, limits: Limits) -> pd.DataFrame:
    """Return the minutes of a cluster's day in which a broker differs from the others."""
    brokers, column = np.unique(frame["broker"].to_numpy(np.int64), return_inverse=True)
    times, row = np.unique(frame["minute"].to_numpy(np.int64), return_inverse=True)
    if len(brokers) < BROKERS_LEAST:
        return _no_rows()
    busy = np.zeros(len(times), np.bool_)
    busy[row] = frame["traffic_bytes_per_s"].to_numpy(np.float64) >= limits.traffic_least_bytes_per_s
    parts = []
    for name, metric in METRICS.items():
        values = np.full((len(times), len(brokers)), np.nan)
        values[row, column] = frame[name].to_numpy(np.float64)
        scores = z_scores(values, metric.relative, metric.absolute)
        beyond = np.abs(scores) if metric.low else scores
        at, who = np.nonzero(busy[:, None] & (beyond >= limits.score_least))
        others = values[at]
        others[np.arange(len(at)), who] = np.nan
        normal, _ = row_medians(others)
        parts.append(_rows(frame, brokers[who], name, "brokers", times[at], values[at, who], normal, scores[at, who]))
    return pd.concat(parts)


def _in_time(frame: pd.DataFrame, limits: Limits) -> pd.DataFrame:
    """Return the minutes in which a broker differs from its own history."""
    frame = frame.sort_values("minute")
    times = frame["minute"].to_numpy(np.int64)
    idle = frame["traffic_bytes_per_s"].to_numpy(np.float64) < limits.traffic_least_bytes_per_s
    parts = [_no_rows()]
    for name, metric in METRICS.items():
        values = frame[name].to_numpy(np.float64)
        normal, spread = usual(times, values, limits.history_weeks)
        spread = np.maximum(np.maximum(spread, metric.relative * np.abs(normal)), metric.absolute)
        scores = (values - normal) / spread
        scores[idle] = np.nan
        for sign in (1.0, -1.0) if metric.low else (1.0,):
            flags = cusum(times, sign * scores, limits.cusum_limit) & (sign * scores > 0)
            if flags.any():
                broker = np.full(int(flags.sum()), frame["broker"].iloc[0])
                parts.append(
                    _rows(frame, broker, name, "history", times[flags], values[flags], normal[flags], scores[flags])
                )
    return pd.concat(parts[1:] or parts)


def _rows(
    frame: pd.DataFrame,
    broker: Numbers,
    metric: str,
    method: str,
    at: Numbers,
    values: Values,
    normal: Values,
    scores: Values,
) -> pd.DataFrame:
    return pd.DataFrame({
        "cluster": frame["cluster"].iloc[0], "broker": broker.astype(np.int32), "metric": metric, "method": method,
        "minute": at, "value": values, "normal": normal, "score": scores,
    })  # fmt: skip


def _no_rows() -> pd.DataFrame:
    kinds = {LongType: np.int64, IntegerType: np.int32, DoubleType: np.float64, StringType: object}
    return pd.DataFrame({each.name: np.empty(0, kinds[type(each.dataType)]) for each in _FLAGGED})


def _merged(flagged: DataFrame, limits: Limits) -> DataFrame:
    """Return the anomalies: flagged minutes of one broker, metric and method without a long gap between them."""
    of = (*_BROKER, "metric", "method")
    # A change from too high to too low gives two anomalies.
    signed = flagged.withColumn("low", F.col("score") < 0)
    in_order = Window.partitionBy(*of, "low").orderBy("minute")
    apart = F.col("minute") - F.lag("minute").over(in_order) > limits.gap_minutes + 1
    numbered = signed.withColumn("run", F.sum(F.coalesce(apart, F.lit(True)).cast("int")).over(in_order.rowsBetween(
        Window.unboundedPreceding, 0
    )))  # fmt: skip
    # The earlier one of two equal peaks.
    peak = F.max(
        F.struct(F.abs("score").alias("height"), (-F.col("minute")).alias("minus"), "value", "normal", "score")
    )
    runs = numbered.groupBy(*of, "low", "run").agg(
        F.min("minute").alias("first"), F.max("minute").alias("last"), F.count("*").alias("minutes"), peak.alias("p")
    )
    found = runs.where(F.col("minutes") >= limits.minutes_least).select(
        *of, _at(F.col("first")).alias("start_at"), _at(F.col("last") + 1).alias("end_at"), "minutes",
        _at(-F.col("p.minus")).alias("peak_at"), F.col("p.value").alias("peak"), F.col("p.normal").alias("normal"),
        F.col("p.score").alias("score"), (F.col("last") + 1 - F.col("first")).alias("lasted"),
    )  # fmt: skip
    return found.withColumn("words", _words()).drop("lasted")


def _at(minute: Column) -> Column:
    return F.timestamp_millis(minute * MINUTE_MS)


def _words() -> Column:
    """Return the sentence, such as: broker 2: Produce p99 8.1 times that of the others for 12 min."""
    names: list[Any] = [F.lit(each) for name, metric in METRICS.items() for each in (name, metric.words)]
    metric = F.create_map(*names)[F.col("metric")]
    between = F.col("method") == "brokers"
    ratio = F.col("peak") / F.col("normal")
    times = F.concat(
        F.format_string("%.1f times ", ratio),
        F.when(between, "that of the others").otherwise("what is usual at this hour"),
    )
    # A ratio to 0 has no value.
    amounts = F.concat(
        F.format_string("%.1f, ", F.col("peak")),
        F.when(between, "the others' is ").otherwise("usual at this hour is "),
        F.format_string("%.1f,", F.col("normal")),
    )
    lasted = F.when(F.col("lasted") < 120, F.format_string("%d min", F.col("lasted"))).otherwise(
        F.format_string("%.1f h", F.col("lasted") / 60)
    )
    difference = F.when(F.col("normal") > 0, times).otherwise(amounts)
    return F.concat(
        F.format_string("broker %d: ", F.col("broker")), metric, F.lit(" "), difference, F.lit(" for "), lasted
    )
