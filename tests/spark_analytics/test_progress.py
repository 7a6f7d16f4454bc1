"""The line that shows Spark's progress (only on a terminal), and the times and cells of tables."""

from __future__ import annotations

import io
import os
import re
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from rich.console import Console

from spark_analytics.cells import table, text_of
from spark_analytics.progress import Doing, Progress
from tests.support.wait import until

WAIT_S = 60.0


class Terminal(io.StringIO):
    """A stream that is a terminal, as rich sees it."""

    def isatty(self) -> bool:
        return True


def run_until(spark: SparkSession, path: Path) -> None:
    """Run four tasks; two of them end when a file exists at `path`, or after WAIT_S."""
    deadline_s = time.time() + WAIT_S

    def wait(number: int) -> int:
        while number > 1 and not os.path.exists(path) and time.time() < deadline_s:
            time.sleep(0.05)
        return number

    spark.sparkContext.parallelize(range(4), 4).map(wait).count()


@pytest.mark.full
def test_a_terminal_shows_the_stage_its_tasks_and_the_seconds(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """If this fails, a user cannot tell a job that takes an hour from one that hangs."""
    monkeypatch.setenv("TERM", "xterm")
    terminal = Terminal()
    line = re.compile(r"lag, groups: stage \d+, [12] of 4 tasks, \d+ s")

    def end_when_shown() -> None:
        until(lambda: line.search(terminal.getvalue()) is not None, "the line", WAIT_S)
        (tmp_path / "end").touch()

    with ThreadPoolExecutor(1) as pool:
        shown = pool.submit(end_when_shown)
        with Progress(spark, terminal).during("lag, groups"):
            run_until(spark, tmp_path / "end")
        shown.result()
    # The line is removed at the end: the next output takes its place.
    assert terminal.getvalue().endswith("\x1b[2K")


@pytest.mark.full
def test_a_file_shows_nothing(spark: SparkSession) -> None:
    """If this fails, the log of a timer is full of progress lines."""
    stream = io.StringIO()
    with Progress(spark, stream).during("lag"):
        spark.range(10).count()
    assert stream.getvalue() == ""


@pytest.mark.full
def test_a_failure_ends_the_line(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, an error message is overwritten by progress, or the process never ends."""
    monkeypatch.setenv("TERM", "xterm")
    terminal = Terminal()
    with pytest.raises(ValueError, match="x"), Progress(spark, terminal).during("lag"):
        raise ValueError("x")
    assert "lag" in terminal.getvalue()


def test_texts() -> None:
    """If this fails, the line of several stages shows the tasks of only one."""
    assert Doing().text == "planning"
    assert Doing((7,), 1_000, 2_000).text == "stage 7, 1,000 of 2,000 tasks"
    assert Doing((7, 9, 12), 1, 2).text == "stage 7 and 2 more, 1 of 2 tasks"


def test_foreign_text_is_no_command() -> None:
    """If this fails, a record or a group's name can control the terminal of a user who views it."""
    evil = "\x1b]0;title\x07\x9b2J[red]\n"
    for each in (evil, evil.encode(), [evil]):
        shown = text_of(each)
        assert not set("\x1b\x07\x9b\n") & set(shown)
        assert "title" in shown
        assert "[red]" in shown
        out = io.StringIO()
        Console(file=out, width=80, color_system=None).print(table(evil, ["a"], [{"a": each}], notes=[evil]))
        assert not set("\x1b\x07\x9b") & set(out.getvalue())
        assert out.getvalue().count("[red]") == 3
    assert text_of(b"\xff" * 100).endswith("…")


@contextmanager
def zone(name: str) -> Iterator[None]:
    before = os.environ.get("TZ")
    os.environ["TZ"] = name
    time.tzset()
    try:
        yield
    finally:
        if before is None:
            del os.environ["TZ"]
        else:
            os.environ["TZ"] = before
        time.tzset()


def test_times_in_tables_are_utc(spark: SparkSession) -> None:
    """If this fails, `--from` with a time of a table begins hours before or after it."""
    with zone("Asia/Tokyo"):
        (row,) = spark.sql("SELECT timestamp '2026-11-23 08:00:00' AS at").collect()
        assert text_of(row.at) == "2026-11-23 08:00:00Z"
        assert text_of(datetime(2026, 11, 23, 9)) == "2026-11-23 00:00:00Z"
