"""The order of elements with equal times."""

from __future__ import annotations

import random
from typing import NamedTuple

import pytest

from broker_streams.kernel.heap import TimeHeap


class Item(NamedTuple):
    name: str
    time_ms: int


def popped(heap: TimeHeap[Item]) -> str:
    found = []
    while heap.items:
        found.append(heap.pop().name)
    return "".join(found)


def test_ties_are_broken_as_in_java() -> None:
    """If this fails, records of two topics with one timestamp are processed in another order than in Kafka Streams."""
    heap: TimeHeap[Item] = TimeHeap()
    for name in "abc":
        heap.push(Item(name, 7))
    # java.util.PriorityQueue moves its last element to the top.
    assert popped(heap) == "acb"
    for name in "abcdefg":
        heap.push(Item(name, 7))
    assert popped(heap) == "agfedcb"
    for name, time_ms in zip("abcd", (2, 1, 2, 1), strict=True):
        heap.push(Item(name, time_ms))
    assert popped(heap) == "bdca"


@pytest.mark.parametrize("seed", range(20))
def test_the_lowest_time_comes_first(seed: int) -> None:
    """If this fails, records are processed out of order."""
    chance = random.Random(seed)
    heap: TimeHeap[Item] = TimeHeap()
    waiting: list[int] = []
    for _ in range(200):
        if waiting and chance.random() < 0.4:
            assert heap.pop().time_ms == waiting.pop(0)
        else:
            time_ms = chance.randrange(30)
            waiting = sorted([*waiting, time_ms])
            heap.push(Item("", time_ms))
        first = heap.first()
        assert (None if first is None else first.time_ms) == (waiting[0] if waiting else None)
    heap.clear()
    assert heap.first() is None
