"""A wrong percentile would make every latency we publish wrong."""

import math
import random

import pytest

from bench.measuring.histogram import Histogram

PRECISION = 1 / 128


def filled(values: list[int]) -> Histogram:
    histogram = Histogram()
    for value in values:
        histogram.add(value)
    return histogram


@pytest.mark.parametrize("percent", [0.1, 50, 90, 99, 99.9, 100])
def test_percentile_is_the_value_of_its_rank_within_the_stated_precision(percent: float) -> None:
    """Without it p99 means nothing: the value of rank ceil(count * percent), at most 1/128 above the recorded value."""
    source = random.Random(7)
    values = sorted(int(source.lognormvariate(12, 2)) for _ in range(10_007))
    exact = values[math.ceil(len(values) * percent / 100) - 1]
    assert exact <= filled(values).percentile(percent) <= exact * (1 + PRECISION) + 1


def test_small_values_are_exact() -> None:
    """Below 128 every value has its own bucket."""
    histogram = filled(list(range(100)))
    assert [histogram.percentile(p) for p in (1, 50, 100)] == [0, 49, 99]


def test_extremes_are_kept() -> None:
    """A stall of minutes must not be clamped into the last bucket."""
    histogram = filled([0, 2**62, 2**63 - 1])
    assert histogram.percentile(100) == histogram.highest == 2**63 - 1
    assert 2**62 <= histogram.percentile(60) <= 2**62 * (1 + PRECISION)


def test_negative_values_are_counted_apart() -> None:
    """A clock error must be visible, and must not improve the median."""
    histogram = filled([-5, 10])
    assert (histogram.count, histogram.negative, histogram.percentile(1)) == (1, 1, 10)


def test_merge_equals_recording_everything_in_one() -> None:
    """Percentiles over several processes come from merged counts, never from averaged percentiles."""
    source = random.Random(3)
    left, right = ([source.randrange(1 << 40) for _ in range(500)] for _ in range(2))
    merged = filled(left)
    merged.merge(filled(right))
    whole = filled(left + right)
    assert [merged.percentile(p) for p in range(1, 101)] == [whole.percentile(p) for p in range(1, 101)]
    assert (merged.count, merged.highest) == (1000, whole.highest)


@pytest.mark.parametrize("percent", [0, -1, 100.1])
def test_percent_out_of_range_is_refused(percent: float) -> None:
    with pytest.raises(ValueError, match=str(percent)):
        filled([1]).percentile(percent)


def test_empty_histogram_has_no_percentile() -> None:
    """A run without samples must fail, not print 0 ms."""
    with pytest.raises(ValueError, match="empty"):
        Histogram().percentile(50)
