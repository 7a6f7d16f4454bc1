"""Values to Avro's bytes: values as `decode` returns them, and their form in JSON.

Branches of unions are chosen in this order:

1. an object with one member whose name is that of a branch, as in Avro's JSON: {"long": 5}, {"com.Order": {...}}
2. the only branch that the value fits; a number without a point fits an int or long before a float or double

A value that fits several branches is refused, and the message names them.

Bytes and fixed are text of one character each. Decimals are numbers or their text, dates, times and timestamps their
ISO 8601 text or Avro's number, and UUIDs their text. Floats that JSON does not have are "NaN", "Infinity" and
"-Infinity". A field that is missing has its default.
"""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Callable
from typing import Any, Final, NoReturn

from broker_registry.schema_types.avro import logical
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

VALUES_MAX: Final = 10_000_000
"""Values in one record, with those that were tried for branches of unions."""
_SHOWN_CHARACTERS: Final = 60
_RANGES: Final = {"int": (-(2**31), 2**31 - 1), "long": (-(2**63), 2**63 - 1)}
_FLOATS: Final = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}

Path = tuple[str, ...]


class Misfit(ValueError):
    """The value does not fit the schema; the message begins with the path to its part that does not."""

    def __init__(self, path: Path, reason: str) -> None:
        super().__init__(f"/{'/'.join(path)}: {reason}")


class TooLarge(ValueError):
    """The value has too many parts, whichever branches are taken."""


def encoded(schema: Schema, value: Any) -> bytes:
    """Return the bytes of a value. Raises ValueError, which names the field that does not fit."""
    try:
        return bytes(_Writer().written(schema, value, ()))
    except RecursionError:
        raise ValueError("the value is nested too deep") from None


class _Writer:
    def __init__(self) -> None:
        self._values = 0
        # The default of a field has Avro's JSON, without names of branches and logical types.
        self._in_default = False

    def written(self, schema: Schema, value: Any, path: Path) -> bytes:
        self._values += 1
        if self._values > VALUES_MAX:
            raise TooLarge(f"a record has {VALUES_MAX:,} values at most, with those tried for branches of unions")
        if isinstance(schema, Union):
            return self._default_branch(schema, value, path) if self._in_default else self._branch(schema, value, path)
        kind = None if self._in_default else logical.kind_of(schema)
        if kind is not None:
            try:
                value = kind(value)
            except ValueError as error:
                raise Misfit(path, str(error)) from None
        return _WRITERS[schema.type](self, schema, value, path)

    # ------------------------------------------------------------------------------------------------ unions

    def _branch(self, schema: Union, value: Any, path: Path) -> bytes:
        named = _named_branch(schema, value)
        if named is not None:
            (inner,) = value.values()
            try:
                return _long(named) + self.written(schema.branches[named], inner, path)
            except Misfit:
                # A map or a record may have a member of that name.
                if not self._fitting(schema, value, path)[0]:
                    raise
        fits, misfits = self._fitting(schema, value, path)
        if len(fits) == 1:
            return fits[0][1]
        names = [name_of(each) for each in schema.branches]
        if not fits:
            others = [each for index, each in misfits if names[index] != "null"]
            if len(others) == 1:
                # The message about the only branch is the precise one.
                raise others[0]
            raise Misfit(path, f"{_shown(value)} fits none of the branches {', '.join(names)}")
        found = [names[index] for index, _ in fits]
        example = f"{{{json.dumps(found[0])}: ...}}"
        raise Misfit(path, f"{_shown(value)} fits the branches {', '.join(found)}: name one, as in {example}")

    def _fitting(
        self, schema: Union, value: Any, path: Path
    ) -> tuple[list[tuple[int, bytes]], list[tuple[int, Misfit]]]:
        """Return the branches that a value fits with its bytes, and why it does not fit the others."""
        fits, misfits = [], []
        for index, branch in enumerate(schema.branches):
            try:
                fits.append((index, _long(index) + self.written(branch, value, path)))
            except Misfit as error:
                misfits.append((index, error))
        if isinstance(value, int) and not isinstance(value, bool):
            whole = [each for each in fits if schema.branches[each[0]].type in _RANGES]
            fits = whole or fits
        return fits, misfits

    def _default_branch(self, schema: Union, value: Any, path: Path) -> bytes:
        fits, _ = self._fitting(schema, value, path)
        if not fits:
            raise Misfit(path, f"the default {_shown(value)} fits no branch")
        return fits[0][1]

    # ------------------------------------------------------------------------------------------------ types

    def record(self, schema: Record, value: Any, path: Path) -> bytes:
        if not isinstance(value, dict):
            _refuse(schema, value, path)
        names = {field.name for field in schema.fields}
        for name in value:
            if name not in names:
                raise Misfit((*path, str(name)), f"{schema.full_name} has no such field")
        parts = []
        for field in schema.fields:
            if field.name in value:
                parts.append(self.written(field.schema, value[field.name], (*path, field.name)))
            elif field.default is ABSENT:
                raise Misfit((*path, field.name), "the field is missing, and has no default")
            else:
                parts.append(self._default(field.schema, field.default, (*path, field.name)))
        return b"".join(parts)

    def _default(self, schema: Schema, value: Any, path: Path) -> bytes:
        before, self._in_default = self._in_default, True
        try:
            return self.written(schema, value, path)
        finally:
            self._in_default = before

    def array(self, schema: Array, value: Any, path: Path) -> bytes:
        if not isinstance(value, list | tuple):
            _refuse(schema, value, path)
        if not value:
            return b"\0"
        items = [self.written(schema.items, each, (*path, str(index))) for index, each in enumerate(value)]
        return _long(len(items)) + b"".join(items) + b"\0"

    def map(self, schema: Map, value: Any, path: Path) -> bytes:
        if not isinstance(value, dict):
            _refuse(schema, value, path)
        if not value:
            return b"\0"
        items = [
            _data(str(name).encode()) + self.written(schema.values, each, (*path, str(name)))
            for name, each in value.items()
        ]
        return _long(len(items)) + b"".join(items) + b"\0"

    def enum(self, schema: Enumeration, value: Any, path: Path) -> bytes:
        if value not in schema.symbols:
            raise Misfit(path, f"{_shown(value)} is none of the symbols {', '.join(schema.symbols)}")
        return _long(schema.symbols.index(value))

    def fixed(self, schema: Fixed, value: Any, path: Path) -> bytes:
        data = _bytes_of(schema, value, path)
        if len(data) != schema.size:
            raise Misfit(path, f"{schema.full_name} has {schema.size} bytes, not {len(data)}")
        return data

    def data(self, schema: Schema, value: Any, path: Path) -> bytes:
        return _data(_bytes_of(schema, value, path))

    def string(self, schema: Schema, value: Any, path: Path) -> bytes:
        if not isinstance(value, str):
            _refuse(schema, value, path)
        try:
            return _data(value.encode())
        except UnicodeEncodeError:
            raise Misfit(path, "the text has half of a surrogate pair, which UTF-8 does not have") from None

    def whole(self, schema: Schema, value: Any, path: Path) -> bytes:
        if not isinstance(value, int) or isinstance(value, bool):
            _refuse(schema, value, path)
        low, high = _RANGES[schema.type]
        if not low <= value <= high:
            raise Misfit(path, f"{value} is no {schema.type}: {low} to {high} are allowed")
        return _long(value)

    def real(self, schema: Schema, value: Any, path: Path) -> bytes:
        number = _FLOATS.get(value) if isinstance(value, str) else value
        if not isinstance(number, int | float) or isinstance(number, bool):
            _refuse(schema, value, path)
        try:
            return struct.pack("<f" if schema.type == "float" else "<d", number)
        except (OverflowError, struct.error):
            raise Misfit(path, f"{_shown(value)} is too large for a {schema.type}") from None

    def boolean(self, schema: Schema, value: Any, path: Path) -> bytes:
        if not isinstance(value, bool):
            _refuse(schema, value, path)
        return b"\1" if value else b"\0"

    def null(self, schema: Schema, value: Any, path: Path) -> bytes:
        if value is not None:
            _refuse(schema, value, path)
        return b""


_WRITERS: Final[dict[str, Callable[[_Writer, Any, Any, Path], bytes]]] = {
    "record": _Writer.record,
    "error": _Writer.record,
    "array": _Writer.array,
    "map": _Writer.map,
    "enum": _Writer.enum,
    "fixed": _Writer.fixed,
    "bytes": _Writer.data,
    "string": _Writer.string,
    "int": _Writer.whole,
    "long": _Writer.whole,
    "float": _Writer.real,
    "double": _Writer.real,
    "boolean": _Writer.boolean,
    "null": _Writer.null,
}


def name_of(schema: Schema) -> str:
    """Return the name of a branch in Avro's JSON."""
    return schema.full_name if isinstance(schema, Named) else schema.type


def _named_branch(schema: Union, value: Any) -> int | None:
    """Return the branch that an object with one member names."""
    if not isinstance(value, dict) or len(value) != 1:
        return None
    (name,) = value
    return next((index for index, each in enumerate(schema.branches) if name_of(each) == name), None)


def _bytes_of(schema: Schema, value: Any, path: Path) -> bytes:
    if isinstance(value, bytes | bytearray):
        return bytes(value)
    if not isinstance(value, str):
        _refuse(schema, value, path)
    try:
        return value.encode("latin-1")
    except UnicodeEncodeError as error:
        sign = value[error.start]
        raise Misfit(path, f"{sign!r} is no byte: bytes are text of one character each, up to U+00FF") from None


def _refuse(schema: Schema, value: Any, path: Path) -> NoReturn:
    raise Misfit(path, f"{_shown(value)} is no {name_of(schema)}")


def _shown(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= _SHOWN_CHARACTERS else f"{text[:_SHOWN_CHARACTERS]}..."


def _data(data: bytes) -> bytes:
    return _long(len(data)) + data


def _long(value: int) -> bytes:
    rest = (value << 1) ^ (value >> 63)
    found = bytearray()
    while rest > 0x7F:
        found.append(rest & 0x7F | 0x80)
        rest >>= 7
    found.append(rest)
    return bytes(found)
