"""JavaScript clients: npm packages under tests/e2e/node, installed once, with their own Node.js."""

from __future__ import annotations

import fcntl
import hashlib
import platform
import subprocess
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from broker_cy.launch.processes import run
from tests.support import needs

DIRECTORY = Path(__file__).resolve().parents[1] / "e2e" / "node"
_ARCHITECTURES = {"x86_64": "x64", "aarch64": "arm64"}


@cache
def node() -> Path:
    """The Node.js that the packages include; the first call for a lock file runs `npm ci`, while other workers wait."""
    needs.require(needs.node)
    wanted = hashlib.sha256((DIRECTORY / "package-lock.json").read_bytes()).hexdigest()
    stamp = DIRECTORY / "node_modules" / ".installed"
    with open(DIRECTORY / "package.json") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not stamp.exists() or stamp.read_text() != wanted:
            run(["npm", "ci", "--no-audit", "--no-fund"], cwd=DIRECTORY, timeout_s=280)
            stamp.write_text(wanted)
    machine = platform.machine()
    if machine not in _ARCHITECTURES:
        raise AssertionError(f"no Node.js package for {machine}; there is one for {', '.join(_ARCHITECTURES)}")
    return DIRECTORY / "node_modules" / f"node-linux-{_ARCHITECTURES[machine]}" / "bin" / "node"


def run_script(
    name: str, *arguments: str, stdin: bytes = b"", timeout_s: float = 90.0, env: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[bytes]:
    """Run a script of tests/e2e/node to its end."""
    return run([node(), DIRECTORY / name, *arguments], stdin=stdin, timeout_s=timeout_s, env=env)
