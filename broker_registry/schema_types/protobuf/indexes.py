"""Message indexes: the path to a message in its file, in front of each Protobuf record behind the 5-byte header.

count zigzag varint, then count indexes as zigzag varints; a count of 0 means the first message, [0]
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from broker_registry.schema_types.protobuf import ast
from broker_registry.schema_types.protobuf.cursor import NESTING_MAX

_FIRST: Final = (0,)
_VARINT_BYTES_MAX: Final = 5


def read_indexes(payload: bytes) -> tuple[tuple[int, ...], int]:
    """Return the indexes, and where the message begins. Raises ValueError if the payload has none."""
    count, at = _varint(payload, 0)
    if count == 0:
        return _FIRST, at
    if not 0 < count <= NESTING_MAX:
        raise ValueError(f"the record has {count} message indexes; it was not written with a Protobuf schema")
    indexes = []
    for _ in range(count):
        index, at = _varint(payload, at)
        indexes.append(index)
    return tuple(indexes), at


def write_indexes(indexes: Sequence[int]) -> bytes:
    if tuple(indexes) == _FIRST:
        return b"\0"
    return b"".join(_zigzag(each) for each in (len(indexes), *indexes))


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = 0
    for count, byte in enumerate(data[at : at + _VARINT_BYTES_MAX]):
        value |= (byte & 0x7F) << (7 * count)
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1), at + count + 1
    raise ValueError("the record ends in its message indexes")


def _zigzag(value: int) -> bytes:
    value = value << 1
    result = bytearray()
    while value > 0x7F:
        result.append(value & 0x7F | 0x80)
        value >>= 7
    result.append(value)
    return bytes(result)


def message_at(file: ast.File, indexes: Sequence[int]) -> str:
    """Return the name of a message without the package. Raises ValueError if the file has no such message."""
    names = []
    types = file.types
    for index in indexes:
        messages = ast.messages_of(types)
        if not 0 <= index < len(messages):
            raise ValueError(f"the schema has no message with the indexes {list(indexes)}")
        names.append(messages[index].name)
        types = messages[index].types
    return ".".join(names)


def indexes_of(file: ast.File, name: str) -> tuple[int, ...]:
    """Return the indexes of a message by its name without the package. Raises ValueError if there is none."""
    indexes = []
    types = file.types
    for part in name.split("."):
        messages = ast.messages_of(types)
        index = next((index for index, each in enumerate(messages) if each.name == part), None)
        if index is None:
            raise ValueError(f"the schema has no message {name}")
        indexes.append(index)
        types = messages[index].types
    return tuple(indexes)
