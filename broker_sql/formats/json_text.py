"""JSON: an object with a field for each column, or the only column as it is.

A column is read from the field of its name, else from the one whose upper-cased name equals it. Numbers may be text,
and text may be any value; a number of a DECIMAL is read with all digits, and one of an INTEGER or BIGINT loses its
fraction and its high bits, as in Java. TIMESTAMP and TIME are ms, DATE is days, BYTES are base64.

orjson reads a record first. It has doubles only, so a record in which the exact number matters is read again by
Python's parser, as are records that orjson refuses although Jackson does not.
"""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any, Final, NoReturn

import orjson

from broker_cy.core.java_numbers import double_text
from broker_sql import types
from broker_sql.formats.connect import check_map_keys
from broker_sql.formats.json_source import object_reader, object_writer
from broker_sql.formats.numbers import checked_time, fitted, parsed_bytes, parsed_double, parsed_int, parsed_long
from broker_sql.formats.rows import Read, Row, RowShape, Write, checked_count
from broker_sql.java_format import parse_decimal, wrap_bigint, wrap_integer
from broker_sql.types import SqlType

SHAPES_MAX: Final = 100
"""Orders of fields in records that have a reader of their own; other orders are looked up for each record."""

Coerce = Callable[[Any], Any]


class _Inexact(Exception):
    """A number with a fraction, or a large one, is to be read exactly."""


class Mismatch(ValueError):
    """A value of JSON cannot have a column's type. `path` leads to it: `.A[3]`."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(f"${path}: {reason}")
        self.path = path
        self.reason = reason


def _constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no number of JSON")


# An object keeps its fields in a dict; the last one of a name counts, as in Jackson.
_EXACT: Final = json.JSONDecoder(parse_float=Decimal, parse_constant=_constant)


def exact(data: bytes) -> Any:
    """Return the value of a text of JSON with Decimal for numbers that have a point or an exponent. Text behind the
    value is ignored, as by Jackson. Raises ValueError.
    """
    text = data.decode("utf-8-sig").lstrip(" \t\r\n")
    try:
        return _EXACT.raw_decode(text)[0]
    except RecursionError:
        raise ValueError("it is nested too deep") from None


def read_once(data: bytes) -> Any:
    """Return the value of a text of JSON with the numbers that orjson reads. Raises ValueError."""
    try:
        return orjson.loads(data)
    except orjson.JSONDecodeError:
        return exact(data)


def make(shape: RowShape) -> tuple[Write, Read]:
    """Raises AnalysisError: keys of a map are not STRING."""
    check_map_keys(shape.names, shape.types, shape.format)
    return _writer(shape), _reader(shape)


# ------------------------------------------------------------------------------------------------ from bytes


def _reader(shape: RowShape) -> Read:
    coerce_row = _coerce_single(shape) if shape.unwraps else _coerce_columns(shape)

    def read(data: bytes) -> Row | None:
        try:
            return coerce_row(orjson.loads(data))
        except (_Inexact, orjson.JSONDecodeError):
            return coerce_row(exact(data))

    return read


def _coerce_single(shape: RowShape) -> Callable[[Any], Row | None]:
    coerce = coercion(shape.types[0])
    return lambda value: (None if value is None else coerce(value),)


def _coerce_columns(shape: RowShape) -> Callable[[Any], Row | None]:
    fields = _fields(shape.names, shape.types)

    def read(value: Any) -> Row | None:
        if value is None:
            return None
        if not isinstance(value, dict):
            raise Mismatch("", f"{_shown(value)} is no object")
        row: Row = fields(value)
        return row

    return read


def _fields(
    names: tuple[str, ...], kinds: tuple[SqlType, ...], *, is_struct: bool = False
) -> Callable[[dict[str, Any]], Any]:
    """Return a function that reads an object: to the values of columns, or to a dict of a struct's fields."""
    coercions = tuple(coercion(kind) for kind in kinds)
    readers: dict[tuple[str, ...], Callable[[dict[str, Any]], Any]] = {}

    def other(index: int, given: Any) -> Any:
        if given is None:
            return None
        try:
            return coercions[index](given)
        except Mismatch as error:
            raise Mismatch(f".{names[index]}{error.path}", error.reason) from None
        except ValueError as error:
            raise Mismatch(f".{names[index]}", str(error)) from None

    def located(value: dict[str, Any]) -> Callable[[dict[str, Any]], Any]:
        upper = {name.upper(): name for name in value}
        found = [name if name in value else upper.get(name) for name in names]
        if len(readers) < SHAPES_MAX:
            made = readers[tuple(value)] = object_reader(found, names, kinds, other, is_struct)
            return made

        def read(value: dict[str, Any]) -> Any:
            row = tuple(None if name is None else other(index, value[name]) for index, name in enumerate(found))
            return dict(zip(names, row, strict=True)) if is_struct else row

        return read

    def read(value: dict[str, Any]) -> Any:
        return (readers.get(tuple(value)) or located(value))(value)

    return read


def coercion(kind: SqlType) -> Coerce:
    """Return the function from a value of JSON, not null, to a value of a type. It raises ValueError, and _Inexact."""
    if isinstance(kind, types.Decimal):
        return _decimal(kind)
    if isinstance(kind, types.Array):
        return _array(kind)
    if isinstance(kind, types.Map):
        return _map(kind)
    if isinstance(kind, types.Struct):
        return _struct(kind)
    return _PRIMITIVES[kind]


def _boolean(value: Any) -> bool:
    if value is True or value is False:
        return bool(value)
    raise ValueError(f"{_shown(value)} is no BOOLEAN")


def _whole(name: str, parse: Callable[[str], int], wrap: Callable[[int], int]) -> Coerce:
    def read(value: Any) -> int:
        kind = type(value)
        if kind is int:
            return wrap(value)
        if kind is str:
            return parse(value)
        if kind is float:
            raise _Inexact
        if kind is Decimal:
            if value.adjusted() > 400:
                raise ValueError(f"{value} is too large for {name}")
            return wrap(int(value))
        raise ValueError(f"{_shown(value)} is no {name}")

    return read


def _integer(value: Any) -> int:
    if type(value) is int and -0x8000_0000 <= value <= 0x7FFF_FFFF:
        return value
    found: int = _any_integer(value)
    return found


def _bigint(value: Any) -> int:
    if type(value) is int and -0x8000_0000_0000_0000 <= value <= 0x7FFF_FFFF_FFFF_FFFF:
        return value
    found: int = _any_bigint(value)
    return found


def _double(value: Any) -> float:
    kind = type(value)
    if kind is float:
        return float(value)
    if kind is int or kind is Decimal:
        try:
            return float(value)
        except OverflowError:
            return math.inf if value > 0 else -math.inf
    if kind is str:
        return parsed_double(value)
    raise ValueError(f"{_shown(value)} is no DOUBLE")


def _string(value: Any) -> str:
    if type(value) is str:
        return value
    return _text(value)


def _text(value: Any) -> str:
    """The text of another value: objects as JSON, arrays with blanks between elements."""
    if value is True or value is False:
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        raise _Inexact
    if isinstance(value, Decimal):
        return str(value if value else abs(value))
    if isinstance(value, list):
        return f"[{', '.join('null' if each is None else _string(each) for each in value)}]"
    return _compact(value)


def _compact(value: Any) -> str:
    """JSON without blanks; decimals have all their digits."""
    if isinstance(value, dict):
        return (
            f"{{{','.join(f'{json.dumps(key, ensure_ascii=False)}:{_compact(each)}' for key, each in value.items())}}}"
        )
    if isinstance(value, list):
        return f"[{','.join(map(_compact, value))}]"
    if isinstance(value, float | Decimal):
        return _text(value)
    return json.dumps(value, ensure_ascii=False)


def _bytes(value: Any) -> bytes:
    if not isinstance(value, str):
        raise ValueError(f"{_shown(value)} is no BYTES: base64 is expected")
    return parsed_bytes(value)


def _decimal(kind: types.Decimal) -> Coerce:
    def read(value: Any) -> Decimal:
        if isinstance(value, float):
            raise _Inexact
        if isinstance(value, str):
            return fitted(parse_decimal(value), kind)
        if isinstance(value, Decimal | int) and not isinstance(value, bool):
            return fitted(Decimal(value), kind)
        raise ValueError(f"{_shown(value)} is no {kind}")

    return read


def _time(value: Any) -> int:
    return checked_time(_bigint(value))


def _date(value: Any) -> int:
    return wrap_integer(_bigint(value))


def _array(kind: types.Array) -> Coerce:
    coerce = coercion(kind.element)

    def read(value: Any) -> list[Any]:
        if not isinstance(value, list):
            raise ValueError(f"{_shown(value)} is no {kind}")
        found = []
        for each in value:
            try:
                found.append(None if each is None else coerce(each))
            except Mismatch as error:
                raise Mismatch(f"[{len(found)}]{error.path}", error.reason) from None
            except ValueError as error:
                raise Mismatch(f"[{len(found)}]", str(error)) from None
        return found

    return read


def _map(kind: types.Map) -> Coerce:
    coerce = coercion(kind.value)

    def read(value: Any) -> dict[str, Any]:
        if not isinstance(value, dict):
            raise ValueError(f"{_shown(value)} is no {kind}")
        found = {}
        for key, each in value.items():
            try:
                found[key] = None if each is None else coerce(each)
            except Mismatch as error:
                raise Mismatch(f".{key}.value{error.path}", error.reason) from None
            except ValueError as error:
                raise Mismatch(f".{key}.value", str(error)) from None
        return found

    return read


def _struct(kind: types.Struct) -> Coerce:
    names = tuple(name for name, _ in kind.fields)
    fields = _fields(names, tuple(inner for _, inner in kind.fields), is_struct=True)

    def read(value: Any) -> dict[str, Any]:
        if not isinstance(value, dict):
            raise ValueError(f"{_shown(value)} is no {kind}")
        found: dict[str, Any] = fields(value)
        return found

    return read


_any_integer: Final = _whole("INTEGER", parsed_int, wrap_integer)
_any_bigint: Final = _whole("BIGINT", parsed_long, wrap_bigint)
_PRIMITIVES: Final[dict[SqlType, Coerce]] = {
    types.BOOLEAN: _boolean,
    types.INTEGER: _integer,
    types.BIGINT: _bigint,
    types.DOUBLE: _double,
    types.STRING: _string,
    types.BYTES: _bytes,
    types.DATE: _date,
    types.TIME: _time,
    types.TIMESTAMP: _bigint,
}


def _shown(value: Any) -> str:
    text = "null" if value is None else _compact(value) if not isinstance(value, float) else str(value)
    return text if len(text) <= 40 else f"{text[:37]}..."


# ------------------------------------------------------------------------------------------------ to bytes


def _writer(shape: RowShape) -> Write:
    names, count = shape.names, len(shape.names)
    encoders = tuple(encoding(kind) for kind in shape.types)
    if shape.unwraps:
        encode_single = encoders[0]

        def write_single(row: Row) -> bytes | None:
            checked_count(row, 1)
            value = row[0]
            if value is None:
                return None
            return dumped(value if encode_single is None else encode_single(value))

        return write_single
    write_all = object_writer(names, encoders, dumped)

    def write(row: Row) -> bytes | None:
        checked_count(row, count)
        return write_all(row)

    return write


def dumped(value: Any) -> bytes:
    """Return the text of a value. A surrogate without its pair becomes `?`, and a NULL key `null`, as in Java."""
    try:
        return orjson.dumps(value)
    except orjson.JSONEncodeError:
        return orjson.dumps(_cleaned(value))


def _cleaned(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    if isinstance(value, dict):
        return {"null" if key is None else _cleaned(key): _cleaned(each) for key, each in value.items()}
    return [_cleaned(each) for each in value] if isinstance(value, list) else value


def encoding(kind: SqlType) -> Coerce | None:
    """Return the function from a value, not NULL, to what orjson writes; None: the value as it is."""
    if kind == types.DOUBLE:
        return _encoded_double
    if kind == types.BYTES:
        return lambda value: base64.b64encode(value).decode()
    if isinstance(kind, types.Decimal):
        return lambda value: orjson.Fragment(str(value))
    if isinstance(kind, types.Array):
        element = encoding(kind.element)
        return element and (lambda value: [None if each is None else element(each) for each in value])
    if isinstance(kind, types.Map):
        inner = encoding(kind.value)
        return inner and (lambda value: {key: None if each is None else inner(each) for key, each in value.items()})
    if isinstance(kind, types.Struct):
        return _encoded_struct({name: encoding(inner) for name, inner in kind.fields})
    return None


def _encoded_struct(fields: Mapping[str, Coerce | None]) -> Coerce | None:
    if not any(fields.values()):
        return None

    def encode(value: dict[str, Any]) -> dict[str, Any]:
        found = {}
        for name, each in value.items():
            inner = fields.get(name)
            found[name] = each if each is None or inner is None else inner(each)
        return found

    return encode


def _encoded_double(value: float) -> Any:
    """orjson writes other digits than Java outside of this range; NaN and Infinity are text, as Jackson writes them."""
    if 0.001 <= value < 10_000_000.0 or -10_000_000.0 < value <= -0.001:
        return value
    if math.isfinite(value):
        return orjson.Fragment(double_text(value))
    return double_text(value)
