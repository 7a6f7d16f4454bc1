"""Bounds of records, which the library does not have: it ends the process for a record that is nested too deep, and
reads a list of items without bytes for as long as its count says.
"""

from __future__ import annotations

from typing import Final

from broker_registry.schema_types.avro.model import (
    Array,
    Enumeration,
    Fixed,
    Map,
    Record,
    Schema,
    Union,
    children,
)
from broker_registry.schema_types.base import DEPTH_MAX

EMPTY_ITEMS_MAX: Final = 100_000
"""Items of lists whose items take no bytes, in one record."""
_FIXED_BYTES: Final = {"null": 0, "boolean": 1, "float": 4, "double": 8}
_VARINT_BYTES_MAX: Final = 10


def needs_check(schema: Schema) -> bool:
    """Return whether records may break the bounds: the schema is recursive, or has a list of items without bytes."""
    done: set[int] = set()
    open_types: set[int] = set()

    def found(each: Schema, depth: int) -> bool:
        if id(each) in open_types or depth > DEPTH_MAX:
            return True
        if id(each) in done:
            return False
        if isinstance(each, Array) and _may_be_empty(each.items, set()):
            return True
        open_types.add(id(each))
        is_found = any(found(child, depth + 1) for child in children(each))
        open_types.remove(id(each))
        done.add(id(each))
        return is_found

    return found(schema, 0)


def _may_be_empty(schema: Schema, seen: set[int]) -> bool:
    """Return whether a value may take no bytes."""
    if isinstance(schema, Fixed):
        return schema.size == 0
    if isinstance(schema, Record):
        if id(schema) in seen:
            return True
        return all(_may_be_empty(each.schema, seen | {id(schema)}) for each in schema.fields)
    return schema.type == "null"


def check(schema: Schema, payload: bytes) -> None:
    """Raise ValueError for a record that breaks a bound; other defects of it are found by the library."""
    try:
        _Walk(payload).skip(schema, 0)
    except _Ended:
        return


class _Ended(Exception):
    """The payload is no record of the schema: the library says why."""


class _Walk:
    def __init__(self, payload: bytes) -> None:
        self._payload = payload
        self._at = 0
        self._empty_items = 0

    def skip(self, schema: Schema, depth: int) -> None:
        if depth > DEPTH_MAX:
            raise ValueError(f"the record is nested deeper than {DEPTH_MAX} levels")
        if isinstance(schema, Record):
            for field in schema.fields:
                self.skip(field.schema, depth + 1)
        elif isinstance(schema, Union):
            index = self._long()
            if not 0 <= index < len(schema.branches):
                raise _Ended
            self.skip(schema.branches[index], depth + 1)
        elif isinstance(schema, Array | Map):
            self._blocks(schema, depth)
        elif isinstance(schema, Fixed):
            self._pass(schema.size)
        elif isinstance(schema, Enumeration) or schema.type in ("int", "long"):
            self._long()
        elif schema.type in ("bytes", "string"):
            self._pass(self._long())
        else:
            self._pass(_FIXED_BYTES[schema.type])

    def _blocks(self, schema: Array | Map, depth: int) -> None:
        while (count := self._long()) != 0:
            if count < 0:
                self._long()
            for _ in range(abs(count)):
                before = self._at
                if isinstance(schema, Map):
                    self._pass(self._long())
                    self.skip(schema.values, depth + 1)
                    continue
                self.skip(schema.items, depth + 1)
                self._empty_items += self._at == before
                if self._empty_items > EMPTY_ITEMS_MAX:
                    raise ValueError(f"the record has more than {EMPTY_ITEMS_MAX:,} items without bytes")

    def _pass(self, size: int) -> None:
        if size < 0 or self._at + size > len(self._payload):
            raise _Ended
        self._at += size

    def _long(self) -> int:
        value = 0
        for count, byte in enumerate(self._payload[self._at : self._at + _VARINT_BYTES_MAX]):
            value |= (byte & 0x7F) << (7 * count)
            if byte < 0x80:
                self._at += count + 1
                return (value >> 1) ^ -(value & 1)
        raise _Ended
