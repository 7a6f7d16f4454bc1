"""The deviation of values from those of other brokers and from usual values: the computations of `nodes`, on arrays."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Values = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]
Numbers = npt.NDArray[np.int64]

# The median absolute deviation of normal values times this is their standard deviation.
SIGMAS_OF_MAD = 1.4826
# One broker cannot be compared; with two it is unknown which one differs.
BROKERS_LEAST = 3
HOURS_OF_WEEK = 168
_MINUTES_OF_WEEK = HOURS_OF_WEEK * 60
# Minutes of an hour that must be known for a week to count as history of this hour.
_MINUTES_LEAST = 20
# With more weeks, the baseline would only follow the seasons later. This is also the limit of memory: 8 weeks of
# minutes as floats.
WEEKS_MOST = 8
# A minute counts for at most this many deviations, so that a single outlier raises no alarm.
CLIP = 4.0
# Per minute; smaller deviations do not count as a change.
SLACK = 1.0
# Values after a longer gap do not continue the ones before it.
GAP_MOST_MINUTES = 30


def row_medians(values: Values) -> tuple[Values, npt.NDArray[np.intp]]:
    """Return the median of the known values (not NaN) of each row, and their number; NaN for a row without one."""
    ordered = np.sort(values, axis=1)
    counts = np.count_nonzero(~np.isnan(values), axis=1)
    rows, last = np.arange(len(values)), np.maximum(counts, 1)
    return (ordered[rows, (last - 1) // 2] + ordered[rows, last // 2]) / 2, counts


def z_scores(values: Values, relative: float, absolute: float) -> Values:
    """Return the robust z-scores of values by minute (row) and broker (column): the distance from the median of the
    brokers in units of 1.4826 x MAD, which is at least `absolute` and `relative` x median. NaN if a broker is not
    known, or fewer than BROKERS_LEAST are.
    """
    medians, counts = row_medians(values)
    distances = values - medians[:, None]
    deviations, _ = row_medians(np.abs(distances))
    spread = np.maximum(np.maximum(SIGMAS_OF_MAD * deviations, relative * np.abs(medians)), absolute)
    scores = distances / spread[:, None]
    scores[counts < BROKERS_LEAST] = np.nan
    return scores


def usual(minutes: Numbers, values: Values, weeks_least: int) -> tuple[Values, Values]:
    """Return the usual value at each minute, and its spread (1.4826 x MAD): the median of the values in the same hour
    of the week, over at most WEEKS_MOST weeks before this one. NaN with fewer than `weeks_least` of them. `minutes` are
    numbers since 1970.
    """
    expected, spread = np.full(len(values), np.nan), np.full(len(values), np.nan)
    if not len(values):
        return expected, spread
    week, of_week = np.divmod(minutes, _MINUTES_OF_WEEK)
    first = int(week[0])
    grid = np.full((int(week[-1]) - first + 1, HOURS_OF_WEEK, 60), np.nan)
    grid[week - first, of_week // 60, of_week % 60] = values
    has_hour = np.count_nonzero(~np.isnan(grid), axis=2) >= _MINUTES_LEAST
    for each in range(1, len(grid)):
        before = slice(max(0, each - WEEKS_MOST), each)
        history = grid[before].transpose(1, 0, 2).reshape(HOURS_OF_WEEK, -1)
        middle, _ = row_medians(history)
        deviation, _ = row_medians(np.abs(history - middle[:, None]))
        middle[np.count_nonzero(has_hour[before], axis=0) < weeks_least] = np.nan
        here = week - first == each
        hours = of_week[here] // 60
        expected[here], spread[here] = middle[hours], SIGMAS_OF_MAD * deviation[hours]
    return expected, spread


def cusum(minutes: Numbers, residuals: Values, limit: float) -> Flags:
    """Return which minutes belong to a lasting increase.

    The sum of the residuals above SLACK, never below 0, is a change when it exceeds `limit`. The change began when the
    sum left 0, and ended when the sum was highest, which is known when it has fallen by `limit` or is 0. It stops at
    twice the limit, so that the end of a long change is known as early as that of a short one. NaN keeps the sum; a gap
    of more than GAP_MOST_MINUTES ends it.
    """
    flags = np.zeros(len(residuals), np.bool_)
    steps = np.minimum(residuals, CLIP) - SLACK
    total = highest = 0.0
    start = end = 0
    before: int | None = None
    for index, (minute, step) in enumerate(zip(minutes.tolist(), steps.tolist(), strict=True)):
        if step != step:  # NaN
            continue
        after_gap = before is not None and minute - before > GAP_MOST_MINUTES
        before = minute
        raised = 0.0 if after_gap else min(max(0.0, total + step), 2 * limit)
        if raised <= 0 or highest - raised >= limit:
            if highest > limit:
                flags[start : end + 1] = True
            raised = min(max(0.0, step), 2 * limit)
            start, highest = index, 0.0
        elif total <= 0:
            start = index
        total = raised
        if total >= highest:
            highest, end = total, index
    if highest > limit:
        flags[start : end + 1] = True
    return flags
