"""Sizes and contents of values, drawn from a random source: the same source gives the same bytes."""

from __future__ import annotations

import math
from typing import Protocol

from broker_cy.core.classes import dataclass


class Source(Protocol):
    """The methods of `random.Random` that are used here."""

    def randbytes(self, n: int, /) -> bytes: ...
    def randint(self, a: int, b: int, /) -> int: ...
    def gauss(self, mu: float, sigma: float, /) -> float: ...


@dataclass(frozen=True)
class Size:
    """Bytes of a record's value: fixed if least == most, otherwise drawn for each record."""

    least: int
    most: int
    distribution: str = "uniform"  # lognormal: between the bounds, with its median at their geometric mean

    @property
    def fixed(self) -> bool:
        return self.least == self.most


def value(source: Source, size: int, entropy: float) -> bytes:
    """Return `size` bytes: the first fraction `entropy` is random, and the rest repeats one byte."""
    at_random = round(size * entropy)
    return source.randbytes(at_random) + b"x" * (size - at_random)


def draw(source: Source, size: Size) -> int:
    """Draw the size of one record's value, in bytes.

    Lognormal: the median is the bounds' geometric mean, and the bounds are three standard deviations from it.
    """
    if size.fixed:
        return size.least
    if size.distribution == "uniform":
        return source.randint(size.least, size.most)
    low, high = math.log(size.least), math.log(size.most)
    while True:  # a value outside the bounds (3 in 1,000) is drawn again
        drawn = round(math.exp(source.gauss((low + high) / 2, (high - low) / 6)))
        if size.least <= drawn <= size.most:
            return drawn
