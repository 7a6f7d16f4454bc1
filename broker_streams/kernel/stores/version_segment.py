"""The older versions of one key in one segment of a versioned store (KIP-889).

Layout, big-endian: next timestamp int64, earliest timestamp int64; for each version, the latest first, its timestamp
int64 and the size of its value int32, -1 for a tombstone; then the values, the earliest first. A version is valid until
the version after it, and the latest one until the next timestamp. A segment whose two timestamps are equal holds only a
tombstone that is valid for no time: it says that the key was deleted then.
"""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

_TIMES: Final = struct.Struct(">qq")
_VERSION: Final = struct.Struct(">qi")
TOMBSTONE_SIZE: Final = -1


class Found(NamedTuple):
    """A version: its place, times, and value; None: a tombstone."""

    place: int
    valid_from: int
    valid_to: int
    value: bytes | None


def times_of(data: bytes) -> tuple[int, int]:
    """Next and earliest timestamp, without the versions."""
    next_timestamp, earliest = _TIMES.unpack_from(data)
    return next_timestamp, earliest


class VersionSegment:
    """Versions, the latest first; times fall from one to the next."""

    __slots__ = ("next_timestamp", "versions")

    def __init__(self, value: bytes | None, valid_from: int, valid_to: int) -> None:
        self.next_timestamp = valid_to
        self.versions: list[tuple[int, bytes | None]] = [(valid_from, value)]

    @classmethod
    def of(cls, data: bytes) -> VersionSegment:
        next_timestamp, earliest = _TIMES.unpack_from(data)
        segment = cls(None, earliest, next_timestamp)
        segment.versions.clear()
        at, end = _TIMES.size, len(data)
        timestamp = None
        while timestamp != earliest:
            timestamp, size = _VERSION.unpack_from(data, at)
            at += _VERSION.size
            if size == TOMBSTONE_SIZE:
                segment.versions.append((timestamp, None))
            else:
                segment.versions.append((timestamp, data[end - size : end]))
                end -= size
        return segment

    def data(self) -> bytes:
        heads = [
            _VERSION.pack(timestamp, TOMBSTONE_SIZE if value is None else len(value))
            for timestamp, value in self.versions
        ]
        values = [value for _, value in reversed(self.versions) if value is not None]
        return b"".join((_TIMES.pack(self.next_timestamp, self.earliest), *heads, *values))

    @property
    def earliest(self) -> int:
        return self.versions[-1][0]

    @property
    def is_empty(self) -> bool:
        """True: only a tombstone that is valid for no time."""
        return self.next_timestamp == self.earliest

    def find(self, timestamp: int) -> Found:
        """The version that is valid at a time from the earliest one to before the next timestamp."""
        valid_to = self.next_timestamp
        for index, (valid_from, value) in enumerate(self.versions):
            if valid_from <= timestamp:
                return Found(index, valid_from, valid_to, value)
            valid_to = valid_from
        raise ValueError(f"no version is valid at {timestamp}; the earliest one begins at {self.earliest}")

    def between(self, from_ms: int, to_ms: int) -> list[Found]:
        """Versions with a value that are valid within these times, the latest first."""
        found = []
        valid_to = self.next_timestamp
        for index, (valid_from, value) in enumerate(self.versions):
            if value is not None and valid_from <= to_ms and valid_to > from_ms:
                found.append(Found(index, valid_from, valid_to, value))
            valid_to = valid_from
        return found

    def add_latest(self, value: bytes | None, valid_from: int, valid_to: int) -> None:
        """Add a version after all others. A gap before it becomes a tombstone.

        A version that begins before the next timestamp was written by a batch that failed half way; it replaces the
        versions from there on.
        """
        if valid_from < self.next_timestamp:
            self._truncate(valid_from)
        added: list[tuple[int, bytes | None]] = [(valid_from, value)]
        if self.next_timestamp != valid_from:
            added.append((self.next_timestamp, None))
        self.versions = added if self.is_empty else added + self.versions
        self.next_timestamp = valid_to

    def _truncate(self, timestamp: int) -> None:
        kept = [version for version in self.versions if version[0] < timestamp]
        self.versions = kept or [(timestamp, None)]
        self.next_timestamp = timestamp

    def add_earliest(self, value: bytes | None, timestamp: int) -> None:
        if self.is_empty:
            self.versions = [(timestamp, value)]
        else:
            self.versions.append((timestamp, value))
