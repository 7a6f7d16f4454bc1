"""Anomalies of brokers: scores on arrays; minutes, merging and texts on small tables."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.testing import assertDataFrameEqual

from spark_analytics.jobs import nodes
from spark_analytics.jobs.deviation import cusum, row_medians, usual, z_scores
from spark_analytics.jobs.nodes import METRICS, Limits
from tests.spark_analytics.jobs.job_frames import Row, at, frame, table

NAN = float("nan")
WEEK = 7 * 24 * 60
BUSY = 1_200_000


def test_medians_are_those_of_known_values() -> None:
    """If this fails, an unknown value counts as a broker's value."""
    medians, counts = row_medians(np.array([[3.0, 1.0, 2.0], [4.0, NAN, 2.0], [NAN, NAN, NAN]]))
    assert medians.tolist()[:2] == [2, 3]
    assert np.isnan(medians[2])
    assert counts.tolist() == [3, 2, 0]


def test_scores_of_brokers() -> None:
    """If this fails, z-scores are not based on median and MAD, equal brokers get huge scores, or two brokers are
    compared.
    """
    values = np.array([[10.0, 12.0, 14.0, 30.0], [5.0, 5.0, 5.0, 5.1], [1.0, 9.0, NAN, NAN], [0.0, 0.0, 0.0, 4.0]])
    scores = z_scores(values, 0.1, 2.0)
    # Median 13, deviations 3, 1, 1, 17: MAD 2.
    assert scores[0] == pytest.approx(np.array([-3, -1, 1, 17]) / (1.4826 * 2))
    assert scores[1] == pytest.approx([0, 0, 0, 0.05])  # the floor of 2
    assert np.isnan(scores[2]).all()
    assert scores[3] == pytest.approx([0, 0, 0, 2])
    assert z_scores(np.array([[100.0, 100.0, 150.0]]), 0.1, 2.0)[0] == pytest.approx([0, 0, 5])  # the floor of 10 %


def test_what_is_usual_is_known_from_the_weeks_before() -> None:
    """If this fails, a minute is judged by itself or by the future, by other hours, or without enough history."""
    minutes = np.arange(4 * WEEK, dtype=np.int64)
    hour, week = minutes // 60 % 168, minutes // WEEK
    values = hour * 10.0 + week + (minutes % 2) * 4.0
    expected, spread = usual(minutes, values, 2)
    assert np.isnan(expected[: 2 * WEEK]).all()
    # Weeks 0 and 1: 0, 1, 4, 5 above the hour's value; the median is 2.5, and the deviations are 2.5 and 1.5.
    third = week == 2
    assert expected[third] == pytest.approx(hour[third] * 10 + 2.5)
    assert spread[third] == pytest.approx(1.4826 * 2)
    # Weeks 0 to 2: 0, 1, 2, 4, 5, 6.
    assert expected[week == 3] == pytest.approx(hour[third] * 10 + 3)
    few = np.concatenate([minutes[:WEEK], minutes[2 * WEEK :]])
    assert np.isnan(usual(few, values[few], 2)[0][: 2 * WEEK]).all()


def test_a_lasting_change_is_found_from_its_first_to_its_last_minute() -> None:
    """If this fails, an outlier is a change, a change comes too late or lasts too long, or one after it is missed."""
    minutes = np.arange(300, dtype=np.int64)
    residuals = np.full(300, 0.2)
    residuals[20] = 1_000  # counts for CLIP
    residuals[50:150] = 3
    residuals[190:210] = 2.5
    expected = np.zeros(300, bool)
    expected[50:150] = expected[190:210] = True
    assert (cusum(minutes, residuals, 15) == expected).all()
    # To the end, and over a gap of samples that are missing, and one that is too long.
    residuals[280:] = 3
    expected[280:] = True
    assert (cusum(minutes, residuals, 15) == expected).all()
    assert not cusum(minutes * 31, residuals, 15).any()
    residuals[60:70] = NAN
    assert (cusum(minutes, residuals, 15) == expected).all()


def sample(minute: int, broker: int, **values: Any) -> Row:
    lag = {"count": 600, "sum_us": 0, "p50_us": 0, "p99_us": values.pop("lag_us", 900), "max_us": 0}
    known: Row = {"cpu_us": 12_000_000, "resident_bytes": 100_000_000, "major_faults": 0, "disk_read_bytes": 0}
    known |= {
        "disk_written_bytes": 0,
        "loop_lag": lag,
        "interval_ms": 60_000,
        "broker": broker,
        "at": at(minute * 60 + 5),
    }
    return known | values


def phases(minute: int, broker: int, p99_us: int = 2_000, count: int = 600, in_bytes: int = BUSY) -> list[Row]:
    """The rows of Produce and Fetch of one sample; the requests and bytes are in each phase's row."""
    same: Row = {"broker": broker, "at": at(minute * 60 + 5), "interval_ms": 60_000, "requests": 600, "count": count}
    produce = same | {"api": "Produce", "in_bytes": in_bytes, "out_bytes": 0}
    fetch = same | {"api": "Fetch", "in_bytes": 0, "out_bytes": in_bytes}
    return [
        produce | {"phase": "disk", "p99_us": 1_000},
        produce | {"phase": "total", "p99_us": p99_us},
        fetch | {"phase": "disk", "p99_us": 500},
        fetch | {"phase": "total", "p99_us": 500_000 * broker},
    ]


def tables(spark: SparkSession, samples: list[Row], rows: list[Row]) -> tuple[DataFrame, DataFrame]:
    return table(spark, "samples", samples), table(spark, "api_phases", rows)


def test_metrics_of_a_minute(spark: SparkSession) -> None:
    """If this fails, requests count once for each phase, rates are not by the time that is covered, a p99 is not
    weighted or is that of few requests, or a wait for records is a duration.
    """
    half = {"interval_ms": 30_000}
    first = sample(0, 1, **half, lag_us=1_000, major_faults=30, disk_read_bytes=600, disk_written_bytes=1_200)
    second = {**sample(0, 1, **half, lag_us=3_000, resident_bytes=200_000_000), "at": at(35)}
    rows = phases(0, 1, 2_000, count=10) + [{**row, "at": at(35)} for row in phases(0, 1, 5_000, count=20)]
    rows += phases(1, 1, count=19)
    found = nodes.minutes(*tables(spark, [first, second, sample(1, 1)], rows))
    minute = int(at(0).timestamp()) // 60
    rates = {"in_bytes_per_s": 40_000.0, "out_bytes_per_s": 40_000.0, "requests_per_s": 40.0, "cpu_share": 0.4}
    one = rates | {
        "loop_lag_p99_us": 2_000.0, "resident_bytes": 2e8, "major_faults_per_s": 0.5, "disk_read_bytes_per_s": 10.0,
        "disk_written_bytes_per_s": 20.0, "produce_disk_p99_us": 1_000.0, "produce_total_p99_us": 4_000.0,
        "fetch_disk_p99_us": 500.0,
    }  # fmt: skip
    two: dict[str, float | None] = dict.fromkeys(METRICS, 0.0)
    two |= {name: value / 2 for name, value in rates.items()}
    two |= {"loop_lag_p99_us": 900.0, "resident_bytes": 1e8}
    two |= {name: None for name in METRICS if name.startswith(("produce", "fetch"))}
    expected = [
        ("c", 1, minute, 80_000.0, *(one.get(name) for name in METRICS)),
        ("c", 1, minute + 1, 40_000.0, *(two[name] for name in METRICS)),
    ]
    assertDataFrameEqual(found, frame(spark, found, expected))


def slow_hour(slow: dict[int, int], in_bytes: int = BUSY) -> tuple[list[Row], list[Row]]:
    """Samples of brokers 1 to 3 in which broker 2 has other p99s in some minutes (minute -> us)."""
    places = [(minute, broker) for minute in range(20) for broker in (1, 2, 3)]
    rows = [
        row
        for minute, broker in places
        for row in phases(minute, broker, slow.get(minute, 2_000) if broker == 2 else 2_000, in_bytes=in_bytes)
    ]
    return [sample(*place) for place in places], rows


def test_a_slow_broker_is_one_anomaly_in_words(spark: SparkSession) -> None:
    """If this fails, minutes of one anomaly become several anomalies, a short gap ends it, or its times or text are
    wrong.
    """
    slow = {3: 16_200, 4: 16_000, 6: 14_000, 7: 14_000, 15: 16_000, 16: 16_000}
    found = nodes.anomalies(*tables(spark, *slow_hour(slow)))
    # Median 2,000 and floor 1,000: (16,200 - 2,000) / 1,000. Minutes 15 and 16 are too few.
    words = "broker 2: Produce p99 8.1 times that of the others for 5 min"
    expected = [
        ("c", 2, "produce_total_p99_us", "brokers", at(180), at(480), 4, at(180), 16_200.0, 2_000.0, 14.2, words)
    ]
    assertDataFrameEqual(found, frame(spark, found, expected))


@pytest.mark.full
def test_an_idle_cluster_has_no_anomalies(spark: SparkSession) -> None:
    """If this fails, a cluster without traffic raises alarms (Cruise Control's issue 1142)."""
    slow = dict.fromkeys(range(20), 50_000)
    idle, busy = tables(spark, *slow_hour(slow, in_bytes=240_000)), tables(spark, *slow_hour(slow, in_bytes=360_000))
    samples, rows = (
        one.replace("c", "idle", ["cluster"]).unionByName(other) for one, other in zip(idle, busy, strict=True)
    )
    found = nodes.anomalies(samples, rows)
    assert [row.cluster for row in found.collect()] == ["c"]


@pytest.mark.full
def test_limits_are_kept(spark: SparkSession) -> None:
    """If this fails, a limit is accepted and ignored."""
    slow = {3: 16_000, 4: 16_000, 8: 15_000}
    given = tables(spark, *slow_hour(slow))
    strict, wide = Limits(minutes_least=2, score_least=13.5), Limits(gap_minutes=3)
    assert [row.minutes for row in nodes.anomalies(*given, strict).collect()] == [2]
    assert [row.minutes for row in nodes.anomalies(*given, wide).collect()] == [3]


@pytest.mark.parametrize(
    ("limits", "message"),
    [({"score_least": 0.5}, "score_least is 0.5: 1 or more"), ({"history_weeks": 0}, "history_weeks is 0: 1 or more")],
)
def test_limits_that_make_no_sense_are_refused(limits: dict[str, Any], message: str) -> None:
    """If this fails, a limit silently makes every minute an anomaly."""
    with pytest.raises(ValueError, match=message):
        Limits(**limits)


def test_nothing_gives_nothing(spark: SparkSession) -> None:
    """If this fails, a lake without samples causes an error, or a result without columns."""
    found = nodes.anomalies(*tables(spark, [], []))
    assert found.columns[:7] == ["cluster", "broker", "metric", "method", "start_at", "end_at", "minutes"]
    assert found.columns[7:] == ["peak_at", "peak", "normal", "score", "words"]
    assert found.collect() == []
