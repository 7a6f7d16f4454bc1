"""The disk of a simulated quorum node, and what a power cut leaves on it."""

from __future__ import annotations

import random
from bisect import bisect_left
from collections.abc import Sequence
from typing import NamedTuple
from uuid import UUID

from broker_cy.quorum.election_state import ElectionState
from broker_cy.quorum.entries import Batch, OffsetAndEpoch
from broker_cy.quorum.epochs import BEGINNING, LogEpochs
from broker_cy.quorum.history import VoterHistory
from broker_cy.quorum.voters import VoterSet


class Snapshot(NamedTuple):
    """`size` bytes; a node that has fetched fewer of them has half a snapshot."""

    kraft_version: int
    voters: VoterSet
    size: int


def shared_length(one: Sequence[Batch], other: Sequence[Batch]) -> int:
    """The number of batches with which both begin."""
    for length, (left, right) in enumerate(zip(one, other, strict=False)):
        if left is not right and left != right:
            return length
    return min(len(one), len(other))


def _offset(batch: Batch) -> int:
    return batch.offset


def find(log: Sequence[Batch], offset: int) -> Batch | None:
    """The batch that begins at `offset`."""
    at = bisect_left(log, offset, key=_offset)
    return log[at] if at < len(log) and log[at].offset == offset else None


class Disk:
    """The process reads `log`, and a power cut leaves `durable`. Both contain whole batches; `log` begins at `start`.
    `snapshots` contains complete snapshots; `part` is the id of the incomplete one and the number of its bytes.
    `formatted` is the snapshot that `storage format` wrote.
    """

    def __init__(self, directory_id: UUID, formatted: Snapshot) -> None:
        self.directory_id = directory_id
        self.formatted = formatted
        # The state that the process wrote last, and the oldest one that a power cut may leave: only votes wait for it.
        self.state: ElectionState | None = None
        self.durable_state: ElectionState | None = None
        self.start = BEGINNING
        self.log: list[Batch] = []
        self.durable: list[Batch] = []
        self.snapshots: dict[OffsetAndEpoch, Snapshot] = {}
        self.part: tuple[OffsetAndEpoch, int] | None = None
        self.is_dirty = False  # changed since the last sync began

    def persist(self, state: ElectionState, *, binds: bool) -> None:
        """Write quorum-state. The node waits for the disk only if it `binds`."""
        self.state = state
        if binds:
            self.durable_state = state

    @property
    def end(self) -> int:
        return self.log[-1].end_offset if self.log else self.start.offset

    @property
    def newest(self) -> OffsetAndEpoch | None:
        return max(self.snapshots, default=None)

    def has_durable(self, batch: Batch) -> bool:
        """Whether a power cut leaves the batch, or a snapshot that covers it."""
        newest = self.newest
        return (newest is not None and newest.offset >= batch.end_offset) or find(self.durable, batch.offset) == batch

    def truncate(self, end_offset: int) -> list[Batch]:
        """Truncate the log, and return the removed batches."""
        length = len(self.log)
        while length and self.log[length - 1].offset >= end_offset:
            length -= 1
        removed = self.log[length:]
        del self.log[length:]
        self.is_dirty = True
        assert self.end == end_offset, f"truncation to {end_offset} in the middle of a batch"
        return removed

    def begin_at(self, start: OffsetAndEpoch) -> None:
        """Delete the log that the snapshot `start` covers, and older snapshots."""
        self.start = start
        for log in (self.log, self.durable):
            del log[: bisect_left(log, start.offset, key=_offset)]
        for snapshot_id in [one for one in self.snapshots if one < start]:
            del self.snapshots[snapshot_id]

    def replace(self, start: OffsetAndEpoch) -> list[Batch]:
        """Empty the log, which then begins after a snapshot that is on disk. Return the removed batches that the
        snapshot lacks.
        """
        assert start in self.snapshots, f"the log is replaced by {start}, which is not on disk"
        removed = [batch for batch in self.log if batch.offset >= start.offset]
        self.start = start
        self.log = []
        self.is_dirty = True
        return removed

    def end_process(self, draw: random.Random) -> None:
        """Leave the newest quorum-state, or one that was waited for: others are written by a worker, later."""
        if draw.random() < 0.5:
            self.state = self.durable_state
        else:
            self.durable_state = self.state

    def cut_power(self, draw: random.Random) -> None:
        """Leave only synced data, or also a part of the later writes, or drop only an unsynced truncation."""
        if draw.random() < 0.5:
            self.log = list(self.durable)
        else:
            shared = shared_length(self.log, self.durable)
            del self.log[draw.randint(shared, len(self.log)) :]

    def load(self) -> tuple[LogEpochs, VoterHistory]:
        """Load the disk as a start does: it syncs the log, and drops one that does not continue the newest snapshot."""
        self.part = None
        newest = self.newest
        # A power cut may have brought back the log from before a snapshot replaced it.
        first = self.log[0].offset if self.log else self.start.offset
        if first < self.start.offset or (newest is not None and not self._epochs().contains(newest)):
            assert newest is not None
            self.start, self.log = newest, []
        self.durable = list(self.log)
        self.is_dirty = False
        base = self.snapshots[self.start] if self.start.offset else self.formatted
        history = VoterHistory(base.voters, base.kraft_version)
        for batch in self.log:
            if batch.control:
                history.note(batch.offset, batch.control)
        return self._epochs(), history

    def _epochs(self) -> LogEpochs:
        epochs = LogEpochs(self.start.offset, start=self.start)
        for batch in self.log:
            epochs.append(batch.epoch, batch.offset, batch.end_offset)
        return epochs
