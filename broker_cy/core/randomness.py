"""Randomness as an argument: code that draws receives a Randomness, so that a simulation can repeat its draws."""

from __future__ import annotations

import random
from typing import Final
from uuid import UUID

from broker_cy.core import uuid as uuids


class Randomness:
    """Random values from `source`: the kernel's by default, and in a simulation those of a seed."""

    __slots__ = ("_source",)

    def __init__(self, source: random.Random | None = None) -> None:
        self._source = random.SystemRandom() if source is None else source

    def integer(self, low: int, high: int) -> int:
        """Return an integer from `low` to `high`, both included."""
        return self._source.randint(low, high)

    def between(self, low: float, high: float) -> float:
        """Return a number from `low` to `high`."""
        return self._source.uniform(low, high)

    def take_bytes(self, count: int) -> bytes:
        return self._source.randbytes(count)

    def uuid(self) -> UUID:
        """Return a UUID of version 4, such as for the id of a member."""
        return UUID(bytes=self._source.randbytes(16), version=4)

    def kafka_uuid(self) -> UUID:
        """Return an id of a topic, directory or cluster that Kafka could also have generated."""
        while True:
            value = self.uuid()
            if uuids.usable(value):
                return value


# For programs that are not part of a broker; a broker gets its randomness from network.seams.
MACHINE_RANDOMNESS: Final = Randomness()
