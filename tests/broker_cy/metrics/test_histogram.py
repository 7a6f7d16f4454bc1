"""A quantile that an operator acts on is within a sixteenth of the true one."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker_cy.metrics.histogram import BOUNDS_S, Histogram, Snapshot

LARGEST_NS = 137_000_000_000
nanoseconds = st.one_of(st.integers(0, 2_000), st.integers(0, 10_000_000), st.integers(0, LARGEST_NS))


def filled(values: list[int]) -> Snapshot:
    histogram = Histogram()
    for value in values:
        histogram.observe_ns(value)
    return histogram.snapshot()


@given(st.lists(nanoseconds, min_size=1), st.floats(0, 1))
def test_quantiles_are_close_above(values: list[int], quantile: float) -> None:
    """Compared with the sorted list itself."""
    exact = sorted(values)[max(1, math.ceil(quantile * len(values))) - 1]
    told = filled(values).quantile_ns(quantile)
    assert exact <= told <= max(values)
    assert told <= exact + max(64, exact / 16 + 1)


@given(st.lists(nanoseconds))
def test_sum_count_and_largest_are_exact(values: list[int]) -> None:
    snapshot = filled(values)
    assert (snapshot.count, snapshot.sum_ns, snapshot.max_ns) == (len(values), sum(values), max(values, default=0))


@given(st.lists(nanoseconds))
def test_cumulative_counts_are_exact_at_the_bounds(values: list[int]) -> None:
    """Prometheus' buckets are edges of ours: nothing is counted on the wrong side."""
    told = filled(values).cumulative()
    assert told == [sum(value < round(bound * 1e9) for value in values) for bound in BOUNDS_S]


@given(st.lists(nanoseconds), st.lists(nanoseconds))
def test_difference_is_what_came_between(before: list[int], after: list[int]) -> None:
    histogram = Histogram()
    for value in before:
        histogram.observe_ns(value)
    earlier = histogram.snapshot()
    for value in after:
        histogram.observe_ns(value)
    between = histogram.snapshot() - earlier
    alone = filled(after)
    assert (between.count, between.sum_ns) == (alone.count, alone.sum_ns)
    assert between.cumulative() == alone.cumulative()
    for quantile in (0.5, 0.99, 1.0):
        assert between.quantile_ns(quantile) >= alone.quantile_ns(quantile)
        assert between.quantile_ns(quantile) <= alone.quantile_ns(quantile) * 17 // 16 + 64


def test_a_value_above_the_last_bucket_is_counted() -> None:
    """A request of an hour causes no error."""
    snapshot = filled([3_600_000_000_000])
    assert snapshot.count == 1
    assert snapshot.max_ns == 3_600_000_000_000
    assert snapshot.quantile_ns(1.0) >= 2 * LARGEST_NS // 3


def test_impossible_quantiles_and_bytes_are_refused() -> None:
    with pytest.raises(ValueError, match="from 0 to 1, not 2"):
        Histogram().snapshot().quantile_ns(2)
    with pytest.raises(ValueError, match="not 3"):
        Snapshot(b"abc")
