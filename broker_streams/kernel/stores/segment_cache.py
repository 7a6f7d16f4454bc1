"""Rows of windows and sessions in a cache: their keys begin with the segment of their time."""

from __future__ import annotations

from collections.abc import Callable

from broker_streams.kernel.stores.cache import StoreCache
from broker_streams.kernel.stores.keys import SEGMENT_BYTES, pack_long, unpack_long

CachedRow = tuple[bytes, bytes | None]
# The first and the last key of a segment that belong to a range; None: no last one. A row between them counts as used,
# also one of another key, so they are Kafka's.
Bounds = Callable[[int], "tuple[bytes, bytes | None]"]


def cached_rows(cache: StoreCache, first: int, last: int, bounds: Bounds, reverse: bool) -> list[CachedRow]:
    """Rows of segments `first` to `last` whose key without the segment is within the bounds of the segment.

    Segments without rows cost nothing: the search goes on at the next row.
    """
    rows: list[CachedRow] = []
    at = cache.last_below(pack_long(last + 1)) if reverse else cache.first_from(pack_long(max(0, first)))
    while at is not None:
        segment = unpack_long(at)[0]
        if not first <= segment <= last:
            break
        prefix, after = at[:SEGMENT_BYTES], pack_long(segment + 1)
        low, high = bounds(segment)
        items = cache.items(prefix + low, after if high is None else prefix + high, True, reverse)
        rows += [(key[SEGMENT_BYTES:], value) for key, value in items]
        at = cache.last_below(prefix) if reverse else cache.first_from(after)
    return rows
