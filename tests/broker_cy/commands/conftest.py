"""Running `broker-cy` as users and programs do."""

from __future__ import annotations

import json
import sys
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import pytest

from broker_cy import cli
from broker_cy.admin.metadata import TopicPartition
from broker_cy.commands import context
from broker_cy.launch.processes import run
from tests.support import terminal
from tests.support.broker import Target
from tests.support.fake_cluster import FakeCluster, FakePool, Part
from tests.support.terminal import Shown

ROOT = Path(__file__).resolve().parents[3]
COMMAND = [sys.executable, "-m", "broker_cy.cli"]
NewTopic = Callable[..., str]
TIMEOUT_S = 60.0


@dataclass(frozen=True)
class Said:
    """The output of a command, and its exit code."""

    out: str
    err: str
    code: int

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    def rows(self) -> list[list[str]]:
        """Return the lines of a table, split at two or more blanks, without the header."""
        return [[cell for cell in line.split("  ") if cell.strip()] for line in self.out.splitlines()[1:]]


class Cli(Protocol):
    """Runs a command and asserts its exit code."""

    def __call__(self, *arguments: str | Path, code: int = ..., stdin: bytes | None = ...) -> Said: ...


@pytest.fixture
def bare(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Cli:
    """Runs a command without additions: in this process, or in a separate process if it reads stdin."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    for name in ("BROKER_CY_CLUSTERS", "BROKER_CY_CLUSTER", "BROKER_CY_BOOTSTRAP"):
        monkeypatch.delenv(name, raising=False)
    # Commands run in the tests' own process, whose garbage collector they must not change.
    monkeypatch.setattr(context, "relax_collector", lambda: None)

    def call(*arguments: str | Path, code: int = 0, stdin: bytes | None = None) -> Said:
        given = [str(each) for each in arguments]
        if stdin is not None:
            done = run([*COMMAND, *given], stdin=stdin, cwd=ROOT, timeout_s=TIMEOUT_S, check=False)
            said = Said(done.stdout.decode("utf-8", "surrogateescape"), done.stderr.decode(), done.returncode)
        else:
            capfd.readouterr()
            try:
                returned = cli.main(given)
            except SystemExit as end:
                # argparse's way of showing help.
                returned = end.code if isinstance(end.code, int) else 1
            sys.stdout.flush()
            said = Said(*capfd.readouterr(), returned)
        assert said.code == code, f"{given}: exit code {said.code}\n{said.out}\n{said.err}"
        return said

    return call


@pytest.fixture
def broker_cy(bare: Cli, broker: Target) -> Cli:
    """Runs a command with the broker of the module."""

    def call(*arguments: str | Path, code: int = 0, stdin: bytes | None = None) -> Said:
        return bare(*arguments, "--bootstrap", broker.bootstrap, code=code, stdin=stdin)

    return call


def in_terminal(arguments: list[str], typed: bytes = b"", interrupt_at: str | None = None) -> Shown:
    """Run a command in a terminal and type `typed`; sends SIGINT once `interrupt_at` is shown."""
    return terminal.in_terminal([*COMMAND, *arguments], typed=typed, interrupt_at=interrupt_at, cwd=ROOT)


@pytest.fixture
def new_topic(broker_cy: Cli) -> NewTopic:
    """Creates a separate topic for the test: `new_topic(partitions)`."""

    def make(partitions: int = 1, *options: str) -> str:
        name = "t-" + uuid.uuid4().hex[:10]
        broker_cy("topics", "create", name, "-p", str(partitions), *options)
        return name

    return make


@pytest.fixture
def name() -> str:
    """Return a unique name."""
    return "n-" + uuid.uuid4().hex[:10]


def key(number: int) -> TopicPartition:
    return TopicPartition("t", number)


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> FakeCluster:
    """Three brokers, and four partitions on the first two; every client of this process reaches it."""
    found = FakeCluster({1: "a", 2: "b", 3: "c"}, step_bytes=1_000)
    found.parts = {key(n): Part((1, 2) if n % 2 else (2, 1), 300) for n in range(4)}
    monkeypatch.setattr("broker_cy.admin.client.Pool", lambda *_: FakePool(found))
    return found
