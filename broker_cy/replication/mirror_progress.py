"""The progress of a mirror on its leader: the records that it copied since it began to lead, and how far it is behind
its source. Pure: times are arguments, in ms of the monotonic clock.
"""

from __future__ import annotations

from typing import Final

from broker_cy.replica.following import NONE
from broker_cy.replica.mirror import Problem
from broker_cy.replica.throttle import WindowedRate

RATE_WINDOWS: Final = 10
RATE_WINDOW_MS: Final = 1_000


class Progress:
    """`problem` is why the mirror waits; None while it is fetched, or has failed."""

    __slots__ = ("_byte_rate", "_caught_up_ms", "_end", "_high", "_record_rate", "bytes", "problem", "records")

    def __init__(self) -> None:
        self.records = self.bytes = 0
        self.problem: Problem | None = None
        self._record_rate = WindowedRate(RATE_WINDOWS, RATE_WINDOW_MS)
        self._byte_rate = WindowedRate(RATE_WINDOWS, RATE_WINDOW_MS)
        self._end = self._high = NONE
        self._caught_up_ms: int | None = None  # when it last had all records of the source

    def copied(self, records: int, size_bytes: int, now_ms: int) -> None:
        """Records were appended."""
        self.records += records
        self.bytes += size_bytes
        self._record_rate.record(records, now_ms)
        self._byte_rate.record(size_bytes, now_ms)

    def answered(self, end: int, source_high: int, now_ms: int) -> None:
        """The source has answered for the partition, whose log ends at `end` after that."""
        self._end, self._high = end, source_high
        if not self.is_behind:
            self._caught_up_ms = now_ms

    @property
    def is_behind(self) -> bool:
        return self._end < self._high

    def seen(self, answered_ms: int) -> None:
        """The leader of the source has answered then. Its answers leave out partitions without news."""
        if self._caught_up_ms is not None and not self.is_behind:
            self._caught_up_ms = max(self._caught_up_ms, answered_ms)

    def lag_records(self) -> int | None:
        """The offsets of the source that the log did not have at the last answer; None without an answer."""
        return None if self._high == NONE else max(0, self._high - self._end)

    def lag_ms(self, now_ms: int, silence_max_ms: int) -> int | None:
        """The time since the log had all that the source had committed; None if it never had. A source that has no
        news may be silent for `silence_max_ms`.
        """
        if self._caught_up_ms is None:
            return None
        since_ms = max(0, now_ms - self._caught_up_ms)
        return 0 if not self.is_behind and since_ms <= silence_max_ms else since_ms

    def per_s(self, now_ms: int) -> tuple[float, float]:
        """Records and bytes of a second."""
        return self._record_rate.bytes_per_s(now_ms), self._byte_rate.bytes_per_s(now_ms)
