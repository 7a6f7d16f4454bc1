"""A rate profile as pieces that the C driver performs one after the other."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from typing import NamedTuple

from loadgen.scenario.profile import Piece, RateProfile

# A rate of 0 at one end of a ramp, in requests a second: the driver's rates are above 0. In a month it adds a millionth
# of a request, less than the rounding of the driver.
_RATE_LEAST = 1e-12
_SLACK = 1e-6


class Part(NamedTuple):
    """Requests `first`, `first` + 1, ... of a linear rate from `start` to `end` in `seconds`, from `at_s` on."""

    at_s: float
    seconds: float
    start: float
    end: float
    first: float


def parts_of(profile: RateProfile, seconds: float, first: float = 0.0) -> Iterator[Part]:
    """Yield the parts of the first `seconds` of a profile, without parts that have no request.

    The numbers of requests continue over the parts, in fractions, so that their sum is that of the whole profile.
    `first` is the number of the first request: 0.5 is the one halfway between the first and the second.
    """
    at_s = 0.0
    for piece in _joined(_endless(profile), seconds):
        length_s = min(piece.seconds, seconds - at_s)
        if length_s <= 0:
            return
        end = piece.start + (piece.end - piece.start) * (length_s / piece.seconds)
        count = (piece.start + end) / 2 * length_s
        requests = math.ceil(count - first - _SLACK)
        if requests > 0:
            yield Part(at_s, length_s, max(piece.start, _RATE_LEAST), max(end, _RATE_LEAST), max(0.0, first))
        first += max(0, requests) - count
        at_s += length_s


def _endless(profile: RateProfile) -> Iterator[Piece]:
    if profile.lead_s:
        yield profile.lead
    if profile.repeats:
        yield from itertools.cycle(profile.pieces)
    yield from profile.pieces
    last = profile.pieces[-1].end
    yield Piece(math.inf, last, last)


def _joined(pieces: Iterator[Piece], seconds: float) -> Iterator[Piece]:
    """Join adjacent pieces of one constant rate. An endless one, or one of `seconds`, is the last."""
    held = next(pieces)
    while held.seconds < seconds:
        piece = next(pieces)
        if held.start == held.end == piece.start == piece.end:
            held = Piece(held.seconds + piece.seconds, held.start, held.end)
            continue
        yield held
        held = piece
    yield held
