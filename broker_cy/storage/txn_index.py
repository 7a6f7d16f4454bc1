"""The `.txnindex` of a segment: the transactions whose abort marker is in the segment.

34 bytes each, big endian: version i16 (0), then as i64 producer id, first offset, last offset (of the marker) and last
stable offset.
"""

import os
import struct
from collections.abc import Iterable

from broker_cy.storage import disk

ENTRY = struct.Struct(">hqqqq")
VERSION = 0
# (producer id, first offset, last offset, last stable offset)
AbortedTransaction = tuple[int, int, int, int]


def path_of(directory: str, base_offset: int) -> str:
    """Path of the index of the segment at `base_offset`; the file exists only if a transaction was aborted."""
    return f"{directory}/{base_offset:020d}.txnindex"


def encode(entries: Iterable[AbortedTransaction]) -> bytes:
    """Content of an index."""
    return b"".join(ENTRY.pack(VERSION, *entry) for entry in entries)


def append(directory: str, base_offset: int, entries: Iterable[AbortedTransaction]) -> None:
    """Append entries to the file; raises OSError."""
    data = encode(entries)
    fd = os.open(path_of(directory, base_offset), os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
    try:
        while data:
            data = data[os.write(fd, data) :]
    finally:
        os.close(fd)


def read(directory: str, base_offset: int) -> list[AbortedTransaction]:
    """Entries in order of their markers; raises ValueError if the file is not an index, and OSError."""
    path = path_of(directory, base_offset)
    try:
        data = disk.read_whole(path)
    except FileNotFoundError:
        return []
    return decode(data, path)


def decode(data: bytes, path: str) -> list[AbortedTransaction]:
    """Entries in a file's content; raises ValueError, which names `path`, if that is not an index."""
    if len(data) % ENTRY.size:
        raise ValueError(f"{path} has {len(data)} bytes, expected a multiple of {ENTRY.size}")
    entries: list[AbortedTransaction] = []
    for version, producer_id, first, last, stable in ENTRY.iter_unpack(data):
        if version != VERSION or first > last:
            raise ValueError(f"{path}: entry {len(entries)} is not a transaction of version {VERSION}")
        entries.append((producer_id, first, last, stable))
    return entries


def problem_of(directory: str, base_offset: int, end_offset: int) -> str | None:
    """The problem of the index of the segment with the offsets from `base_offset` up to, but not including,
    `end_offset`; None if the index may be intact. Raises OSError.
    """
    try:
        entries = read(directory, base_offset)
    except ValueError as error:
        return str(error)
    marker = base_offset - 1
    for number, (producer_id, first, last, stable) in enumerate(entries):
        if producer_id < 0 or not max(marker, first) < last < end_offset or stable > last + 1:
            return f"{path_of(directory, base_offset)}: entry {number} does not belong to this segment"
        marker = last
    return None


def truncate_to(directory: str, base_offset: int, offset: int) -> None:
    """Drop the entries whose marker is at `offset` or later; raises OSError."""
    path = path_of(directory, base_offset)
    try:
        fd = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return
    try:
        keep = 0
        while len(raw := os.pread(fd, ENTRY.size, keep)) == ENTRY.size and ENTRY.unpack(raw)[3] < offset:
            keep += ENTRY.size
        os.ftruncate(fd, keep)
    finally:
        os.close(fd)
