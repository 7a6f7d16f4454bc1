"""A private loopback interface for a test, on which the ports that documents name are free."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from broker_cy.launch.processes import Child, run

_TOOLS = ("unshare", "nsenter", "ip")


def why_not() -> str | None:
    """None if a network namespace can be made, else the reason."""
    for tool in _TOOLS:
        if shutil.which(tool) is None:
            return f"there is no {tool}"
    if os.geteuid() != 0:
        return "a network namespace needs root"
    made = run(["unshare", "--net", "ip", "link", "set", "lo", "up"], check=False)
    return None if made.returncode == 0 else f"a network namespace cannot be made here: {made.stderr.decode().strip()}"


class OwnNetwork:
    """A network namespace with only a loopback interface. It exists as long as the child process that holds it."""

    def __init__(self, directory: Path) -> None:
        script = "ip link set lo up && echo up && exec sleep infinity"
        self._holder = Child(["unshare", "--net", "sh", "-c", script], directory, "network")
        self._holder.wait_for_output("up", 30.0)

    @property
    def wrapper(self) -> list[str]:
        """The prefix of the command line of a program that runs in the namespace."""
        return ["nsenter", "-t", str(self._holder.pid), "--net", "--"]

    def close(self) -> None:
        self._holder.kill()
