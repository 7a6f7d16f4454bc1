"""Random draws of the world, each of which goes into one digest: two runs of a seed are equal if their digests are."""

from __future__ import annotations

import hashlib
import random


class Trace:
    """A digest of all that happened, in order; with `keeps` also the lines themselves."""

    def __init__(self, *, keeps: bool = False) -> None:
        self._digest = hashlib.blake2b(digest_size=16)
        self.lines: list[str] | None = [] if keeps else None
        self.count = 0

    def note(self, line: str) -> None:
        self.count += 1
        self._digest.update(line.encode())
        if self.lines is not None:
            self.lines.append(line)

    def hexdigest(self) -> str:
        return self._digest.hexdigest()


class Draws(random.Random):
    """One named stream of a seed. Each part of the world has its own, so that removing a fault or a client from a plan
    leaves the draws of the others as they are.
    """

    def __init__(self, seed: int, name: str, trace: Trace) -> None:
        self._name = name
        self._trace: Trace | None = None
        self._bits = super().getrandbits
        super().__init__(f"{seed}/{name}")
        self._trace = trace

    def random(self) -> float:
        value = super().random()
        self._note(value)
        return value

    def getrandbits(self, k: int, /) -> int:
        value = self._bits(k)
        self._note(value)
        return value

    def _randbelow(self, n: int) -> int:
        """What random.Random does, in fewer calls: hardly anything is called as often."""
        bits = n.bit_length()
        value = self._bits(bits)
        self._note(value)
        while value >= n:
            value = self._bits(bits)
            self._note(value)
        return value

    def randint(self, a: int, b: int) -> int:
        return a + self._randbelow(b - a + 1)

    def chance(self, probability: float) -> bool:
        return self.random() < probability

    def _note(self, value: object) -> None:
        if self._trace is not None:
            self._trace.note(f"{self._name} draws {value}")
