"""Keys in windows, as Kafka Streams writes them to topics.

time window      key bytes, start of the window in ms (8 bytes, big-endian); its end follows from the window's size
session window   key bytes, end in ms (8 bytes), start in ms (8 bytes)
"""

from __future__ import annotations

import struct
from typing import Any, Final

from broker_streams.records import NO_HEADERS, Headers, Window, Windowed
from broker_streams.serdes import Serde, SerdeError, shown

_START: Final = struct.Struct(">q")
_END_AND_START: Final = struct.Struct(">qq")
# The end of a window whose size is unknown.
_LONGEST: Final = (1 << 63) - 1


def _parts(topic: str, value: Any, name: str) -> Windowed:
    if not isinstance(value, Windowed):
        raise SerdeError(f"{topic}: {shown(value)} is no key in a window ({name})")
    return value


class TimeWindowedSerde:
    """`window_ms` None: the size is unknown, and windows that are read end at the largest time."""

    def __init__(self, inner: Serde, window_ms: int | None = None) -> None:
        self.inner = inner
        self.window_ms = window_ms

    @property
    def name(self) -> str:
        return f"TIME_WINDOWED({self.inner.name}{'' if self.window_ms is None else f',{self.window_ms}'})"

    def serialize(self, topic: str, value: Any, headers: Headers = NO_HEADERS) -> bytes | None:
        if value is None:
            return None
        windowed = _parts(topic, value, self.name)
        key = self.inner.serialize(topic, windowed.key, headers) or b""
        return key + _START.pack(windowed.window.start_ms)

    def deserialize(self, topic: str, data: bytes | None, headers: Headers = NO_HEADERS) -> Windowed | None:
        if not data:
            return None
        if len(data) < _START.size:
            raise SerdeError(f"{topic}: {len(data)} bytes are no key in a time window, which has at least 8")
        (start_ms,) = _START.unpack_from(data, len(data) - _START.size)
        end_ms = _LONGEST if self.window_ms is None else min(start_ms + self.window_ms, _LONGEST)
        return Windowed(self.inner.deserialize(topic, data[: -_START.size], headers), Window(start_ms, end_ms))


class SessionWindowedSerde:
    def __init__(self, inner: Serde) -> None:
        self.inner = inner

    @property
    def name(self) -> str:
        return f"SESSION_WINDOWED({self.inner.name})"

    def serialize(self, topic: str, value: Any, headers: Headers = NO_HEADERS) -> bytes | None:
        if value is None:
            return None
        windowed = _parts(topic, value, self.name)
        key = self.inner.serialize(topic, windowed.key, headers) or b""
        return key + _END_AND_START.pack(windowed.window.end_ms, windowed.window.start_ms)

    def deserialize(self, topic: str, data: bytes | None, headers: Headers = NO_HEADERS) -> Windowed | None:
        if not data:
            return None
        if len(data) < _END_AND_START.size:
            raise SerdeError(f"{topic}: {len(data)} bytes are no key in a session window, which has at least 16")
        end_ms, start_ms = _END_AND_START.unpack_from(data, len(data) - _END_AND_START.size)
        key = self.inner.deserialize(topic, data[: -_END_AND_START.size], headers)
        return Windowed(key, Window(start_ms, end_ms))
