"""`broker-dash` as a process, at a free port."""

from __future__ import annotations

import signal
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from bench.launch.dashboard import stop, wait_until_ready
from tests.support.forking import start


@contextmanager
def running_dashboard(
    options: Sequence[str],
    *,
    command: Sequence[str | Path] = (sys.executable, "-m", "dashboard"),
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
) -> Iterator[str]:
    """Run the dashboard with these options, and yield its address. It must end with code 0 and without a traceback."""
    with tempfile.TemporaryDirectory(prefix="dashboard-") as directory:
        child = start([*command, "--listen", "127.0.0.1:0", *options], Path(directory), "dashboard", env=env, cwd=cwd)
        try:
            yield wait_until_ready(child)
            stop(child, signal.SIGINT)
        finally:
            child.kill()
