"""`broker-streams run` and its options for Spark."""

from __future__ import annotations

from importlib import metadata
from pathlib import Path

import pytest
from click.testing import CliRunner

from broker_streams.application import Application, ApplicationError, load
from broker_streams.cli import command
from broker_streams.commands import chosen_host
from broker_streams.commands.chosen_host import Chosen, chosen
from spark_analytics.jars import SPARK

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


def application(file: str, **changed: str) -> Application:
    return load(Path(file), {name.replace("_", "."): value for name, value in changed.items()})


def test_the_default_is_spark_where_it_can_run(file: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, an application does not run on the host that the page promises."""
    exactly, at_least = application(file), application(file, processing_guarantee="at_least_once")
    monkeypatch.setattr(chosen_host, "missing", lambda: "")
    assert chosen(None, [exactly], for_spark=False) == Chosen("spark")
    assert chosen(None, [at_least], for_spark=False) == Chosen("embedded", "processing.guarantee is at_least_once")
    monkeypatch.setattr(chosen_host, "missing", lambda: "PySpark is not installed")
    assert chosen(None, [exactly], for_spark=False) == Chosen("embedded", "PySpark is not installed")
    # Others are for Spark, and an error says that it is missing.
    assert chosen(None, [exactly], for_spark=True) == Chosen("spark")
    assert chosen(None, [exactly, exactly], for_spark=False) == Chosen("spark")


def test_a_host_that_is_asked_for_is_taken(file: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, an option or a setting is accepted and ignored."""
    monkeypatch.setattr(chosen_host, "missing", lambda: "")
    asked = application(file, brokercy_streams_host="embedded")
    assert chosen(None, [asked], for_spark=False) == Chosen("embedded")
    assert chosen("spark", [asked], for_spark=False) == Chosen("spark")
    assert chosen("embedded", [application(file)], for_spark=False) == Chosen("embedded")
    other = application(file, brokercy_streams_host="spark")
    with pytest.raises(ApplicationError, match=r"different values of brokercy\.streams\.host"):
        chosen(None, [asked, other], for_spark=False)
    assert "brokercy.streams.host" in refused(file, "-X", "brokercy.streams.host=yarn")


def test_what_spark_lacks_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """If this fails, the command takes Spark where it cannot run."""
    monkeypatch.setattr(metadata, "version", lambda name: "3.5.0")
    assert chosen_host.missing().startswith("PySpark 3.5.0 is installed, and ")
    monkeypatch.setattr(metadata, "version", lambda name: SPARK)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert chosen_host.missing().startswith("Spark needs Java")
    java = tmp_path / "java"
    java.write_text("#!/bin/sh\necho 'openjdk version \"17.0.1\"' >&2\n")
    java.chmod(0o755)
    assert not chosen_host.missing()


def test_a_run_without_spark_says_so(file: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, a user of Spark does not see that the application runs without it."""
    monkeypatch.setattr(chosen_host, "missing", lambda: "PySpark is not installed")
    # The settings of SASL end the program before it connects.
    said = refused(file, "-X", "sasl.mechanism=NONE")
    assert "runs without Spark: PySpark is not installed (--host embedded leaves this out)" in said
    assert "without Spark" not in refused(file, "--host", "embedded", "-X", "sasl.mechanism=NONE")


def test_options_of_spark_need_spark(file: str) -> None:
    """If this fails, an option is accepted and ignored."""
    for options in (["--master", "local[2]"], ["--once"], ["--verbose"]):
        said = refused(file, "--host", "embedded", *options)
        assert "--master, --once and --verbose are for Spark: --host spark" in said
    said = refused(file, file, "--host", "embedded")
    assert "2 applications are given; --host embedded runs one in a process" in said


def test_once_reaches_the_driver(file: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, --once is accepted and ignored."""
    made: list[bool] = []

    class Host:
        def __init__(self, applications: object, *, master: str | None, once: bool) -> None:
            made.append(once)
            raise ApplicationError("no driver here")

    monkeypatch.setattr(chosen_host, "missing", lambda: "")
    monkeypatch.setattr("broker_streams.hosts.spark.host.SparkHost", Host)
    for options in (["--once"], []):
        assert "no driver here" in refused(file, "--host", "spark", *options)
    assert made == [True, False]


def test_without_pyspark_the_extra_is_named(file: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, a user without PySpark sees a traceback."""
    monkeypatch.setattr(chosen_host, "missing", lambda: "PySpark is not installed")
    said = refused(file, "--host", "spark")
    assert "PySpark is not installed: pip install 'broker-cy[spark]', or run the application without Spark" in said


def test_an_application_that_cannot_run_is_refused_before_spark_starts(file: str) -> None:
    """If this fails, a user waits for the JVM before the message about a setting."""
    said = refused(file, "--host", "spark", "-X", "processing.guarantee=at_least_once")
    assert "processing.guarantee is at_least_once; on Spark exactly_once_v2 is allowed" in said
    assert "application.id app is given twice" in refused(file, file, "--host", "spark")
