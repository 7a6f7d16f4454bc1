"""The stamp of each record that is verified: 32 bytes before its value.

    offset  type  field
    0       u64   run: a random number, so that records of other runs are recognized
    8       u64   producer: unique in the run
    16      i64   sequence: 0, 1, ... of this producer in this partition
    24      i64   due: when the record was due, nanoseconds of the producing host's monotonic clock

All are big endian. A value that must not have a prefix (a line of a file, or JSON) is unchanged: its record has the
stamp in the header HEADER (`Payload.takes_prefix`).
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import NamedTuple

from broker_cy.client.payload.settings import Payload

PREFIX = struct.Struct(">QQqq")
PREFIX_BYTES = PREFIX.size
# The offset of the fields that change with each record: sequence and due time.
CHANGING_AT = 16
CHANGING = struct.Struct(">qq")
HEADER = "broker-load"


class Stamp(NamedTuple):
    """The fields of a stamp."""

    run: int
    producer: int
    sequence: int
    due_ns: int


def prefix_bytes(payload: Payload, *, is_stamped: bool) -> int:
    """Return the size of the prefix of each value: 0 for records without a stamp, or with it in a header."""
    return PREFIX_BYTES if is_stamped and payload.takes_prefix else 0


def stamp_of(
    value: bytes | memoryview | None, headers: Iterable[tuple[str, bytes | memoryview | None]] = ()
) -> Stamp | None:
    """Return the stamp of a record: that of its header, or else the first bytes of its value.

    None without either. A foreign value that is long enough looks like a stamp of another run.
    """
    for name, content in headers:
        if name == HEADER and content is not None and len(content) == PREFIX_BYTES:
            return Stamp(*PREFIX.unpack(content))
    if value is None or len(value) < PREFIX_BYTES:
        return None
    return Stamp(*PREFIX.unpack_from(value))
