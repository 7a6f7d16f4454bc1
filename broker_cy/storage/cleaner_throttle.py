"""log.cleaner.io.max.bytes.per.second: what all cleaner threads together read and write."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

# A worker that waits looks this often whether its cleaning was aborted.
STEP_S = 0.05
# Time that was not used is saved up to this much.
BURST_S = 0.1


class Throttle:
    """Shared by worker threads. `bytes_per_s` may be changed at any time."""

    def __init__(
        self,
        bytes_per_s: float,
        monotonic: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.bytes_per_s = bytes_per_s
        self._monotonic = monotonic
        self._sleep = sleep
        # When all that was spent so far is paid for.
        self._paid_s = 0.0
        self._lock = threading.Lock()

    @property
    def is_limited(self) -> bool:
        """Whether there is a limit that a disk could exceed."""
        return self.bytes_per_s < 1e15

    def spend(self, size_bytes: int, check: Callable[[], None]) -> None:
        """Wait until `size_bytes` more are paid for; `check` is called meanwhile, and what it raises ends the wait."""
        if not self.is_limited:
            return
        with self._lock:
            start = max(self._paid_s, self._monotonic() - BURST_S)
            # A rate of 0 is allowed and would stop the cleaner for good: Kafka's waits for ever, too.
            self._paid_s = start + size_bytes / max(self.bytes_per_s, 1e-9)
            until = self._paid_s
        while (left := until - self._monotonic()) > 0:
            self._sleep(min(left, STEP_S))
            check()
