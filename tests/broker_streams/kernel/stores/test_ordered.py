"""Ordered keys beside a list that is sorted each time."""

from __future__ import annotations

import random
from typing import Any

import pytest

from broker_streams.kernel.stores.ordered import OrderedKeys, OrderedMap


@pytest.mark.parametrize("seed", range(4))
def test_keys_are_those_of_a_sorted_list(seed: int) -> None:
    """If this fails, an iteration misses rows, or shows them in another order than Kafka's."""
    draw = random.Random(seed)
    keys, twin = OrderedKeys(chunk_keys=4, few=6), set[bytes]()
    for step in range(3000):
        key = draw.randbytes(draw.randrange(1, 3))
        if key in twin and draw.random() < (0.9 if step % 1000 > 700 else 0.4):
            twin.remove(key)
            keys.remove(key)
        elif key not in twin:
            twin.add(key)
            keys.add(key)
        if draw.random() < 0.2:
            low = draw.choice([None, draw.randbytes(draw.randrange(3))])
            high = draw.choice([None, draw.randbytes(draw.randrange(3))])
            with_high, reverse = draw.random() < 0.5, draw.random() < 0.5
            expected = [
                key
                for key in sorted(twin, reverse=reverse)
                if (low is None or low <= key) and (high is None or key < high or (with_high and key == high))
            ]
            assert keys.between(low, high, with_high, reverse) == expected
        assert len(keys) == len(twin)
    keys.clear()
    keys.add(b"a")
    assert list(keys) == [b"a"]


def test_other_keys_than_bytes_are_refused() -> None:
    """If this fails, a serde of a user that returns other bytes ends the process."""
    keys = OrderedKeys()
    other: Any = memoryview(b"a")
    keys.add(b"b")
    keys.add(other)
    with pytest.raises(TypeError):
        keys.between()


def test_an_iteration_shows_the_rows_of_its_beginning() -> None:
    """If this fails, a processor that deletes rows while it iterates misses other rows."""
    rows = OrderedMap()
    for key in (b"b", b"a", b"c"):
        rows.put(key, key)
    seen = []
    for key, value in rows.items():
        seen.append((key, value))
        for other in (b"a", b"b", b"c"):
            rows.put(other, None)
    assert seen == [(b"a", b"a"), (b"b", b"b"), (b"c", b"c")]
    assert len(rows) == 0
