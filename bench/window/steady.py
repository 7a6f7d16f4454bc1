"""Decides when a target is warm: whether the windows of its warm-up have become steady.

A Java virtual machine compiles frequently executed code for half a minute and more: until then each window is faster
than the previous one, and a ratio to it falls from pair to pair. A target is steady as soon as

- three windows in a row agree within 5 %, once there are `patience` windows, or
- it has stopped improving: none of its last `patience` windows was more than 5 % better than the best one before them.
  On a shared host all rates vary by 20 to 40 % from window to window, so that three windows seldom agree.

Compilers of a virtual machine improve the rate in steps, up to 10 s apart, between which windows agree. A program that
is compiled before it runs has no such steps and needs less patience.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from bench.report.metrics import describe
from bench.report.result import WarmUp

WINDOW_S = 1.5
WINDOWS = 3  # in a row
WITHIN = 0.05  # of their median: how far the lowest and the highest of these windows may be apart
PATIENCE_COMPILING = 8  # windows without an improvement, of a target that is compiled while it runs
PATIENCE = 3  # of any other


def spread(values: Sequence[float], windows: int = WINDOWS) -> float | None:
    """(highest - lowest) / median of the last `windows` values; None while there are fewer, or if all are 0."""
    last = sorted(values[-windows:])
    middle = last[len(last) // 2] if last else 0.0
    return (last[-1] - last[0]) / middle if len(last) == windows and middle > 0 else None


@dataclass
class Warming:
    """The current warm-up of one target with one workload."""

    target: str
    label: str
    metric: str  # of bench.report.metrics: the figure that has to become steady
    bound_s: float
    patience: int = PATIENCE_COMPILING  # windows
    seconds: float = 0.0  # of all windows, without the time between them
    values: list[float] = field(default_factory=list)

    def add(self, seconds: float, value: float) -> None:
        """One more window."""
        self.seconds += seconds
        self.values.append(value)

    @property
    def steady(self) -> bool:
        """Whether the last windows agree, or have brought no improvement."""
        return (self.apart is not None and self.apart <= WITHIN) or self.improvement <= WITHIN

    @property
    def apart(self) -> float | None:
        """The spread of the last windows; None while there are too few windows to know."""
        return spread(self.values) if len(self.values) >= self.patience else None

    @property
    def improvement(self) -> float:
        """The share by which the best of the last `patience` windows is better than the best one before them; inf
        without any before.
        """
        before, last = self.values[: -self.patience], self.values[-self.patience :]
        if not before:
            return math.inf
        if describe(self.metric).higher_is_better:
            return max(last) / max(before) - 1 if max(before) > 0 else math.inf
        return min(before) / min(last) - 1 if min(last) > 0 else math.inf

    @property
    def over(self) -> bool:
        """Whether the warm-up ends: the target is steady, or the bound is reached."""
        return self.steady or self.seconds >= 0.99 * self.bound_s

    def verdict(self) -> str | None:
        """A remark for readers of the figures; None for a target that became steady."""
        if self.steady:
            return None
        seen = (
            f"its last {WINDOWS} windows differ by {self.apart:.0%}"
            if self.apart is not None
            else "too few windows to know"
        )
        return f"not steady after {self.seconds:.0f} s of warm-up ({seen}; at most {WITHIN:.0%} is steady)"

    def result(self) -> WarmUp:
        """Return it for the document."""
        return WarmUp(self.target, self.label, self.metric, self.steady, self.bound_s, self.seconds, tuple(self.values))
