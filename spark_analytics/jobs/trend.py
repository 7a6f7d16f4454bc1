"""A line and the hours of the week, fitted to an hourly series: the computations of `forecast` and its backtest, on
arrays.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Hours = npt.NDArray[np.int64]
Values = npt.NDArray[np.float64]

HOURS_OF_DAY, HOURS_OF_WEEK = 24, 168
# With less than two values of each hour of the week, a mean would be one value, and the line would be undetermined.
WEEKLY_LEAST_HOURS = 2 * HOURS_OF_WEEK
# Three of each hour of the day.
LEAST_HOURS = 3 * HOURS_OF_DAY
# The band holds this share of the values.
BAND = 0.9
_BAND_SIGMAS = 1.645
# An estimate of nearly 1 would make the error of the slope infinite.
_CORRELATION_MOST = 0.95
# The backtest's model is fitted to this part of the time.
_TRAIN_SHARE = 0.75


@dataclass(frozen=True)
class Fit:
    """A trend with a mean for each hour of the period. `slope_error` is the standard error of `slope`, in which errors
    of neighbouring hours are not independent; `sigma` is the standard deviation of one value.
    """

    period: int
    means: Values
    mean_hours: Values
    counts: Values
    slope: float
    slope_error: float
    sigma: float

    def predict(self, hours: Hours) -> tuple[Values, Values, Values]:
        """Return the expected values, and the lower and upper end of their bands."""
        season = hours % self.period
        distance = hours - self.mean_hours[season]
        expected = self.means[season] + self.slope * distance
        variance = self.sigma**2 * (1 + 1 / self.counts[season]) + (self.slope_error * distance) ** 2
        half = _BAND_SIGMAS * np.sqrt(variance)
        return expected, expected - half, expected + half

    def level(self, hour: int) -> float:
        """Return the trend at an hour, without the seasonal effect of this hour of the period."""
        return float(np.mean(self.means + self.slope * (hour - self.mean_hours)))

    @property
    def level_band(self) -> float:
        """Half the width of the band of `level`."""
        return _BAND_SIGMAS * self.sigma

    @property
    def slopes(self) -> tuple[float, float]:
        """The lower and upper end of the band of `slope`."""
        half = _BAND_SIGMAS * self.slope_error
        return self.slope - half, self.slope + half


def fit(hours: Hours, values: Values) -> Fit:
    """Return the least squares fit; hours are numbers since 1970, ascending, each at most once. With less than two
    weeks the period is the day. Raises ValueError with less than three quarters of LEAST_HOURS (a backtest's part), or
    with less than two days of known hours.
    """
    span = int(hours[-1] - hours[0]) + 1 if len(hours) else 0
    if span < LEAST_HOURS * _TRAIN_SHARE or len(hours) < 2 * HOURS_OF_DAY:
        raise ValueError(f"{len(hours)} hours in {span}: at least {2 * HOURS_OF_DAY} are needed")
    period = HOURS_OF_WEEK if span >= WEEKLY_LEAST_HOURS and len(hours) >= 1.5 * HOURS_OF_WEEK else HOURS_OF_DAY
    season = hours % period
    found = np.bincount(season, minlength=period)
    counts = np.maximum(found, 1).astype(np.float64)
    means = np.bincount(season, values, period) / counts
    mean_hours = np.bincount(season, hours.astype(np.float64), period) / counts
    from_mean = hours - mean_hours[season]
    spread = float(from_mean @ from_mean)
    slope = float(from_mean @ (values - means[season])) / spread if spread > 0 else 0.0
    errors = values - means[season] - slope * from_mean
    free = max(1, len(hours) - int(np.count_nonzero(found)) - 1)
    sigma = float(np.sqrt(errors @ errors / free))
    error = sigma / np.sqrt(spread) if spread > 0 else 0.0
    missing = found == 0
    means[missing], mean_hours[missing] = values.mean(), hours.mean()
    return Fit(period, means, mean_hours, counts, slope, float(error * _inflation(errors)), sigma)


def _inflation(errors: Values) -> float:
    """Return the factor by which the slope's error exceeds that of errors that are independent of the previous hour."""
    total = float(errors @ errors)
    if total <= 0:
        return 1.0
    correlation = min(_CORRELATION_MOST, max(0.0, float(errors[1:] @ errors[:-1]) / total))
    return float(np.sqrt((1 + correlation) / (1 - correlation)))


@dataclass(frozen=True)
class Backtest:
    """The quality of the prediction of the last part by a model of the earlier part: the mean of |error| / |value| over
    values that are not 0 (None if all are), and the share of values in the band.
    """

    mape: float | None
    coverage: float
    hours: int


def backtest(hours: Hours, values: Values, least: float = -np.inf) -> Backtest | None:
    """Return the backtest of a series; None if its earlier part is too short to fit. No prediction is below `least`."""
    if not len(hours):
        return None
    until = hours[0] + int(_TRAIN_SHARE * (hours[-1] - hours[0] + 1))
    train = hours < until
    try:
        model = fit(hours[train], values[train])
    except ValueError:
        return None
    expected, low, high = (np.maximum(each, least) for each in model.predict(hours[~train]))
    actual = values[~train]
    if not len(actual):
        return None
    known = actual != 0
    mape = float(np.mean(np.abs(actual[known] - expected[known]) / np.abs(actual[known]))) if known.any() else None
    # The band of a perfectly linear series has no width, and its values differ from it only in the last bits.
    slack = 1e-9 * np.abs(actual)
    return Backtest(mape, float(np.mean((actual >= low - slack) & (actual <= high + slack))), len(actual))
