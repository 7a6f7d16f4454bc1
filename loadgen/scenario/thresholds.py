"""The thresholds of a run's figures, and their verdicts."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Protocol

from broker_cy.client import toml_values
from loadgen.scenario.model import Threshold

# Rounded, a value from here on has four digits before the point.
_WHOLE_FROM = 999.5
PERCENTILES = {"p50": 50.0, "p75": 75.0, "p90": 90.0, "p95": 95.0, "p99": 99.0, "p999": 99.9, "p9999": 99.99}


@dataclass(frozen=True)
class Bound:
    """One key of a table of thresholds: the figure that it bounds, and the side."""

    figure: str
    is_least: bool
    help: str
    parse: Callable[[Any], float]


def _most(figure: str, text: str, parse: Callable[[Any], float]) -> tuple[str, Bound]:
    return figure, Bound(figure, False, text, parse)


def _least(figure: str, text: str, parse: Callable[[Any], float]) -> tuple[str, Bound]:
    return f"{figure}_least", Bound(figure, True, text, parse)


_MS = toml_values.number(0, 1e9)
_SHARE = toml_values.number(0, 1)
_COUNT = toml_values.integer(0, 1 << 53)
_RATE = toml_values.number(0, 1e9)

# The bounds of one operation: [thresholds.Produce].
OPERATION_BOUNDS: dict[str, Bound] = dict(
    (
        *(_most(f"{name}_ms", f"percentile {at:g} of the latency, at most", _MS) for name, at in PERCENTILES.items()),
        _most("mean_ms", "mean latency, at most", _MS),
        _most("max_ms", "highest latency, at most", _MS),
        _most("error_share", "share of the operations that failed or were never sent, at most", _SHARE),
        _most("errors", "operations that failed, at most", _COUNT),
        _least("rate", "operations a second that succeeded, at least", _RATE),
        _least("records_rate", "records a second, at least", _RATE),
        _least("requests", "operations that succeeded, at least", _COUNT),
    )
)
# The bounds of the whole run: [thresholds].
RUN_BOUNDS: dict[str, Bound] = dict(
    (
        _most("lateness_p50_ms", "median of the generator's own delay, at most", _MS),
        _most("lateness_p99_ms", "percentile 99 of the generator's own delay, at most", _MS),
        _most("lateness_max_ms", "highest delay of the generator, at most", _MS),
        _most("hub_lag_p99_ms", "percentile 99 of the lag of the workers' event loops, at most", _MS),
        _most("error_share", "share of all operations that failed or were never sent, at most", _SHARE),
        _most("queued_share", "share of the scheduled operations that waited for a free user, at most", _SHARE),
        _most("workers_lost", "workers that were lost, at most", _COUNT),
        _most("lost", "acknowledged records that are missing, at most", _COUNT),
        _most("duplicated", "records that exist more than once, at most", _COUNT),
        _most("reordered", "records that are out of order, at most", _COUNT),
        _most("unknown", "records whose outcome was not reported, at most", _COUNT),
    )
)
# The run's figures that need a verification.
VERIFIED = ("lost", "duplicated", "reordered", "unknown")


class Figures(Protocol):
    """The part of a result that thresholds need."""

    def figure(self, operation: str, name: str) -> float | None:
        """Return a figure of an operation by its name in OPERATION_BOUNDS (without `_least`), or with the operation ""
        one of the run, by its name in RUN_BOUNDS. None if the run has no such figure.
        """


@dataclass(frozen=True)
class Verdict:
    """Whether one threshold was met; `text` says so with the figure."""

    threshold: Threshold
    value: float | None
    is_met: bool
    text: str


def judge(thresholds: Iterable[Threshold], figures: Figures) -> list[Verdict]:
    """Compare the figures with the thresholds. A threshold without a measurement is missed."""
    return [_judged(each, figures.figure(each.operation, each.metric)) for each in thresholds]


def _judged(threshold: Threshold, value: float | None) -> Verdict:
    name = f"{threshold.operation} {threshold.metric}".strip()
    asked = bounds_text(threshold)
    if value is None or math.isnan(value):
        return Verdict(threshold, None, False, f"{name}: not measured (expected: {asked})")
    is_met = _is_met(threshold, value)
    return Verdict(threshold, value, is_met, f"{name}: {value_text(threshold, value)} (expected: {asked})")


def _is_met(threshold: Threshold, value: float) -> bool:
    return (threshold.least is None or value >= threshold.least) and (threshold.most is None or value <= threshold.most)


def bounds_text(threshold: Threshold) -> str:
    """Format the bounds, with all of their digits."""
    bounds = (("at least", threshold.least), ("at most", threshold.most))
    return " and ".join(f"{word} {bound:,.15g}" for word, bound in bounds if bound is not None)


def value_text(threshold: Threshold, value: float) -> str:
    """Format a measured value with three significant digits, or with six if three would show it on the other side of
    a bound. Values from 1,000 on have no decimals.
    """
    text = f"{value:,.0f}" if abs(value) >= _WHOLE_FROM else f"{value:.3g}"
    is_same = _is_met(threshold, float(text.replace(",", ""))) == _is_met(threshold, value)
    return text if is_same else f"{value:,.6g}"
