"""Ratios of pairs with an interval, and ratios to the floor.

Runs of A and B alternate, so each ratio is of two consecutive runs. The median of the ratios is reported with a
percentile bootstrap interval (Efron 1979): resample the ratios with replacement, take the median of each resample, and
cut off the tails.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

CONFIDENCE = 0.95
RESAMPLES = 10_000
LEAST_PAIRS = 3  # with fewer there is no interval
MOST_PAIRS = 10_000
CHUNK = 1 << 20  # ratios drawn at a time: bounds the memory to some tens of MB
SEED = 20_110_110  # the same ratios always give the same interval


@dataclass(frozen=True)
class Ratio:
    """Ratios a/b of the pairs, in the order they were taken."""

    ratios: tuple[float, ...]
    median: float
    interval: tuple[float, float] | None
    confidence: float
    note: str | None  # a remark on the interval, or why there is none


def pair_ratio(a: Sequence[float], b: Sequence[float], confidence: float = CONFIDENCE) -> Ratio:
    """Return the ratio of each a to the corresponding b, their median and its interval.

    Raises ValueError if the sides differ in length, are empty, or contain values without a ratio (not finite, b not
    above 0, a below 0).
    """
    if len(a) != len(b) or not 1 <= len(a) <= MOST_PAIRS:
        raise ValueError(f"{len(a)} and {len(b)} values do not form pairs (as many of a as of b, 1 to {MOST_PAIRS})")
    for left, right in zip(a, b, strict=True):
        if not (math.isfinite(left) and math.isfinite(right) and left >= 0 and right > 0):
            raise ValueError(f"{left} / {right} is not a ratio (finite, a at least 0, b above 0)")
    ratios = tuple(left / right for left, right in zip(a, b, strict=True))
    interval = median_interval(ratios, confidence)
    return Ratio(ratios, float(np.median(ratios)), interval, confidence, _note(len(ratios), confidence))


def median_interval(
    values: Sequence[float], confidence: float = CONFIDENCE, resamples: int = RESAMPLES, seed: int = SEED
) -> tuple[float, float] | None:
    """Return the percentile bootstrap interval of the median; None with fewer than LEAST_PAIRS values.

    Raises ValueError for a confidence that is not between 0 and 1.
    """
    if not 0 < confidence < 1:
        raise ValueError(f"confidence {confidence} is not between 0 and 1")
    if len(values) < LEAST_PAIRS:
        return None
    source = np.random.default_rng(seed)
    known = np.asarray(values, dtype=np.float64)
    rows = max(1, CHUNK // len(known))
    medians = np.concatenate([
        np.median(known[source.integers(0, len(known), (min(rows, resamples - done), len(known)))], axis=1)
        for done in range(0, resamples, rows)
    ])  # fmt: skip
    tail = (1 - confidence) / 2 * 100
    low, high = np.percentile(medians, [tail, 100 - tail])
    return float(low), float(high)


def _note(pairs: int, confidence: float) -> str | None:
    """Return the note on the interval: even the range of n values has the true median only with 1 - 2^(1-n)."""
    if pairs < LEAST_PAIRS:
        return f"{pairs} pair{'s' if pairs > 1 else ''}: no interval (at least {LEAST_PAIRS} are needed)"
    reach = 1 - 2.0 ** (1 - pairs)
    if reach < confidence:
        return f"{pairs} pairs: the confidence of the interval cannot exceed {reach:.0%} (6 pairs are needed for 95%)"
    return None
