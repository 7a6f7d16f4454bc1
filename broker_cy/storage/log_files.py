"""The files in a partition's directory as a start finds them: their names and sizes, and the removal of files that an
interrupted operation left. Loading a log from them is in log_loader.py.
"""

from __future__ import annotations

import logging
import os

from broker_cy.core.logs import facts
from broker_cy.storage import log_deletion, noted_state, recovery, snapshots, txn_index
from broker_cy.storage.atomic import sync_directory
from broker_cy.storage.segment_files import SNAPSHOT_SUFFIX

logger = logging.getLogger(__name__)

# Greater than every offset.
NEVER = (1 << 63) - 1
# Number of digits of the offset in a file name.
DIGITS = 20
# The last offset of a segment, which is at most 2^31 higher, has to be an int64, too.
BASE_OFFSET_MAX = NEVER - (1 << 32)


class LogFiles:
    """Names and sizes found in a partition's directory, after the files of interrupted operations were removed."""

    def __init__(self, directory: str) -> None:
        self.directory = directory
        self.log_sizes: dict[int, int] = {}
        self.index_sizes: dict[int, int] = {}
        self.time_index_sizes: dict[int, int] = {}
        self.txn_indexes: set[int] = set()
        self.snapshots: list[int] = []
        self._deleted: set[str] = set()
        swaps = self._scan()
        if swaps:
            self._finish_swap(swaps)
            self.log_sizes.clear()
            self.index_sizes.clear()
            self.time_index_sizes.clear()
            self.snapshots.clear()
            self.txn_indexes.clear()
            self._scan()
        for base in (self.index_sizes.keys() | self.time_index_sizes.keys()) - self.log_sizes.keys():
            logger.warning("removed the indexes of a missing segment", extra=facts(path=directory, base_offset=base))
            for suffix in (".index", ".timeindex"):
                _unlink(f"{directory}/{base:020d}{suffix}")
        for base in self.txn_indexes - self.log_sizes.keys():
            # Otherwise the next segment that begins at this offset would add its entries to those.
            _unlink(txn_index.path_of(directory, base))
        self.txn_indexes &= self.log_sizes.keys()

    def _scan(self) -> list[str]:
        """Note the files, remove those of interrupted operations, and return the names of the files that wait to be
        swapped in.
        """
        by_suffix = {".log": self.log_sizes, ".index": self.index_sizes, ".timeindex": self.time_index_sizes}
        swaps = []
        cleaned = NEVER
        with os.scandir(self.directory) as entries:
            for entry in entries:
                name = entry.name
                base = base_offset_of(name)
                if base is None:
                    if name.endswith(".tmp"):
                        _unlink(entry.path)
                    continue
                suffix = name[DIGITS:]
                if suffix in by_suffix:
                    by_suffix[suffix][base] = entry.stat().st_size
                elif suffix == ".txnindex":
                    self.txn_indexes.add(base)
                elif suffix == SNAPSHOT_SUFFIX:
                    self.snapshots.append(base)
                elif suffix.endswith(".swap"):
                    swaps.append(name)
                elif suffix.endswith(".cleaned"):
                    cleaned = min(cleaned, base)
                    _unlink(entry.path)
                elif suffix.endswith(".deleted"):
                    self._deleted.add(name)
                elif suffix.endswith(".tmp") and ".checkpoint" not in suffix:
                    _unlink(entry.path)
        # A swap file at or above an unfinished cleaned one belongs to a split that did not complete.
        for name in [name for name in swaps if int(name[:DIGITS]) >= cleaned]:
            _unlink(f"{self.directory}/{name}")
            swaps.remove(name)
        return swaps

    def deleted_end(self) -> int:
        """End offset of the newest deleted segment whose files still exist; 0 if there is none. A log without any other
        segment does not begin before that: the file that followed was lost in a power loss.
        """
        bases = [int(name[:DIGITS]) for name in self._deleted if name[DIGITS:] == ".log.deleted"]
        if not bases:
            return 0
        path = f"{self.directory}/{max(bases):0{DIGITS}d}.log.deleted"
        return int(recovery.next_offset_of_file(path, max(bases), os.path.getsize(path)))

    def remove_behind(self, end_offset: int) -> None:
        """Remove the segments and the producer states left by a failed write that could not be undone."""
        for base in sorted(self.log_sizes):
            if base > end_offset:
                logger.warning(
                    "removed a segment that was left by a failed write",
                    extra=facts(path=self.directory, base_offset=base),
                )
                log_deletion.remove_segment(self.directory, base)
                del self.log_sizes[base]
                self.txn_indexes.discard(base)
        for offset in [offset for offset in self.snapshots if offset > end_offset]:
            snapshots.remove(self.directory, offset)
            self.snapshots.remove(offset)
        sync_directory(self.directory)

    def remove_all(self) -> None:
        """Remove all segments, the deleted ones too, and all producer state, so that no power loss brings them back."""
        for base in sorted(self.log_sizes, reverse=True):
            log_deletion.remove_segment(self.directory, base)
        for offset in self.snapshots:
            snapshots.remove(self.directory, offset)
        self.snapshots.clear()
        noted_state.forget(self.directory)
        self.remove_deleted()
        sync_directory(self.directory)

    def remove_deleted(self) -> None:
        """Remove the files of deleted segments."""
        for name in sorted(self._deleted):
            _unlink(f"{self.directory}/{name}")
        self._deleted.clear()

    def _finish_swap(self, swaps: list[str]) -> None:
        """Put the segments in place that compaction had completed when the broker stopped, and remove those that they
        replace.
        """
        lowest, highest = NEVER, -1
        for name in swaps:
            if name[DIGITS:] == ".log.swap":
                size = os.path.getsize(f"{self.directory}/{name}")
                base = int(name[:DIGITS])
                lowest = min(lowest, base)
                highest = max(highest, recovery.next_offset_of_file(f"{self.directory}/{name}", base, size))
        for name in os.listdir(self.directory):
            found = base_offset_of(name)
            if found is not None and not name.endswith(".swap") and lowest <= found < highest:
                logger.info("removed a file that compaction replaced", extra=facts(path=f"{self.directory}/{name}"))
                _unlink(f"{self.directory}/{name}")
        for name in swaps:
            os.replace(f"{self.directory}/{name}", f"{self.directory}/{name.removesuffix('.swap')}")
        sync_directory(self.directory)


def base_offset_of(name: str) -> int | None:
    """The base offset at the start of a segment file's name; None if the name cannot be that of a segment's file."""
    stem = name[:DIGITS]
    if len(stem) < DIGITS or not (stem.isascii() and stem.isdigit()):
        return None
    base = int(stem)
    return base if base <= BASE_OFFSET_MAX else None


def newest_base_offset(directory: str) -> int:
    """Base offset of the newest segment in a partition's directory; 0 if there is none. Raises OSError."""
    bases = [base_offset_of(name) for name in os.listdir(directory) if name[DIGITS:] == ".log"]
    return max((base for base in bases if base is not None), default=0)


def _unlink(path: str) -> None:
    try:
        os.unlink(path)
    except FileNotFoundError:
        return
