"""The commands that need a lake or log directories, as people run them."""

from __future__ import annotations

import os
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from spark_analytics import times
from spark_analytics.lake import Lake
from spark_analytics.schedule import units
from tests.spark_analytics.lakes import commits, complete, write_batch

ROOT = Path(__file__).resolve().parents[2]
NOW = datetime(2026, 11, 23, 12, tzinfo=UTC)


def command(*words: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "spark_analytics", *words],
        cwd=cwd,
        env={"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin", "JDK_JAVA_OPTIONS": os.environ["JDK_JAVA_OPTIONS"]},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )


@pytest.fixture
def lake(spark: SparkSession, tmp_path: Path) -> Lake:
    """A lake with one complete batch of two commits, and one that is not complete."""
    made = Lake(tmp_path / "lake")
    for batch in (0, 1):
        write_batch(spark, made, "commits", batch, commits(10, 11))
    complete(made, 0)
    return made


def test_a_job_runs_from_the_command_line(spark: SparkSession, lake: Lake, tmp_path: Path) -> None:
    """If this fails, what a user types after the first ingest shows nothing, or shows batches that are not complete."""
    done = command("run", "lag", "--lake", str(lake.path), "--out", "out", "--limit", "1", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "groups: by group and minute, the newest first" in done.stdout
    written = spark.read.parquet(str(tmp_path / "out" / "lag" / "partitions"))
    assert {(each.group, each.topic) for each in written.collect()} == {("g", "t")}
    assert "Traceback" not in done.stderr


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
    text = units("/usr/bin/python3", "h.de:1,[::1]:2", Path("/my lake/100%"), "10m", "prod")
    assert "--out '/my lake/100%%' --cluster prod" in text
    assert "# /etc/systemd/system/broker-analytics-h-de-1.timer" in text
    assert "OnUnitInactiveSec=10m" in text
