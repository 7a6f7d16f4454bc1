"""Our broker as a process, and which broker the compatibility tests run against.

BROKER_CY_TEST_TARGET=kafka runs them against Apache Kafka 4.3.1 instead: that is how the tests themselves are checked.
"""

from __future__ import annotations

import os
import re
import signal
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol

from tests.support.kafka_peer import KafkaPeer
from tests.support.processes import Child
from tests.support.wait import until

_ROOT = Path(__file__).resolve().parents[2]
_ADDRESS = re.compile(r"\b127\.0\.0\.1:(\d+)")
READY_TIMEOUT_S = 30.0
# What makes tests quick; everything else is the broker's default.
QUICK = {
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "500",
}


def target_is_kafka() -> bool:
    """Whether the broker under test is Apache Kafka."""
    target = os.environ.get("BROKER_CY_TEST_TARGET", "broker-cy")
    if target not in ("broker-cy", "kafka"):
        raise AssertionError(f"BROKER_CY_TEST_TARGET={target!r}: allowed are broker-cy (the default) and kafka")
    return target == "kafka"


def command() -> list[str]:
    """How to run our command line: the installed command, or the module of an uninstalled tree."""
    installed = Path(sys.executable).parent / "broker-cy"
    return [str(installed)] if installed.exists() else [sys.executable, "-m", "broker_cy.cli"]


class Target(Protocol):
    """What a test may ask of the broker it runs against."""

    target: str
    host: str
    port: int
    data_dir: Path

    @property
    def bootstrap(self) -> str: ...
    @property
    def pid(self) -> int: ...
    def start(self) -> Target: ...
    def stop(self, timeout_s: float = ...) -> int: ...
    def kill(self) -> None: ...
    def restart(self) -> Target: ...
    def close(self) -> None: ...
    def stdout(self) -> str: ...
    def stderr(self) -> str: ...


class BrokerProcess:
    """Our broker. Start with `start()`, end with `stop()` or `kill()`; `restart()` keeps port and data."""

    host = "127.0.0.1"
    target = "broker-cy"

    def __init__(
        self, directory: Path, settings: Mapping[str, str] | None = None, data_dir: Path | None = None
    ) -> None:
        self.directory = directory
        self.data_dir = data_dir or directory / "data"
        self.settings = dict(settings or {})
        self.port = 0  # the broker picks one at the first start; a restart keeps it
        # What stands before the command line: nsenter, prlimit, setpriv with their arguments.
        self.wrapper: Sequence[str] = ()
        self._child: Child | None = None
        self._starts = 0

    @property
    def bootstrap(self) -> str:
        assert self.port, "not started"
        return f"{self.host}:{self.port}"

    @property
    def pid(self) -> int:
        assert self._child is not None
        return self._child.pid

    def stdout(self) -> str:
        return self._child.stdout() if self._child else ""

    def stderr(self) -> str:
        return self._child.stderr() if self._child else ""

    def launch(self) -> Child:
        """The process, whether or not it comes up."""
        argv = [*self.wrapper, *command(), "start"]
        argv += ["--data-dir", str(self.data_dir), "--listener", f"{self.host}:{self.port}"]
        for name, value in self.settings.items():
            argv += ["--set", f"{name}={value}"]
        self._starts += 1
        self._child = Child(argv, self.directory, f"broker-{self._starts}", cwd=_ROOT)
        return self._child

    def start(self) -> BrokerProcess:
        child = self.launch()
        try:
            self.port = until(lambda: self._ready(child), "the ready line", READY_TIMEOUT_S, interval_s=0.005)
        except AssertionError as error:
            child.kill()
            raise AssertionError(f"{error}\nstdout: {child.stdout()}\nstderr: {child.stderr()[-4000:]}") from None
        return self

    @staticmethod
    def _ready(child: Child) -> int:
        if child.returncode is not None:
            raise AssertionError(f"broker-cy ended with {child.returncode} before it was ready")
        line, newline, _ = child.stdout().partition("\n")
        found = _ADDRESS.search(line) if newline else None
        return int(found.group(1)) if found else 0

    def stop(self, timeout_s: float = 10.0) -> int:
        """SIGTERM, and its exit code."""
        assert self._child is not None
        self._child.send_signal(signal.SIGTERM)
        return self._child.wait(timeout_s)

    def kill(self) -> None:
        """SIGKILL, and reap."""
        if self._child is not None:
            self._child.kill()

    def restart(self) -> BrokerProcess:
        """Start again after `stop` or `kill`, on the same port and data."""
        assert self._child is not None
        assert self._child.returncode is not None
        return self.start()

    close = kill


def new_target(
    directory: Path, settings: Mapping[str, str] | None = None, data_dir: Path | None = None
) -> BrokerProcess | KafkaPeer:
    """A broker under test, not yet started, with the settings that make tests quick."""
    kind = KafkaPeer if target_is_kafka() else BrokerProcess
    return kind(directory, {**QUICK, **(settings or {})}, data_dir)
