"""The processes of a node with shards (`broker-cy start --shards N`), which outlive their parent.

As a program it waits until its stdin ends, and then kills the shards of the data directories in its arguments. A
process that starts such nodes has a Guard, so that no shard remains after an unexpected end.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Final

from bench.launch.nodes import free_ports
from broker_cy.launch.processes import ProcessError

STEP: Final = 1000  # between the node ids of the shards of a host
GONE_S: Final = 30.0
RANGES_TRIED: Final = 200
_POLL_S: Final = 0.005
_STARTED: Final = 19  # in /proc/PID/stat, after the name


def free_range(count: int, host: str = "127.0.0.1") -> int:
    """Return the first of `count` ports in a row that were just free on an address of this machine.

    Raises ProcessError.
    """
    for first in free_ports(RANGES_TRIED):
        with suppress(OSError, OverflowError):
            for port in range(first, first + count):
                with socket.socket() as tried:
                    tried.bind((host, port))
            return first
    raise ProcessError(f"no {count} ports in a row were free on {host}")


def start_ticks(pid: int) -> int:
    """Return the start time of a process since the start of the system; 0 if there is no such process."""
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[_STARTED])
    except OSError:
        return 0


def running(data_dir: Path) -> dict[int, int]:
    """Return the process of each shard that runs, by its number."""
    found = {}
    for path in (data_dir / ".shards").glob("shard-*.pid"):
        with suppress(ValueError, OSError):
            pid, started, _ = path.read_text().split()
            if start_ticks(int(pid)) == int(started):
                found[int(path.stem.rpartition("-")[2])] = int(pid)
    return found


def kill(data_dir: Path) -> None:
    """Kill the running shards, and wait until they are gone. Their parent must have ended, or it starts them again."""
    deadline = time.monotonic() + GONE_S
    while (found := running(data_dir)) and time.monotonic() < deadline:
        for pid in found.values():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(_POLL_S)


class Guard:
    """A process that kills the shards of a data directory when this process ends, or at `close`."""

    def __init__(self, data_dir: Path) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "bench.launch.shards", str(data_dir)],
            stdin=subprocess.PIPE,
            start_new_session=True,
            cwd=Path(__file__).parents[2],
        )

    def close(self) -> None:
        self._process.communicate(timeout=2 * GONE_S)


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    sys.stdin.read()
    for argument in sys.argv[1:]:
        kill(Path(argument))
