"""Rates over time. A profile is piecewise linear, so that the number of operations until any time is exact."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

# Pieces of one period of a daily curve: between them the rate changes linearly.
DIURNAL_PIECES = 48
# Pieces of a profile at most: those of four weeks of daily curves.
PIECES_MAX = 2048


@dataclass(frozen=True)
class Piece:
    """`seconds` in which the rate changes linearly from `start` to `end` operations a second."""

    seconds: float
    start: float
    end: float


@dataclass(frozen=True)
class RateProfile:
    """Pieces one after the other; after the last one its end rate is kept, or with `repeats` they begin again."""

    pieces: tuple[Piece, ...]
    repeats: bool = False
    text: str = ""  # as the scenario gives it

    @classmethod
    def constant(cls, rate: float) -> RateProfile:
        return cls((Piece(1.0, rate, rate),), text=f"{rate:g}/s")

    @classmethod
    def ramp(cls, start: float, end: float, over_s: float) -> RateProfile:
        return cls((Piece(over_s, start, end),), text=f"{start:g}/s to {end:g}/s over {over_s:g} s")

    @classmethod
    def spike(cls, base: float, peak: float, at_s: float, for_s: float, every_s: float | None = None) -> RateProfile:
        """`base`, and `peak` from `at_s` for `for_s`; again each `every_s`."""
        pieces = [Piece(at_s, base, base), Piece(for_s, peak, peak)]
        text = f"{base:g}/s, {peak:g}/s at {at_s:g} s for {for_s:g} s"
        if every_s is None:
            return cls((*pieces, Piece(1.0, base, base)), text=text)
        rest_s = every_s - at_s - for_s
        if rest_s > 0:
            pieces.append(Piece(rest_s, base, base))
        return cls(tuple(pieces), repeats=True, text=f"{text} every {every_s:g} s")

    @classmethod
    def diurnal(cls, low: float, high: float, period_s: float) -> RateProfile:
        """A cosine between `low` (at the beginning) and `high` (half a period later)."""
        rates = [
            low + (high - low) * (1 - math.cos(2 * math.pi * at / DIURNAL_PIECES)) / 2
            for at in range(DIURNAL_PIECES + 1)
        ]
        pieces = tuple(Piece(period_s / DIURNAL_PIECES, start, end) for start, end in itertools.pairwise(rates))
        return cls(pieces, repeats=True, text=f"{low:g}/s to {high:g}/s every {period_s:g} s")

    @classmethod
    def points(cls, points: Sequence[tuple[float, float]]) -> RateProfile:
        """Linear between (seconds, rate); two points at one time are a jump."""
        pairs = itertools.pairwise(points)
        return cls(
            tuple(Piece(until - at, start, end) for (at, start), (until, end) in pairs if until > at),
            text=", ".join(f"{rate:g}/s at {at:g} s" for at, rate in points),
        )

    def scaled(self, factor: float) -> RateProfile:
        """Return the same curve with `factor` times the rates."""
        pieces = tuple(Piece(each.seconds, each.start * factor, each.end * factor) for each in self.pieces)
        return RateProfile(pieces, self.repeats, f"{self.text} x {factor:g}" if factor != 1 else self.text)

    @property
    def mean(self) -> float:
        """Operations a second over all pieces."""
        seconds = sum(each.seconds for each in self.pieces)
        return sum((each.start + each.end) / 2 * each.seconds for each in self.pieces) / seconds

    @property
    def highest(self) -> float:
        return max(max(each.start, each.end) for each in self.pieces)

    @staticmethod
    def of_state(state: dict[str, Any]) -> RateProfile:
        return RateProfile(tuple(Piece(**each) for each in state["pieces"]), state["repeats"], state["text"])


@dataclass(frozen=True)
class Search:
    """The search for the highest rate that meets a bound: rates from `start`, multiplied by `factor` up to `most`, each
    for `hold_s`; then the gap between the last good and the first bad one is halved until it is below `precision`.

    The bound: `percentile` of the latency of `operation` at most `bound_ms`.
    """

    operation: str
    percentile: float
    bound_ms: float
    start: float
    most: float
    factor: float = 1.5
    hold_s: float = 10.0
    precision: float = 0.05
