"""A process with all its descendants, such as a Python program, its JVM and the JVM's Python workers."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from types import TracebackType

from bench.measuring.proc import PAGE_BYTES, TICK_S

INTERVAL_S = 0.1
# Fields of /proc/PID/stat after the name: parent, user and system time, start, resident pages.
_PARENT, _USER, _SYSTEM, _START, _RESIDENT = 1, 11, 12, 19, 21


def _stats() -> dict[int, list[str]]:
    found: dict[int, list[str]] = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                found[int(name)] = Path(f"/proc/{name}/stat").read_text().rpartition(")")[2].split()
            except OSError:  # it has ended meanwhile
                continue
    return found


class TreeWatch:
    """Samples a process and its descendants every INTERVAL_S inside a `with` block.

    Afterwards `cpu_s` is the CPU time of all of them, without what a process used after its last sample, and
    `peak_bytes` the highest sum of their resident memory: shared memory is counted for each of them.
    """

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.peak_bytes = 0
        # The key of a process: its id and its start.
        self._cpu_s: dict[tuple[int, str], float] = {}
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, name=f"tree-{pid}", daemon=True)

    @property
    def cpu_s(self) -> float:
        return sum(self._cpu_s.values())

    def __enter__(self) -> TreeWatch:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        self._thread.join()

    def _watch(self) -> None:
        self.look()
        while not self._over.wait(INTERVAL_S):
            self.look()

    def look(self) -> None:
        """Take a sample."""
        stats = _stats()
        children: dict[int, list[int]] = {}
        for pid, each in stats.items():
            children.setdefault(int(each[_PARENT]), []).append(pid)
        todo, resident = [self.pid], 0
        while todo:
            pid = todo.pop()
            if (fields := stats.get(pid)) is not None:
                resident += int(fields[_RESIDENT]) * PAGE_BYTES
                self._cpu_s[pid, fields[_START]] = (int(fields[_USER]) + int(fields[_SYSTEM])) * TICK_S
            todo += children.get(pid, ())
        self.peak_bytes = max(self.peak_bytes, resident)
