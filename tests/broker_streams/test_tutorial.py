"""The tutorial of docs/streams.md runs as it stands, and `broker-streams` describes its application."""

from __future__ import annotations

import os
import re
import shlex
import signal
import sys
import textwrap
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner

from broker_cy.launch.processes import Child
from broker_cy.launch.processes import run as done
from broker_streams.application import ApplicationError, load
from broker_streams.cli import command
from broker_streams.plan import codec
from tests.support.broker import QUICK, BrokerProcess
from tests.support.wait import until

WAIT_S = 60.0
PAGE = Path(__file__).resolve().parents[2] / "docs" / "streams.md"
BLOCKS = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
APPLICATION, DRIVEN, PROCESSOR, SCHEMAS, WINDOWS, TABLES, LINEAGE = BLOCKS


@pytest.fixture
def application(tmp_path: Path) -> Path:
    path = tmp_path / "orders.py"
    path.write_text(APPLICATION)
    return path


def test_the_tutorial_runs() -> None:
    """If this fails, the first thing that a user tries ends with an error."""
    names: dict[str, Any] = {}
    exec(compile(APPLICATION + DRIVEN, str(PAGE), "exec"), names)
    assert names["counts"] is not None
    exec(compile(PROCESSOR, str(PAGE), "exec"), names)
    assert names["reported"] == [("ann", 2), ("bob", 1)]
    exec(compile(SCHEMAS, str(PAGE), "exec"), names)
    assert names["large"].is_empty()
    exec(compile(WINDOWS, str(PAGE), "exec"), names)
    assert names["ended"] == [("ann", 2)]
    exec(compile(TABLES, str(PAGE), "exec"), names)
    assert names["totals"] == [("ann", 3), ("bob", 4)]


def test_the_file_of_tests_passes(application: Path) -> None:
    """If this fails, a user who copies the example of the page sees a test that fails."""
    (text,) = re.findall(r"```yaml\n(tests:.*?)```", PAGE.read_text(), re.DOTALL)
    application.with_name("orders.test.yaml").write_text(text)
    shown = CliRunner().invoke(command, ["test", str(application)])
    assert (shown.exit_code, shown.output.splitlines()[-1]) == (0, "1 of 1 test passed"), shown.output


def test_the_commands_and_options_of_the_page_exist() -> None:
    """If this fails, the page shows an option that a command refuses."""
    lines = re.findall(r"^    broker-streams (.*)$", PAGE.read_text(), re.MULTILINE)
    assert len(lines) > 10
    with click.Context(command) as context:
        for name, *words in (shlex.split(line, comments=True) for line in lines):
            found = command.get_command(context, name)
            assert found is not None, name
            known = {option for each in found.params for option in (*each.opts, *each.secondary_opts)}
            unknown = [word for word in words if word.startswith("-") and word not in known and not word[1:2].isdigit()]
            assert unknown == [], (name, words)


@pytest.mark.full
def test_the_commands_of_the_tutorial_run(application: Path) -> None:
    """If this fails, a new user who follows the page sees an error, or no counts."""
    page = PAGE.read_text().partition("## A first application")[2].partition("TopologyTestDriver")[0]
    *topics, run, send, read = re.findall(r"^    (\S.*)$", page.replace(APPLICATION, ""), re.MULTILINE)
    broker = BrokerProcess(application.parent, QUICK).start()
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    env = {"BROKER_CY_BOOTSTRAP": broker.bootstrap, "PATH": path}

    def shell(line: str) -> str:
        return done(["sh", "-c", line], cwd=application.parent, env=env).stdout.decode()

    try:
        for line in topics:
            assert "created topic" in shell(line)
        # As with the extra `streams` of the page: here PySpark is installed.
        child = Child(
            ["sh", "-c", f"exec {run} --host embedded"], application.parent, "application", env, application.parent
        )
        try:
            child.wait_for_output("runs orders-per-minute", WAIT_S)
            shell(send)
            until(lambda: shell(read) == "ann 1\n", "the count", WAIT_S, 0.2)
            child.send_signal(signal.SIGINT)
            assert child.wait(WAIT_S) == 0, child.stderr()
        finally:
            child.kill()
    finally:
        broker.close()


def test_describe_prints_kafkas_text_and_the_plan(application: Path) -> None:
    """If this fails, users cannot look at the topology of an application."""
    shown = CliRunner().invoke(command, ["describe", str(application)])
    assert shown.exit_code == 0
    assert shown.output.startswith("Topologies:\n   Sub-topology: 0\n    Source: KSTREAM-SOURCE-0000000000")
    made = load(application).topology
    plan = CliRunner().invoke(command, ["describe", "--json", str(application)])
    assert plan.output.strip() == codec.to_json(made)


def test_describe_prints_the_lineage_of_the_page(tmp_path: Path) -> None:
    """If this fails, the page promises a lineage that the command does not find."""
    path = tmp_path / "app.py"
    path.write_text(LINEAGE)
    shown = CliRunner().invoke(command, ["describe", str(path), "--lineage"])
    assert shown.exit_code == 0
    assert textwrap.indent(shown.output, "    ") in PAGE.read_text()


@pytest.mark.parametrize(
    ("text", "changed", "message"),
    [
        ("config = {}", {}, "defines neither builder (a StreamsBuilder) nor topology (a Topology)"),
        ("import moduleofmine", {}, "needs a module that is not installed: moduleofmine"),
        ("config = 7", {}, "config is a int; a mapping of settings is expected"),
        ("from broker_streams import StreamsBuilder\nbuilder = StreamsBuilder()", {}, "without nodes"),
    ],
)
def test_a_file_that_is_no_application_is_named(
    tmp_path: Path, text: str, changed: dict[str, str], message: str
) -> None:
    """If this fails, a user sees a traceback instead of the reason."""
    path = tmp_path / "app.py"
    path.write_text(text)
    with pytest.raises(ApplicationError) as refused:
        load(path, changed)
    assert message in str(refused.value)
    assert str(path) in str(refused.value)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["-X", "commit.interval.ms=soon"],
            "Invalid value soon for configuration commit.interval.ms: Not a number of type LONG",
        ),
        (["-X", "soon"], "-X soon: NAME=VALUE is expected"),
        (["-X", "bootstrap.servers="], "bootstrap.servers is missing"),
    ],
)
def test_wrong_settings_end_the_program(application: Path, arguments: list[str], message: str) -> None:
    """If this fails, an application runs with a setting that its user did not write."""
    shown = CliRunner().invoke(command, ["run", str(application), "--host", "embedded", *arguments])
    assert shown.exit_code == 2
    assert message in shown.output


def test_settings_come_from_a_file(application: Path, tmp_path: Path) -> None:
    """If this fails, a service cannot give an application its login, or an option does not replace a setting of it."""
    given = tmp_path / "settings.properties"
    given.write_text("# of the cluster\nsasl.mechanism = NONE\ncommit.interval.ms=soon\n")
    shown = CliRunner().invoke(command, ["run", str(application), "--config", str(given)])
    assert "soon for configuration commit.interval.ms" in shown.output
    file, other = ["--config", str(given)], ["-X", "commit.interval.ms=9"]
    for options in (file + other, other + file):
        shown = CliRunner().invoke(command, ["run", str(application), "--host", "embedded", *options])
        assert shown.exit_code == 2
        assert "settings of SASL need security.protocol" in shown.output
    missing = CliRunner().invoke(command, ["run", str(application), "--config", str(tmp_path / "none")])
    assert missing.exit_code == 2
    assert f"cannot read {tmp_path / 'none'}" in missing.output
