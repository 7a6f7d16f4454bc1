"""Keys in the order of their unsigned bytes, and a map of them: the memory below all stores.

A new key waits in a list until an iteration needs the order, because most stores are written far more often than they
are iterated. Ordered keys lie in chunks, so a key in the middle moves few others.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final

# Keys of a chunk; a chunk of twice as many is split.
CHUNK: Final = 512
# This many waiting keys are inserted one by one; more of them are sorted together with a large part of all keys.
FEW: Final = 64


class OrderedKeys:
    """A set of keys. The caller adds a key that is absent, and removes a key that is present."""

    __slots__ = ("_chunks", "_count", "_lasts", "_new", "add")

    def __init__(self) -> None:
        self._chunks: list[list[bytes]] = []
        self._lasts: list[bytes] = []
        self._count = 0
        self._new: list[bytes] = []
        # Adds a key: the append of the waiting list, without a call in between.
        self.add: Callable[[bytes], None] = self._new.append

    def add_all(self, keys: Iterable[bytes]) -> None:
        """Add keys that are absent."""
        self._new.extend(keys)

    def clear(self) -> None:
        self._chunks.clear()
        self._lasts.clear()
        self._new.clear()
        self._count = 0

    def _order(self) -> None:
        """Take the waiting keys into the chunks."""
        new = self._new
        if len(new) > FEW and len(new) * 8 > self._count:
            keys = sorted([key for chunk in self._chunks for key in chunk] + new)
            self._chunks = [keys[at : at + CHUNK] for at in range(0, len(keys), CHUNK)]
            self._lasts = [chunk[-1] for chunk in self._chunks]
        else:
            for key in new:
                self._insert(key)
        self._count += len(new)
        new.clear()

    def _insert(self, key: bytes) -> None:
        lasts = self._lasts
        if not lasts:
            self._chunks.append([key])
            lasts.append(key)
            return
        at = bisect_left(lasts, key)
        if at == len(lasts):
            at -= 1
            lasts[at] = key
            chunk = self._chunks[at]
            chunk.append(key)
        else:
            chunk = self._chunks[at]
            insort(chunk, key)
        if len(chunk) > 2 * CHUNK:
            self._chunks.insert(at + 1, chunk[CHUNK:])
            del chunk[CHUNK:]
            lasts.insert(at, chunk[-1])

    def remove(self, key: bytes) -> None:
        if self._new:
            self._order()
        at = bisect_left(self._lasts, key)
        chunk = self._chunks[at]
        del chunk[bisect_left(chunk, key)]
        self._count -= 1
        if not chunk:
            del self._chunks[at]
            del self._lasts[at]
        elif self._lasts[at] == key:
            self._lasts[at] = chunk[-1]

    def between(
        self, low: bytes | None = None, high: bytes | None = None, with_high: bool = True, reverse: bool = False
    ) -> list[bytes]:
        """A copy of the keys from `low` to `high` in their order; None: no bound."""
        if self._new:
            self._order()
        lasts = self._lasts
        first = bisect_left(lasts, low) if low is not None else 0
        if high is None:
            last = len(lasts) - 1
        else:
            last = min(bisect_left(lasts, high), len(lasts) - 1)
        keys: list[bytes] = []
        for at in range(first, last + 1):
            chunk = self._chunks[at]
            begin = bisect_left(chunk, low) if low is not None and at == first else 0
            end = len(chunk)
            if high is not None and at == last:
                end = (bisect_right if with_high else bisect_left)(chunk, high)
            keys += chunk[begin:end] if begin or end < len(chunk) else chunk
        if reverse:
            keys.reverse()
        return keys

    def first_from(self, low: bytes) -> bytes | None:
        """The first key that is not below `low`."""
        if self._new:
            self._order()
        at = bisect_left(self._lasts, low)
        if at == len(self._lasts):
            return None
        chunk = self._chunks[at]
        return chunk[bisect_left(chunk, low)]

    def last_below(self, high: bytes) -> bytes | None:
        """The last key below `high`."""
        if self._new:
            self._order()
        at = bisect_left(self._lasts, high)
        if at < len(self._lasts):
            chunk = self._chunks[at]
            index = bisect_left(chunk, high)
            if index:
                return chunk[index - 1]
        return self._lasts[at - 1] if at else None

    def __iter__(self) -> Iterator[bytes]:
        return iter(self.between())

    def __len__(self) -> int:
        return self._count + len(self._new)


class OrderedMap:
    """Values by keys. An iteration is a snapshot: it shows what the map held when it began."""

    __slots__ = ("_keys", "_values", "get")

    def __init__(self) -> None:
        self._values: dict[bytes, bytes] = {}
        self._keys = OrderedKeys()
        # The value of a key, or None: the lookup of the dictionary, without a call in between.
        self.get: Callable[[bytes], bytes | None] = self._values.get

    def put(self, key: bytes, value: bytes | None) -> None:
        """Set the value of a key; None removes the key."""
        values = self._values
        if value is not None:
            if key not in values:
                self._keys.add(key)
            values[key] = value
        elif key in values:
            del values[key]
            self._keys.remove(key)

    def put_all(self, rows: Mapping[bytes, bytes | None]) -> None:
        for key, value in rows.items():
            self.put(key, value)

    def items(
        self, low: bytes | None = None, high: bytes | None = None, with_high: bool = True, reverse: bool = False
    ) -> Iterator[tuple[bytes, bytes]]:
        """Pairs from `low` to `high`; None: no bound."""
        keys = self._keys.between(low, high, with_high, reverse)
        return iter(list(zip(keys, map(self._values.__getitem__, keys), strict=True)))

    def clear(self) -> None:
        self._values.clear()
        self._keys.clear()

    def __len__(self) -> int:
        return len(self._values)

    def estimate(self) -> int:
        return len(self._values)
