"""A rate limit for log lines of one kind; each line reports how many lines before it were suppressed."""

from __future__ import annotations

import logging

from broker_cy.core.clock import Clock
from broker_cy.core.logs import facts

LOGGER = logging.getLogger("broker_cy.server")

# At most this many lines of one kind in one window; further ones are counted, and the next line reports their number.
LINES_PER_WINDOW = 10
WINDOW_S = 1.0


class RateLimit:
    """Lets LINES_PER_WINDOW events through per WINDOW_S."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.window_start = 0.0
        self.passed = 0
        self.suppressed = 0

    def allow(self, now: float) -> int | None:
        """Return how many events were suppressed before this one; None if this one must be suppressed, too."""
        if now - self.window_start >= WINDOW_S:
            self.window_start, self.passed = now, 0
        if self.passed >= LINES_PER_WINDOW:
            self.suppressed += 1
            return None
        self.passed += 1
        left_out, self.suppressed = self.suppressed, 0
        return left_out

    def log(self, level: int, event: str, *, error: BaseException | None = None, **fields: object) -> None:
        """Log the event, unless the rate limit suppresses it, with the traceback of `error`."""
        left_out = self.allow(self._clock.monotonic())
        if left_out is not None:
            LOGGER.log(level, event, exc_info=error, extra=facts(**fields, left_out=left_out))
