"""The order in which Java's HashSet and TreeSet hand out their elements, where it shows in a text that must be Kafka's.

A HashSet of strings is ordered by the buckets of their hashes, and within a bucket by the time of the addition. A
TreeSet whose comparator uses values that change after an addition keeps the place that an element got at its addition:
the comparisons that lead to it follow the shape of a red-black tree (java.util.TreeMap).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Generic, TypeVar

T = TypeVar("T")
_CAPACITY = 16
_MASK = 0xFFFFFFFF


def string_hash(text: str) -> int:
    """String.hashCode(): over UTF-16 units, modulo 2^32, as an unsigned number."""
    found = 0
    units = text.encode("utf-16-be")
    for at in range(0, len(units), 2):
        found = (31 * found + (units[at] << 8 | units[at + 1])) & _MASK
    return found


def in_hash_order(names: Iterable[str], *, copied: bool = False) -> list[str]:
    """The iteration order of a HashSet or HashMap to which `names` were added one by one; with `copied`, of one that
    was made from a collection of them, whose capacity is larger.
    """
    unique = list(dict.fromkeys(names))
    capacity = _CAPACITY
    if copied:
        while capacity < int(len(unique) / 0.75) + 1:
            capacity *= 2
    while len(unique) > capacity * 3 // 4:
        capacity *= 2

    return sorted(unique, key=lambda name: _bucket(string_hash(name), capacity))


def _bucket(hashed: int, capacity: int) -> int:
    return (hashed ^ hashed >> 16) & capacity - 1


def bytes_hash(data: bytes) -> int:
    """Arrays.hashCode(byte[]), modulo 2^32, as an unsigned number."""
    found = 1
    for each in data:
        found = (31 * found + (each - 256 if each > 127 else each)) & _MASK
    return found


class BytesOrder:
    """The iteration order of one HashSet of Bytes that is filled and cleared again: it keeps its capacity."""

    def __init__(self) -> None:
        self._capacity = _CAPACITY

    def ordered(self, keys: Collection[bytes]) -> list[bytes]:
        """`keys` are all that were added since the last clear, each once, in the order of their first addition."""
        while len(keys) > self._capacity * 3 // 4:
            self._capacity *= 2
        return sorted(keys, key=lambda key: _bucket(bytes_hash(key), self._capacity))


class _Entry(Generic[T]):
    __slots__ = ("is_red", "left", "parent", "right", "value")

    def __init__(self, value: T, parent: _Entry[T] | None) -> None:
        self.value = value
        self.parent = parent
        self.left: _Entry[T] | None = None
        self.right: _Entry[T] | None = None
        self.is_red = parent is not None


class TreeOrder(Generic[T]):
    """A set in the order that comparisons at the time of each addition gave. `compare` is negative for one < other."""

    def __init__(self, compare: Callable[[T, T], int]) -> None:
        self._compare = compare
        self._root: _Entry[T] | None = None

    def add(self, value: T) -> None:
        at, parent, order = self._root, None, 0
        while at is not None:
            order = self._compare(value, at.value)
            if order == 0:
                return
            parent, at = at, at.left if order < 0 else at.right
        entry = _Entry(value, parent)
        if parent is None:
            self._root = entry
        elif order < 0:
            parent.left = entry
        else:
            parent.right = entry
        self._balance(entry)

    def __iter__(self) -> Iterator[T]:
        waiting: list[_Entry[T]] = []
        at = self._root
        while waiting or at is not None:
            while at is not None:
                waiting.append(at)
                at = at.left
            entry = waiting.pop()
            yield entry.value
            at = entry.right

    def _balance(self, entry: _Entry[T]) -> None:
        """Cormen, Leiserson, Rivest: Introduction to Algorithms, insertion into a red-black tree."""
        while (parent := entry.parent) is not None and parent.is_red and (top := parent.parent) is not None:
            is_left = parent is top.left
            uncle = top.right if is_left else top.left
            if uncle is not None and uncle.is_red:
                parent.is_red = uncle.is_red = False
                top.is_red = True
                entry = top
                continue
            if entry is (parent.right if is_left else parent.left):
                self._rotate(parent, to_left=is_left)
                parent = entry
            parent.is_red, top.is_red = False, True
            self._rotate(top, to_left=not is_left)
            break
        if self._root is not None:
            self._root.is_red = False

    def _rotate(self, entry: _Entry[T], *, to_left: bool) -> None:
        child = entry.right if to_left else entry.left
        assert child is not None
        inner = child.left if to_left else child.right
        if to_left:
            entry.right, child.left = inner, entry
        else:
            entry.left, child.right = inner, entry
        if inner is not None:
            inner.parent = entry
        top = entry.parent
        child.parent, entry.parent = top, child
        if top is None:
            self._root = child
        elif top.left is entry:
            top.left = child
        else:
            top.right = child
