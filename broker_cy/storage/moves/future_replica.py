"""The copy of a log in another data directory (Kafka's future replica): the parts that it has, and those to copy next.

The directory is `<topic>-<partition>.<uuid>-future`, as Kafka's. Files are copied byte for byte, in the order of the
segments: the records of a segment first, and its indexes and producer state once no more records are appended to it. So
a copy is a prefix of the log at any time. `plan` runs on the loop and touches no file; `copy` runs in a worker. Kafka
reads and appends each batch again.
"""

from __future__ import annotations

import os
from contextlib import suppress
from typing import NamedTuple

from broker_cy.storage.data_directory import PARTITION_METADATA
from broker_cy.storage.log import Log
from broker_cy.storage.segment_files import SEGMENT_SUFFIXES

RECORDS = ".log"
# Everything of a segment but its records.
OTHERS = tuple(suffix for suffix in SEGMENT_SUFFIXES if suffix != RECORDS)
TO_THE_END = -1


class Piece(NamedTuple):
    """The bytes from `start` to `end` of a file of the log; TO_THE_END: all that the file has."""

    name: str
    start: int
    end: int


class Part(NamedTuple):
    """A step of a copy: files to remove, then pieces to copy."""

    removals: tuple[str, ...]
    pieces: tuple[Piece, ...]

    @property
    def size_bytes(self) -> int:
        """The records in it."""
        return sum(each.end - each.start for each in self.pieces if each.end != TO_THE_END)


class FutureReplica:
    """The copy at `path`. It has the log's records below `end_offset`, and these are on disk."""

    def __init__(self, path: str, start_offset: int) -> None:
        self.path = path
        self.end_offset = start_offset
        # Bytes of each file that were copied, by name. At most the files of the log.
        self._copied: dict[str, int] = {}
        # The base offsets of the segments that are copied with everything.
        self._complete: set[int] = set()
        # Files to remove, because their records were truncated.
        self._stale: set[str] = set()

    @property
    def size_bytes(self) -> int:
        """The records that were copied."""
        return sum(size for name, size in self._copied.items() if name.endswith(RECORDS))

    def remaining_bytes(self, log: Log) -> int:
        """The records of the log that the copy does not have."""
        return sum(max(0, each.size - self._copied.get(_name(each.base_offset, RECORDS), 0)) for each in log.segments)

    def plan(self, log: Log, bytes_max: int) -> Part:
        """The next step, with about `bytes_max` of records at most. Nothing may be staged."""
        bases = {each.base_offset for each in log.segments}
        removals = (*self._stale, *(name for name in self._copied if int(name[:20]) not in bases))
        pieces: list[Piece] = []
        left = bytes_max
        for segment in log.segments:
            if segment.base_offset in self._complete:
                continue
            if left <= 0:
                break
            name = _name(segment.base_offset, RECORDS)
            start = self._copied.get(name, -1)
            if start < segment.size:
                end = min(segment.size, max(start, 0) + left)
                pieces.append(Piece(name, max(start, 0), end))
                left -= end - max(start, 0)
                if end < segment.size:
                    break
            if segment is not log.active:
                pieces += self._others(segment.base_offset)
        return Part(removals, tuple(pieces))

    def rest(self, log: Log) -> Part:
        """All that is missing, with the indexes of the active segment, which have no entries in memory alone."""
        part = self.plan(log, 1 << 62)
        return part._replace(pieces=(*part.pieces, *self._others(log.active.base_offset)))

    def _others(self, base_offset: int) -> list[Piece]:
        names = (_name(base_offset, suffix) for suffix in OTHERS)
        return [Piece(name, self._copied.get(name, 0), TO_THE_END) for name in names]

    def note(self, part: Part, copied: dict[str, int], log: Log) -> None:
        """A step is done: `copied` has the new sizes of its files."""
        for name in part.removals:
            self._copied.pop(name, None)
            self._complete.discard(int(name[:20]))
        self._stale.difference_update(part.removals)
        self._copied.update(copied)
        at = log.log_start_offset
        for number, segment in enumerate(log.segments):
            if self._copied.get(_name(segment.base_offset, RECORDS), -1) < segment.size:
                break
            is_active = segment is log.active
            at = log.written_end_offset if is_active else log.segments[number + 1].base_offset
            if not is_active and all(_name(segment.base_offset, suffix) in copied for suffix in OTHERS):
                self._complete.add(segment.base_offset)
        self.end_offset = at

    def truncate(self, log: Log, offset: int) -> None:
        """The log was truncated to `offset`: the segments that may have other records now are copied again."""
        kept = {
            segment.base_offset
            for segment, following in zip(log.segments, log.segments[1:], strict=False)
            if following.base_offset <= offset
        }
        gone = [name for name in self._copied if int(name[:20]) not in kept]
        for name in gone:
            del self._copied[name]
        self._stale.update(gone)
        self._complete &= kept
        self.end_offset = min(self.end_offset, offset)


def _name(base_offset: int, suffix: str) -> str:
    return f"{base_offset:020d}{suffix}"


# --- in a worker


def begin(source: str, path: str) -> None:
    """Make the directory of a copy, with the topic id. Raises OSError."""
    os.makedirs(path, exist_ok=True)
    copy(source, path, Part((), (Piece(PARTITION_METADATA, 0, TO_THE_END),)), sync=False)


def copy(source: str, path: str, part: Part, *, sync: bool = True) -> dict[str, int]:
    """Carry out a step: copy files of the log in `source` to `path`. Returns the sizes that the copied files have then;
    0 for a file that does not exist. With `sync` the content is on disk then. Raises OSError.
    """
    for name in part.removals:
        with suppress(FileNotFoundError):
            os.unlink(f"{path}/{name}")
    return {
        piece.name: _copy_piece(f"{source}/{piece.name}", f"{path}/{piece.name}", piece, sync) for piece in part.pieces
    }


def _copy_piece(source: str, target: str, piece: Piece, sync: bool) -> int:
    try:
        source_fd = os.open(source, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        # A segment without this file, or one that retention has removed: then the next step removes the copy.
        return 0
    try:
        found = os.fstat(source_fd)
        end = found.st_size if piece.end == TO_THE_END else piece.end
        target_fd = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            _copy_range(source_fd, target_fd, piece.start, end)
            os.ftruncate(target_fd, end)
            # Retention of records without a timestamp is determined by it.
            os.utime(target_fd, ns=(found.st_atime_ns, found.st_mtime_ns))
            if sync:
                os.fdatasync(target_fd)
        finally:
            os.close(target_fd)
    finally:
        os.close(source_fd)
    return end


def _copy_range(source_fd: int, target_fd: int, start: int, end: int) -> None:
    """Within the kernel: sendfile works between any two file systems."""
    os.lseek(target_fd, start, os.SEEK_SET)
    while start < end:
        sent = os.sendfile(target_fd, source_fd, start, end - start)
        if not sent:
            raise OSError(f"the file ends at {start}, not at {end}")
        start += sent
