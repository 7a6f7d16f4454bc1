"""The line that a node prints when it is ready."""

from __future__ import annotations

import os
import shlex
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from broker_cy import __version__
from broker_cy.core.classes import NamedTuple

_ANY_ADDRESS: Final = {"0.0.0.0": "127.0.0.1", "[::]": "[::1]", "::": "[::1]"}


class StartError(Exception):
    """The node cannot start. The message is one line that says what to do."""


class ReadyLine(NamedTuple):
    """How a node reports that it is ready: with `hints` also how to open the console, with `as_json` as JSON."""

    hints: bool = False
    as_json: bool = False

    def print(self, addresses: Sequence[str], metrics: str | None, *, serves_clients: bool = True) -> None:
        """Print the addresses of the listeners, and the URL of metrics, if served."""
        seconds = since_process_start_s()
        console = console_command(addresses[0]) if self.hints and serves_clients else None
        if self.as_json:
            import json

            fields = {"version": __version__, "addresses": list(addresses), "seconds": round(seconds, 2)}
            print(json.dumps({**fields, "metrics": metrics, "console": console}), flush=True)
            return
        also = f", metrics on {metrics}" if metrics is not None else ""
        print(f"broker-cy {__version__} ready on {', '.join(addresses)} in {seconds:.2f} s{also}", flush=True)
        if console is not None:
            print(f"to open the console, run in another terminal: {console}", flush=True)


TEXT_LINE: Final = ReadyLine()


def console_command(address: str) -> str:
    """Return the command line that opens the console: the program beside this interpreter, with a path that works in
    the current directory.
    """
    beside = Path(sys.executable).with_name("broker-tui")
    command = str(beside.relative_to(Path.cwd())) if beside.is_relative_to(Path.cwd()) else str(beside)
    return f"{shlex.quote(command)} --bootstrap {reached_at(address)}"


def reached_at(address: str) -> str:
    """Return the address at which a program on this host reaches a listener."""
    host, _, port = address.rpartition(":")
    return f"{_ANY_ADDRESS.get(host, host)}:{port}"


def since_process_start_s() -> float:
    """Return the seconds since the kernel started this process, from /proc (with a precision of 10 ms)."""
    with open("/proc/self/stat", encoding="ascii") as file:
        started_ticks = int(file.read().rpartition(")")[2].split()[19])
    return time.clock_gettime(time.CLOCK_BOOTTIME) - started_ticks / os.sysconf("SC_CLK_TCK")
