"""The leader epochs in the metadata log, and where each begins: what divergence is found by (KIP-101, KIP-595)."""

from __future__ import annotations

from collections.abc import Iterable

from broker_cy.quorum.messages import OffsetAndEpoch


class LogEpochs:
    """Of the log below `end_offset`. Invariant: epochs and start offsets both ascend, and none starts behind the end.

    An epoch is one election, so that the list is short; a snapshot that replaces the start of the log shortens it.
    """

    __slots__ = ("_starts", "end_offset")

    def __init__(self, end_offset: int, starts: Iterable[tuple[int, int]] = ()) -> None:
        """`starts`: (epoch, offset of its first entry), ascending."""
        self.end_offset = end_offset
        self._starts = list(starts)

    @property
    def end(self) -> OffsetAndEpoch:
        """The end of the log; epoch 0 if it is empty."""
        return OffsetAndEpoch(self.end_offset, self._starts[-1][0] if self._starts else 0)

    def append(self, epoch: int, offset: int, end_offset: int) -> None:
        """Note entries of `epoch` at the end of the log."""
        assert offset == self.end_offset < end_offset, f"{offset} to {end_offset} does not follow the end {self.end}"
        assert epoch >= self.end.epoch, f"epoch {epoch} follows {self.end}"
        if not self._starts or self._starts[-1][0] < epoch:
            self._starts.append((epoch, offset))
        self.end_offset = end_offset

    def truncate(self, end_offset: int) -> None:
        """Drop everything from `end_offset` on."""
        while self._starts and self._starts[-1][1] >= end_offset:
            self._starts.pop()
        self.end_offset = min(self.end_offset, end_offset)

    def end_of(self, epoch: int) -> OffsetAndEpoch:
        """The end of the newest epoch here that is not above `epoch`; offset 0 of epoch 0 if there is none."""
        end_offset = self.end_offset
        for start_epoch, start in reversed(self._starts):
            if start_epoch <= epoch:
                return OffsetAndEpoch(end_offset, start_epoch)
            end_offset = start
        return OffsetAndEpoch(0, 0)
