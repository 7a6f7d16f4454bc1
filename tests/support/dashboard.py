"""`broker-dash` as a process, at a free port."""

from __future__ import annotations

import os
import re
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

START_S = 60.0
STOP_S = 30.0
_READY = re.compile(rb"broker-dash: (https?://\S+)")


@contextmanager
def running_dashboard(
    options: Sequence[str],
    *,
    command: Sequence[str | Path] = (sys.executable, "-m", "dashboard"),
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
) -> Iterator[str]:
    """Run the dashboard with these options, and yield its address. It must end with code 0 and without a traceback."""
    process = subprocess.Popen(
        [*command, "--listen", "127.0.0.1:0", *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env={**os.environ, **(env or {})},
        cwd=cwd,
        start_new_session=True,
    )
    assert process.stdout is not None
    said = b""
    try:
        deadline_s = time.monotonic() + START_S
        with selectors.DefaultSelector() as selector:
            selector.register(process.stdout, selectors.EVENT_READ)
            while (match := _READY.search(said)) is None:
                assert selector.select(max(0.0, deadline_s - time.monotonic())), f"not ready: {said.decode()}"
                data = os.read(process.stdout.fileno(), 65_536)
                assert data, f"the dashboard ended: {said.decode()}"
                said += data
        yield match[1].decode()
        process.send_signal(signal.SIGINT)
        said += process.communicate(timeout=STOP_S)[0]
        assert b"Traceback" not in said, said.decode()
        assert process.returncode == 0, said.decode()
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate()
