"""The order in which Java's HashSet and HashMap give their keys: Confluent's registry lists differences in it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, TypeVar

_Key = TypeVar("_Key", bound="str | int")
_TABLE_MIN: Final = 16


def ordered(keys: Iterable[_Key]) -> list[_Key]:
    """Return the keys, each once, in the order of a set to which they were added one by one."""
    return _in_table(keys, _TABLE_MIN)


def union(first: Iterable[_Key], second: Iterable[_Key]) -> list[_Key]:
    """Return the keys of two maps, in the order of a set made from the keys of the first, with the second's added."""
    before = ordered(first)
    size = max(int(len(before) / 0.75) + 1, _TABLE_MIN)
    return _in_table([*before, *ordered(second)], size)


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
    data = key.encode("utf-16-be", "surrogatepass")
    for index in range(0, len(data), 2):
        value = (31 * value + data[index] * 256 + data[index + 1]) & 0xFFFFFFFF
    return value


def _spread(value: int) -> int:
    return value ^ (value >> 16)
