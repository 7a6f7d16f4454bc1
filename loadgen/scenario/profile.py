"""Rates over time. A profile is piecewise linear, so that the number of operations until any time is exact."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

# Pieces of one period of a daily curve: between them the rate changes linearly.
DIURNAL_PIECES = 48
# The maximum number of points of a profile: a value for each quarter of an hour of three weeks.
POINTS_MAX = 2048


@dataclass(frozen=True)
class Piece:
    """`seconds` in which the rate changes linearly from `start` to `end` operations a second."""

    seconds: float
    start: float
    end: float


@dataclass(frozen=True)
class RateProfile:
    """Pieces one after the other; the end rate of the last one is kept, or with `repeats` they begin again.

    Before them, the first rate is kept for `lead_s`: the warm-up, after which the curve begins.
    """

    pieces: tuple[Piece, ...]
    repeats: bool = False
    text: str = ""  # as the scenario gives it
    lead_s: float = 0.0

    @classmethod
    def constant(cls, rate: float) -> RateProfile:
        return cls((Piece(1.0, rate, rate),), text=f"{rate:g}/s")

    @classmethod
    def ramp(cls, start: float, end: float, over_s: float) -> RateProfile:
        return cls((Piece(over_s, start, end),), text=f"{start:g}/s to {end:g}/s over {over_s:g} s")

    @classmethod
    def spike(cls, base: float, peak: float, at_s: float, for_s: float, every_s: float | None = None) -> RateProfile:
        """`base`, and `peak` from `at_s` for `for_s`; repeated every `every_s`, which is at least `at_s` + `for_s`."""
        pieces = [Piece(at_s, base, base)] if at_s > 0 else []
        pieces.append(Piece(for_s, peak, peak))
        text = f"{base:g}/s, {peak:g}/s at {at_s:g} s for {for_s:g} s"
        if every_s is None:
            return cls((*pieces, Piece(1.0, base, base)), text=text)
        rest_s = every_s - at_s - for_s
        if rest_s > 0:
            pieces.append(Piece(rest_s, base, base))
        return cls(tuple(pieces), repeats=True, text=f"{text} every {every_s:g} s")

    @classmethod
    def soak(cls, rate: float, ramp_s: float) -> RateProfile:
        """From 0 to `rate` over `ramp_s`, then `rate`: connections and caches are filled before the full rate."""
        return cls((Piece(ramp_s, 0.0, rate),), text=f"{rate:g}/s after a ramp of {ramp_s:g} s")

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
    def points(cls, points: Sequence[tuple[float, float]], repeats: bool = False) -> RateProfile:
        """Linear between (seconds, rate) from 0 s on; two points at one time are a jump. Needs at least two times."""
        pieces = [
            Piece(until - at, start, end) for (at, start), (until, end) in itertools.pairwise(points) if until > at
        ]
        last = points[-1][1]
        if pieces[-1].end != last and not repeats:
            pieces.append(Piece(1.0, last, last))  # a jump at the end: its rate is kept
        text = ", ".join(f"{rate:g}/s at {at:g} s" for at, rate in points)
        return cls(tuple(pieces), repeats, f"{text}, repeated" if repeats else text)

    def scaled(self, factor: float) -> RateProfile:
        """Return the same curve with `factor` times the rates."""
        pieces = tuple(Piece(each.seconds, each.start * factor, each.end * factor) for each in self.pieces)
        return replace(self, pieces=pieces, text=f"{self.text} x {factor:g}" if factor != 1 else self.text)

    def operations(self, seconds: float) -> float:
        """Return the number of operations that are due in the first `seconds`: the integral of the rate."""
        period_s = sum(each.seconds for each in self.pieces)
        each_period = sum((each.start + each.end) / 2 * each.seconds for each in self.pieces)
        found = 0.0
        if self.repeats:
            periods, seconds = divmod(seconds, period_s)
            found = periods * each_period
        for each in self.pieces:
            part_s = min(seconds, each.seconds)
            slope = (each.end - each.start) / each.seconds
            found += (each.start + slope * part_s / 2) * part_s
            seconds -= part_s
        return found + seconds * self.pieces[-1].end

    def mean_over(self, seconds: float) -> float:
        """Return the mean rate of the first `seconds`, which must be above 0."""
        return self.operations(seconds) / seconds

    @property
    def highest(self) -> float:
        return max(max(each.start, each.end) for each in self.pieces)

    def led_by(self, lead_s: float) -> RateProfile:
        """Return the same curve after `lead_s` at its first rate."""
        return replace(self, lead_s=lead_s)

    @property
    def lead(self) -> Piece:
        """The part before the pieces."""
        return Piece(self.lead_s, self.pieces[0].start, self.pieces[0].start)

    @staticmethod
    def of_state(state: dict[str, Any]) -> RateProfile:
        return RateProfile(**{**state, "pieces": tuple(Piece(**each) for each in state["pieces"])})


@dataclass(frozen=True)
class Search:
    """The search for the highest rate that meets a bound: rates from `start`, multiplied by `factor` up to `most`, each
    for `hold_s`; then the gap between the last good and the first bad one is halved until it is below `precision`, a
    share of the last good one.

    The bound: `percentile` of the latency of `operation` is at most `bound_ms`.
    """

    operation: str
    percentile: float
    bound_ms: float
    start: float
    most: float
    factor: float = 1.5
    hold_s: float = 10.0
    precision: float = 0.05

    @property
    def longest_s(self) -> float:
        """The longest time of the search: each rate up to `most`, then each halving of the last gap."""
        rates = math.ceil(math.log(self.most / self.start) / math.log(self.factor)) + 1
        halvings = max(0, math.ceil(math.log2((self.factor - 1) / self.precision)))
        return (rates + halvings) * self.hold_s
