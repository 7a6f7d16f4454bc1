"""Layouts of the keys of stores and changelogs, as Kafka Streams 4.3.1 writes them.

All integers are big-endian. KEY is the serialized key of the user.

    window             KEY, start_ms int64, sequence int32      store and changelog; sequence 0 without duplicates
    time-first window  0 int8, start_ms int64, KEY, sequence    the order of a store that emits when windows close
    key-first window   1 int8, KEY, start_ms int64, sequence    its index
    session            KEY, end_ms int64, start_ms int64        store and changelog
    time-first session 0 int8, end_ms int64, start_ms int64, KEY
    cached             segment int64, then the key above        segment = time // segment_interval_ms
    join side          timestamp int64, left int8, KEY          the outer store of stream-stream joins; left is 1 or 0
"""

from __future__ import annotations

import struct
from typing import Final

MAX_LONG: Final = (1 << 63) - 1
MAX_INT: Final = (1 << 31) - 1

_LONG: Final = struct.Struct(">q")
_INT: Final = struct.Struct(">i")
_WINDOW: Final = struct.Struct(">qi")
_SESSION: Final = struct.Struct(">qq")
_JOIN_SIDE: Final = struct.Struct(">q?")
pack_int: Final = _INT.pack
pack_long: Final = _LONG.pack
unpack_long: Final = _LONG.unpack_from
pack_window: Final = _WINDOW.pack
_unpack_window = _WINDOW.unpack_from
_pack_session = _SESSION.pack
_unpack_session = _SESSION.unpack_from

WINDOW_SUFFIX_BYTES: Final = _WINDOW.size
SESSION_SUFFIX_BYTES: Final = _SESSION.size
START_BYTES: Final = _LONG.size
SEGMENT_BYTES: Final = _LONG.size


def divide(time_ms: int, interval_ms: int) -> int:
    """The segment of a time. The quotient is rounded toward zero, as in Java: -1 belongs to segment 0."""
    return time_ms // interval_ms if time_ms >= 0 else -(-time_ms // interval_ms)


def window_key(key: bytes, start_ms: int, sequence: int = 0) -> bytes:
    return key + pack_window(start_ms, sequence)


def window_parts(data: bytes) -> tuple[bytes, int, int]:
    """Key, start in ms, and sequence number."""
    at = len(data) - WINDOW_SUFFIX_BYTES
    start_ms, sequence = _unpack_window(data, at)
    return data[:at], start_ms, sequence


def window_end(start_ms: int, window_ms: int) -> int:
    """The end of a window; it stops at the largest int64."""
    return min(start_ms + window_ms, MAX_LONG)


def session_key(key: bytes, start_ms: int, end_ms: int) -> bytes:
    return key + _pack_session(end_ms, start_ms)


def session_parts(data: bytes) -> tuple[bytes, int, int]:
    """Key, start in ms, and end in ms."""
    at = len(data) - SESSION_SUFFIX_BYTES
    end_ms, start_ms = _unpack_session(data, at)
    return data[:at], start_ms, end_ms


def time_first_window_key(key: bytes, start_ms: int, sequence: int = 0) -> bytes:
    return b"\x00" + pack_long(start_ms) + key + _INT.pack(sequence)


def time_first_window_parts(data: bytes) -> tuple[bytes, int, int]:
    """Key, start in ms, and sequence number."""
    return data[9:-4], unpack_long(data, 1)[0], _INT.unpack_from(data, len(data) - 4)[0]


def key_first_window_key(key: bytes, start_ms: int, sequence: int = 0) -> bytes:
    return b"\x01" + window_key(key, start_ms, sequence)


def time_first_session_key(key: bytes, start_ms: int, end_ms: int) -> bytes:
    return b"\x00" + _pack_session(end_ms, start_ms) + key


def time_first_session_parts(data: bytes) -> tuple[bytes, int, int]:
    """Key, start in ms, and end in ms."""
    end_ms, start_ms = _unpack_session(data, 1)
    return data[1 + SESSION_SUFFIX_BYTES :], start_ms, end_ms


def key_first_session_key(key: bytes, start_ms: int, end_ms: int) -> bytes:
    return b"\x01" + session_key(key, start_ms, end_ms)


def join_side_key(key: bytes, timestamp: int, is_left: bool) -> bytes:
    return _JOIN_SIDE.pack(timestamp, is_left) + key


def join_side_parts(data: bytes) -> tuple[bytes, int, bool]:
    """Key, timestamp, and whether the record came from the left side."""
    timestamp, is_left = _JOIN_SIDE.unpack_from(data)
    return data[_JOIN_SIDE.size :], timestamp, is_left


def upper_bound(key: bytes, suffix: bytes) -> bytes:
    """The last key that may belong to keys up to `key` with suffixes up to `suffix`.

    Keys have different lengths: a longer key may sort before `key` plus its suffix. So only bytes of the key that are
    not below the first byte of the suffix stand before the suffix, and the first byte always does. Kafka's bound
    misses rows of `key` without its last bytes where these are zeros; so does this one.
    """
    first = suffix[0]
    if first == 0:
        return key + suffix
    size = 0
    while size < len(key) and (size < 1 or key[size] >= first):
        size += 1
    return key[:size] + suffix


def lowest_window_key(key: bytes) -> bytes:
    """The first key of a range of keys of windows, whatever their times are."""
    return key + bytes(WINDOW_SUFFIX_BYTES)


def highest_window_key(key: bytes, to_ms: int) -> bytes:
    return upper_bound(key, pack_window(to_ms, MAX_INT))


def lowest_session_key(key: bytes) -> bytes:
    return key + bytes(SESSION_SUFFIX_BYTES)


def highest_session_key(key: bytes, latest_start_ms: int) -> bytes:
    return upper_bound(key, _pack_session(MAX_LONG, latest_start_ms))


def next_prefix(prefix: bytes) -> bytes | None:
    """The first key after all keys with this prefix; None: the prefix has no such key."""
    kept = prefix.rstrip(b"\xff")
    return kept[:-1] + bytes((kept[-1] + 1,)) if kept else None
