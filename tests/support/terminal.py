"""Programs that run in a pseudo-terminal."""

from __future__ import annotations

import os
import pty
import select
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from broker_cy.launch.processes import die_with_parent

TIMEOUT_S = 60.0


@dataclass(frozen=True)
class Shown:
    """The output of a terminal, and the exit code of its program."""

    screen: str
    code: int


def in_terminal(
    argv: Sequence[str | Path],
    *,
    typed: bytes = b"",
    typed_at: Mapping[str, bytes] | None = None,
    interrupt_at: str | None = None,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
) -> Shown:
    """Run a program to its end in a terminal of 80 x 24.

    `typed` is typed at the start, each value of `typed_at` once its key was shown. SIGINT is sent once `interrupt_at`
    was shown. AssertionError if the program does not end in TIMEOUT_S.
    """
    master, slave = pty.openpty()
    waiting = dict(typed_at or {})
    given = {**os.environ, "TERM": "xterm", "COLUMNS": "80", "LINES": "24", **(env or {})}
    process = subprocess.Popen(
        die_with_parent(argv), stdin=slave, stdout=slave, stderr=slave, cwd=cwd, env=given, start_new_session=True
    )
    os.close(slave)
    screen = bytearray()
    # Unlike select, poll takes any descriptor, also one above 1,023.
    readable = select.poll()
    readable.register(master, select.POLLIN | select.POLLHUP)
    deadline = time.monotonic() + TIMEOUT_S
    try:
        if typed:
            os.write(master, typed)
        while True:
            left_s = deadline - time.monotonic()
            if left_s <= 0 or not readable.poll(1000 * left_s):
                raise AssertionError(f"{argv[0]} still runs after {TIMEOUT_S:g} s; the screen:\n{screen.decode()}")
            try:
                data = os.read(master, 65536)
            except OSError:
                # The last process that had the terminal open has ended.
                break
            if not data:
                break
            screen += data
            for text in [text for text in waiting if text.encode() in screen]:
                os.write(master, waiting.pop(text))
            if interrupt_at is not None and interrupt_at.encode() in screen:
                process.send_signal(signal.SIGINT)
                interrupt_at = None
        return Shown(screen.decode(errors="replace"), process.wait(TIMEOUT_S))
    finally:
        os.close(master)
        if process.poll() is None:
            process.kill()
            process.wait()
