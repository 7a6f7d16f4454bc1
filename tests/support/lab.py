"""Hosts of a lab: containers with systemd, and with their own address and SSH server, made by a script.

The environment variable BROKER_CY_LAB names the script, which runs as root and has the commands `up N`, `ssh HOST CMD`,
`ctl CMD` (on the lab's network, with the address CONTROL), `start`, `kill` (power cut), `freeze`, `thaw`, `unplug`,
`plug` and `destroy`. Hosts are n1, n2, ... with the addresses of `address`; they reach only each other.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from broker_cy.launch.processes import Child
from tests.support import needs

CONTROL = "10.66.0.1"
COMMAND_S = 300.0
ROOT = Path(__file__).resolve().parents[2]
# Copies a folder of wheels to a host, and installs the package with an extra from it.
INSTALL = (
    'tar xf - && python3 -m venv venv && venv/bin/pip install -q --no-index --find-links wheels "broker-cy[{extra}]"'
)


def address(host: str) -> str:
    """Return the address of a host."""
    return f"10.66.0.1{host.removeprefix('n')}"


class Lab:
    """The hosts n1 to n`count` with the package installed."""

    def __init__(self, script: Path, directory: Path, count: int, extra: str) -> None:
        self._script, self._directory = script, directory
        self.hosts = [f"n{number}" for number in range(1, count + 1)]
        self.do("up", str(count))
        wheels = directory / "wheels"
        pip = [
            sys.executable,
            "-m",
            "pip",
            "wheel",
            "-q",
            "--no-build-isolation",
            f"{ROOT}[{extra}]",
            "-w",
            str(wheels),
        ]
        subprocess.run(pip, check=True, timeout=COMMAND_S)
        packed = subprocess.run(
            ["tar", "-C", directory, "-cf", "-", "wheels"], check=True, capture_output=True, timeout=COMMAND_S
        ).stdout
        for host in self.hosts:
            self._run("ssh", host, INSTALL.format(extra=extra), given=packed)

    def _run(self, *words: str, given: bytes | None = None) -> str:
        done = subprocess.run(
            ["bash", self._script, *words], input=given, capture_output=True, timeout=COMMAND_S, check=False
        )
        assert done.returncode == 0, (words, done.stderr.decode())
        return done.stdout.decode()

    def do(self, *words: str) -> str:
        """Run a command of the script."""
        return self._run(*words)

    def start(self, host: str, name: str, command: str) -> Child:
        """Start a command on a host; the local process waits for it."""
        return Child(["bash", str(self._script), "ssh", host, command], self._directory, name)

    def control(self, name: str, command: Sequence[str], **environment: str) -> Child:
        """Start a command of this machine on the lab's network."""
        return Child(["bash", str(self._script), "ctl", *command], self._directory, name, env=environment)

    def pid(self, host: str, words: str) -> int:
        """Return the host's id of the process whose command line has these words."""
        return int(self.do("ssh", host, f"pgrep -of '{words}'"))


@contextmanager
def made_lab(directory: Path, count: int, extra: str) -> Iterator[Lab]:
    """Make a lab, and end it. Without a script, or without root, the test is skipped with the reason."""
    needs.require(needs.lab_script())
    script = os.environ["BROKER_CY_LAB"]
    try:
        yield Lab(Path(script), directory, count, extra)
    finally:
        subprocess.run(["bash", script, "destroy"], check=False, timeout=COMMAND_S)
