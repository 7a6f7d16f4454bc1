"""log.cleaner.io.max.bytes.per.second: the limit of the bytes that all cleaner threads together read and write."""

from __future__ import annotations

import threading
from collections.abc import Callable

# A waiting worker checks this often whether its cleaning was aborted, and whether the rate was changed.
STEP_S = 0.05
# Unused time is saved up to this much.
BURST_S = 0.1
# A rate that no disk reaches.
UNLIMITED_BYTES_PER_S = 1e15


class Throttle:
    """Shared by worker threads. The rate may be changed at any time, which also applies to waiting workers."""

    def __init__(
        self,
        bytes_per_s: float,
        monotonic: Callable[[], float],
        sleep: Callable[[float], None],
    ) -> None:
        self._bytes_per_s = bytes_per_s
        self._monotonic = monotonic
        self._sleep = sleep
        # Bytes requested so far, and how many of them the time until `_at_s` has allowed.
        self._spent = 0.0
        self._allowed = 0.0
        self._at_s = monotonic()
        self._lock = threading.Lock()

    @property
    def bytes_per_s(self) -> float:
        """The rate. Zero stops the cleaner until it is raised, as in Kafka."""
        return self._bytes_per_s

    @bytes_per_s.setter
    def bytes_per_s(self, bytes_per_s: float) -> None:
        with self._lock:
            self._settle()
            self._bytes_per_s = bytes_per_s

    @property
    def is_limited(self) -> bool:
        """Whether there is a limit that a disk could exceed."""
        return self._bytes_per_s < UNLIMITED_BYTES_PER_S

    def _settle(self) -> None:
        now_s = self._monotonic()
        if self.is_limited:
            rate = self._bytes_per_s
            self._allowed = min(self._allowed + rate * (now_s - self._at_s), self._spent + rate * BURST_S)
        else:
            self._allowed = self._spent
        self._at_s = now_s

    def spend(self, size_bytes: int, check: Callable[[], None]) -> None:
        """Wait until `size_bytes` more are allowed. Calls `check` during the wait; an exception from it ends that."""
        if not self.is_limited:
            return
        with self._lock:
            self._settle()
            self._spent += size_bytes
            until = self._spent
        while (wait_s := self._wait_s(until)) > 0:
            self._sleep(min(wait_s, STEP_S))
            check()

    def _wait_s(self, until: float) -> float:
        with self._lock:
            self._settle()
            left = until - self._allowed
            # A remainder of less than a byte is a rounding error.
            if left < 1 or not self.is_limited:
                return 0.0
            return left / self._bytes_per_s if self._bytes_per_s > 0 else STEP_S
