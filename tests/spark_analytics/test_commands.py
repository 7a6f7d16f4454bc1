"""The commands that need a lake or log directories, as users run them."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from click.testing import CliRunner
from pyspark.sql import SparkSession
from rich.console import Console

from broker_cy.client.program import EXIT_FAILED
from spark_analytics import cli, on_disk, session
from spark_analytics.errors import DamagedError, NothingError
from spark_analytics.lake import Lake, Span
from spark_analytics.schedule import units
from tests.spark_analytics.lakes import commits, complete, write_batch
from tests.spark_analytics.segments.logs import Log
from tests.spark_analytics.segments.logs import records as new_records

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


def check_refused(words: tuple[str, ...], code: int, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Check that a command exits with this code and text, and starts no JVM. In this process, because a new one needs a
    second for imports; `test_what_spark_would_refuse` does the same in new processes.
    """

    def start(name: str, **settings: object) -> None:
        raise AssertionError(f"{name} with {settings}")

    monkeypatch.setattr(session, "session", start)
    done = CliRunner().invoke(cli.command, words)
    assert isinstance(done.exception, SystemExit), done.exception
    assert done.exit_code == code, done.stderr
    assert text in done.stderr


@pytest.fixture
def lake(spark: SparkSession, tmp_path: Path) -> Lake:
    """A lake with one complete batch of two commits, and one that is not complete."""
    made = Lake(tmp_path / "lake")
    for batch in (0, 1):
        write_batch(spark, made, "commits", batch, commits(10, 11))
    complete(made, 0)
    return made


@pytest.mark.full
def test_a_job_runs_from_the_command_line(
    spark: SparkSession, lake: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If this fails, a user's first command after an ingest shows nothing, or shows incomplete batches."""
    monkeypatch.chdir(tmp_path)
    # In this process, as in test_plans: test_cluster runs the same job in a process with its own JVM.
    words = ["run", "lag", "--lake", str(lake.path), "--out", "out", "--limit", "1"]
    done = CliRunner().invoke(cli.command, words, catch_exceptions=False)
    assert done.exit_code == 0, done.stderr
    assert "groups: by group and minute, the newest first" in done.stdout
    written = spark.read.parquet(str(tmp_path / "out" / "lag" / "partitions"))
    assert {(each.group, each.topic) for each in written.collect()} == {("g", "t")}
    assert done.stderr == ""  # no terminal: no progress
    done = CliRunner().invoke(cli.command, [*words, "--to", "1999-01-01"])
    assert done.exit_code == EXIT_FAILED
    assert "holds nothing from the beginning to 1999-01-01 00:00:00 UTC that lag could use" in done.stderr


@pytest.mark.full
def test_a_damaged_file_of_the_lake_is_named(spark: SparkSession, lake: Lake) -> None:
    """If this fails, the damaged file is hidden between the stack traces of two languages, or --verbose does not show
    the stack traces.
    """
    (path,) = lake.path.glob("commits/*/*.0/**/*.parquet")
    path.write_bytes(path.read_bytes()[:100])
    path.with_name(f".{path.name}.crc").unlink()
    words = ["run", "lag", "--lake", str(lake.path)]
    done = CliRunner().invoke(cli.command, words)
    assert done.exit_code == EXIT_FAILED
    assert re.fullmatch(
        rf"broker-analytics: Spark failed: .*{path.name}.*not a Parquet file.* \(--verbose shows more\)\n", done.stderr
    )
    done = CliRunner().invoke(cli.command, [*words, "--verbose"])
    assert "\tat org.apache.spark." in str(done.exception)


@pytest.mark.full
def test_damage_on_disk_is_named(spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """If this fails, `segments` silently leaves out records, names an option that the command does not have, or prints
    nothing for an empty result.
    """
    log = Log(tmp_path)
    for _ in range(3):
        log.append(new_records(10, log.next_offset))
    log.flip(10, 70)
    console = Console(width=200)

    def show(on_damage: str, end: datetime | None = None) -> None:
        on_disk.show(
            spark, [tmp_path], ["t"], span=Span(end=end), limit=1, on_damage=on_damage, show=on_disk.as_tables(console)
        )

    with pytest.raises(DamagedError, match=r"where offset 10 is expected: .* \(--on-damage skip leaves it out\)"):
        show("stop")
    show("skip")
    printed = capsys.readouterr()
    assert "│ 20 " in printed.out
    assert "left out, because it is damaged: " in printed.err
    assert f"{log.path('log')}: at byte {log.positions[10]}, where offset 10 is expected" in printed.err
    with pytest.raises(NothingError, match="no records of t from the beginning to 1999-01-01"):
        show("skip", datetime(1999, 1, 1, tzinfo=UTC))


@pytest.mark.parametrize(
    ("words", "code", "text"),
    [
        (("run", "lagg", "--lake", "nothing"), 2, "'lagg' is not a job (allowed: all, throughput, lag,"),
        (("run", "lag", "--lake", "nothing"), 1, "nothing holds no complete batch"),
        (("run", "lag", "--lake", "nothing", "--from", "soon"), 2, "'soon' is not a time: 2026-01-31"),
        (("run", "lag", "--lake", "x", "--from", "-1h", "--to", "-2h"), 2, "is not before --to"),
        (("run", "lag", "--lake", "x", "--memory", "10x"), 2, "'10x' is not an amount of memory (allowed: 512m, 2g)"),
        (("schedule", "--bootstrap", "a:1", "--lake", "lake", "--every", "0s"), 2, "'0s' is out of range (allowed: 1s"),
        (("schedule", "-b", "a:1", "--lake", "x", "-X", "sasl.jaas.config=x"), 2, "all users can read a unit"),
        (("ingest", "-b", "a:1", "--lake", "x", "--cluster", "prod"), 2, "the name in the lake is --name prod"),
    ],
)
def test_bad_input(
    words: tuple[str, ...], code: int, text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If this fails, a typing error causes a traceback, or is found only after a JVM has started."""
    monkeypatch.chdir(tmp_path)
    check_refused(words, code, text, monkeypatch)


@pytest.mark.full
@pytest.mark.parametrize(
    ("words", "code", "text"),
    [
        (("--out", "file/out"), 2, "--out file/out: Not a directory"),
        (("--master", "local["), 1, "Spark did not start on local[: Could not parse Master URL"),
    ],
)
def test_what_spark_would_refuse(words: tuple[str, ...], code: int, text: str, lake: Lake, tmp_path: Path) -> None:
    """If this fails, a wrong folder or master causes a stack trace of the JVM; the folder only after hours of a job."""
    (tmp_path / "file").touch()
    done = command("run", "lag", "--lake", str(lake.path), *words, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (code, ""), done.stderr
    assert text in done.stderr
    assert len(done.stderr.splitlines()) == 1  # nothing of Spark's log


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("-90m", NOW - timedelta(minutes=90)),
        ("-2w", NOW - timedelta(weeks=2)),
        ("2026-11-23", datetime(2026, 11, 23).astimezone()),
        ("2026-11-23T13:00:00+01:00", NOW),
        ("2026-11-23 12:00:00Z", NOW),
        (str(int(NOW.timestamp() * 1000)), NOW),
    ],
)
def test_times(text: str, expected: datetime, monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, a range is off by a time zone, or has another meaning than in `broker-cy`."""
    monkeypatch.setattr("time.time", NOW.timestamp)
    assert cli.TIME.convert(text, None, None) == expected


def test_units_have_the_cluster_and_its_login(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, a timer reads another cluster than the command, or cannot log in."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("BROKER_CY_BOOTSTRAP", raising=False)
    Path("c.toml").write_text('[clusters.prod]\nbootstrap = "a:1"\n')
    Path("my login").write_text("security.protocol=SSL\n")
    for options, expected in (
        (["-b", "a:1", "--command-config", "my login"], f"--bootstrap a:1 --command-config '{tmp_path}/my login'"),
        (["--clusters-file", "c.toml", "--cluster", "prod"], f"--clusters-file {tmp_path}/c.toml --cluster prod"),
        (["-b", "a:1", "-X", "security.protocol=SSL"], "--bootstrap a:1 -X security.protocol=SSL"),
    ):
        # --out is the spelling of earlier releases.
        for lake in ("--lake", "--out"):
            done = CliRunner().invoke(cli.command, ["schedule", *options, lake, "lake"])
            assert f"ingest {expected} --lake {tmp_path}/lake" in done.stdout, done.stderr
    assert "Missing option '--lake'." in CliRunner().invoke(cli.command, ["ingest", "-b", "a:1"]).stderr


def test_units_of_systemd_are_quoted() -> None:
    """If this fails, a folder with a space or a percent sign breaks the timer."""
    text = units("/usr/bin/python3", "h.de:1", ["-b", "h.de:1,[::1]:2"], Path("/my lake/100%"), "10min", "prod")
    assert "-b 'h.de:1,[::1]:2' --lake '/my lake/100%%' --name prod" in text
    assert "# /etc/systemd/system/broker-analytics-h-de-1.timer" in text
    assert "OnUnitInactiveSec=600000ms" in text
    for bad in ("often", "0m", "10", "-1h", "10m\nUser=root"):
        with pytest.raises(ValueError, match=r"is not a duration|is out of range"):
            units("python3", "a:1", [], Path("lake"), bad)
