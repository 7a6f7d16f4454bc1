"""The order of Java's sets: clients see differences in it."""

from __future__ import annotations

from broker_registry.schema_types.java_order import ordered, union


def test_numbers_are_in_the_order_of_their_buckets() -> None:
    assert union([33, 1, 2], [16, 0]) == [16, 0, 33, 1, 2]
    assert union([5, -1], []) == [-1, 5]


def test_names_are_in_the_order_of_their_hashes() -> None:
    assert union(["Alpha", "Beta"], ["Gamma", "Beta"]) == ["Gamma", "Alpha", "Beta"]


def test_a_set_grows_beyond_three_quarters() -> None:
    assert union(range(0, 64, 16), []) == [0, 16, 32, 48]
    assert union(range(12), [17, 16]) == [*range(12), 16, 17]


def test_names_are_in_the_order_of_javas_sets() -> None:
    """If this fails, messages come in another order than those of Confluent's registry."""
    assert ordered(["zeta", "alpha", "b", "a", "a"]) == ["zeta", "a", "b", "alpha"]
    # As a JVM printed a set of 20 names.
    printed = (10, 12, 11, 14, 13, 0, 16, 1, 15, 2, 18, 3, 17, 4, 5, 19, 6, 7, 8, 9)
    assert ordered(f"f{number}" for number in range(20)) == [f"f{number}" for number in printed]
