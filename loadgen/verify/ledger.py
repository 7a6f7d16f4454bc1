"""The outcome of each record that was sent, by producer and partition.

A producer numbers its records of a partition 0, 1, ... (`begin`); later each gets one outcome (`settle`):

    ACKNOWLEDGED  the cluster confirmed it: it must be there exactly once
    REFUSED       the cluster said that it did not write it: it must not be there
    UNKNOWN       no answer, or one that leaves it open: it may be there, once
    ABORTED       its transaction was aborted: read_committed must not return it

A record without an outcome at the end is UNKNOWN. Invariant of a Track: outcomes of `base`, `base` + 1, ... are in
`recent`; all before `base` are ACKNOWLEDGED except those in `exceptions`.

Records without a stamp are tracked by the producer id and the sequences in the headers of their batches (KIP-98), which
also number the records of a producer and a partition from 0 on. `of_batches` numbers such a producer.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

PENDING: Final = 0
ACKNOWLEDGED: Final = 1
REFUSED: Final = 2
UNKNOWN: Final = 3
ABORTED: Final = 4
NAMES: Final = {ACKNOWLEDGED: "acknowledged", REFUSED: "refused", UNKNOWN: "unknown", ABORTED: "aborted"}

# Outcomes that are kept individually until the oldest are folded.
RECENT_MAX: Final = 1 << 16


def of_batches(producer_id: int) -> int:
    """Return the number in a ledger of the producer with this producer id; producers of stamps are not negative."""
    return -1 - producer_id


class Track:
    """The records of one producer in one partition."""

    __slots__ = ("_base", "_exceptions", "_recent", "partition", "producer", "topic")

    def __init__(self, producer: int, topic: str, partition: int) -> None:
        self.producer, self.topic, self.partition = producer, topic, partition
        self._base = 0
        self._recent = bytearray()
        self._exceptions: dict[int, int] = {}

    @property
    def sent(self) -> int:
        """The number of records that were begun: the next sequence."""
        return self._base + len(self._recent)

    def begin(self) -> int:
        """Return the sequence of the next record."""
        if len(self._recent) >= RECENT_MAX:
            self._fold()
        self._recent.append(PENDING)
        return self._base + len(self._recent) - 1

    def settle(self, sequence: int, outcome: int) -> None:
        """Note the outcome of a record; the last one counts. Raises IndexError for a record that was never begun."""
        at = sequence - self._base
        if at >= 0:
            self._recent[at] = outcome
        elif outcome == ACKNOWLEDGED:
            self._exceptions.pop(sequence, None)
        else:
            self._exceptions[sequence] = outcome

    def _fold(self) -> None:
        """Keep only the exceptions among the settled records; or among the older half if a record is never settled."""
        end = self._recent.find(PENDING)
        if end < RECENT_MAX // 2:
            end = RECENT_MAX // 2
        for at in range(end):
            outcome = self._recent[at]
            if outcome != ACKNOWLEDGED:
                self._exceptions[self._base + at] = outcome
        del self._recent[:end]
        self._base += end

    def state(self) -> list[Any]:
        """Return the outcomes as plain data: [producer, topic, partition, sent, [[first, count, outcome], ...]], where
        the others are ACKNOWLEDGED.
        """
        exceptions = dict(self._exceptions)
        for at, outcome in enumerate(self._recent):
            if outcome != ACKNOWLEDGED:
                exceptions[self._base + at] = outcome
        ranges = _ranges((sequence, exceptions[sequence] or UNKNOWN) for sequence in sorted(exceptions))
        return [self.producer, self.topic, self.partition, self.sent, ranges]


def _ranges(outcomes: Iterable[tuple[int, int]]) -> list[list[int]]:
    """Return [first, count, outcome] for each run of consecutive sequences with one outcome."""
    found: list[list[int]] = []
    for sequence, outcome in outcomes:
        last = found[-1] if found else None
        if last is not None and last[0] + last[1] == sequence and last[2] == outcome:
            last[1] += 1
        else:
            found.append([sequence, 1, outcome])
    return found


class Ledger:
    """All tracks of a process."""

    def __init__(self) -> None:
        self._tracks: dict[tuple[int, str, int], Track] = {}
        self._batches: dict[tuple[int, str, int], tuple[int, int]] = {}

    def track(self, producer: int, topic: str, partition: int) -> Track:
        """Return the track of this producer in this partition."""
        key = (producer, topic, partition)
        found = self._tracks.get(key)
        if found is None:
            found = self._tracks[key] = Track(producer, topic, partition)
        return found

    def batches(self, producer_id: int, topic: str, partition: int, acknowledged: int, sent: int) -> None:
        """Note the outcome of an idempotent producer's batches in a partition: the first `acknowledged` records are
        ACKNOWLEDGED, and the further ones up to `sent` are UNKNOWN. The last call counts.
        """
        self._batches[of_batches(producer_id), topic, partition] = acknowledged, sent

    def state(self) -> list[list[Any]]:
        """Return the states of all tracks, as plain data for the conductor."""
        states = [each.state() for each in self._tracks.values() if each.sent]
        for (producer, topic, partition), (acknowledged, sent) in self._batches.items():
            unknown = [[acknowledged, sent - acknowledged, UNKNOWN]] if sent > acknowledged else []
            if sent:
                states.append([producer, topic, partition, sent, unknown])
        return states
