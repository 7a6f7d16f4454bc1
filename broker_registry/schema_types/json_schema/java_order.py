"""The order in which Java's hash sets give their elements: Confluent's registry names differences in it."""

from __future__ import annotations

from collections.abc import Iterable

_TABLE_MIN = 16


def _hash(text: str) -> int:
    found = 0
    data = text.encode("utf-16-be", "surrogatepass")
    for index in range(0, len(data), 2):
        found = (31 * found + data[index] * 256 + data[index + 1]) & 0xFFFFFFFF
    return found ^ (found >> 16)


def hash_order(names: Iterable[str]) -> list[str]:
    """Return the names, each once, as `java.util.HashSet` iterates over them after they were added in this order."""
    found = list(dict.fromkeys(names))
    size = _TABLE_MIN
    while len(found) > size * 3 // 4:
        size *= 2
    return sorted(found, key=lambda name: _hash(name) & (size - 1))
