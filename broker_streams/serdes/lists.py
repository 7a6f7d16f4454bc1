"""Lists of an inner format (KIP-466).

inner values of one size:   0 (1 byte), count and places of the Nones (4 bytes each), count (4), the values
other inner values:         1 (1 byte), count (4), for each its size (4, -1 for None) and its bytes
"""

from __future__ import annotations

import struct
from typing import Any, Final

from broker_streams.records import NO_HEADERS, Headers
from broker_streams.serdes import Serde, SerdeError, shown

_INT: Final = struct.Struct(">i")
_SAME_SIZE, _ANY_SIZE = b"\x00", b"\x01"
_NONE: Final = _INT.pack(-1)


class ListSerde:
    def __init__(self, inner: Serde) -> None:
        self.inner = inner
        # Of SHORT, INTEGER, LONG, FLOAT, DOUBLE and UUID.
        self._size_bytes: int | None = getattr(inner, "size_bytes", None)

    @property
    def name(self) -> str:
        return f"LIST({self.inner.name})"

    def serialize(self, topic: str, value: Any, headers: Headers = NO_HEADERS) -> bytes | None:
        if value is None:
            return None
        if not isinstance(value, list | tuple):
            raise SerdeError(f"{topic}: {shown(value)} is no list ({self.name})")
        parts = [self.inner.serialize(topic, each, headers) for each in value]
        count = _INT.pack(len(parts))
        if self._size_bytes is None:
            sized = (_NONE if part is None else _INT.pack(len(part)) + part for part in parts)
            return _ANY_SIZE + count + b"".join(sized)
        nones = [at for at, part in enumerate(parts) if part is None]
        places = b"".join(_INT.pack(at) for at in (len(nones), *nones))
        return _SAME_SIZE + places + count + b"".join(part for part in parts if part is not None)

    def deserialize(self, topic: str, data: bytes | None, headers: Headers = NO_HEADERS) -> list[Any] | None:
        if data is None:
            return None
        try:
            parts = self._same_size(data) if data[:1] == _SAME_SIZE else self._any_size(data)
        except (struct.error, IndexError):
            raise SerdeError(f"{topic}: {shown(data)} is no {self.name}: it ends too soon") from None
        return [None if part is None else self.inner.deserialize(topic, part, headers) for part in parts]

    def _same_size(self, data: bytes) -> list[bytes | None]:
        size_bytes = self._size_bytes
        if size_bytes is None:
            raise SerdeError(f"{shown(data)} has values of one size, and those of {self.name} have any size")
        (nones,) = _INT.unpack_from(data, 1)
        at = 5 + 4 * nones
        places = {_INT.unpack_from(data, 5 + 4 * each)[0] for each in range(nones)}
        (count,) = _INT.unpack_from(data, at)
        at += 4
        parts: list[bytes | None] = []
        for place in range(count):
            if place in places:
                parts.append(None)
                continue
            if at + size_bytes > len(data):
                raise IndexError
            parts.append(data[at : at + size_bytes])
            at += size_bytes
        return parts

    def _any_size(self, data: bytes) -> list[bytes | None]:
        (count,) = _INT.unpack_from(data, 1)
        at = 5
        parts: list[bytes | None] = []
        for _ in range(count):
            (size,) = _INT.unpack_from(data, at)
            at += 4
            if size < 0:
                parts.append(None)
                continue
            if at + size > len(data):
                raise IndexError
            parts.append(data[at : at + size])
            at += size
        return parts
