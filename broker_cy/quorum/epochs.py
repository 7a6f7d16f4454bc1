"""The leader epochs in the metadata log, and the start of each: they show where logs diverge (KIP-101, KIP-595)."""

from __future__ import annotations

from collections.abc import Iterable

from broker_cy.quorum.entries import OffsetAndEpoch

BEGINNING = OffsetAndEpoch(0, 0)


class LogEpochs:
    """The epochs of the log from `start` on and below `end_offset`. `start` is the id of the snapshot that the log
    begins behind, (0, 0) if it has all entries. Invariant: epochs and start offsets both ascend, and none starts behind
    the end.

    An epoch is one election, so that the list is short; a snapshot that replaces the start of the log shortens it.
    """

    __slots__ = ("_starts", "end_offset", "start")

    def __init__(
        self, end_offset: int, starts: Iterable[tuple[int, int]] = (), start: OffsetAndEpoch = BEGINNING
    ) -> None:
        """`starts`: (epoch, offset of its first entry), ascending."""
        assert start.offset <= end_offset, f"the log starts at {start} and ends at {end_offset}"
        self.end_offset = end_offset
        self.start = start
        self._starts = list(starts)

    @property
    def end(self) -> OffsetAndEpoch:
        """The end of the log; epoch 0 if nothing was ever in it."""
        return OffsetAndEpoch(self.end_offset, self._starts[-1][0] if self._starts else self.start.epoch)

    def append(self, epoch: int, offset: int, end_offset: int) -> None:
        """Note entries of `epoch` at the end of the log."""
        assert offset == self.end_offset < end_offset, f"{offset} to {end_offset} does not follow the end {self.end}"
        assert epoch >= self.end.epoch, f"epoch {epoch} follows {self.end}"
        if not self._starts or self._starts[-1][0] < epoch:
            self._starts.append((epoch, offset))
        self.end_offset = end_offset

    def truncate(self, end_offset: int) -> None:
        """Drop everything from `end_offset` on."""
        assert end_offset >= self.start.offset, f"truncation to {end_offset}, before the start {self.start}"
        while self._starts and self._starts[-1][1] >= end_offset:
            self._starts.pop()
        self.end_offset = min(self.end_offset, end_offset)

    def begin_at(self, start: OffsetAndEpoch) -> None:
        """Drop everything below `start`, which a snapshot covers."""
        assert self.start.offset <= start.offset <= self.end_offset, f"{start} is not in {self.start} to {self.end}"
        self.start = start
        while len(self._starts) > 1 and self._starts[1][1] <= start.offset:
            del self._starts[0]

    def replace(self, start: OffsetAndEpoch) -> None:
        """Drop everything: the log begins, and ends, behind a snapshot."""
        self.start = start
        self.end_offset = start.offset
        self._starts.clear()

    def contains(self, snapshot_id: OffsetAndEpoch) -> bool:
        """Whether the log has the last entry of a snapshot: then it has the same entries as the snapshot."""
        if snapshot_id == self.start:
            return True
        if not self.start.offset < snapshot_id.offset <= self.end_offset:
            return False
        at = max((start for start in self._starts if start[1] < snapshot_id.offset), default=None)
        return at is not None and at[0] == snapshot_id.epoch

    def end_of(self, epoch: int) -> OffsetAndEpoch:
        """The end of the newest epoch here that is not above `epoch`; the start of the log without one."""
        end_offset = self.end_offset
        for start_epoch, start in reversed(self._starts):
            if start_epoch <= epoch:
                return OffsetAndEpoch(end_offset, start_epoch)
            end_offset = start
        return self.start
