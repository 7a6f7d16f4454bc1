"""The start offsets of leader epochs: the `leader-epoch-checkpoint` of a log (KIP-101, KIP-279)."""

from bisect import bisect_left, bisect_right

from broker_cy.storage.atomic import read_whole, write_atomically
from broker_cy.storage.checkpoints import decode_pairs, encode_pairs

FILE_NAME = "leader-epoch-checkpoint"
# An entry is at most 31 bytes of text: room for two million epochs.
SIZE_MAX_BYTES = 64 << 20
NO_EPOCH = -1
NO_OFFSET = -1


class LeaderEpochs:
    """Epochs of one log and their start offsets, both strictly increasing. Changes are in memory until `write`."""

    __slots__ = ("directory", "epochs", "starts")

    def __init__(self, directory: str, entries: list[tuple[int, int]] | None = None) -> None:
        self.directory = directory
        self.epochs = [epoch for epoch, _ in entries or ()]
        self.starts = [start for _, start in entries or ()]

    @classmethod
    def load(cls, directory: str) -> "LeaderEpochs":
        """Load the epochs from the checkpoint file; empty without a file. Raises ValueError if it is damaged."""
        try:
            data = read_whole(f"{directory}/{FILE_NAME}", SIZE_MAX_BYTES)
        except FileNotFoundError:
            return cls(directory)
        return cls(directory, decode_pairs(data, f"{directory}/{FILE_NAME}"))

    def write(self, *, sync: bool = False) -> None:
        """Replace the checkpoint file; raises OSError. Batches contain their epoch, so a lost file can be rebuilt."""
        write_atomically(f"{self.directory}/{FILE_NAME}", encode_pairs(self.entries), sync=sync)

    @property
    def entries(self) -> list[tuple[int, int]]:
        """(epoch, start offset) from the oldest to the newest."""
        return list(zip(self.epochs, self.starts, strict=True))

    @property
    def latest_epoch(self) -> int:
        """Return the newest epoch; -1 without epochs."""
        return self.epochs[-1] if self.epochs else NO_EPOCH

    def assign(self, epoch: int, start_offset: int) -> bool:
        """Record that `epoch` begins at `start_offset`; returns whether that was new.

        Entries that contradict it (a later offset or epoch) are removed, as in Kafka.
        """
        if epoch < 0 or start_offset < 0:
            raise ValueError(f"epoch {epoch} at offset {start_offset}: both must be at least 0")
        if self.epochs and self.epochs[-1] == epoch and self.starts[-1] <= start_offset:
            return False
        keep = min(bisect_left(self.epochs, epoch), bisect_left(self.starts, start_offset))
        del self.epochs[keep:], self.starts[keep:]
        self.epochs.append(epoch)
        self.starts.append(start_offset)
        return True

    def add_older(self, found: "LeaderEpochs") -> bool:
        """Prepend the epochs of `found` that begin before the first known one; returns whether there were any."""
        first, start = self.epochs[0], self.starts[0]
        older = [(epoch, at) for epoch, at in found.entries if epoch <= first and at < start]
        if not older:
            return False
        known = self.entries[older[-1][0] == first :]
        self.epochs, self.starts = map(list, zip(*older, *known, strict=True))
        return True

    def truncate_from_end(self, end_offset: int) -> bool:
        """Drop epochs that begin at or after `end_offset`; returns whether there were any."""
        keep = bisect_left(self.starts, end_offset)
        changed = keep < len(self.starts)
        del self.epochs[keep:], self.starts[keep:]
        return changed

    def truncate_from_start(self, start_offset: int) -> bool:
        """Drop epochs that end at or before `start_offset`; the epoch that contains it then begins there. Returns
        whether anything changed."""
        before = bisect_right(self.starts, start_offset)
        if before == 0 or (before == 1 and self.starts[0] == start_offset):
            return False
        del self.epochs[: before - 1], self.starts[: before - 1]
        self.starts[0] = start_offset
        return True

    def clear(self) -> None:
        """Drop all epochs."""
        self.epochs.clear()
        self.starts.clear()

    def end_offset_for(self, epoch: int, log_end_offset: int) -> tuple[int, int]:
        """Return (epoch, end offset) for OffsetForLeaderEpoch: the largest known epoch <= `epoch`, and its end.

        (-1, -1) if the epoch is unknown: none was requested, none is stored, or it is newer than the newest.
        """
        if epoch == NO_EPOCH or not self.epochs or epoch > self.epochs[-1]:
            return NO_EPOCH, NO_OFFSET
        if epoch == self.epochs[-1]:
            return epoch, log_end_offset
        higher = bisect_right(self.epochs, epoch)
        if higher == 0:
            # Older than all known epochs: it ended at the start of the first of them.
            return epoch, self.starts[0]
        return self.epochs[higher - 1], self.starts[higher]

    def epoch_for_offset(self, offset: int) -> int:
        """Return the epoch of the batch at `offset`; -1 if it is before the first known epoch."""
        at = bisect_right(self.starts, offset)
        return self.epochs[at - 1] if at else NO_EPOCH
