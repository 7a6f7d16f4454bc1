"""The formats of Kafka's serializers of primitives (org.apache.kafka.common.serialization).

STRING    UTF-8; bytes that are not UTF-8 become U+FFFD, as in Java
SHORT, INTEGER, LONG    2, 4, 8 bytes, signed, big-endian          FLOAT, DOUBLE    4, 8 bytes, IEEE 754, big-endian
BOOLEAN   one byte, 1 or 0           UUID    the text of 36 characters           BYTES    as they are
VOID      only None
"""

from __future__ import annotations

import codecs
import struct
import uuid
from typing import Any, Final

from broker_streams.records import NO_HEADERS, Headers
from broker_streams.serdes import SerdeError, shown


def _java_replacement(error: UnicodeError) -> tuple[str, int]:
    """Java replaces the bytes of a surrogate once, whole or cut off; other malformed bytes as Python does."""
    assert isinstance(error, UnicodeDecodeError)
    part = error.object[error.start : error.start + 3]
    end = error.end
    if len(part) > 1 and part[0] == 0xED and 0xA0 <= part[1] < 0xC0:
        end = error.start + (3 if len(part) == 3 and 0x80 <= part[2] < 0xC0 else 2)
    return "\ufffd", end


REPLACED: Final = "broker_streams.java"
codecs.register_error(REPLACED, _java_replacement)


class StringSerde:
    name: Final = "STRING"

    def serialize(self, topic: str, value: Any, headers: Headers = NO_HEADERS) -> bytes | None:
        if value is None:
            return None
        if not isinstance(value, str):
            raise SerdeError(f"{topic}: {shown(value)} is no text (STRING)")
        return value.encode("utf-8", "replace")

    def deserialize(self, topic: str, data: bytes | None, headers: Headers = NO_HEADERS) -> str | None:
        return None if data is None else data.decode("utf-8", REPLACED)


class BytesSerde:
    name: Final = "BYTES"

    def serialize(self, topic: str, value: Any, headers: Headers = NO_HEADERS) -> bytes | None:
        if value is None or isinstance(value, bytes):
            return value
        if isinstance(value, bytearray | memoryview):
            return bytes(value)
        raise SerdeError(f"{topic}: {shown(value)} is no bytes (BYTES)")

    def deserialize(self, topic: str, data: bytes | None, headers: Headers = NO_HEADERS) -> bytes | None:
        return data


class IntegerSerde:
    """Signed integers of a fixed size."""

    def __init__(self, name: str, format_of_struct: str) -> None:
        self.name: Final = name
        self._struct = struct.Struct(format_of_struct)
        self._limit = 1 << (8 * self._struct.size - 1)
        self._pack = self._struct.pack
        self._unpack = self._struct.unpack

    @property
    def size_bytes(self) -> int:
        return self._struct.size

    def serialize(self, topic: str, value: Any, headers: Headers = NO_HEADERS) -> bytes | None:
        if value is None:
            return None
        try:
            return self._pack(value)
        except struct.error:
            allowed = f"integers from {-self._limit} to {self._limit - 1}"
            raise SerdeError(f"{topic}: {shown(value)} is not in {self.name}: {allowed}") from None

    def deserialize(self, topic: str, data: bytes | None, headers: Headers = NO_HEADERS) -> int | None:
        if data is None:
            return None
        try:
            (value,) = self._unpack(data)
        except struct.error:
            raise SerdeError(f"{topic}: {len(data)} bytes are no {self.name}, which has {self._struct.size}") from None
        return int(value)


class FloatSerde:
    """Floating-point numbers of 4 or 8 bytes."""

    def __init__(self, name: str, format_of_struct: str) -> None:
        self.name: Final = name
        self._struct = struct.Struct(format_of_struct)

    @property
    def size_bytes(self) -> int:
        return self._struct.size

    def serialize(self, topic: str, value: Any, headers: Headers = NO_HEADERS) -> bytes | None:
        if value is None:
            return None
        try:
            return self._struct.pack(value)
        except (struct.error, OverflowError):
            raise SerdeError(
                f"{topic}: {shown(value)} is no number of {self._struct.size} bytes ({self.name})"
            ) from None

    def deserialize(self, topic: str, data: bytes | None, headers: Headers = NO_HEADERS) -> float | None:
        if data is None:
            return None
        try:
            (value,) = self._struct.unpack(data)
        except struct.error:
            raise SerdeError(f"{topic}: {len(data)} bytes are no {self.name}, which has {self._struct.size}") from None
        return float(value)


class BooleanSerde:
    name: Final = "BOOLEAN"

    def serialize(self, topic: str, value: Any, headers: Headers = NO_HEADERS) -> bytes | None:
        if value is None:
            return None
        if not isinstance(value, bool):
            raise SerdeError(f"{topic}: {shown(value)} is neither True nor False (BOOLEAN)")
        return b"\x01" if value else b"\x00"

    def deserialize(self, topic: str, data: bytes | None, headers: Headers = NO_HEADERS) -> bool | None:
        if data is None:
            return None
        if data not in (b"\x00", b"\x01"):
            raise SerdeError(f"{topic}: {shown(data)} is no BOOLEAN: one byte, 0 or 1")
        return data == b"\x01"


class UuidSerde:
    name: Final = "UUID"
    size_bytes: Final = 36

    def serialize(self, topic: str, value: Any, headers: Headers = NO_HEADERS) -> bytes | None:
        if value is None:
            return None
        if not isinstance(value, uuid.UUID):
            raise SerdeError(f"{topic}: {shown(value)} is no uuid.UUID (UUID)")
        return str(value).encode()

    def deserialize(self, topic: str, data: bytes | None, headers: Headers = NO_HEADERS) -> uuid.UUID | None:
        if data is None:
            return None
        try:
            return uuid.UUID(data.decode())
        except ValueError:
            raise SerdeError(f"{topic}: {shown(data)} is no UUID: its text has 36 characters") from None


class VoidSerde:
    name: Final = "VOID"

    def serialize(self, topic: str, value: Any, headers: Headers = NO_HEADERS) -> bytes | None:
        if value is not None:
            raise SerdeError(f"{topic}: {shown(value)} is not None (VOID)")
        return None

    def deserialize(self, topic: str, data: bytes | None, headers: Headers = NO_HEADERS) -> None:
        if data is not None:
            raise SerdeError(f"{topic}: {shown(data)} is not None (VOID)")


STRING: Final = StringSerde()
BYTES: Final = BytesSerde()
SHORT: Final = IntegerSerde("SHORT", ">h")
INTEGER: Final = IntegerSerde("INTEGER", ">i")
LONG: Final = IntegerSerde("LONG", ">q")
FLOAT: Final = FloatSerde("FLOAT", ">f")
DOUBLE: Final = FloatSerde("DOUBLE", ">d")
BOOLEAN: Final = BooleanSerde()
UUID: Final = UuidSerde()
VOID: Final = VoidSerde()
