"""An iteration over a store below a cache."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any


def merged(
    cached: Iterator[tuple[bytes, bytes | None]],
    stored: Iterator[tuple[bytes, bytes]],
    place: Callable[[bytes], Any],
    reverse: bool,
) -> Iterator[tuple[bytes, bytes]]:
    """Rows of both in order; a cached row hides the stored one, and a deleted row hides it too.

    `place` gives the place of a key in the order of both. Backwards, Kafka 4.3.1 forgets a deleted row too early and
    shows the stored one (AbstractMergedSortedCacheStoreIterator); here it stays hidden in both directions.
    """
    store_row = next(stored, None)
    for key, value in cached:
        # Most rows are in the cache alone.
        at: Any = None if store_row is None else place(key)
        while store_row is not None:
            store_at = place(store_row[0])
            if (at <= store_at) if not reverse else (at >= store_at):
                if at == store_at:
                    store_row = next(stored, None)
                break
            yield store_row
            store_row = next(stored, None)
        if value is not None:
            yield key, value
    if store_row is not None:
        yield store_row
        yield from stored
