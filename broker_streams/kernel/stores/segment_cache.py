"""Rows of windows and sessions in a cache: their keys begin with the segment of their time."""

from __future__ import annotations

from broker_streams.kernel.stores.cache import StoreCache
from broker_streams.kernel.stores.keys import SEGMENT_BYTES, divide, pack_long, unpack_long


class Prefix:
    """The segment of a time as bytes. Most times have the segment of the time before."""

    __slots__ = ("_bytes", "_interval_ms", "_segment")

    def __init__(self, interval_ms: int) -> None:
        self._interval_ms = interval_ms
        self._segment = 0
        self._bytes = pack_long(0)

    def of(self, time_ms: int) -> bytes:
        segment = divide(time_ms, self._interval_ms)
        if segment != self._segment:
            self._segment = segment
            self._bytes = pack_long(segment)
        return self._bytes


CachedRow = tuple[bytes, bytes | None]


def cached_rows(
    cache: StoreCache, first: int, last: int, low: bytes, high: bytes | None, reverse: bool
) -> list[CachedRow]:
    """Rows of segments `first` to `last` whose key without the segment is from `low` to `high`; None: no bound.

    Segments without rows cost nothing: the search goes on at the next row.
    """
    rows: list[CachedRow] = []
    at = cache.last_below(pack_long(last + 1)) if reverse else cache.first_from(pack_long(max(0, first)))
    while at is not None:
        segment = unpack_long(at)[0]
        if not first <= segment <= last:
            break
        prefix, after = at[:SEGMENT_BYTES], pack_long(segment + 1)
        items = cache.items(prefix + low, after if high is None else prefix + high, True, reverse)
        rows += [(key[SEGMENT_BYTES:], value) for key, value in items]
        at = cache.last_below(prefix) if reverse else cache.first_from(after)
    return rows
