"""The keys of records and their partitions."""

from __future__ import annotations

import itertools
from collections import Counter

import pytest

from broker_cy.client.partitioner import partition_of
from broker_cy.client.payload.keys import KeySource, zipf_cumulative
from broker_cy.client.payload.settings import Keys


def some(keys: Keys, count: int, *, seed: int = 1, user: int = 0) -> list[tuple[bytes | None, int]]:
    cursor = KeySource(keys, seed, 6).cursor(user)
    return [cursor.next() for _ in range(count)]


@pytest.mark.parametrize("keys", [Keys("sequential", 50), Keys("uniform", 50, size=2), Keys("zipf", 50, 1.2, 30)])
def test_keys_are_placed_as_kafka_places_them(keys: Keys) -> None:
    """If this fails, records of a key are in another partition than those of a Java client with the same key."""
    for key, partition in some(keys, 500):
        assert key is not None
        assert len(key) == keys.size
        assert int(key) < 50
        assert partition == partition_of(key, 6)


def test_a_seed_decides_the_keys() -> None:
    """If this fails, a run cannot be repeated with the same load, or all users send the same keys."""
    for keys in (Keys("uniform", 1000), Keys("zipf", 1000)):
        assert some(keys, 100, seed=2, user=3) == some(keys, 100, seed=2, user=3)
        assert some(keys, 100, seed=2) != some(keys, 100, seed=3)
        assert some(keys, 100, user=2) != some(keys, 100, user=3)


def test_without_keys_partitions_come_in_turn() -> None:
    """If this fails, records without keys leave partitions empty."""
    assert some(Keys(), 8, user=4) == [(None, each % 6) for each in range(4, 12)]
    assert {some(Keys(), 1, user=each)[0][1] for each in range(6)} == set(range(6))


def test_sequential_keys_come_in_turn() -> None:
    """If this fails, some keys are never written."""
    found = [key for key, _ in some(Keys("sequential", 3), 5, user=2)]
    assert found == [b"00000002", b"00000000", b"00000001", b"00000002", b"00000000"]


@pytest.mark.parametrize(("s", "count"), [(1.0, 3), (0.5, 100), (2.0, 1000)])
def test_the_shares_of_zipf_are_exact(s: float, count: int) -> None:
    """If this fails, the hot keys of a scenario get another share than Zipf's law gives them."""
    shares = [b - a for a, b in itertools.pairwise([0.0, *zipf_cumulative(s, count)])]
    whole = sum(k**-s for k in range(1, count + 1))
    assert shares == pytest.approx([k**-s / whole for k in range(1, count + 1)], rel=1e-6)
    assert zipf_cumulative(s, count)[-1] == 1.0


def test_drawn_keys_have_their_shares() -> None:
    """If this fails, a hot partition is not hot, or a uniform load is not even. (The seed is fixed.)"""
    zipf = Counter(int(key or b"") for key, _ in some(Keys("zipf", 20, 1.0), 40_000))
    whole = sum(1 / k for k in range(1, 21))
    assert [zipf[at] / 40_000 for at in range(20)] == pytest.approx([1 / k / whole for k in range(1, 21)], abs=0.01)
    uniform = Counter(int(key or b"") for key, _ in some(Keys("uniform", 20), 40_000))
    assert [uniform[at] / 40_000 for at in range(20)] == pytest.approx([0.05] * 20, abs=0.01)
