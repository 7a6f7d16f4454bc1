"""The origin of numbers: machine, kernel, interpreter, revision, command, versions."""

import os
import platform
import shlex
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

NO_REVISION = "no git"
RECORDED = ("docs/measurements", "docs/performance.md")


def machine() -> dict[str, str]:
    """Return kernel, processors that this process may use, memory, Python, git revision."""
    memory = Path("/proc/meminfo").read_text().split("\n", 1)[0].split()[1]
    return {
        "kernel": platform.release(),
        "cpu": f"{len(os.sched_getaffinity(0))} x {processor()}",
        "memory": f"{int(memory) * 1024 / 1e9:.1f} GB",
        "python": platform.python_version(),
        "revision": revision(Path(__file__).parents[2]),
    }


def revision(root: Path) -> str:
    """Return the git revision of the source tree at `root`, with `-dirty` if the source was changed after it; files
    written by `broker-bench record` do not count. "no git" if the package is installed, or git is not.
    """
    # The folder of an installed package may be in the work tree of another project.
    if not (root / ".git").exists() or shutil.which("git") is None:
        return NO_REVISION
    found = _git(root, "describe", "--always", "--exclude=*", "--abbrev=12").stdout.strip()
    changed = _git(root, "diff", "--quiet", "HEAD", "--", ".", *(f":(exclude){path}" for path in RECORDED)).returncode
    return f"{found}-dirty" if found and changed else found or NO_REVISION


def _git(root: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["git", "-C", str(root), *arguments], capture_output=True, text=True, check=False)


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
