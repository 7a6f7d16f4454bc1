"""The copy of a log in another data directory (Kafka's future replica): the parts that it has, and those to copy next.

The directory is `<topic>-<partition>.<uuid>-future`, as Kafka's. Files are copied byte for byte, in the order of the
segments: the records of a segment first, and its indexes and producer state once no more records are appended to it. So
a copy is a prefix of the log at any time. `plan` runs on the loop and touches no file. `read` runs in a worker of the
log's disk and `write` in one of the copy's: a disk that hangs holds only workers of its own. Kafka reads and appends
each batch again.

A step waits until the disk has its bytes, and syncs only the files that are complete with it: a sync of each step would
commit the journal of the file system a hundred times a second, and the appends to all logs wait for that. The last step
before the swap syncs the others (`rest`). A crash before the swap leaves a copy that nothing uses.
"""

from __future__ import annotations

import os
from contextlib import suppress
from typing import Final

from broker_cy.core.classes import NamedTuple
from broker_cy.storage.data_directory import PARTITION_METADATA
from broker_cy.storage.log import Log
from broker_cy.storage.moves.step_buffer import StepBuffer
from broker_cy.storage.segment_files import SEGMENT_SUFFIXES

RECORDS = ".log"
# Everything of a segment but its records.
OTHERS = tuple(suffix for suffix in SEGMENT_SUFFIXES if suffix != RECORDS)
TO_THE_END: Final = -1


class Piece(NamedTuple):
    """The bytes from `start` to `end` of a file of the log; TO_THE_END: all that the file has. With `syncs`, the copy
    of the file is synced then.
    """

    name: str
    start: int
    end: int
    syncs: bool = True


class Part(NamedTuple):
    """A step of a copy: files to remove, then pieces to copy."""

    removals: tuple[str, ...]
    pieces: tuple[Piece, ...]

    @property
    def size_bytes(self) -> int:
        """The records in it."""
        return sum(each.end - each.start for each in self.pieces if each.end != TO_THE_END)


class FutureReplica:
    """The copy at `path`. It has the log's records below `end_offset`."""

    def __init__(self, path: str, start_offset: int) -> None:
        self.path = path
        self.end_offset = start_offset
        # Bytes of each file that were copied, by name. At most the files of the log.
        self._copied: dict[str, int] = {}
        # The base offsets of the segments that are copied with everything.
        self._complete: set[int] = set()
        # Files to remove, because their records were truncated.
        self._stale: set[str] = set()
        # Files that were written since their last sync.
        self._unsynced: set[str] = set()

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
            is_active = segment is log.active
            end = min(segment.size, max(start, 0) + left)
            syncs = end == segment.size and not is_active
            if start < segment.size or (syncs and name in self._unsynced):
                pieces.append(Piece(name, max(start, 0), end, syncs))
                left -= end - max(start, 0)
                if end < segment.size:
                    break
            if not is_active:
                pieces += self._others(segment.base_offset)
        return Part(removals, tuple(pieces))

    def rest(self, log: Log, *, syncs: bool) -> Part:
        """All that is missing, with the indexes of the active segment, which have no entries in memory alone. With
        `syncs`, the whole copy is on disk then; else nothing is synced.
        """
        part = self.plan(log, 1 << 62)
        pieces = [each._replace(syncs=syncs) for each in (*part.pieces, *self._others(log.active.base_offset))]
        if syncs:
            missing = self._unsynced.difference(part.removals, (each.name for each in pieces))
            pieces += [Piece(name, self._copied[name], self._copied[name]) for name in sorted(missing)]
        return part._replace(pieces=tuple(pieces))

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
        self._unsynced.difference_update(part.removals, (each.name for each in part.pieces if each.syncs))
        self._unsynced.update(each.name for each in part.pieces if not each.syncs)
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
        self._unsynced.difference_update(gone)
        self._stale.update(gone)
        self._complete &= kept
        self.end_offset = min(self.end_offset, offset)


def _name(base_offset: int, suffix: str) -> str:
    return f"{base_offset:020d}{suffix}"


# --- in workers

# The first sync of the log after the swap includes it.
_TOPIC_ID = Piece(PARTITION_METADATA, 0, TO_THE_END, syncs=False)


class Chunk(NamedTuple):
    """The bytes of a file from `start` to its `end` in the copy, at `span` in the buffer of the move, with the times of
    the file in ns; None: there is no such file.
    """

    name: str
    start: int
    end: int
    span: int = 0
    times: tuple[int, int] | None = None
    syncs: bool = False


def read(source: str, part: Part, buffer: StepBuffer, *, is_first: bool) -> list[Chunk]:
    """Read the pieces of a step from the log in `source` into the buffer. These are the records of the step, and the
    indexes and producer state of the segments that end in it; for the first step also the topic id. Raises OSError,
    MemoryError.
    """
    buffer.clear()
    pieces = (_TOPIC_ID, *part.pieces) if is_first else part.pieces
    return [_read_piece(f"{source}/{piece.name}", piece, buffer) for piece in pieces]


def make(path: str) -> None:
    """Make the directory of a copy. Raises OSError."""
    # Not the data directory as well: it is missing if its disk was removed.
    with suppress(FileExistsError):
        os.mkdir(path)


def write(
    path: str, removals: tuple[str, ...], chunks: list[Chunk], buffer: StepBuffer, *, keep_cached: bool = True
) -> dict[str, int]:
    """Remove files of the copy at `path`, then write to it what `read` has put into the buffer. Returns the sizes that
    the written files have then; 0 for a file that does not exist. Without `keep_cached`, the content leaves the page
    cache. Raises OSError.
    """
    for name in removals:
        with suppress(FileNotFoundError):
            os.unlink(f"{path}/{name}")
    for chunk in chunks:
        if chunk.times is not None:
            _write_chunk(f"{path}/{chunk.name}", chunk, chunk.times, buffer, keep_cached=keep_cached)
    return {chunk.name: chunk.end for chunk in chunks if chunk.name != PARTITION_METADATA}


def _read_piece(path: str, piece: Piece, buffer: StepBuffer) -> Chunk:
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        # A segment without this file, or one that retention has removed: then the next step removes the copy.
        return Chunk(piece.name, 0, 0)
    try:
        found = os.fstat(fd)
        end = found.st_size if piece.end == TO_THE_END else piece.end
        span, size = buffer.used_bytes, max(0, end - piece.start)
        if (got := buffer.read(fd, piece.start, size)) < size:
            raise OSError(f"{path} ends at {piece.start + got}, not at {end}")
    finally:
        os.close(fd)
    return Chunk(piece.name, piece.start, end, span, (found.st_atime_ns, found.st_mtime_ns), piece.syncs)


def _write_chunk(path: str, chunk: Chunk, times: tuple[int, int], buffer: StepBuffer, *, keep_cached: bool) -> None:
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        buffer.write(fd, chunk.span, max(0, chunk.end - chunk.start), chunk.start, keep_cached)
        if chunk.syncs:
            os.ftruncate(fd, chunk.end)
            # Retention of records without a timestamp is determined by it.
            os.utime(fd, ns=times)
            os.fdatasync(fd)
    finally:
        os.close(fd)
