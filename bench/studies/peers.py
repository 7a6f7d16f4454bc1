"""Measurements of two systems in turns, for the studies that have a peer: warm windows, and ratios of pairs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from bench.studies.goals import Figures

ALIKE_RATIO: Final = 1.05


def warm(window: Callable[[], float], most: int = 10) -> None:
    """Work until the rates of two windows are alike, at most that many windows: a JVM compiles while it runs."""
    rate = 0.0
    for _ in range(most):
        before, rate = rate, window()
        if before and max(before, rate) < ALIKE_RATIO * min(before, rate):
            return


def ratios(found: Mapping[str, list[float]], peer: str, figures: Sequence[str]) -> Figures:
    """The ratios of the pairs, ours to the peer's; none of figures that one of them does not have."""
    return {
        f"{figure}_ratio": [one / other for one, other in zip(found[f"ours_{figure}"], theirs, strict=True)]
        for figure in figures
        if (theirs := found.get(f"{peer}_{figure}")) and f"ours_{figure}" in found
    }
