"""Keys as LMDB takes them: from 1 to 511 bytes, in the order of their bytes.

A key of at least `PLAIN_BYTES` lies in a bucket: one LMDB row under the first bytes of the key, with all keys that
begin so, in order. Buckets and plain keys together are in the order of the keys. A bucket is read and written whole;
keys that long are rare, and few of them begin with the same 500 bytes.
"""

from __future__ import annotations

import struct
from bisect import bisect_left, bisect_right
from typing import Final

Row = tuple[bytes, bytes]

# Keys of stores end with times; 500 bytes leave the rest of LMDB's 511 for the key after a bucket.
PLAIN_BYTES: Final = 500
_SIZES: Final = struct.Struct(">II")


def is_plain(key: bytes) -> bool:
    return 0 < len(key) < PLAIN_BYTES


def bucket_rows(prefix: bytes, data: bytes | None) -> list[Row]:
    """The rows of a bucket, with whole keys; None: no bucket."""
    rows = []
    at, end = 0, len(data or b"")
    while data is not None and at < end:
        key_size, value_size = _SIZES.unpack_from(data, at)
        at += _SIZES.size
        rows.append((prefix + data[at : at + key_size], data[at + key_size : at + key_size + value_size]))
        at += key_size + value_size
    return rows


def bucket_data(rows: list[Row]) -> bytes:
    """The rows of one bucket, whose keys begin with the same bytes."""
    parts = []
    for key, value in rows:
        rest = key[PLAIN_BYTES:]
        parts += [_SIZES.pack(len(rest), len(value)), rest, value]
    return b"".join(parts)


def bucket_with(prefix: bytes, data: bytes | None, changes: dict[bytes, bytes | None]) -> bytes | None:
    """The bucket after changes of some of its rows; None: it has no row left."""
    rows: dict[bytes, bytes | None] = dict(bucket_rows(prefix, data))
    rows.update(changes)
    kept = sorted((key, value) for key, value in rows.items() if value is not None)
    return bucket_data(kept) if kept else None


def cut(rows: list[Row], low: bytes | None, high: bytes | None, with_high: bool) -> list[Row]:
    """The part of ordered rows from `low` to `high`."""
    begin = 0 if low is None else bisect_left(rows, low, key=_key)
    end = len(rows)
    if high is not None:
        end = bisect_right(rows, high, key=_key) if with_high else bisect_left(rows, high, key=_key)
    return rows[begin:end]


def _key(row: Row) -> bytes:
    return row[0]
