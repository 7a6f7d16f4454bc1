"""Which offset syncs a flow writes: those of MirrorMaker 2 (OffsetSyncWriter), each with the length of its range. And
how fast it fetches.
"""

from __future__ import annotations

from broker_mirror.formats.offset_syncs import OffsetSync


class RatePacing:
    """Bounds the bytes of a second, as a mean from the first fetch on; a rate of 0 is no bound. A pause gives no room
    for more bytes later.
    """

    def __init__(self, rate: int) -> None:
        self._rate = rate
        self._next_ms = 0.0

    def wait_ms(self, now_ms: int) -> float:
        """Return how long the next fetch waits."""
        return max(0.0, self._next_ms - now_ms)

    def took(self, size_bytes: int, now_ms: int) -> None:
        """Take the size of an answer."""
        if self._rate:
            self._next_ms = max(self._next_ms, now_ms) + size_bytes * 1000 / self._rate


class SyncPacing:
    """The syncs of one partition of the source.

    A sync is written immediately in four cases: it is the first one, the source lacks records before it, the target has
    lost its end, or the target has `lag_max` records after the last sync. Other syncs wait for `due`. The end of a
    range is written with the next range, unless a group would read fewer than `lag_max` records again without it.
    """

    __slots__ = ("_lag_max", "_last", "_partition", "_topic", "_written")

    def __init__(self, topic: str, partition: int, lag_max: int) -> None:
        self._topic = topic
        self._partition = partition
        self._lag_max = lag_max
        # The range that was copied last, and the last sync that was written.
        self._last: OffsetSync | None = None
        self._written: OffsetSync | None = None

    def copied(self, source: int, target: int, count: int = 1) -> list[OffsetSync]:
        """Take a range of copied records, given by its first offsets. Return the syncs to write now, at most two."""
        before = self._last
        follows = before is not None and source == before.source_offset + 1
        continues = before is not None and follows and target == before.target_offset + 1
        length = before.count + count if before is not None and continues else count
        last = OffsetSync(self._topic, self._partition, source + count - 1, target + count - 1, length)
        self._last = last
        is_lost = before is not None and target <= before.target_offset
        is_late = self._written is not None and last.target_offset - self._written.target_offset > self._lag_max
        if follows and not is_lost and not is_late and self._written is not None:
            return []
        # The end of a range that the target has lost is true no longer.
        ends = [] if before is None or continues or is_lost or before == self._written else [before]
        self._written = last
        return [*ends, last]

    def due(self) -> OffsetSync | None:
        """Return the sync that waits; None if there is none. It is asked for when reached offsets are stored."""
        if self._last is None or self._last == self._written:
            return None
        self._written = self._last
        return self._last
