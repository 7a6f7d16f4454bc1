"""Values that are kept while they fit in a bound of bytes, the least recently used ones dropped first."""

from __future__ import annotations

from collections import OrderedDict
from typing import Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")


class Kept(Generic[K, V]):
    """The newest value stays, also if it is larger than the bound."""

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._bytes = 0
        self._found: OrderedDict[K, tuple[V, int]] = OrderedDict()

    def get(self, key: K) -> V | None:
        found = self._found.get(key)
        if found is None:
            return None
        self._found.move_to_end(key)
        return found[0]

    def put(self, key: K, value: V, size_bytes: int) -> None:
        """Keep a value; a value that the key already has stays."""
        if key in self._found:
            return
        self._found[key] = value, size_bytes
        self._bytes += size_bytes
        while self._bytes > self._bytes_max and len(self._found) > 1:
            _, (_, dropped_bytes) = self._found.popitem(last=False)
            self._bytes -= dropped_bytes
