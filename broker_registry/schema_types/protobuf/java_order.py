"""The order in which Java's HashSet returns names and numbers: differences are listed in it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

_Key = TypeVar("_Key", bound="str | int")


def union(first: Iterable[_Key], second: Iterable[_Key]) -> list[_Key]:
    """Return the keys of two maps, in the order of a set made from the keys of the first, with the second's added."""
    ordered = _in_table(first, 16)
    size = max(int(len(ordered) / 0.75) + 1, 16)
    return _in_table([*ordered, *_in_table(second, 16)], size)


def _in_table(keys: Iterable[_Key], size: int) -> list[_Key]:
    """Return keys in the order of the buckets of a table, which grows while it is three quarters full."""
    unique = list(dict.fromkeys(keys))
    size = 1 << (size - 1).bit_length()
    while len(unique) > size * 3 // 4:
        size *= 2
    # The sort keeps the order within a bucket.
    return sorted(unique, key=lambda each: _spread(_hash(each)) & (size - 1))


def _hash(key: str | int) -> int:
    if isinstance(key, int):
        return key & 0xFFFFFFFF
    value = 0
    for unit in key:
        value = (31 * value + ord(unit)) & 0xFFFFFFFF
    return value


def _spread(value: int) -> int:
    return value ^ (value >> 16)
