"""`broker-load` as a process, and its output files."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from broker_cy.launch.processes import Child
from loadgen.command import GENERATOR_LIMIT, GOOD
from loadgen.report import result as results
from loadgen.report.result import Result
from tests.support.wait import until

COMMAND = (sys.executable, "-m", "loadgen")
ENDS_S = 120.0
ROOT = Path(__file__).resolve().parents[3]
# Verdicts of a run with correct data on a machine that other tests keep busy: good, or the generator was late.
UNDISTURBED = (GOOD, GENERATOR_LIMIT)

PRODUCERS = """
duration = "{seconds}s"
warm_up = "0.5s"
[topic]
name = "{topic}"
partitions = 3
[[users]]
kind = "producer"
count = {users}
rate = "{rate}/s"
idempotent = {idempotent}
"""


@dataclass
class Run:
    """A run that ended."""

    code: int
    stdout: str
    stderr: str
    result: Result | None

    @property
    def of(self) -> Result:
        assert self.result is not None, self.stderr
        return self.result


class Load:
    """A run in progress."""

    def __init__(self, child: Child, json_path: Path) -> None:
        self.child, self._json_path = child, json_path

    def shows(self, text: str) -> None:
        """Wait until the progress has this text."""
        until(lambda: text in self.child.stderr(), f"{text!r}", ENDS_S)

    def interrupt(self) -> None:
        self.child.send_signal(signal.SIGINT)

    def end(self) -> Run:
        """Wait for the end."""
        code = self.child.wait(ENDS_S)
        found = results.read(self._json_path) if self._json_path.exists() else None
        return Run(code, self.child.stdout(), self.child.stderr(), found)


@contextmanager
def loading(directory: Path, bootstrap: str, *options: str | Path, mode: str = "run") -> Iterator[Load]:
    """Start `broker-load run` (or another mode); it is killed at the end if it still runs."""
    json_path = directory / "result.json"
    json_path.unlink(missing_ok=True)
    command = [*COMMAND, mode, "--bootstrap", bootstrap, *map(str, options), "--json-file", str(json_path)]
    # The report is as wide as a terminal.
    child = Child(command, directory, "load", env={"COLUMNS": "160", "PYTHONPATH": str(ROOT)})
    try:
        yield Load(child, json_path)
    finally:
        child.kill()


def load(directory: Path, bootstrap: str, *options: str | Path, meanwhile: Callable[[Load], None] | None = None) -> Run:
    """Make a run, and return its result; `meanwhile` is called when it has begun."""
    with loading(directory, bootstrap, *options) as running:
        if meanwhile is not None:
            meanwhile(running)
        return running.end()


def producers(
    directory: Path, topic: str, *, seconds: float = 3, users: int = 20, rate: int = 1000, idempotent: bool = True,
    more: str = "",
) -> Path:  # fmt: skip
    """Write a scenario of producers."""
    path = directory / "scenario.toml"
    text = PRODUCERS.format(topic=topic, seconds=seconds, users=users, rate=rate, idempotent=str(idempotent).lower())
    path.write_text(text + more, encoding="utf-8")
    return path


def children_of(pid: int) -> Sequence[int]:
    """Return the processes that a process started."""
    found = []
    for each in Path("/proc").iterdir():
        if each.name.isdecimal():
            try:
                stat = (each / "stat").read_text(encoding="ascii", errors="replace")
            except OSError:
                continue
            if int(stat.rpartition(")")[2].split()[1]) == pid:
                found.append(int(each.name))
    return sorted(found)


def freeze(pid: int) -> None:
    os.kill(pid, signal.SIGSTOP)


def thaw(pid: int) -> None:
    os.kill(pid, signal.SIGCONT)
