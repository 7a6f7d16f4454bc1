"""A steady client (bench.steady_clients) that writes to each partition of a topic, and the measurements of its user."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Final

import numpy as np

from bench.steady_clients.programs import CLIENTS, NO_GROUP, Acked, LineProgram, acked

LINES_KEPT: Final = 20
US_PER_MS: Final = 1000.0


class Writer(LineProgram):
    """Keeps the acknowledgements since `begin`: at most 600 records a second for the length of a round.

    `failed` are the errors that its user got in all rounds.
    """

    def __init__(self, client: str, bootstrap: str, topic: str, partitions: int, directory: Path) -> None:
        self.client = client
        self.partitions = partitions
        self.failed: list[str] = []
        self._acked: list[Acked] = []
        super().__init__([*CLIENTS[client](), bootstrap, topic, NO_GROUP, str(partitions)], directory, client)

    def took(self, line: str) -> None:
        super().took(line)
        del self.lines[:-LINES_KEPT]
        if (found := acked(line)) is not None:
            self._acked.append(found)
        elif line.startswith(("failed", "error")):
            self.failed.append(line)

    def begin(self) -> None:
        """Drop the acknowledgements so far."""
        self._acked = []

    def acked(self) -> Sequence[Acked]:
        """Return the acknowledged records since `begin`, in the order of the acknowledgements."""
        return tuple(self._acked)

    def goes_on(self, since_us: int) -> bool:
        """Whether each partition has acknowledged a record that was sent after a time."""
        return len(first_us(self.acked(), since_us)) == self.partitions


def first_us(records: Sequence[Acked], since_us: int) -> dict[int, int]:
    """Return, by partition, the time of the first acknowledgement of a record that was sent after a time."""
    found: dict[int, int] = {}
    for each in records:
        if each.sent_us >= since_us:
            found.setdefault(each.partition, each.acked_us)
    return found


def gap_ms(records: Sequence[Acked], partitions: Collection[int], began_us: int, sent_us: int) -> float:
    """Return the time from `began_us` until the last of these partitions acknowledged a record sent after `sent_us`."""
    first = first_us(records, sent_us)
    return max((first[partition] - began_us for partition in partitions if partition in first), default=0) / US_PER_MS


def silence_ms(records: Sequence[Acked], partitions: Collection[int]) -> float:
    """Return the longest time between two acknowledgements of one of these partitions."""
    longest_us = 0
    last_us: dict[int, int] = {}
    for each in records:
        if each.partition in partitions:
            longest_us = max(longest_us, each.acked_us - last_us.get(each.partition, each.acked_us))
            last_us[each.partition] = each.acked_us
    return longest_us / US_PER_MS


def latencies_ms(records: Sequence[Acked], from_us: float, to_us: float) -> list[float]:
    """Return the latencies of the records that were sent in a span of time."""
    return [(each.acked_us - each.sent_us) / US_PER_MS for each in records if from_us <= each.sent_us < to_us]


def percentile(values: Sequence[float], percent: float) -> float:
    """Return a percentile, interpolated; 0 for no values."""
    return float(np.percentile(values, percent)) if values else 0.0
