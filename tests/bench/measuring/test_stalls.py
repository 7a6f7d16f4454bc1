"""Stalls are gaps without new records, and lost or repeated records are counted exactly."""

import pytest

from bench.measuring.stalls import Stall, Took, coverage, longest

S = 1_000_000_000


def took(at_s: float, first: int, last: int, partition: int = 0) -> Took:
    return Took(int(at_s * S), partition, first, last)


def test_the_longest_gap_in_each_span() -> None:
    """The schedule's time between two records is subtracted; a gap over the border counts for both spans, in part."""
    taken = [took(at / 10, at, at) for at in range(100, 150)] + [took(at / 10, at, at) for at in range(170, 200)]
    first, second, none = longest(taken, 1, [(10.0, 15.5), (15.5, 19.9), (11.0, 14.0)], 0.1)
    assert first[0].seconds == pytest.approx(0.5)  # 14.9 to 15.5
    assert first[0].lasting
    assert second[0].seconds == pytest.approx(1.4)  # to 17.0
    assert not second[0].lasting
    assert none[0].seconds == pytest.approx(0.0, abs=1e-6)
    assert not none[0].lasting


def test_what_comes_again_is_nothing_new() -> None:
    """A new owner starts with records that its predecessor consumed but did not commit: the partition is still
    stalled.
    """
    taken = [took(1.0, 0, 9), took(2.0, 5, 9), took(3.0, 10, 10), took(3.9, 11, 11)]
    (found,) = longest(taken, 1, [(1.0, 4.0)], 0.0)
    assert found[0].seconds == pytest.approx(2.0)


def test_members_are_taken_in_the_order_of_time() -> None:
    """Two processes report the records of one partition, each in its own order."""
    taken = [took(3.0, 3, 3), took(1.0, 1, 1), took(2.0, 2, 2)]
    (found,) = longest(taken, 1, [(1.0, 3.0)], 0.0)
    assert found[0].seconds == pytest.approx(1.0)


def test_a_partition_of_which_nothing_came_stood_still_all_the_time() -> None:
    """A partition without records must not look like one that never stalled."""
    (found,) = longest([took(1.0, 0, 0)], 2, [(1.0, 5.0)], 0.5)
    assert found[1] == Stall(3.5, lasting=True)


def test_coverage_counts_to_the_record() -> None:
    """The loss of one record fails the run; repeated records are reported."""
    taken = [took(1, 0, 4), took(2, 3, 6), took(3, 8, 9), took(4, 0, 1, partition=1)]
    assert coverage(taken, {0: 10, 1: 2}) == (1, 2)
    assert coverage(taken, {0: 10, 1: 3, 2: 5}) == (7, 2)
    assert coverage([*taken, took(5, 7, 7)], {0: 10, 1: 2}) == (0, 2)
