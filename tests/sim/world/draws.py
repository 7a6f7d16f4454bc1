"""Random draws of the world. All draws go into one digest: two runs of a seed are equal if their digests are."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Callable

# The number of trace entries that are added to the digest together, because `Trace.add` is called very often.
ENTRIES_MAX = 10_000
# A line, the time of an event, or the name of a stream and its draw.
Entry = str | int | tuple[str, object]


class Trace:
    """A digest of all that happened, in order; with `keeps` also a line for each entry."""

    def __init__(self, *, keeps: bool = False) -> None:
        self._digest = hashlib.blake2b(digest_size=16)
        self._entries: list[Entry] = []
        self._count = 0
        self.lines: list[str] | None = [] if keeps else None
        self.add: Callable[[Entry], None] = self._entries.append

    @property
    def count(self) -> int:
        return self._count + len(self._entries)

    def digest_entries(self, at_least: int = 0) -> None:
        """Let the digest have the entries that it does not have yet, if they are more than `at_least`."""
        if len(self._entries) > at_least:
            self._count += len(self._entries)
            self._digest.update(repr(self._entries).encode())
            if self.lines is not None:
                self.lines += map(_line, self._entries)
            self._entries.clear()

    def hexdigest(self) -> str:
        self.digest_entries()
        return self._digest.hexdigest()


def _line(entry: Entry) -> str:
    match entry:
        case int():
            return f"{entry} event"
        case str():
            return entry
    return f"{entry[0]} draws {entry[1]}"


class Draws(random.Random):
    """One named stream of a seed. Each part of the world has its own, so that removing a fault or a client from a plan
    leaves the draws of the others as they are.
    """

    def __init__(self, seed: int, name: str, trace: Trace) -> None:
        self._name = name
        self._add: Callable[[Entry], None] | None = None
        self._bits = super().getrandbits
        super().__init__(f"{seed}/{name}")
        self._add = trace.add

    def random(self) -> float:
        value = super().random()
        self._note(value)
        return value

    def getrandbits(self, k: int, /) -> int:
        value = self._bits(k)
        self._note(value)
        return value

    def _randbelow(self, n: int) -> int:
        """The same as in random.Random, in fewer calls, because it is called very often."""
        bits = n.bit_length()
        value = self._bits(bits)
        while value >= n:
            value = self._bits(bits)
        self._note(value)
        return value

    def randint(self, a: int, b: int) -> int:
        return a + self._randbelow(b - a + 1)

    def chance(self, probability: float) -> bool:
        return self.random() < probability

    def _note(self, value: object) -> None:
        if self._add is not None:
            self._add((self._name, value))
