"""The rules by which a planted answer counts as found, and an alarm as false."""

from __future__ import annotations

from dataclasses import dataclass, fields
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet
from pyspark.sql import SparkSession

from spark_analytics.planted import Answers, Size, plant
from spark_analytics.planted_found import Judged, judge

SIZE = Size(days=16, commit_s=3)
ANSWERS = plant(SIZE, slow=2)
MINUTE = timedelta(minutes=1)
TIME = pa.timestamp("us", "UTC")
PLACE = {"group": pa.string(), "topic": pa.string()}
SCHEMAS: dict[str, dict[str, pa.DataType]] = {
    "nodes/anomalies": {
        "broker": pa.int32(), "metric": pa.string(), "method": pa.string(), "start_at": TIME, "end_at": TIME,
        "words": pa.string(),
    },
    "skew/partitions": {"topic": pa.string(), "partition": pa.int64(), "share": pa.float64(), "hot": pa.bool_()},
    "throughput/hours": {"topic": pa.string(), "broker": pa.int32(), "records": pa.int64()},
    "lag/partitions": {
        **PLACE, "partition": pa.int64(), "minute": TIME, "status": pa.string(), "time_lag_ms": pa.int64(),
        "abandoned": pa.bool_(),
    },
    "end-to-end/minutes": {**PLACE, "minute": TIME, "max_ms": pa.int64()},
    "rebalances/rebalances": {
        "group": pa.string(), "generation": pa.int64(), "clients": pa.list_(pa.string()),
        "hosts": pa.list_(pa.string()), "stall_max_ms": pa.int64(), "records": pa.float64(),
    },
    "forecast/disks": {"broker": pa.int32(), "path": pa.string(), "full_days": pa.float64()},
}  # fmt: skip
Rows = dict[str, list[tuple[Any, ...]]]


def perfect(answers: Answers) -> Rows:
    """Return the rows of jobs that find everything and nothing else."""
    (surge,), (hot,), (growing,), (dear,), (filling,) = (
        answers.surges, answers.hot, answers.growing, answers.dear, answers.filling
    )  # fmt: skip
    slow = [
        (each.broker, "produce_total_p99_us", "brokers", each.start, each.end, "slow broker") for each in answers.slow
    ]
    cpu = [(each, "cpu_share", "history", surge.start, surge.end, "more CPU") for each in range(SIZE.brokers)]
    shares = [0.1] * SIZE.partitions
    shares[hot.partition] = hot.share
    number = int(hot.topic.removeprefix("topic-"))
    behind_s = (1 - growing.reads) * (SIZE.end - growing.start).total_seconds()
    place = (growing.group, growing.topic)
    lags = [
        (*place, growing.partition, SIZE.end - MINUTE, "WARN", round(behind_s * 1000), False),
        (*place, growing.partition, growing.start - 2 * MINUTE, "OK", 0, False),
    ]
    return {
        "nodes/anomalies": [*slow, *cpu],
        "skew/partitions": [(hot.topic, part, share, part == hot.partition) for part, share in enumerate(shares)],
        "throughput/hours": [
            (hot.topic, SIZE.broker_of(number, part), round(1e6 * share)) for part, share in enumerate(shares)
        ],
        "lag/partitions": lags,
        "end-to-end/minutes": [(*place, SIZE.end - MINUTE, round(behind_s * 1000))],
        "rebalances/rebalances": [
            (dear.group, dear.generation, [dear.client_id], [dear.host], dear.stall_ms, 9.0),
            (dear.group, dear.generation + 1, ["app"], ["10.0.0.1"], 1, 1.0),
        ],
        "forecast/disks": [
            (filling.broker, filling.path, (filling.full_at - SIZE.end) / timedelta(days=1)),
            (filling.broker, "/other", None),
        ],
    }


@dataclass
class Tables:
    spark: SparkSession
    directory: Path

    def judged(self, rows: Rows) -> Judged:
        for name, each in rows.items():
            columns = SCHEMAS[name]
            rows_by_name = [dict(zip(columns, row, strict=True)) for row in each]
            (self.directory / name).mkdir(parents=True)
            table = pa.Table.from_pylist(rows_by_name, pa.schema(columns))
            parquet.write_table(table, self.directory / name / "part.parquet")
        return judge(self.spark, self.directory, SIZE, ANSWERS)


@pytest.fixture
def tables(spark: SparkSession, tmp_path: Path) -> Tables:
    return Tables(spark, tmp_path)


def test_jobs_that_find_everything_have_the_full_recall(tables: Tables) -> None:
    """If this fails, a planted answer is expected that no job can give, or a correct one counts as false."""
    found = tables.judged(perfect(ANSWERS))
    assert (found.missed, found.false) == ([], [])
    assert found.planted == 2 + SIZE.brokers + 6
    assert (found.recall, len(found.jobs_found)) == (1.0, 7)


def test_jobs_that_find_nothing_have_none(tables: Tables) -> None:
    """If this fails, the recall is good whatever the tables contain."""
    found = tables.judged({name: [] for name in SCHEMAS})
    assert (found.recall, found.jobs_found, found.false) == (0.0, [], [])
    assert len(found.missed) == found.planted == 2 + SIZE.brokers + 6


def test_what_is_nearly_right_is_missed_and_what_is_not_planted_is_false(tables: Tables) -> None:
    """If this fails, an alarm at another place or time counts as the planted one, or a false alarm is not counted."""
    rows = perfect(ANSWERS)
    (growing,), (hot,) = ANSWERS.growing, ANSWERS.hot
    first, *others = rows["nodes/anomalies"]
    late: tuple[datetime, datetime] = (first[4] + 6 * MINUTE, first[4] + 9 * MINUTE)
    rows["nodes/anomalies"] = [(*first[:3], *late, "too late"), *others]
    rows["skew/partitions"] = [(hot.topic, hot.partition, hot.share + 0.1, True), ("topic-0", 1, 0.9, True)]
    rows["throughput/hours"] = [(hot.topic, broker, 100) for broker in range(SIZE.brokers)]
    (last, before) = rows["lag/partitions"]
    other = ("group-x", growing.topic, growing.partition)
    rows["lag/partitions"] = [
        (*last[:4], "OK", *last[5:]),
        (*before[:4], "STALLED", 0, False),
        *((*other, growing.start + number * MINUTE, "WARN", 0, False) for number in (0, 1, 2, 9)),
        (*other, growing.start + 20 * MINUTE, "OK", 0, True),
        (*other, growing.start + 30 * MINUTE, "UNKNOWN", None, False),
    ]
    rows["end-to-end/minutes"] = [(*each[:3], each[3] * 9 // 10) for each in rows["end-to-end/minutes"]]
    rows["rebalances/rebalances"] = [(*each[:5], 10.0 - each[5]) for each in rows["rebalances/rebalances"]]
    rows["forecast/disks"] = [(*each[:2], (each[2] or 0.0) + 1) for each in rows["forecast/disks"]]
    found = tables.judged(rows)
    assert sorted({each.partition(":")[0] for each in found.missed}) == [
        "end-to-end", "forecast", "lag", "nodes", "rebalances", "skew", "throughput"
    ]  # fmt: skip
    assert len(found.missed) == 7
    assert found.jobs_found == []
    # False alarms: a broker, a partition, one before the group fell behind, three of the other group, and a disk.
    assert len(found.false) == 1 + 1 + 1 + 3 + 1, found.false


def test_every_kind_of_answer_is_judged() -> None:
    """If this fails, a kind that is planted has no part in the recall."""
    assert [each.name for each in fields(Answers) if not getattr(ANSWERS, each.name)] == []
    assert {each.name for each in fields(Answers)} == {"slow", "surges", "hot", "growing", "dear", "filling"}
