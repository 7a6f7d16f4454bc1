"""Limits on the bytes that replicas copy (KIP-73): a rate for one side of this broker, as the leader that sends or as
the follower that fetches, and the replicas that it applies to.

A pure state machine, without a clock. As in Kafka, all copied bytes of the listed replicas count, but only a replica
that is not in sync waits: a limit below the produce rate must not make in-sync sets smaller.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Final

EVERY: Final = "*"
UNLIMITED: Final = 2**63 - 1


class WindowedRate:
    """Bytes per second over the last `windows` windows of `window_ms` (Kafka's SimpleRate); a window takes at most one
    entry.
    """

    __slots__ = ("_samples", "_total", "_window_ms", "_windows")

    def __init__(self, windows: int, window_ms: int) -> None:
        self._windows = windows
        self._window_ms = window_ms
        self._samples: deque[tuple[int, int]] = deque()  # (when it began, bytes)
        self._total = 0

    def __repr__(self) -> str:
        return f"{self._total} bytes in {list(self._samples)}"

    def record(self, count: int, now_ms: int) -> None:
        self._expire(now_ms)
        self._total += count
        if self._samples and now_ms - self._samples[-1][0] < self._window_ms:
            began_ms, before = self._samples.pop()
            self._samples.append((began_ms, before + count))
        else:
            self._samples.append((now_ms, count))

    def bytes_per_s(self, now_ms: int) -> float:
        self._expire(now_ms)
        if not self._samples:
            return 0.0
        return self._total * 1000 / max(self._window_ms, now_ms - self._samples[0][0])

    def wait_ms(self, bytes_per_s: int, now_ms: int) -> int:
        """The time until the rate is at most `bytes_per_s` if nothing is recorded meanwhile, or until bytes are
        forgotten; 0 if it is not more now.
        """
        if self.bytes_per_s(now_ms) <= bytes_per_s:
            return 0
        oldest_ms = self._samples[0][0]
        forgotten_ms = oldest_ms + self._windows * self._window_ms
        spread_ms = oldest_ms + -(-self._total * 1000 // bytes_per_s) if bytes_per_s else forgotten_ms
        return max(1, min(forgotten_ms, spread_ms) - now_ms)

    def _expire(self, now_ms: int) -> None:
        while self._samples and (
            now_ms - self._samples[0][0] >= self._windows * self._window_ms or len(self._samples) > self._windows
        ):
            self._total -= self._samples.popleft()[1]


class ReplicaThrottle:
    """One side of a broker. Times are those of its monotonic clock."""

    def __init__(self, windows: int, window_ms: int) -> None:
        self._rate = WindowedRate(windows, window_ms)
        self._limit = UNLIMITED
        # By topic: its partitions whose replica here is listed; None for all of them.
        self._listed: dict[str, frozenset[int] | None] = {}

    def __repr__(self) -> str:
        return f"ReplicaThrottle({self._limit} bytes/s for {self._listed}, {self._rate!r})"

    @property
    def is_set(self) -> bool:
        """Whether any replica may have to wait."""
        return self._limit != UNLIMITED and bool(self._listed)

    def limit_to(self, bytes_per_s: int) -> None:
        """UNLIMITED for no limit."""
        self._limit = bytes_per_s

    def list_replicas(self, topic: str, replicas: Sequence[str], broker_id: int) -> None:
        """Take over the list in a topic's setting: `partition:broker` for each replica, or EVERY."""
        if EVERY in replicas:
            self._listed[topic] = None
            return
        found = [each.partition(":") for each in replicas]
        mine = frozenset(int(number) for number, _, broker in found if int(broker) == broker_id)
        if mine:
            self._listed[topic] = mine
        else:
            self._listed.pop(topic, None)

    def lists(self, topic: str, partition: int) -> bool:
        """Whether this broker's replica of the partition is listed: then its copied bytes count."""
        if topic not in self._listed:
            return False
        listed = self._listed[topic]
        return listed is None or partition in listed

    def record(self, count: int, now_ms: int) -> None:
        """A listed replica has copied bytes."""
        self._rate.record(count, now_ms)

    def is_exceeded(self, now_ms: int) -> bool:
        """Whether listed replicas that are not in sync have to wait."""
        return self.is_set and self._rate.bytes_per_s(now_ms) > self._limit

    def wait_ms(self, now_ms: int) -> int:
        """How long they have to wait if nothing is copied meanwhile; 0 if they need not."""
        return self._rate.wait_ms(self._limit, now_ms) if self.is_set else 0

    def holds(self, topic: str, partition: int, now_ms: int, *, is_in_sync: bool) -> bool:
        """Whether this replica has to wait now."""
        return not is_in_sync and self.lists(topic, partition) and self.is_exceeded(now_ms)


class LinkThrottle(ReplicaThrottle):
    """The rate of a link to another cluster, for all mirrors that this broker fetches over it."""

    @property
    def is_set(self) -> bool:
        return self._limit != UNLIMITED

    def lists(self, topic: str, partition: int) -> bool:
        return True
