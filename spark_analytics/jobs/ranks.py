"""Quantiles of collected values, by the nearest rank: a quantile is a value that was measured, never one between
two.
"""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F


def quantile(values: Column, count: Column, share: float) -> Column:
    """Return the smallest value that at least `share` of `count` values do not exceed; null if `count` is 0.

    `values` is an array of the largest values in ascending order: missing ones count as 0, so that idle samples need
    not be collected. Raises ValueError unless 0 < share <= 1.
    """
    if not 0 < share <= 1:
        raise ValueError(f"a quantile at {share:g}: it must be above 0 and at most 1")
    # Rounded first, because 0.07 * 100 is a little more than 7 as a float.
    rank = F.ceil(F.round(count * F.lit(share), 6)).cast("int")
    place = rank - (count.cast("int") - F.size(values))
    return F.when(count > 0, F.when(place < 1, F.lit(0.0)).otherwise(F.element_at(values, F.greatest(place, F.lit(1)))))
