"""Faults that are caused in a target while it is measured."""

import contextlib
import os
import re
import signal
import threading
from collections.abc import Iterator
from dataclasses import dataclass

from bench.spec import units

ALLOWED = 'allowed: "freeze 1 s at 3 s"'
_TEXT = re.compile(r"^\s*freeze\s+(.+?)\s+at\s+(.+?)\s*$")


@dataclass(frozen=True)
class Freeze:
    """SIGSTOP at `at_s` of the window, SIGCONT `seconds` later: connections stay open, and no request is answered."""

    seconds: float
    at_s: float

    def __str__(self) -> str:
        return f"frozen for {self.seconds:g} s at {self.at_s:g} s"

    @contextlib.contextmanager
    def put_into(self, pid: int) -> Iterator[None]:
        """Cause the fault in a window that begins on entry. The process never remains frozen."""
        over = threading.Event()

        def freeze() -> None:
            if over.wait(self.at_s):
                return
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGSTOP)
                try:
                    over.wait(self.seconds)
                finally:
                    os.kill(pid, signal.SIGCONT)

        thread = threading.Thread(target=freeze, name="fault")
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()


def parse(text: str) -> Freeze:
    """Parse a text such as "freeze 1 s at 3 s". Raises ValueError."""
    match = _TEXT.match(text)
    if match is None:
        raise ValueError(f"{text!r} is not a fault ({ALLOWED})")
    return Freeze(units.duration(0.01, 600)(match.group(1)), units.duration(0, 86400)(match.group(2)))
