"""The demo's processes: brokers and their clients. They always end with the demo."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

from broker_cy.launch.processes import end_within, start_child

ROOT = Path(__file__).resolve().parents[1]
START_TIMEOUT_S = 60.0
STOP_TIMEOUT_S = 15.0
# Lines of a log that are shown when a process ended unexpectedly.
LOG_LINES = 5
READY = re.compile(r"ready on ([^ ,]+)")
_DASHBOARD_READY = re.compile(r"broker-dash: (https?://\S+)")


class DemoError(Exception):
    """The demo cannot continue; the text says why."""


class Process:
    """A child process whose output goes to a file. Ctrl-C in the terminal does not reach it: the demo stops it."""

    def __init__(self, name: str, arguments: Sequence[str], directory: Path) -> None:
        self.name = name
        self.log_path = directory / f"{name}.log"
        self._arguments = [sys.executable, "-m", *arguments]
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        with open(self.log_path, "ab") as log:
            self._process = start_child(self._arguments, stdout=log, stderr=log, cwd=ROOT)

    @property
    def pid(self) -> int:
        """The id of its newest process; 0 if it was never started."""
        return 0 if self._process is None else self._process.pid

    @property
    def code(self) -> int | None:
        """The exit code, negative for a signal; None while it runs."""
        return None if self._process is None else self._process.poll()

    @property
    def has_ended(self) -> bool:
        return self._process is None or self._process.poll() is not None

    def kill(self) -> None:
        """Send SIGKILL and reap the process."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def ask_to_stop(self) -> None:
        if not self.has_ended:
            assert self._process is not None
            self._process.terminate()

    def wait(self, until_s: float) -> None:
        """Wait until it has ended; kill it if it has not ended by `until_s`."""
        if self._process is not None:
            end_within(self._process, max(0.0, until_s - time.monotonic()))

    def last_words(self) -> str:
        """Return the end of its log."""
        try:
            return "\n".join(self.log_path.read_text(errors="replace").splitlines()[-LOG_LINES:])
        except OSError:
            return ""


class ReadyProcess(Process):
    """A process that prints a line when it is ready."""

    READY: ClassVar[re.Pattern[str]]

    _said = 0

    def start(self) -> None:
        self._said = os.path.getsize(self.log_path) if self.log_path.exists() else 0
        super().start()

    def wait_until_ready(self, stop: threading.Event, until_s: float) -> str:
        """Return the ready line of this start. Raises DemoError if it ends, or takes longer than `until_s`."""
        while not stop.wait(0.02):
            text = self.log_path.read_text(errors="replace")[self._said :]
            for line in text.splitlines():
                if self.READY.search(line) and text.endswith("\n"):
                    return line
            if self.has_ended or time.monotonic() > until_s:
                raise DemoError(f"the {self.name} did not start:\n{self.last_words()}")
        raise DemoError("interrupted")


class Dashboard(ReadyProcess):
    """`broker-dash` of the demo's broker."""

    READY = _DASHBOARD_READY

    def __init__(self, directory: Path, listen: str, bootstrap: str) -> None:
        state = str(directory / "dashboard")
        super().__init__(
            "dashboard", ["dashboard", "--bootstrap", bootstrap, "--listen", listen, "--state", state], directory
        )

    def start_at(self, stop: threading.Event) -> str:
        """Start it and return its address. Raises DemoError."""
        self.start()
        found = self.READY.search(self.wait_until_ready(stop, time.monotonic() + START_TIMEOUT_S))
        assert found is not None
        return found[1]


def stop_all(processes: Sequence[Process]) -> None:
    """Stop all processes at the same time; kill those that do not stop within STOP_TIMEOUT_S."""
    until_s = time.monotonic() + STOP_TIMEOUT_S
    for each in processes:
        each.ask_to_stop()
    for each in processes:
        each.wait(until_s)
