"""The keys of records, and the partitions that Kafka's clients select for them.

The same seed and user give the same keys in every process. A `KeySource` is created once per process and entry of
users.
"""

from __future__ import annotations

import random
from array import array
from bisect import bisect_right
from collections.abc import Callable
from functools import lru_cache
from itertools import accumulate
from typing import Protocol

from broker_cy.client.partitioner import partition_of
from broker_cy.client.payload.settings import Keys

# Keys that are cached with their partitions, because hashing one takes a microsecond.
KEPT_MAX = 1 << 16

Placed = tuple[bytes | None, int]


class KeyCursor(Protocol):
    """An endless sequence of one user's keys."""

    def next(self) -> Placed:
        """Return the next key and its partition."""


class KeySource:
    """The keys of an entry of users for a topic of `partitions`."""

    def __init__(self, keys: Keys, seed: int, partitions: int) -> None:
        self._keys, self._seed, self._partitions = keys, seed, partitions
        # Shares of the keys 0 to n; the last one is exactly 1.
        self._cumulative = zipf_cumulative(keys.s, keys.count) if keys.kind == "zipf" else array("d")
        size = keys.size

        @lru_cache(KEPT_MAX)
        def placed(number: int) -> Placed:
            key = b"%0*d" % (size, number)
            return key, partition_of(key, partitions)

        self._placed = placed

    def cursor(self, user: int) -> KeyCursor:
        """Return the keys of a user, whose number is unique in the run."""
        count = self._keys.count
        if self._keys.kind == "none":
            return _InTurn(lambda partition: (None, partition), user % self._partitions, self._partitions)
        if self._keys.kind == "sequential":
            return _InTurn(self._placed, user % count, count)
        draws = random.Random(f"keys {self._seed} of {user}")
        if self._keys.kind == "uniform":
            return _Drawn(self._placed, lambda: int(draws.random() * count))
        cumulative = self._cumulative
        return _Drawn(self._placed, lambda: bisect_right(cumulative, draws.random()))


def zipf_cumulative(s: float, count: int) -> array[float]:
    """Return, for each n, the share of the keys 0 to n of `count`: that of key k is proportional to (k + 1)^-s."""
    sums = array("d", accumulate((number + 1) ** -s for number in range(count)))
    whole = sums[-1]
    return array("d", (each / whole for each in sums))


class _InTurn:
    __slots__ = ("_at", "_count", "_placed")

    def __init__(self, placed: Callable[[int], Placed], start: int, count: int) -> None:
        self._placed, self._at, self._count = placed, start, count

    def next(self) -> Placed:
        at = self._at
        self._at = at + 1 if at + 1 < self._count else 0
        return self._placed(at)


class _Drawn:
    __slots__ = ("_draw", "_placed")

    def __init__(self, placed: Callable[[int], Placed], draw: Callable[[], int]) -> None:
        self._placed, self._draw = placed, draw

    def next(self) -> Placed:
        return self._placed(self._draw())
