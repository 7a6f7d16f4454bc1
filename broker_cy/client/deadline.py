"""The deadline of a call, and how long to wait before it is retried."""

from __future__ import annotations

import asyncio

from broker_cy.core.randomness import MACHINE_RANDOMNESS, Randomness

# The time limit of a call, unless the cluster file or --timeout has another.
DEFAULT_TIMEOUT_S = 30.0
# Kafka's retry.backoff.ms and retry.backoff.max.ms (KIP-580), with its jitter.
BACKOFF_MIN_S = 0.1
BACKOFF_MAX_S = 1.0
JITTER = 0.2
INT32_MAX = 0x7FFFFFFF


class Deadline:
    """A point in the time of the running loop."""

    __slots__ = ("_randomness", "at", "timeout_s")

    def __init__(self, timeout_s: float, randomness: Randomness = MACHINE_RANDOMNESS) -> None:
        """`randomness` spreads the waits of `back_off`."""
        self._randomness = randomness
        self.timeout_s = timeout_s
        self.at = asyncio.get_running_loop().time() + timeout_s

    @property
    def left_s(self) -> float:
        """Return the remaining seconds; 0 when the deadline has passed."""
        return max(0.0, self.at - asyncio.get_running_loop().time())

    @property
    def left_ms(self) -> int:
        """The value for a request's timeout_ms field; at least 1."""
        return min(INT32_MAX, max(1, int(self.left_s * 1000)))

    async def back_off(self, attempt: int) -> bool:
        """Wait before the next attempt, after `attempt` of them. False, without waiting, if it would start after the
        deadline.
        """
        wait_s = min(BACKOFF_MAX_S, BACKOFF_MIN_S * 2 ** (attempt - 1)) * self._randomness.between(
            1 - JITTER, 1 + JITTER
        )
        if wait_s >= self.left_s:
            return False
        await asyncio.sleep(wait_s)
        return True
