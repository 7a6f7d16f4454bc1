"""The changes of partitions that one entity may still request from the controller: a token bucket (KIP-599), as Kafka's
TokenBucket, and the two ways of a request to draw from it.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

from broker_cy.core.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from broker_cy.quotas.limits import Tags

WAIT_MS_MAX: Final = 2**31 - 1


class Bucket:
    """Fills by `limit` tokens a second, up to those of all windows. A draw may leave it below zero: then the next ones
    have to wait until it is at zero again.
    """

    __slots__ = ("_last_ms", "_tokens", "_window_ms", "_windows", "entity", "limit", "waited_ms", "waits")

    def __init__(self, entity: Tags, limit: float, windows: int, window_ms: int, now_ms: int) -> None:
        self.entity = entity
        self.limit = limit
        self._windows = windows
        self._window_ms = window_ms
        self._last_ms = now_ms
        self._tokens = self._full
        # How often requests were throttled, and for how long.
        self.waits = 0
        self.waited_ms = 0

    @property
    def _full(self) -> float:
        return self._windows * (self._window_ms / 1000) * self.limit

    def _at(self, now_ms: int) -> float:
        return min(self._full, self._tokens + self.limit * ((now_ms - self._last_ms) / 1000))

    def tokens(self, now_ms: int) -> float:
        self._tokens = self._at(now_ms)
        self._last_ms = now_ms
        return self._tokens

    def draw(self, count: float, now_ms: int) -> None:
        self._tokens = min(self._full, self.tokens(now_ms) - count)

    def wait_ms(self, now_ms: int) -> int:
        """How long until it is at zero; 0 if it is not below."""
        tokens = self.tokens(now_ms)
        if not tokens < 0:
            return 0
        return min(math.floor(-tokens / self.limit * 1000 + 0.5), WAIT_MS_MAX)

    def is_idle(self, now_ms: int) -> bool:
        """Whether a new one would count the same."""
        return now_ms >= self._last_ms and self._at(now_ms) >= self._full

    def note_wait(self, ms: int) -> None:
        self.waits += 1
        self.waited_ms += ms


class MutationQuota:
    """The draw of one request. A strict request draws nothing from a bucket below zero, and its change is refused.
    Other requests (of clients that do not know the error) make all their changes, and are throttled afterwards.
    """

    __slots__ = ("_at_ms", "_strict", "_wait_ms", "bucket")

    def __init__(self, bucket: Bucket, *, strict: bool) -> None:
        self.bucket = bucket
        self._strict = strict
        self._wait_ms = 0
        self._at_ms = 0

    def take(self, count: int, now_ms: int) -> None:
        """Count partitions that are to be created or deleted. Raises KafkaError if the change is refused."""
        if not self._strict:
            self.bucket.draw(count, now_ms)
        wait_ms = self.bucket.wait_ms(now_ms)
        if wait_ms:
            self._wait_ms, self._at_ms = wait_ms, now_ms
            if self._strict:
                # As in Kafka, without a message: clients show their own.
                raise KafkaError(ErrorCode.THROTTLING_QUOTA_EXCEEDED, "")
        elif self._strict:
            self.bucket.draw(count, now_ms)

    def wait_ms(self, now_ms: int) -> int:
        """How long the client has to wait from now on."""
        return max(0, self._wait_ms - (now_ms - self._at_ms)) if self._wait_ms else 0
