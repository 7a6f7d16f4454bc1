"""Whether a shard stands still, judged by the ticks of its loop and by the kernel's state of its threads. Pure.

A shard counts a tick each 100 ms in memory that it shares with the parent, and the parent checks each LOOK_MS. If the
count stays the same for PROBE_MS, the parent asks the kernel. The answer decides how long the shard may continue so:

    stopped    by a signal (SIGSTOP): it will not run by itself             STOPPED_MS
    asleep     since PROBE_MS all threads have waited, without any CPU: a
               lock that no thread will release                             ASLEEP_MS
    busy       it computes, waits for a CPU or for a disk, or a debugger
               holds it: a long turn of the loop, not a death               `busy_ms`, broker.session.timeout.ms

The last bound is the session of a broker: when it has ended, the controller has moved the partitions of the shard
anyway, and only closed connections tell clients so. The first two are short, so that the next acknowledgement comes
within 1.2 s.

Time in which the parent itself stood still does not count: each check adds LOOK_LATE_MS at most.
"""

from __future__ import annotations

from typing import Final

from broker_cy.core.classes import NamedTuple

LOOK_MS: Final = 100
LOOK_LATE_MS: Final = 2 * LOOK_MS
PROBE_MS: Final = 300
STOPPED_MS: Final = 500
ASLEEP_MS: Final = 800

STOPPED: Final = "a signal has stopped it"
ASLEEP: Final = "its event loop is stuck: all threads sleep"
BUSY: Final = "its event loop was busy for longer than broker.session.timeout.ms"


class Threads(NamedTuple):
    """The state of a process in /proc: the states of its threads (letters, as in proc(5)), and their CPU time so far,
    in clock ticks.
    """

    states: str
    cpu_ticks: int


class Stillness:
    """The stillness of one process."""

    __slots__ = ("_asleep_from_ms", "_busy_ms", "_cpu_ticks", "_looked_ms", "_still_ms", "_stopped_ms", "_ticks")

    def __init__(self, busy_ms: int) -> None:
        self._busy_ms = max(busy_ms, ASLEEP_MS)
        self._ticks = -1
        self._looked_ms = -1
        self._still_ms = 0
        self._stopped_ms = 0
        self._cpu_ticks = -1  # when all threads were asleep for the first time, -1 if they are not
        self._asleep_from_ms = 0

    def look(self, now_ms: int, ticks: int) -> bool:
        """Note the count of ticks; returns whether `judge` is due."""
        passed_ms = min(now_ms - self._looked_ms, LOOK_LATE_MS) if self._looked_ms >= 0 else 0
        self._looked_ms = now_ms
        if ticks != self._ticks:
            self._ticks = ticks
            self._still_ms = self._stopped_ms = 0
            self._cpu_ticks = -1
            return False
        self._still_ms += passed_ms
        return self._still_ms >= PROBE_MS

    def judge(self, threads: Threads, *, ticks: bool) -> str | None:
        """Why the process is to be killed; None if it may go on. `ticks`: it should count ticks, because it serves."""
        if threads.states and set(threads.states) == {"T"}:
            # It has not ticked since before that; one that does not serve yet may have been busy until now.
            return STOPPED if (self._still_ms if ticks else self._since_stopped()) >= STOPPED_MS else None
        self._stopped_ms = 0
        if not ticks:
            return None
        if not set(threads.states) <= {"S", "I"}:
            self._cpu_ticks = -1
        elif threads.cpu_ticks != self._cpu_ticks:
            self._cpu_ticks, self._asleep_from_ms = threads.cpu_ticks, self._still_ms
        elif self._still_ms >= self._asleep_from_ms + ASLEEP_MS - PROBE_MS:
            return ASLEEP
        return BUSY if self._still_ms >= self._busy_ms else None

    def _since_stopped(self) -> int:
        self._stopped_ms += LOOK_MS
        return self._stopped_ms
