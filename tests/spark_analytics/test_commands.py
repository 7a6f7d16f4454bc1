"""The commands that need a lake or log directories, as people run them."""

from __future__ import annotations

import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from spark_analytics import times
from spark_analytics.lake import Lake, LakeError, Span
from spark_analytics.schedule import units
from spark_analytics.schema import TABLES

ROOT = Path(__file__).resolve().parents[2]
NOW = datetime(2026, 11, 23, 12, tzinfo=UTC)
AT = datetime(2026, 11, 23, 8)


def command(*words: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "spark_analytics", *words],
        cwd=cwd,
        env={"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )


@pytest.fixture
def lake(spark: SparkSession, tmp_path: Path) -> Lake:
    """A lake with one complete batch of two commits, and one that is not complete."""
    made = Lake(tmp_path / "lake")
    checkpoint = made.checkpoint("c") / "commits"
    checkpoint.mkdir(parents=True)
    (checkpoint / "0").write_text("v1\n{}")
    for batch in (0, 1):
        rows = [
            ("c", 1, AT + timedelta(seconds=10 * each), "g", "t", 0, each, AT, AT, 10 + each, AT.date())
            for each in (0, 1)
        ]
        found = spark.createDataFrame(rows, TABLES["commits"])
        folder = made.table("commits", "c") / f"batch_id={batch}"
        found.drop("cluster").coalesce(1).write.partitionBy("day").parquet(str(folder))
    return made


def test_a_job_runs_from_the_command_line(spark: SparkSession, lake: Lake, tmp_path: Path) -> None:
    """If this fails, what a user types after the first ingest shows nothing, or shows batches that are not complete."""
    done = command("run", "lag", "--lake", str(lake.path), "--out", "out", "--limit", "1", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "groups: by group and minute, the newest first" in done.stdout
    written = spark.read.parquet(str(tmp_path / "out" / "lag" / "partitions"))
    assert {(each.group, each.topic) for each in written.collect()} == {("g", "t")}
    assert "Traceback" not in done.stderr


def test_a_span_and_a_column_that_is_new(spark: SparkSession, lake: Lake) -> None:
    """If this fails, a range of time has other rows, or a lake of an older release cannot be read."""
    assert lake.read(spark, "commits").count() == 2
    assert lake.read(spark, "commits", Span(end=AT.replace(tzinfo=UTC) + timedelta(seconds=5))).count() == 1
    assert lake.read(spark, "commits", Span(start=NOW)).count() == 0
    older = lake.read(spark, "commits").drop("cluster", "end").coalesce(1)
    older.write.partitionBy("day").parquet(str(lake.table("commits", "c") / "batch_id=2"))
    (lake.checkpoint("c") / "commits" / "2").write_text("v1\n{}")
    found = [row.end for row in lake.read(spark, "commits").orderBy("end").collect()]
    assert found == [None, None, 10, 11]


def test_what_is_not_in_the_lake_is_named(spark: SparkSession, lake: Lake) -> None:
    """If this fails, a mistyped cluster has no rows, and looks as if nothing had happened in it."""
    with pytest.raises(LakeError, match=r"d: not in .* \(there: c\)"):
        lake.read(spark, "commits", clusters=["d"])
    assert lake.read(spark, "moves").count() == 0


@pytest.mark.parametrize(
    ("words", "code", "text"),
    [
        (("run", "lagg", "--lake", "nothing"), 64, "'lagg' is not a job (allowed: all, throughput, lag,"),
        (("run", "lag", "--lake", "nothing"), 65, "nothing holds no complete batch"),
        (("run", "lag", "--lake", "nothing", "--from", "soon"), 64, "'soon' is not a time (allowed: -90m"),
        (("run", "lag", "--lake", "x", "--from", "-1h", "--to", "-2h"), 64, "is not before --to"),
        (("schedule", "--bootstrap", "a:1", "--out", "lake", "--every", "often"), 64, "'often' is not a time span"),
    ],
)
def test_bad_input(words: tuple[str, ...], code: int, text: str, tmp_path: Path) -> None:
    """If this fails, a typing error ends in a traceback, or after a JVM has started."""
    done = command(*words, cwd=tmp_path)
    assert done.returncode == code, done.stderr
    assert text in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("-90m", NOW - timedelta(minutes=90)),
        ("-2w", NOW - timedelta(weeks=2)),
        ("2026-11-23", NOW.replace(hour=0)),
        ("2026-11-23T13:00:00+01:00", NOW),
    ],
)
def test_times(text: str, expected: datetime) -> None:
    """If this fails, a range is off by a zone, or by its unit."""
    assert times.parse(text, NOW) == expected


def test_units_of_systemd_are_quoted() -> None:
    """If this fails, a folder with a space or a percent sign breaks the timer."""
    text = units("/usr/bin/python3", "h:1", Path("/my lake/100%"), "10m")
    assert "--out '/my lake/100%%'" in text
    assert "OnUnitInactiveSec=10m" in text
