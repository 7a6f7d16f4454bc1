"""An iteration over a store below a cache."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeVar

C = TypeVar("C")
S = TypeVar("S")


def merged(
    cached: Iterator[tuple[C, bytes | None]],
    stored: Iterator[tuple[S, bytes]],
    compare: Callable[[C, S], int],
    from_cache: Callable[[C], S],
    reverse: bool,
) -> Iterator[tuple[S, bytes]]:
    """Rows of both in order; a cached row hides the stored one, and a deleted row hides it too.

    `compare` gives a negative number, 0 or a positive one for a cached key below, at or above a stored one. Where
    the two sides have different orders (cached windows above a store in memory), rows come in the order that this
    algorithm of Kafka gives them (AbstractMergedSortedCacheStoreIterator). Backwards, Kafka 4.3.1 forgets a deleted
    row too early and shows the stored one; here it stays hidden in both directions.
    """
    cache_row = next(cached, None)
    store_row = next(stored, None)
    sign = -1 if reverse else 1
    while cache_row is not None:
        key, value = cache_row
        order = -1 if store_row is None else sign * compare(key, store_row[0])
        if order > 0 and store_row is not None:
            yield store_row
            store_row = next(stored, None)
            continue
        if order == 0:
            store_row = next(stored, None)
        if value is not None:
            yield from_cache(key), value
        cache_row = next(cached, None)
    if store_row is not None:
        yield store_row
        yield from stored
