"""A priority queue that breaks ties as java.util.PriorityQueue does.

Records of two partitions, and punctuations, often have the same time. Their order decides the order of results, so it
follows Java's binary heap: an element moves only past strictly larger ones.
"""

from __future__ import annotations

from typing import Generic, Protocol, TypeVar


class Timed(Protocol):
    @property
    def time_ms(self) -> int: ...


T = TypeVar("T", bound=Timed)


class TimeHeap(Generic[T]):
    """Elements by `time_ms`, which must not change while they are in it."""

    __slots__ = ("items",)

    def __init__(self) -> None:
        # In the order of the heap: the first element has the lowest time.
        self.items: list[T] = []

    def first(self) -> T | None:
        return self.items[0] if self.items else None

    def push(self, item: T) -> None:
        items = self.items
        time_ms = item.time_ms
        at = len(items)
        items.append(item)
        while at > 0:
            above = (at - 1) >> 1
            if items[above].time_ms <= time_ms:
                break
            items[at] = items[above]
            at = above
        items[at] = item

    def pop(self) -> T:
        """Raises IndexError: the heap is empty."""
        items = self.items
        last = items.pop()
        if not items:
            return last
        found = items[0]
        time_ms, count, at = last.time_ms, len(items), 0
        while (below := 2 * at + 1) < count:
            if below + 1 < count and items[below + 1].time_ms < items[below].time_ms:
                below += 1
            if time_ms <= items[below].time_ms:
                break
            items[at] = items[below]
            at = below
        items[at] = last
        return found

    def clear(self) -> None:
        self.items.clear()
