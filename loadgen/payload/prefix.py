"""The first 32 bytes of each value that is verified.

    offset  type  field
    0       u64   run: a random number, so that records of other runs are recognized
    8       u64   producer: unique in the run
    16      i64   sequence: 0, 1, ... of this producer in this partition
    24      i64   due: when the record was due, nanoseconds of the producing host's monotonic clock

All are big endian.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

PREFIX = struct.Struct(">QQqq")
PREFIX_BYTES = PREFIX.size
# Where the fields that change with each record begin: sequence and due time.
CHANGING_AT = 16
CHANGING = struct.Struct(">qq")


class Stamp(NamedTuple):
    """The fields of a prefix."""

    run: int
    producer: int
    sequence: int
    due_ns: int


def stamp_of(value: bytes | memoryview | None) -> Stamp | None:
    """Return the prefix of a value; None if it is too short to have one."""
    if value is None or len(value) < PREFIX_BYTES:
        return None
    return Stamp(*PREFIX.unpack_from(value))
