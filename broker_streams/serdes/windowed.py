"""Keys in windows, as Kafka Streams writes them to topics.

time window      key bytes, start of the window in ms (8 bytes, big-endian); its end follows from the window's size
session window   key bytes, end in ms (8 bytes), start in ms (8 bytes)

A serde whose `inner` is None stands in a plan until a task gives it the application's default for keys.
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


class WindowedSerde:
    """The base of both. `suffix_bytes` is the size of the window behind the bytes of the key."""

    suffix_bytes: int

    def __init__(self, inner: Serde | None) -> None:
        self.inner = inner

    @property
    def _inner_name(self) -> str:
        return "" if self.inner is None else self.inner.name

    @property
    def name(self) -> str:
        raise NotImplementedError

    def _suffix(self, window: Window) -> bytes:
        raise NotImplementedError

    def serialize(self, topic: str, value: Any, headers: Headers = NO_HEADERS) -> bytes | None:
        if value is None:
            return None
        if not isinstance(value, Windowed):
            raise SerdeError(f"{topic}: {shown(value)} is no key in a window ({self.name})")
        inner = self.inner or self._known()
        return (inner.serialize(topic, value[0], headers) or b"") + self._suffix(value[1])

    def _known(self) -> Serde:
        if self.inner is None:
            raise SerdeError("keys in windows have no serde; give one, or set default.key.serde")
        return self.inner


class TimeWindowedSerde(WindowedSerde):
    """`window_ms` None: the size is unknown, and windows that are read end at the largest time."""

    suffix_bytes = _START.size

    def __init__(self, inner: Serde | None, window_ms: int | None = None) -> None:
        super().__init__(inner)
        self.window_ms = window_ms

    @property
    def name(self) -> str:
        return f"TIME_WINDOWED({self._inner_name}{'' if self.window_ms is None else f',{self.window_ms}'})"

    def with_defaults(self, key_serde: Serde | None, value_serde: Serde | None) -> TimeWindowedSerde:
        return TimeWindowedSerde(self.inner or key_serde, self.window_ms)

    def _suffix(self, window: Window) -> bytes:
        return _START.pack(window[0])

    def deserialize(self, topic: str, data: bytes | None, headers: Headers = NO_HEADERS) -> Windowed | None:
        if not data:
            return None
        if len(data) < _START.size:
            raise SerdeError(f"{topic}: {len(data)} bytes are no key in a time window, which has at least 8")
        (start_ms,) = _START.unpack_from(data, len(data) - _START.size)
        end_ms = _LONGEST if self.window_ms is None else min(start_ms + self.window_ms, _LONGEST)
        return Windowed(self._known().deserialize(topic, data[: -_START.size], headers), Window(start_ms, end_ms))


class SessionWindowedSerde(WindowedSerde):
    suffix_bytes = _END_AND_START.size

    @property
    def name(self) -> str:
        return f"SESSION_WINDOWED({self._inner_name})"

    def with_defaults(self, key_serde: Serde | None, value_serde: Serde | None) -> SessionWindowedSerde:
        return SessionWindowedSerde(self.inner or key_serde)

    def _suffix(self, window: Window) -> bytes:
        return _END_AND_START.pack(window[1], window[0])

    def deserialize(self, topic: str, data: bytes | None, headers: Headers = NO_HEADERS) -> Windowed | None:
        if not data:
            return None
        if len(data) < _END_AND_START.size:
            raise SerdeError(f"{topic}: {len(data)} bytes are no key in a session window, which has at least 16")
        end_ms, start_ms = _END_AND_START.unpack_from(data, len(data) - _END_AND_START.size)
        key = self._known().deserialize(topic, data[: -_END_AND_START.size], headers)
        return Windowed(key, Window(start_ms, end_ms))
