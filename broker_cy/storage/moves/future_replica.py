"""The copy of a log in another data directory (Kafka's future replica): the parts that it has, and those to copy next.

The directory is `<topic>-<partition>.<uuid>-future`, as Kafka's. Files are copied byte for byte, in the order of the
segments: the records of a segment first, and its indexes and producer state once no more records are appended to it. So
a copy is a prefix of the log at any time. `plan` runs on the loop and touches no file. `read` runs in a worker of the
log's disk and `write` in one of the copy's: a disk that hangs holds only workers of its own. Kafka reads and appends
each batch again.
"""

from __future__ import annotations

import os
from contextlib import suppress
from typing import Final

from broker_cy.core.classes import NamedTuple
from broker_cy.storage.data_directory import PARTITION_METADATA
from broker_cy.storage.log import Log
from broker_cy.storage.segment_files import SEGMENT_SUFFIXES

RECORDS = ".log"
# Everything of a segment but its records.
OTHERS = tuple(suffix for suffix in SEGMENT_SUFFIXES if suffix != RECORDS)
TO_THE_END = -1
# Bytes of one write: the page cache takes memory in blocks as large as a write, and larger ones are slow to find.
WRITE_BYTES: Final = 1 << 20


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


# --- in workers


class Chunk(NamedTuple):
    """The bytes of a file from `start` to its `end` in the copy, with the times of the file in ns; None: there is no
    such file.
    """

    name: str
    start: int
    end: int
    parts: tuple[bytes, ...] = ()
    times: tuple[int, int] | None = None


def read(source: str, part: Part) -> list[Chunk]:
    """Read the pieces of a step from the log in `source`. In memory they are the records of the step, and the indexes
    and producer state of the segments that end in it. Raises OSError.
    """
    return [_read_piece(f"{source}/{piece.name}", piece) for piece in part.pieces]


def begin(source: str) -> Chunk:
    """Read the topic id of the log in `source`. Raises OSError."""
    return _read_piece(f"{source}/{PARTITION_METADATA}", Piece(PARTITION_METADATA, 0, TO_THE_END))


def make(path: str, topic_id: Chunk) -> None:
    """Make the directory of a copy, with what `begin` has read. Raises OSError."""
    # Not the data directory as well: it is missing if its disk was removed.
    with suppress(FileExistsError):
        os.mkdir(path)
    write(path, (), [topic_id], sync=False)


def write(
    path: str, removals: tuple[str, ...], chunks: list[Chunk], *, sync: bool = True, keep_cached: bool = True
) -> dict[str, int]:
    """Remove files of the copy at `path`, then write to it. Returns the sizes that the written files have then; 0 for a
    file that does not exist. With `sync` the content is on disk then; without `keep_cached` it then leaves the page
    cache. Raises OSError.
    """
    for name in removals:
        with suppress(FileNotFoundError):
            os.unlink(f"{path}/{name}")
    for chunk in chunks:
        if chunk.times is not None:
            _write_chunk(f"{path}/{chunk.name}", chunk, chunk.times, sync=sync, keep_cached=keep_cached)
    return {chunk.name: chunk.end for chunk in chunks}


def _read_piece(path: str, piece: Piece) -> Chunk:
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        # A segment without this file, or one that retention has removed: then the next step removes the copy.
        return Chunk(piece.name, 0, 0)
    try:
        found = os.fstat(fd)
        end = found.st_size if piece.end == TO_THE_END else piece.end
        parts: list[bytes] = []
        at = piece.start
        while at < end:
            # In one call: each return waits for the loop.
            parts.append(os.pread(fd, end - at, at))
            if not parts[-1]:
                raise OSError(f"{path} ends at {at}, not at {end}")
            at += len(parts[-1])
        if piece.end != TO_THE_END:
            # The disk reads the next step while this one is written.
            os.posix_fadvise(fd, end, end - piece.start, os.POSIX_FADV_WILLNEED)
    finally:
        os.close(fd)
    return Chunk(piece.name, piece.start, end, tuple(parts), (found.st_atime_ns, found.st_mtime_ns))


def _write_chunk(path: str, chunk: Chunk, times: tuple[int, int], *, sync: bool, keep_cached: bool) -> None:
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        at = chunk.start
        for part in chunk.parts:
            view, end = memoryview(part), at + len(part)
            while at < end:
                written = os.pwrite(fd, view[:WRITE_BYTES], at)
                view, at = view[written:], at + written
        os.ftruncate(fd, chunk.end)
        # Retention of records without a timestamp is determined by it.
        os.utime(fd, ns=times)
        if sync:
            os.fdatasync(fd)
        if not keep_cached:
            os.posix_fadvise(fd, chunk.start, chunk.end - chunk.start, os.POSIX_FADV_DONTNEED)
    finally:
        os.close(fd)
