"""The walk through the bytes of a record with the schemas of the writer and the reader: the place that a reader cannot
take, and the values that it leaves out.

A library decodes records; this walk explains them. Verdicts depend on the record as they do in Java's ResolvingDecoder:
a branch or symbol that the reader lacks matters where a record has it. Bytes: Avro specification 1.12, binary encoding.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from broker_registry.schema_types.avro.diff import is_promoted, kind_of, writer_field
from broker_registry.schema_types.avro.model import (
    ABSENT,
    Array,
    Enumeration,
    Fixed,
    Map,
    Named,
    Record,
    Schema,
    Union,
)
from broker_registry.schema_types.base import Unreadable

STEPS_MAX: Final = 200_000
"""Values of one record that are walked: items without bytes, such as nulls, may be any number."""
LEFT_OUT_MAX: Final = 100
_FIXED_BYTES: Final = {"null": 0, "boolean": 1, "float": 4, "double": 8}
_VARINT_BYTES_MAX: Final = 10


class Trace(NamedTuple):
    """`problem` is None if the reader takes the record, or if the walk did not find out. `left_out` as in
    ParsedSchema.
    """

    problem: Unreadable | None
    left_out: tuple[str, ...]


class _Lost(Exception):
    """The bytes are no record of the writer's schema, or too many."""


class _Part(NamedTuple):
    """A part of a path: `shown` in this record, `general` in all of them."""

    shown: str
    general: str


Path = tuple[_Part, ...]


def trace(payload: bytes, reader: Schema, writer: Schema) -> Trace:
    """Walk through a record."""
    walk = _Walk(payload)
    problem = None
    try:
        walk.value(reader, writer, ())
    except Unreadable as error:
        problem = error
    except (_Lost, RecursionError):
        pass
    return Trace(problem, tuple(walk.left_out))


def _shown(path: Path) -> str:
    return "".join(f"/{each.shown}" for each in path)


class _Walk:
    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0
        self._steps = 0
        self.left_out: dict[str, None] = {}

    # ------------------------------------------------------------------------------------------------ bytes

    def _skip(self, count: int) -> None:
        if not 0 <= count <= len(self._data) - self._at:
            raise _Lost
        self._at += count

    def _long(self) -> int:
        value = 0
        for count, byte in enumerate(self._data[self._at : self._at + _VARINT_BYTES_MAX]):
            value |= (byte & 0x7F) << (7 * count)
            if byte < 0x80:
                self._at += count + 1
                return (value >> 1) ^ -(value & 1)
        raise _Lost

    def _text(self) -> str:
        length = self._long()
        start = self._at
        self._skip(length)
        return self._data[start : self._at].decode(errors="replace")

    def _items(self) -> Iterator[int]:
        """Yield the positions of the items of an array or map."""
        index = 0
        while (count := self._long()) != 0:
            if count < 0:
                # The size of the block in bytes follows.
                self._long()
                count = -count
            for _ in range(count):
                yield index
                index += 1

    # ------------------------------------------------------------------------------------------------ values

    def value(self, reader: Schema | None, writer: Schema, path: Path) -> None:
        """Walk through a value; without a reader's schema it is skipped. Raises Unreadable."""
        self._steps += 1
        if self._steps > STEPS_MAX:
            raise _Lost
        if isinstance(writer, Union):
            index = self._long()
            if not 0 <= index < len(writer.branches):
                raise _Lost
            self.value(reader, writer.branches[index], path)
            return
        if isinstance(reader, Union):
            reader = _branch(reader, writer, path)
        if reader is not None and kind_of(reader) != kind_of(writer) and not is_promoted(reader, writer):
            raise Unreadable(_shown(path), f"the record has {_named(writer)}, the schema reads {_named(reader)}")
        if isinstance(writer, Record):
            self._record(reader, writer, path)
        elif isinstance(writer, Array):
            items = reader.items if isinstance(reader, Array) else None
            for index in self._items():
                self.value(items, writer.items, (*path, _Part(str(index), "*")))
        elif isinstance(writer, Map):
            values = reader.values if isinstance(reader, Map) else None
            for _ in self._items():
                self.value(values, writer.values, (*path, _Part(self._text(), "*")))
        elif isinstance(writer, Enumeration):
            self._symbol(reader, writer, path)
        elif isinstance(writer, Fixed):
            if isinstance(reader, Fixed) and reader.size != writer.size:
                raise Unreadable(_shown(path), f"the record has {writer.size} bytes, the schema {reader.size}")
            self._skip(writer.size)
        elif writer.type in ("int", "long"):
            self._long()
        elif writer.type in ("bytes", "string"):
            self._skip(self._long())
        else:
            self._skip(_FIXED_BYTES[writer.type])

    def _record(self, reader: Schema | None, writer: Record, path: Path) -> None:
        readers: dict[str, Schema] = {}
        for each in reader.fields if isinstance(reader, Record) else ():
            theirs = writer_field(each, writer)
            if theirs is not None:
                readers[theirs.name] = each.schema
            elif each.default is ABSENT:
                where = _shown((*path, _Part(each.name, each.name)))
                raise Unreadable(where, "the record does not have the field, and the schema has no default for it")
        for field in writer.fields:
            place = (*path, _Part(field.name, field.name))
            if reader is not None and field.name not in readers and len(self.left_out) < LEFT_OUT_MAX:
                self.left_out["".join(f"/{each.general}" for each in place)] = None
            self.value(readers.get(field.name), field.schema, place)

    def _symbol(self, reader: Schema | None, writer: Enumeration, path: Path) -> None:
        index = self._long()
        if not 0 <= index < len(writer.symbols):
            raise _Lost
        symbol = writer.symbols[index]
        if isinstance(reader, Enumeration) and symbol not in reader.symbols and reader.default is None:
            raise Unreadable(_shown(path), f"the schema does not have the symbol {symbol}")


def _named(schema: Schema) -> str:
    return f"{schema.type} {schema.full_name}" if isinstance(schema, Named) else schema.type


def _branch(reader: Union, writer: Schema, path: Path) -> Schema:
    """Return the branch that takes a value: one of its type and name, else one that its type is promoted to."""
    same: Sequence[Schema] = [each for each in reader.branches if kind_of(each) == kind_of(writer)]
    if isinstance(writer, Named):
        exact = [each for each in same if isinstance(each, Named) and each.full_name == writer.full_name]
        same = exact or [
            each
            for each in same
            if isinstance(each, Named) and (each.name == writer.name or writer.full_name in each.aliases)
        ]
    found = same or [each for each in reader.branches if is_promoted(each, writer)]
    if not found:
        raise Unreadable(_shown(path), f"no branch of the union takes {_named(writer)}")
    return found[0]
