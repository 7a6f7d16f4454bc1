"""The files of partitions, read while a broker writes, cleans and deletes them: every read is counted, and no file is
assumed to remain.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType
from uuid import UUID

from broker_cy.core.crc32c import value as crc32c
from broker_cy.storage.checkpoints import HIGH_WATERMARKS, LOG_START_OFFSETS, Entries, read_entries
from broker_cy.storage.data_directory import parse_partition, read_topic_id
from broker_cy.storage.log_files import DIGITS, base_offset_of
from spark_analytics.segments.errors import SegmentsError
from spark_analytics.segments.report import Counters

# Base offset, length, leader epoch, magic, checksum, attributes, last offset delta, base and largest timestamp,
# producer id, producer epoch, base sequence, count (broker_cy/wire/batch.pyx).
HEADER = struct.Struct(">qiibIhiqqqhii")
OVERHEAD_BYTES = 12
CRC_START = 21
MAGIC = 2
_TRANSACTIONAL, _CONTROL = 0x10, 0x20
_OFFSET_ENTRY, _TIME_ENTRY = struct.Struct(">ii"), struct.Struct(">qi")
# Cleaning renames the files of a segment one after the other; a listing in between is repeated, at most this often.
LISTINGS_MAX = 50
SWAP = ".swap"


@dataclass(frozen=True)
class Header:
    """The header of a batch at `position` of a segment."""

    position: int
    base_offset: int
    last_offset: int
    size: int
    crc: int
    max_timestamp: int
    producer_id: int
    is_transactional: bool
    is_control: bool

    @property
    def end(self) -> int:
        """Return the position after the batch."""
        return self.position + self.size


class CountedFile:
    """A file that is read at positions. Raises FileNotFoundError, and SegmentsError if reading is not permitted."""

    def __init__(self, path: str, counters: Counters) -> None:
        self.path = path
        self._counters = counters
        try:
            self._fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except PermissionError as error:
            raise SegmentsError(f"{path} cannot be read: {error.strerror}") from None

    def __enter__(self) -> CountedFile:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.close(self._fd)

    @property
    def identity(self) -> tuple[int, int]:
        """Return device and inode, which remain when the file is renamed."""
        found = os.fstat(self._fd)
        return found.st_dev, found.st_ino

    @property
    def size(self) -> int:
        """Return the size now."""
        return os.fstat(self._fd).st_size

    def read(self, position: int, size: int) -> bytes:
        """Return `size` bytes, less only at the end of the file."""
        data = os.pread(self._fd, size, position)
        while 0 < len(data) < size and (more := os.pread(self._fd, size - len(data), position + len(data))):
            data += more
        self._counters.bytes_read += len(data)
        return data

    def header(self, position: int) -> Header | str | None:
        """Return the header of the batch at `position`, None if it is not complete yet, or the error."""
        if position < 0:
            return None  # from a damaged index
        size = self.size
        data = self.read(position, HEADER.size)
        if len(data) < HEADER.size or not any(data):
            # A file that was allocated in advance ends in zeros.
            return None
        base, length, _, magic, crc, attributes, delta, _, max_timestamp, producer, _, _, _ = HEADER.unpack(data)
        if magic != MAGIC:
            return f"the batch has magic {magic}, and only {MAGIC} is supported"
        if length < HEADER.size - OVERHEAD_BYTES:
            return f"the batch has length {length}; at least {HEADER.size - OVERHEAD_BYTES} is required"
        if base < 0 or delta < 0:
            return f"the batch has base offset {base} and last offset delta {delta}"
        if position + OVERHEAD_BYTES + length > size:
            return None
        return Header(
            position,
            base,
            base + delta,
            OVERHEAD_BYTES + length,
            crc,
            max_timestamp,
            producer,
            bool(attributes & _TRANSACTIONAL),
            bool(attributes & _CONTROL),
        )

    def is_whole(self, header: Header) -> bool:
        """Return whether the checksum of a batch is that of its bytes."""
        return crc32c(self.read(header.position + CRC_START, header.size - CRC_START)) == header.crc


class Index:
    """An index of a segment; a missing or damaged one has no entries, and the segment is read from its start."""

    def __init__(self, path: str, entry: struct.Struct, counters: Counters) -> None:
        self._entry = entry
        self._file: CountedFile | None = None
        try:
            self._file = CountedFile(path, counters)
        except FileNotFoundError:
            pass
        self.count = self._search(lambda _: True)

    def __enter__(self) -> Index:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._file is not None:
            self._file.__exit__(kind, error, trace)

    def at(self, number: int) -> tuple[int, int]:
        """Return an entry: (relative offset, position), or (timestamp, relative offset)."""
        assert self._file is not None
        data = self._file.read(number * self._entry.size, self._entry.size)
        if len(data) < self._entry.size:
            return 0, 0
        first, second = self._entry.unpack(data)
        return int(first), int(second)

    def before(self, is_before: Callable[[tuple[int, int]], bool]) -> int:
        """Return the number of entries before the first one that `is_before` is false for."""
        return self._search(is_before)

    def _search(self, is_before: Callable[[tuple[int, int]], bool]) -> int:
        low, high = 0, 0
        if self._file is not None:
            high = self._file.size // self._entry.size
        while low < high:
            middle = (low + high) // 2
            entry = self.at(middle)
            # A file that was allocated in advance ends in zeros.
            if any(entry) and is_before(entry):
                low = middle + 1
            else:
                high = middle
        return low


@dataclass(frozen=True)
class SegmentFile:
    """A segment: its base offset, and the path of its `.log`, which may still have the mark of the cleaner."""

    base_offset: int
    path: str

    @property
    def is_swap(self) -> bool:
        """Return whether cleaning has written this segment and not renamed it yet."""
        return self.path.endswith(SWAP)

    def side(self, suffix: str) -> str:
        """Return the path of another file of the segment."""
        mark = SWAP if self.is_swap else ""
        return f"{self.path.removesuffix(mark).removesuffix('.log')}{suffix}{mark}"

    def offset_index(self, counters: Counters) -> Index:
        """Return the index of offsets: entries are (relative last offset of a batch, its position)."""
        return Index(self.side(".index"), _OFFSET_ENTRY, counters)

    def time_index(self, counters: Counters) -> Index:
        """Return the index of times: no record up to the entry's offset has a later timestamp."""
        return Index(self.side(".timeindex"), _TIME_ENTRY, counters)


def segments(directory: str) -> list[SegmentFile]:
    """Return the segments in order. Raises OSError if the directory cannot be read."""
    names = _names(directory)
    for _ in range(LISTINGS_MAX):
        again = _names(directory)
        if again == names:
            break
        names = again
    found: dict[int, SegmentFile] = {}
    for name in sorted(names):  # with the mark after without: a cleaned segment replaces those before and after it
        base = base_offset_of(name)
        if base is not None and name[DIGITS:] in (".log", ".log" + SWAP):
            found[base] = SegmentFile(base, f"{directory}/{name}")
    return [found[base] for base in sorted(found)]


def _names(directory: str) -> set[str]:
    return {name for name in os.listdir(directory) if ".log" in name}


@dataclass(frozen=True)
class PartitionFolder:
    """A partition, and the offsets that the broker noted for it; None if it noted no offset."""

    topic: str
    partition: int
    directory: str
    start_offset: int | None
    high_watermark: int | None
    topic_id: UUID | None


def partitions(
    directories: tuple[str, ...], topics: tuple[str, ...], *, may_lack: bool = False
) -> list[PartitionFolder]:
    """Return the partitions of the topics; of several replicas, the one with the most records. `may_lack`: topics may
    have none. Raises SegmentsError for a missing directory or topic, if it is not known which replica has the most, or
    whether two folders are replicas.
    """
    found: dict[tuple[str, int], PartitionFolder] = {}
    seen: set[str] = set()
    for directory in directories:
        try:
            names = sorted(os.listdir(directory))
        except OSError as error:
            raise SegmentsError(f"log directory {directory} cannot be read: {error.strerror}") from None
        starts, marks = (_checkpoint(f"{directory}/{name}") for name in (LOG_START_OFFSETS, HIGH_WATERMARKS))
        for name in names:
            key = parse_partition(name)
            path = os.path.abspath(f"{directory}/{name}")
            if key is None or not os.path.isdir(path):
                continue
            seen.add(key[0])
            if key[0] not in topics:
                continue
            topic_id = _topic_id(path)
            start, mark = starts.offset_of(key, topic_id), marks.offset_of(key, topic_id)
            folder = PartitionFolder(*key, path, start, mark, topic_id)
            found[key] = _fuller(found[key], folder) if key in found else folder
    missing = [topic for topic in topics if topic not in seen]
    if missing and not may_lack:
        there = ", ".join(sorted(seen)) or "no topic at all: a log directory has folders such as orders-0"
        raise SegmentsError(f"topic {', '.join(missing)} is not in {', '.join(directories)}; there is {there}")
    return [found[key] for key in sorted(found)]


def _fuller(one: PartitionFolder, other: PartitionFolder) -> PartitionFolder:
    """Return the replica of a partition whose high watermark is higher: the records below it are the same in both."""
    if one.directory == other.directory:
        return one
    same = f"{one.directory} and {other.directory} are the same partition"
    if one.high_watermark is None or other.high_watermark is None:
        raise SegmentsError(f"{same}, and {HIGH_WATERMARKS} does not have both: give one of the two")
    if one.topic_id is not None and other.topic_id is not None and one.topic_id != other.topic_id:
        raise SegmentsError(
            f"{same} of different topics (ids {one.topic_id} and {other.topic_id}): give one of the two"
        )
    return other if other.high_watermark > one.high_watermark else one


def _topic_id(directory: str) -> UUID | None:
    try:
        return read_topic_id(directory)
    except (OSError, ValueError) as error:
        raise SegmentsError(f"partition metadata cannot be read: {error}") from None


def _checkpoint(path: str) -> Entries:
    try:
        return read_entries(path)
    except (OSError, ValueError) as error:
        raise SegmentsError(f"checkpoint cannot be read: {error}") from None
