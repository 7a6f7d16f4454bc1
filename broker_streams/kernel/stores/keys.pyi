from collections.abc import Callable
from typing import Final

MAX_LONG: Final[int]
MAX_INT: Final[int]
WINDOW_SUFFIX_BYTES: Final[int]
SESSION_SUFFIX_BYTES: Final[int]
START_BYTES: Final[int]
SEGMENT_BYTES: Final[int]
pack_int: Callable[[int], bytes]

def pack_long(value: int) -> bytes: ...
def unpack_long(data: bytes, offset: int = 0, /) -> tuple[int]: ...
def pack_window(start_ms: int, sequence: int) -> bytes: ...
def divide(time_ms: int, interval_ms: int) -> int:
    """The segment of a time. The quotient is rounded toward zero, as in Java: -1 belongs to segment 0."""

def window_key(key: bytes, start_ms: int, sequence: int = 0) -> bytes: ...
def window_parts(data: bytes) -> tuple[bytes, int, int]:
    """Key, start in ms, and sequence number."""

def window_end(start_ms: int, window_ms: int) -> int:
    """The end of a window; it stops at the largest int64."""

def session_key(key: bytes, start_ms: int, end_ms: int) -> bytes: ...
def session_parts(data: bytes) -> tuple[bytes, int, int]:
    """Key, start in ms, and end in ms."""

def time_first_window_key(key: bytes, start_ms: int, sequence: int = 0) -> bytes: ...
def time_first_window_parts(data: bytes) -> tuple[bytes, int, int]:
    """Key, start in ms, and sequence number."""

def key_first_window_key(key: bytes, start_ms: int, sequence: int = 0) -> bytes: ...
def time_first_session_key(key: bytes, start_ms: int, end_ms: int) -> bytes: ...
def time_first_session_parts(data: bytes) -> tuple[bytes, int, int]:
    """Key, start in ms, and end in ms."""

def key_first_session_key(key: bytes, start_ms: int, end_ms: int) -> bytes: ...
def join_side_key(key: bytes, timestamp: int, is_left: bool) -> bytes: ...
def join_side_parts(data: bytes) -> tuple[bytes, int, bool]:
    """Key, timestamp, and whether the record came from the left side."""

def upper_bound(key: bytes, suffix: bytes) -> bytes:
    """The last key that may belong to keys up to `key` with suffixes up to `suffix`."""

def lowest_window_key(key: bytes) -> bytes:
    """The first key of a range of keys of windows, whatever their times are."""

def highest_window_key(key: bytes, to_ms: int) -> bytes: ...
def lowest_session_key(key: bytes) -> bytes: ...
def highest_session_key(key: bytes, latest_start_ms: int) -> bytes: ...
def next_prefix(prefix: bytes) -> bytes | None:
    """The first key after all keys with this prefix; None: the prefix has no such key."""
