"""Where numbers came from: machine, kernel, interpreter, revision, command, versions."""

import os
import platform
import shlex
import subprocess
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any


def machine() -> dict[str, str]:
    """Kernel, processors that this process may use, memory, Python, git revision."""
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
    """The processor's own name."""
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def now() -> str:
    """This moment, as documents have it (ISO 8601, UTC)."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def collect(command: Sequence[str], versions: Mapping[str, str], started: str | None = None) -> dict[str, Any]:
    """The `provenance` of a result document; `command` as it was typed, `versions` by target and library."""
    return {
        **machine(),
        "command": shlex.join(command),
        "started": started or now(),
        "versions": dict(versions),
    }
