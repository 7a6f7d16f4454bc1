"""A ratio with a wrong interval is worse than a ratio without one."""

import math
import random
import statistics

import pytest

from bench.report import stats


def test_ratios_are_of_runs_that_stood_beside_each_other() -> None:
    """If pairs are mixed up, drift of the machine affects the ratio."""
    ratio = stats.pair_ratio([2.0, 9.0, 4.0], [4.0, 3.0, 4.0])
    assert ratio.ratios == (0.5, 3.0, 1.0)
    assert ratio.median == 1.0


def test_interval_of_three_values_is_known_exactly() -> None:
    """7 of 27 resamples of three have the lowest as median, 13 the middle, 7 the highest: 26 % in each tail."""
    assert stats.median_interval([1.0, 2.0, 3.0], 0.95) == (1.0, 3.0)
    assert stats.median_interval([1.0, 2.0, 3.0], 0.40) == (2.0, 2.0)


def test_interval_of_equal_ratios_has_no_width() -> None:
    assert stats.median_interval([1.5] * 7) == (1.5, 1.5)


def test_interval_is_reproducible_and_holds_the_median() -> None:
    """Reading the same pairs twice must not print two intervals."""
    source = random.Random(11)
    ratios = [source.lognormvariate(0, 0.2) for _ in range(9)]
    first = stats.median_interval(ratios)
    assert first is not None
    assert first == stats.median_interval(ratios)
    assert first[0] <= statistics.median(ratios) <= first[1]


def test_interval_covers_the_true_median_about_as_often_as_it_says() -> None:
    """The 95 % must be true: over 200 experiments of 15 pairs about 190 intervals contain the true median."""
    source = random.Random(5)
    held = 0
    for _ in range(200):
        low, high = stats.median_interval([source.lognormvariate(0, 0.3) for _ in range(15)], resamples=1000) or (1, 1)
        held += low <= 1.0 <= high
    assert 180 <= held <= 199


@pytest.mark.parametrize(
    ("pairs", "note"),
    [
        (1, "1 pair: no interval (at least 3 are needed)"),
        (2, "2 pairs: no interval (at least 3 are needed)"),
        (3, "3 pairs: the confidence of the interval cannot exceed 75% (6 pairs are needed for 95%)"),
        (6, None),
    ],
)
def test_too_few_pairs_are_said(pairs: int, note: str | None) -> None:
    """A reader must not mistake an interval of three runs for a 95 % interval."""
    ratio = stats.pair_ratio([1.0] * pairs, [2.0] * pairs)
    assert ratio.note == note
    assert (ratio.interval is None) == (pairs < 3)


@pytest.mark.parametrize(
    ("a", "b"),
    [([], []), ([1.0], [1.0, 2.0]), ([1.0], [0.0]), ([-1.0], [1.0]), ([math.nan], [1.0]), ([1.0], [math.inf])],
)
def test_what_has_no_ratio_is_refused(a: list[float], b: list[float]) -> None:
    with pytest.raises(ValueError, match=r"pairs|ratio"):
        stats.pair_ratio(a, b)


def test_confidence_out_of_range_is_refused() -> None:
    with pytest.raises(ValueError, match=r"1\.5"):
        stats.median_interval([1.0] * 3, confidence=1.5)
