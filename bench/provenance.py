"""The origin of numbers: machine, kernel, interpreter, revision, command, versions."""

import os
import platform
import shlex
import subprocess
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any


def machine() -> dict[str, str]:
    """Return kernel, processors that this process may use, memory, Python, git revision."""
    root = Path(__file__).parent.parent
    revision = subprocess.run(
        ["git", "-C", str(root), "describe", "--always", "--dirty", "--abbrev=12"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    memory = Path("/proc/meminfo").read_text().split("\n", 1)[0].split()[1]
    return {
        "kernel": platform.release(),
        "cpu": f"{len(os.sched_getaffinity(0))} x {processor()}",
        "memory": f"{int(memory) * 1024 / 1e9:.1f} GB",
        "python": platform.python_version(),
        "revision": revision.stdout.strip() or "no git",
    }


def processor() -> str:
    """Return the processor's model name."""
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def now() -> str:
    """Return the current time in the format of documents (ISO 8601, UTC)."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def collect(command: Sequence[str], versions: Mapping[str, str], started: str | None = None) -> dict[str, Any]:
    """Return the `provenance` of a result document; `command` as typed, `versions` by target and library."""
    return {
        **machine(),
        "command": shlex.join(command),
        "started": started or now(),
        "versions": dict(versions),
    }
