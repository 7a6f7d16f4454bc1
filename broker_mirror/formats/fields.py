"""The fields of records: numbers in network byte order, and strings with a 16-bit length (Kafka's Type.STRING)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeVar

from broker_cy.core.cursor import Cursor
from broker_cy.core.errors import WireError
from broker_cy.core.writer import Writer

T = TypeVar("T")

STRING_BYTES_MAX: Final = 32_767
VERSION: Final = 0
"""The version of checkpoints and heartbeats; there is one."""


class DamagedRecord(ValueError):
    """A record that is none of its topic; the message says which part is wrong."""


class RecordReader:
    """Reads the fields of a key or a value. Bytes after the last field are ignored, as in Kafka. Each method raises
    DamagedRecord.
    """

    def __init__(self, part: str, data: bytes | None) -> None:
        """`part` names the bytes in messages, such as "the key of an offset sync"."""
        self._part = part
        if data is None:
            raise DamagedRecord(f"{part} is null")
        self._cursor = Cursor(data)

    def int16(self, field: str) -> int:
        return self._read(field, self._cursor.read_i16)

    def int32(self, field: str) -> int:
        return self._read(field, self._cursor.read_i32)

    def int64(self, field: str) -> int:
        return self._read(field, self._cursor.read_i64)

    def string(self, field: str) -> str:
        size = self.int16(field)
        if size < 0:
            raise DamagedRecord(f"{self._part} has the length {size} for its {field}")
        data = self._read(field, lambda: self._cursor.read_bytes(size))
        try:
            return data.decode()
        except UnicodeDecodeError:
            raise DamagedRecord(f"{self._part} has a {field} that is not in UTF-8") from None

    def version(self) -> None:
        """Read the version, which must be known."""
        if (found := self.int16("version")) != VERSION:
            raise DamagedRecord(f"{self._part} has the unknown version {found}; {VERSION} is known")

    def _read(self, field: str, read: Callable[[], T]) -> T:
        try:
            return read()
        except WireError:
            raise DamagedRecord(f"{self._part} ends before the end of its {field}") from None


def write_string(writer: Writer, field: str, text: str) -> None:
    """Raises ValueError if the text has more than STRING_BYTES_MAX bytes."""
    data = text.encode()
    if len(data) > STRING_BYTES_MAX:
        raise ValueError(f"the {field} has {len(data)} bytes; at most {STRING_BYTES_MAX} are allowed")
    writer.write_i16(len(data))
    writer.write_bytes(data)
