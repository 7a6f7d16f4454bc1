"""`broker-streams run` and its options for Spark."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from broker_streams.cli import command
from broker_streams.commands import run_on_spark

APPLICATION = """
from broker_streams import STRING, StreamsBuilder
builder = StreamsBuilder()
builder.stream("in", key=STRING, value=STRING).to("out")
config = {"application.id": "app", "bootstrap.servers": "127.0.0.1:1"}
"""


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = tmp_path / "app.py"
    path.write_text(APPLICATION)
    return str(path)


def refused(*arguments: str) -> str:
    ended = CliRunner().invoke(command, ["run", *arguments])
    assert ended.exit_code != 0
    return ended.output + (ended.stderr or "")


def test_options_of_spark_need_spark(file: str) -> None:
    """If this fails, an option is accepted and ignored."""
    for options in (["--master", "local[2]"], ["--once"], ["--verbose"]):
        assert "--master, --once and --verbose are for Spark: --host spark" in refused(file, *options)
    assert "2 applications are given; --host embedded runs one in a process" in refused(file, file)


def test_without_pyspark_the_extra_is_named(file: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, a user without PySpark sees a traceback."""
    monkeypatch.setattr(run_on_spark, "find_spec", lambda name: None)
    said = refused(file, "--host", "spark")
    assert (
        "Spark is missing: pip install 'broker-cy[spark]', or run the application without it: --host embedded" in said
    )


def test_an_application_that_cannot_run_is_refused_before_spark_starts(file: str) -> None:
    """If this fails, a user waits for the JVM before the message about a setting."""
    said = refused(file, "--host", "spark", "-X", "processing.guarantee=at_least_once")
    assert "processing.guarantee is at_least_once; on Spark exactly_once_v2 is allowed" in said
    assert "application.id app is given twice" in refused(file, file, "--host", "spark")
