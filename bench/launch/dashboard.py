"""`broker-dash` as a process for one cluster, at a free port of the loopback interface, without login."""

from __future__ import annotations

import re
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Self
from urllib.parse import quote

from broker_cy.launch.processes import Child, ProcessError

READY_TIMEOUT_S = 60.0
STOP_TIMEOUT_S = 30.0
CLUSTER = "bench"
_POLL_S = 0.002
_READY = re.compile(r"broker-dash: (https?://\S+) ")


def dashboard_command() -> list[str]:
    """Return the command for this interpreter's `broker-dash`: the installed one, else the module of a source tree."""
    installed = Path(sys.executable).parent / "broker-dash"
    return [str(installed)] if installed.exists() else [sys.executable, "-m", "dashboard"]


def wait_until_ready(child: Child) -> str:
    """Return the address that a dashboard prints when it serves, with a slash at the end; a child that does not print
    an address is killed. Raises ProcessError.
    """
    until_s = time.perf_counter() + READY_TIMEOUT_S
    try:
        while (found := _READY.search(child.stdout())) is None:
            if child.returncode is not None:
                raise ProcessError(f"broker-dash ended with exit code {child.returncode}: {child.tail()}")
            if time.perf_counter() > until_s:
                raise ProcessError(f"broker-dash was not ready within {READY_TIMEOUT_S:g} s: {child.tail()}")
            time.sleep(_POLL_S)
    except BaseException:
        child.kill()
        raise
    return found[1]


def stop(child: Child, number: signal.Signals) -> None:
    """Send the signal and wait for the end; a process that does not end within STOP_TIMEOUT_S is killed.

    Raises ProcessError if the dashboard reported a traceback or ended with an error.
    """
    child.send_signal(number)
    try:
        code = child.wait(STOP_TIMEOUT_S)
    finally:
        child.kill()
    said = child.stdout() + child.stderr()
    if code != 0 or "Traceback" in said:
        raise ProcessError(f"broker-dash ended with exit code {code}: {said[-4000:]}")


class Dashboard:
    """One dashboard of the cluster at `bootstrap`, which is named CLUSTER there.

    `url` is its address without a slash at the end. `ready_s` is the time from the start of the process until it has
    printed its address. Its outputs, configuration and state are in `directory`. It may be started again.
    """

    def __init__(self, directory: Path, bootstrap: str, options: Sequence[str] = ()) -> None:
        self.directory = directory
        self.bootstrap = bootstrap
        self.options = tuple(options)
        self.url = ""
        self.ready_s = 0.0
        self._child: Child | None = None
        self._starts = 0

    def command(self) -> list[str]:
        """Return the command line of the next start."""
        clusters = self.directory / "clusters.toml"
        state = self.directory / "state"
        return [
            *dashboard_command(), "--listen", "127.0.0.1:0", "--clusters-file", str(clusters), "--state", str(state),
            *self.options,
        ]  # fmt: skip

    @property
    def child(self) -> Child:
        """The process of the last start."""
        assert self._child is not None, "the dashboard was not started"
        return self._child

    @property
    def pid(self) -> int:
        return self.child.pid

    def page(self, name: str) -> str:
        """Return the address of a page of the cluster."""
        return f"{self.url}/c/{quote(CLUSTER, safe='')}/{name}"

    def start(self) -> Self:
        """Start the process and wait until it has printed its address. Raises ProcessError."""
        self.directory.mkdir(parents=True, exist_ok=True)
        (self.directory / "clusters.toml").write_text(f'[clusters.{CLUSTER}]\nbootstrap = "{self.bootstrap}"\n')
        self._starts += 1
        begun_s = time.perf_counter()
        # Files of the user, such as a configuration or accounts, must not affect the measurement.
        env = {"XDG_CONFIG_HOME": str(self.directory / "config")}
        child = self._child = Child(self.command(), self.directory, f"dashboard-{self._starts}", env=env)
        url = wait_until_ready(child)
        self.ready_s = time.perf_counter() - begun_s
        self.url = url.rstrip("/")
        return self

    def stop(self) -> None:
        """Send SIGTERM and wait for the end: see `stop`."""
        stop(self.child, signal.SIGTERM)

    def kill(self) -> None:
        """Send SIGKILL and reap the process; does nothing if it was not started."""
        if self._child is not None:
            self._child.kill()
