"""The search for the highest rate that meets a bound, as a state machine: `rate` is the next rate to try, and `take`
accepts its measurements.

Rates grow by `factor` until one fails or `most` is good; then the gap between the highest good and the lowest bad one
is halved, until it is at most `precision` of the good one.
"""

from __future__ import annotations

from dataclasses import dataclass

from loadgen.figures.totals import Totals, percentile_ms
from loadgen.scenario.profile import Search

# A rate that was not reached is not sustained, regardless of the latency.
REACHED_LEAST = 0.95


@dataclass(frozen=True)
class Step:
    """One rate that was tried. `why`: the problem, "" if it is good."""

    rate: float
    reached: float
    latency_ms: float | None
    why: str

    @property
    def is_good(self) -> bool:
        return not self.why


class Searching:
    """The state of one search."""

    def __init__(self, search: Search) -> None:
        self._search = search
        self._good = 0.0
        self._bad: float | None = None
        self.rate: float | None = search.start
        self.steps: list[Step] = []

    @property
    def best(self) -> Step | None:
        """The good step of the highest rate."""
        good = [each for each in self.steps if each.is_good]
        return max(good, key=lambda each: each.rate) if good else None

    def take(self, totals: Totals, seconds: float) -> Step:
        """Judge the measurements at `rate`, and choose the next rate: None when the search is over."""
        assert self.rate is not None
        step = self._judge(self.rate, totals, seconds)
        self.steps.append(step)
        if step.is_good:
            self._good = self.rate
        else:
            self._bad = self.rate
        self.rate = self._next()
        return step

    def _judge(self, rate: float, totals: Totals, seconds: float) -> Step:
        search = self._search
        operation = totals.operations.get(search.operation)
        latency_ms = None if operation is None else percentile_ms(operation.latency, search.percentile)
        if operation is None or latency_ms is None:
            return Step(rate, 0.0, None, f"no {search.operation} was answered")
        reached = (operation.requests - totals.late(search.operation, seconds).requests) / seconds
        why = ""
        if operation.failures:
            why = f"{operation.failures} failed"
        elif latency_ms > search.bound_ms:
            why = f"p{search.percentile:g} is {latency_ms:.3g} ms, above {search.bound_ms:g} ms"
        elif totals.unsent or reached < REACHED_LEAST * rate:
            why = f"only {reached:,.0f}/s were reached"
        return Step(rate, reached, latency_ms, why)

    def _next(self) -> float | None:
        search = self._search
        if self._bad is None:
            return None if self._good >= search.most else min(search.most, self._good * search.factor)
        if not self._good or self._bad - self._good <= search.precision * self._good:
            return None
        return (self._good + self._bad) / 2
