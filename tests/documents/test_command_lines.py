"""Every command line that README.md, CONTRIBUTING.md and docs/*.md show works exactly as shown.

The lines run in a directory that looks like a checkout after `make build` and has `.venv/bin` on its PATH, with a
separate loopback interface, so that the ports are the documented ones. The broker is the one that the README's `make
run` starts. For lines that measure for minutes, programs, options and names are checked, and some run shortened; a few
are not run, with the reason next to them.
"""

from __future__ import annotations

import argparse
import hashlib
import itertools
import os
import re
import runpy
import shlex
import signal
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from broker_cy.launch.processes import Child, ProcessError, run
from loadgen.cli import command as load_command
from loadgen.scenario.toml_file import builtin_names
from spark_analytics import mirror_audit_command
from spark_analytics.cli import command as analytics_command
from spark_analytics.jobs import what_if
from spark_analytics.jobs.registry import JOBS
from tests.documents.lines import ROOT, Line, blocks, documented, lines_of, shape_of
from tests.support import needs, network
from tests.support.terminal import in_terminal
from tests.support.wait import until

# Command lines that are not run here, with the reasons.
EXCEPTIONS = {
    "make test": "it is what runs this test",
    "make bench": "measures for an hour; tests/bench/record/test_record.py checks every command that it runs",
    "make bench-check": "counts for minutes under valgrind; tests/bench/check/test_check.py runs the program",
    "make demo ARGS": "starts three nodes; tests/demo/test_demo.py runs them",
    "broker-cy brokers": "needs several nodes; tests/broker_cy/commands/test_operating_kafka.py runs it",
    "broker-cy reassign": "the same",
    "broker-cy quorum": "the same",
    "broker-cy acls": "needs an authorizer; tests/broker_cy/commands/test_acls_and_users.py runs it",
    "broker-cy users create": "needs a file with a password; the same",
    "broker-cy users alter": "the same",
    "broker-cy groups in-flight": "needs a share consumer; tests/broker_cy/commands/test_in_flight.py runs it",
    "broker-cy groups release": "the same; tests/broker_cy/commands/test_share_records.py runs it",
    "broker-cy groups reject": "the same",
    "broker-cy groups redrive": "the same",
    "broker-cy schemas impact": "needs a registry; tests/broker_registry/commands/test_impact.py runs it",
    "broker-dash user add": "asks for a password; tests/dashboard/security/test_user_commands.py runs it",
    "broker-dash --listen 0.0.0.0": "needs users, a certificate and a provider; tests/dashboard/server and security",
    "broker-mirror": "needs two clusters; tests/broker_mirror/test_end_to_end.py runs it",
    "broker-registry schema-registry.properties": "needs the file; tests/broker_registry/test_config.py runs it",
    "broker-sql": "needs a server of SQL; tests/broker_sql/terminal runs it",
    "broker-streams": "needs an application and a cluster; tests/broker_streams/hosts runs it",
    "pip install": "compiles for a minute; tests/packaging installs the wheel into fresh environments",
}
# Programs that measure: options and names are checked, but nothing is measured.
MEASURING = re.compile(r"(\.venv/bin/)?broker-bench |python -m (bench|tools)\.")
# Programs that generate load, checked in the same way; tests/loadgen/run runs each mode.
LOADING = re.compile(r"broker-load ")
# Programs that use Spark, checked in the same way; tests/spark_analytics runs each command.
ANALYSING = re.compile(r"broker-analytics |spark-submit .*/main\.py ")
# Lines that run until Ctrl-C, and the text that they show before it.
ENDLESS = {
    "make run": "to open the console",
    "make demo": "broker-tui",
    "--follow": "",
    "--watch": "Produce",
    "broker-tui": "connected",
    "broker-dash": "broker-dash: http",
    "broker-registry": "listening on http",
    "make dashboard": "broker-dash: http",
}
START_TIMEOUT_S = 90.0
# Long enough for simulated worlds on a busy machine.
RUN_TIMEOUT_S = 300.0
# The notes of the Makefile about installations, each older than the next one.
INSTALLED = (".run", ".requirements", ".installed")
CTRL_Q = b"\x11"
LINES = documented()
README_BENCH = next(line.command for line in LINES if line.command.startswith(".venv/bin/broker-bench compare"))


# Pages whose command lines another test runs, with its file.
ELSEWHERE = {
    "streams.md": "tests/broker_streams/test_tutorial.py",
    "migrating.md": "tests/e2e/test_migration.py",
    "deploy.md": "tests/deploy/test_documents.py",
    "deploy-bad-days.md": "tests/deploy/test_documents.py",
}


def is_exception(line: Line) -> bool:
    if line.place.partition(":")[0] in ELSEWHERE:
        return True
    return any(line.command.startswith(prefix) for prefix in EXCEPTIONS)


def words_of(line: Line) -> list[str]:
    """Return the words of a command line, without its comment."""
    return shlex.split(line.command, comments=True)


class Checkout:
    """A directory with links to everything in the repository, and with additional files."""

    def __init__(self, directory: Path) -> None:
        self.path = directory / "checkout"
        self.path.mkdir()
        for each in ROOT.iterdir():
            if each.name not in ("data", ".git", ".venv"):
                (self.path / each.name).symlink_to(each)
        self._link_environment()
        self.env = {
            "PATH": f"{ROOT / '.venv' / 'bin'}{os.pathsep}{os.environ['PATH']}",
            "XDG_CONFIG_HOME": str(directory / "config"),
            "XDG_STATE_HOME": str(directory / "state"),
            "PYTHONPATH": "",
            # Variables of the `make test` that runs this.
            "MAKEFLAGS": "",
            "MAKELEVEL": "",
        }
        clusters = directory / "config" / "broker-cy" / "clusters.toml"
        clusters.parent.mkdir(parents=True)
        # The documented file, with the only broker instead of those of production.
        text = _toml_block("docs/cli.md", "default =", "[clusters.")
        clusters.write_text(text.replace("broker-1:9092,broker-2:9092", "127.0.0.1:9092"))
        (clusters.parent / "registry.properties").write_text("basic.auth.user.info=user:password\n")
        (self.path / "alerts.toml").write_text(_toml_block("docs/tui.md", "[[rule]]"))

    def _link_environment(self) -> None:
        """The environment here, with newer notes of what was installed: an installation would make its programs those
        of this directory, which does not stay.
        """
        environment = self.path / ".venv"
        environment.mkdir()
        for each in (ROOT / ".venv").iterdir():
            if each.name not in INSTALLED:
                (environment / each.name).symlink_to(each)
        for name in INSTALLED:
            (environment / name).touch()


def environment_here() -> dict[str, str]:
    """The programs and the links to source files of the environment here."""
    venv = ROOT / ".venv"
    files = [*(venv / "bin").iterdir(), *venv.glob("lib/python*/site-packages/__editable__*.py")]
    return {each.name: hashlib.sha256(each.read_bytes()).hexdigest() for each in files if each.is_file()}


def _toml_block(document: str, *starts: str) -> str:
    """Return the code blocks of a document that begin with one of `starts`: the parts of one documented file."""
    found = ["\n".join(line for _, line in block) for block in blocks((ROOT / document).read_text())]
    return "\n".join(text for text in found if text.startswith(starts))


class World:
    """A checkout, a loopback interface, and the broker of the README's first command."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.checkout = Checkout(directory)
        self.network = network.OwnNetwork(directory)
        self.broker: Child | None = None

    def argv(self, command: str) -> list[str]:
        return [*self.network.wrapper, "bash", "-o", "pipefail", "-c", command]

    def run(self, command: str, stdin: bytes = b"") -> str:
        """Run a line to its end."""
        return run(
            self.argv(command), stdin=stdin, cwd=self.checkout.path, env=self.checkout.env, timeout_s=RUN_TIMEOUT_S
        ).stdout.decode()

    def start(self, command: str, name: str) -> Child:
        """Start a line that runs until it is interrupted."""
        return Child(self.argv(f"exec {command}"), self.directory, name, env=self.checkout.env, cwd=self.checkout.path)

    def run_endless(self, line: Line, number: int) -> None:
        """Run a line until it has shown a text, and interrupt it."""
        (text,) = [text for part, text in ENDLESS.items() if part in line.command][:1]
        if "broker-tui" in line.command:
            shown = in_terminal(
                self.argv(line.command), typed_at={text: CTRL_Q}, env=self.checkout.env, cwd=self.checkout.path
            )
            assert shown.code == 0, f"{line}: exit code {shown.code}\n{shown.screen}"
            return
        child = self.start(line.command, f"endless-{number}")
        try:
            until(
                lambda: (text in child.stdout() and child.stdout()) or child.returncode is not None,
                f"{text!r} from {line}",
                START_TIMEOUT_S,
            )
            assert child.returncode is None, f"{line} ended: {child.stderr()}"
            self.interrupt(child)
        finally:
            child.kill()

    @staticmethod
    def interrupt(child: Child) -> None:
        """Ctrl-C to all processes of a line, as in the foreground of a terminal; it ends without a traceback."""
        os.killpg(child.pid, signal.SIGINT)
        code = child.wait(START_TIMEOUT_S)
        # The signal also ends make itself.
        assert code in (0, 130, -signal.SIGINT), f"exit code {code}\n{child.stderr()}"
        assert "Traceback" not in child.stderr(), child.stderr()

    def close(self) -> None:
        if self.broker is not None:
            self.broker.kill()
        self.network.close()


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    needs.require(needs.own_network())
    needs.require(needs.kcat)
    needs.require(needs.jq)
    needs.require(needs.make)
    made = World(tmp_path)
    try:
        yield made
    finally:
        made.close()


def test_there_are_command_lines() -> None:
    """If this fails, the parser finds no command lines, and all tests below pass."""
    places = {line.place.partition(":")[0] for line in LINES}
    assert {"README.md", "bench.md", "cli.md", "tui.md"} <= places
    assert len(LINES) > 40
    text = (
        "text\n\n    $ make run\n    ready\n    $ broker-tui   # comment\n\n- list\n     make no\n\n```\nmake x\n```\n"
    )
    assert [(line.command, line.output) for line in lines_of("a", text)] == [
        ("make run", ("ready",)),
        ("broker-tui   # comment", ()),
        ("make x", ()),
    ]
    for page, test in ELSEWHERE.items():
        assert page in places
        assert (ROOT / test).is_file()
    for prefix in EXCEPTIONS:
        assert any(line.command.startswith(prefix) for line in LINES), f"nobody shows {prefix} any more"


def test_make_installs_nothing_in_the_directory_of_these_tests(tmp_path: Path) -> None:
    """If this fails, the programs in `.venv/bin` are those of a directory that does not exist after these tests."""
    checkout = Checkout(tmp_path)
    printed = run(["make", "--dry-run", "build"], cwd=checkout.path, env=checkout.env).stdout.decode()
    assert "build_ext" in printed
    assert "install.py" not in printed


@pytest.mark.full
def test_commands_run_as_they_stand(world: World) -> None:
    """If this fails, a new user copies a line of the README or the documents, and it fails; or this test leaves the
    environment another one.
    """
    environment = environment_here()
    checked = (MEASURING, LOADING, ANALYSING)
    lines = [line for line in LINES if not is_exception(line) and not any(each.match(line.command) for each in checked)]
    first = next(line for line in lines if line.command == "make run" and line.output)
    world.broker = world.start(first.command, "make-run")
    world.broker.wait_for_output(ENDLESS["make run"], START_TIMEOUT_S)
    # The broker names the console's command relative to the checkout, which consists of links to another one here.
    shown = world.broker.stdout().replace(f"{ROOT}/", "").splitlines()[-len(first.output) :]
    for expected, text in zip(first.output, shown, strict=True):
        assert shape_of(expected).fullmatch(text), f"README shows {expected!r}, make run says {text!r}"
    # The state that the documents assume: a topic, a group that read it, and a change to show.
    world.run("broker-cy produce orders -K :", b"".join(b"order-%d:%d\n" % (n, n) for n in range(20)))
    world.run("broker-cy groups reset billing --topic orders --to-earliest --yes")
    world.run("broker-cy configs alter topic orders --set retention.ms=3600000 --yes")
    quick = [line for line in lines if words_of(line) not in (["make", "run"], ["make", "demo"])]
    with_output = [line for line in quick if line.place.startswith("README") and ("greetings" in line.command)]
    for line in with_output:
        run_one(world, line, 0)
    # These lines listen on the same port.
    dashboards = [line for line in quick if "dash" in words_of(line)[0] or words_of(line)[:2] == ["make", "dashboard"]]
    others = [
        (number, line) for number, line in enumerate(quick, 1) if line not in with_output and line not in dashboards
    ]
    with ThreadPoolExecutor(4) as pool:
        for done in [pool.submit(run_one, world, line, number) for number, line in others]:
            done.result()
    for number, line in enumerate(dashboards, len(quick) + 1):
        run_one(world, line, number)
    world.interrupt(world.broker)
    # Uses the port, which is free again.
    run_one(world, next(line for line in lines if words_of(line) == ["make", "demo"]), 0)
    assert environment_here() == environment


def run_one(world: World, line: Line, number: int) -> None:
    """Run one line, and compare its output with the documented one."""
    if "groups reset" in line.command:
        # The line asks for confirmation.
        shown = in_terminal(
            world.argv(line.command), typed_at={"[y/N]": b"y\n"}, env=world.checkout.env, cwd=world.checkout.path
        )
        assert shown.code == 0, f"{line}: exit code {shown.code}\n{shown.screen}"
    elif any(part in line.command for part in ENDLESS):
        world.run_endless(line, number)
    else:
        try:
            said = world.run(line.command).splitlines()
        except ProcessError as error:
            raise AssertionError(f"{line}: {error}") from None
        assert len(said) >= len(line.output), f"{line}: {said}"
        for expected, shown_line in zip(line.output, said, strict=False):
            assert shape_of(expected).fullmatch(shown_line), f"{line}: {expected!r} is shown, {shown_line!r} comes"


class Understood(Exception):
    """The command line of a program was parsed."""


@pytest.mark.parametrize("line", [line for line in LINES if MEASURING.match(line.command)], ids=str)
def test_measuring_commands_are_understood(
    line: Line, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """If this fails, a documented benchmark command names a program, an option or a value that no longer exists."""
    words = words_of(line)
    module, arguments = ("bench", words[1:]) if "broker-bench" in words[0] else (words[2], words[3:])
    parse_args = argparse.ArgumentParser.parse_args

    def parse_and_end(self: argparse.ArgumentParser, *given: Any, **named: Any) -> None:
        parse_args(self, *given, **named)
        raise Understood

    monkeypatch.setattr(argparse.ArgumentParser, "parse_args", parse_and_end)
    monkeypatch.setattr(sys, "argv", [module, *arguments])
    try:
        runpy.run_module(module, run_name="__main__", alter_sys=False)
    except Understood:
        return
    except SystemExit:
        pytest.fail(f"{line}: {capsys.readouterr().err}")
    pytest.fail(f"{line}: {module} parses no command line")


@pytest.mark.parametrize("line", [line for line in LINES if LOADING.match(line.command)], ids=str)
def test_load_commands_are_understood(line: Line) -> None:
    """If this fails, a documented load names a mode, an option, a value or a scenario that no longer exists."""
    mode, *arguments = words_of(line)[1:]
    context = load_command.commands[mode].make_context(mode, arguments)
    scenario = context.params.get("scenario")
    assert scenario is None or scenario.endswith(".toml") or scenario in builtin_names()


@pytest.mark.parametrize("line", [line for line in LINES if ANALYSING.match(line.command)], ids=str)
def test_analytics_commands_are_understood(line: Line, tmp_path: Path) -> None:
    """If this fails, a documented analysis names a command, a job, an option or a value that no longer exists."""
    words = words_of(line)
    program = next(place for place, word in enumerate(words) if word.endswith(("broker-analytics", "/main.py")))
    name, *arguments = words[program + 1 :]
    # Log directories must exist.
    reads_logs = name == "segments" or mirror_audit_command.NAME in arguments
    arguments = [str(tmp_path) if reads_logs and word.startswith("/") else word for word in arguments]
    context = analytics_command.commands[name].make_context(name, arguments)
    job = context.params.get("job", "all")
    assert job in ("all", what_if.NAME, mirror_audit_command.NAME, *JOBS)


def test_documented_workloads_and_targets_exist(tmp_path: Path) -> None:
    """If this fails, a documented line names a workload or a target that does not come with the tool."""
    argv = [str(ROOT / ".venv" / "bin" / "broker-bench"), "check"]
    for line in LINES:
        words = words_of(line)
        if "broker-bench" not in words[0]:
            continue
        for option, value in itertools.pairwise(words):
            if option in ("-w", "-t") and not value.endswith(".toml"):
                argv += [option, value]
        if words[1] == "compare":
            argv += [word for target in words[2 : words.index("-w")] for word in ("-t", target)]
    assert len(argv) > 10
    run(argv, cwd=tmp_path, env={"PYTHONPATH": ""})


@needs.kafka
@pytest.mark.full
@pytest.mark.parametrize(
    "shortened",
    [True, pytest.param(False, marks=[pytest.mark.soak, pytest.mark.timeout(3600)])],
    ids=["shortened", "as it stands"],
)
def test_the_comparison_of_the_readme_runs(tmp_path: Path, shortened: bool) -> None:
    """If this fails, the README's own benchmark ends with a traceback in a fresh checkout."""
    command = README_BENCH.partition("#")[0]
    if shortened:
        command += ' --pairs 1 --duration "200 ms" --warm-up "100 ms" --steady "0 s"'
    (tmp_path / ".venv").symlink_to(ROOT / ".venv")
    env = {"PYTHONPATH": ""}
    said = run(["bash", "-c", command], cwd=tmp_path, env=env, timeout_s=240 if shortened else 3500).stdout.decode()
    assert "kafka" in said
    assert "<html" in (tmp_path / "report.html").read_text()
