"""Types of records between the schemas of a registry and SQL's, as Kafka Connect has them, and values by them.

ksqlDB reads and writes AVRO, PROTOBUF and JSON_SR through Connect's data, so names of schemas, the types that match and
the conversions are Connect's. A value of a shape in Python: ints, float, str, bool, bytes; Decimal; a date is days
since 1970, a time ms of the day, a timestamp ms since 1970; list, dict; a struct is a dict by the names of its fields.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any, Final

from broker_cy.core.java_numbers import double_text
from broker_sql import types
from broker_sql.errors import AnalysisError
from broker_sql.formats.numbers import fitted
from broker_sql.types import SqlType

Convert = Callable[[Any], Any]


class Base(Enum):
    """Connect's types (`Schema.Type`)."""

    INT8 = "INT8"
    INT16 = "INT16"
    INT32 = "INT32"
    INT64 = "INT64"
    FLOAT32 = "FLOAT32"
    FLOAT64 = "FLOAT64"
    BOOLEAN = "BOOLEAN"
    STRING = "STRING"
    BYTES = "BYTES"
    ARRAY = "ARRAY"
    MAP = "MAP"
    STRUCT = "STRUCT"


DECIMAL: Final = "org.apache.kafka.connect.data.Decimal"
DATE: Final = "org.apache.kafka.connect.data.Date"
TIME: Final = "org.apache.kafka.connect.data.Time"
TIMESTAMP: Final = "org.apache.kafka.connect.data.Timestamp"
PRECISION: Final = "connect.decimal.precision"
# The precision of a decimal whose schema has none (`DecimalUtil`).
PRECISION_DEFAULT: Final = 64


@dataclass(frozen=True)
class Shape:
    """A schema of Connect. `name` is the logical type, or the name of a record. `element` is that of an array, or of
    the values of a map; `key` is that of a map's keys. `scale` and `precision` belong to DECIMAL.
    """

    base: Base
    name: str | None = None
    is_optional: bool = True
    fields: tuple[tuple[str, Shape], ...] = ()
    element: Shape | None = None
    key: Shape | None = None
    scale: int = 0
    precision: int = PRECISION_DEFAULT
    default: Any = None

    def required(self) -> Shape:
        return replace(self, is_optional=False)


class Unsupported(ValueError):
    """SQL has no type for a schema."""


# ------------------------------------------------------------------------------------------------ SQL to Connect

_SHAPES: Final[dict[SqlType, Shape]] = {
    types.BOOLEAN: Shape(Base.BOOLEAN),
    types.INTEGER: Shape(Base.INT32),
    types.BIGINT: Shape(Base.INT64),
    types.DOUBLE: Shape(Base.FLOAT64),
    types.STRING: Shape(Base.STRING),
    types.BYTES: Shape(Base.BYTES),
    types.DATE: Shape(Base.INT32, DATE),
    types.TIME: Shape(Base.INT32, TIME),
    types.TIMESTAMP: Shape(Base.INT64, TIMESTAMP),
}


def shape_of(kind: SqlType) -> Shape:
    """Return the shape of a type. Everything in it is optional."""
    if isinstance(kind, types.Decimal):
        return Shape(Base.BYTES, DECIMAL, scale=kind.scale, precision=kind.precision)
    if isinstance(kind, types.Array):
        return Shape(Base.ARRAY, element=shape_of(kind.element))
    if isinstance(kind, types.Map):
        return Shape(Base.MAP, key=shape_of(kind.key), element=shape_of(kind.value))
    if isinstance(kind, types.Struct):
        return Shape(Base.STRUCT, fields=tuple((name, shape_of(inner)) for name, inner in kind.fields))
    return _SHAPES[kind]


def shape_of_row(names: Sequence[str], kinds: Sequence[SqlType], *, unwraps: bool) -> Shape:
    """Return the shape of a key or value: a required struct, or the shape of the only column."""
    if unwraps:
        return shape_of(kinds[0])
    fields = tuple((name, shape_of(kind)) for name, kind in zip(names, kinds, strict=True))
    return Shape(Base.STRUCT, is_optional=False, fields=fields)


# ------------------------------------------------------------------------------------------------ Connect to SQL

_LOGICAL: Final = {DATE: types.DATE, TIME: types.TIME, TIMESTAMP: types.TIMESTAMP}
_SQL: Final = {
    Base.INT8: types.INTEGER,
    Base.INT16: types.INTEGER,
    Base.INT32: types.INTEGER,
    Base.INT64: types.BIGINT,
    Base.FLOAT32: types.DOUBLE,
    Base.FLOAT64: types.DOUBLE,
    Base.BOOLEAN: types.BOOLEAN,
    Base.STRING: types.STRING,
    Base.BYTES: types.BYTES,
}
_MAP_KEYS: Final = (Base.INT8, Base.INT16, Base.INT32, Base.INT64, Base.BOOLEAN, Base.STRING)


def sql_type(shape: Shape, *, is_upper: bool = True) -> SqlType:
    """Return the type of a shape; fields of structs get upper-case names if `is_upper`. Fields that SQL has no type for
    are left out, as in ksqlDB. Raises Unsupported.
    """
    if shape.base is Base.ARRAY:
        assert shape.element is not None
        return types.Array(sql_type(shape.element, is_upper=is_upper))
    if shape.base is Base.MAP:
        assert shape.element is not None
        assert shape.key is not None
        if shape.key.base not in _MAP_KEYS:
            raise Unsupported(f"keys of a map are {shape.key.base.value}")
        return types.Map(types.STRING, sql_type(shape.element, is_upper=is_upper))
    if shape.base is Base.STRUCT:
        return types.Struct(columns_of(shape, is_upper=is_upper))
    if shape.name == DECIMAL and shape.base is Base.BYTES:
        try:
            return types.Decimal(shape.precision, shape.scale)
        except ValueError as error:
            raise Unsupported(str(error)) from None
    if shape.name in _LOGICAL and _SHAPES[_LOGICAL[shape.name]].base is shape.base:
        return _LOGICAL[shape.name]
    return _SQL[shape.base]


def columns_of(shape: Shape, *, is_upper: bool = True) -> tuple[tuple[str, SqlType], ...]:
    """Return the names and types of a struct's fields, without those that SQL has no type for."""
    found = []
    for name, inner in shape.fields:
        try:
            found.append((name.upper() if is_upper else name, sql_type(inner, is_upper=is_upper)))
        except Unsupported:
            continue
    return tuple(found)


_INTEGERS: Final = (Base.INT8, Base.INT16, Base.INT32)
# Types that a column reads, by the type that SQL's value has in Connect.
_TAKEN: Final[dict[Base, tuple[Base, ...]]] = {
    Base.INT32: _INTEGERS,
    Base.INT64: (*_INTEGERS, Base.INT64),
    Base.FLOAT64: (Base.FLOAT32, Base.FLOAT64),
    Base.STRING: (*_INTEGERS, Base.INT64, Base.FLOAT32, Base.FLOAT64, Base.BOOLEAN, Base.STRING),
}


def converter(shape: Shape, kind: SqlType, path: str = "") -> Convert:
    """Return the function from a value of a shape, not null, to a value of a type (`ConnectDataTranslator`). Raises
    ValueError: the type cannot have such values.
    """
    base = shape_of(kind).base
    if shape.base not in _TAKEN.get(base, (base,)):
        raise ValueError(f"{shape.base.value} cannot be read as {kind}{f' ({path})' if path else ''}")
    if isinstance(kind, types.Array):
        assert shape.element is not None
        return _array(converter(shape.element, kind.element, f"{path}->ARRAY"))
    if isinstance(kind, types.Map):
        assert shape.element is not None
        assert shape.key is not None
        return _map(
            converter(shape.key, kind.key, f"{path}->MAP_KEY"), converter(shape.element, kind.value, f"{path}->MAP_VAL")
        )
    if isinstance(kind, types.Struct):
        read = fields_reader(shape, [name for name, _ in kind.fields], [inner for _, inner in kind.fields], path)
        names = [name for name, _ in kind.fields]
        return lambda value: dict(zip(names, read(value), strict=True))
    if isinstance(kind, types.Decimal):
        if shape.name != DECIMAL:
            raise ValueError(f"BYTES cannot be read as {kind}{f' ({path})' if path else ''}")
        return lambda value: fitted(value, kind)
    if kind == types.STRING and shape.base is not Base.STRING:
        return _TEXTS.get(shape.base, str)
    if kind == types.DOUBLE:
        return float
    return _same


def fields_reader(
    shape: Shape, names: Sequence[str], kinds: Sequence[SqlType], path: str = ""
) -> Callable[[dict[str, Any]], list[Any]]:
    """Return the function from a struct to the values of columns. A field belongs to the column of its name, else to
    that of its upper-case name. Raises ValueError.
    """
    wanted = dict(zip(names, kinds, strict=True))
    sources: dict[str, tuple[str, Convert]] = {}
    for name, inner in shape.fields:
        column = name if name in wanted else name.upper()
        if column in wanted:
            sources[column] = name, converter(inner, wanted[column], f"{path}->{column}")
    plan = tuple(sources.get(name, ("", _same)) for name in names)

    def read(value: dict[str, Any]) -> list[Any]:
        found = []
        for name, convert in plan:
            given = value.get(name)
            found.append(None if given is None else convert(given))
        return found

    return read


def row_reader(shape: Shape, names: Sequence[str], kinds: Sequence[SqlType], *, unwraps: bool) -> Callable[[Any], Any]:
    """Return the function from a key or value of a shape to a row. Raises ValueError."""
    if unwraps:
        convert = converter(shape, kinds[0])
        return lambda value: (None if value is None else convert(value),)
    if shape.base is not Base.STRUCT:
        raise ValueError(f"{shape.base.value} cannot be read as a row of {len(names)} columns")
    read = fields_reader(shape, names, kinds)
    return lambda value: None if value is None else tuple(read(value))


def _same(value: Any) -> Any:
    return value


def _array(convert: Convert) -> Convert:
    if convert is _same:
        return _same
    return lambda value: [None if each is None else convert(each) for each in value]


def _map(key: Convert, inner: Convert) -> Convert:
    if key is _same and inner is _same:
        return _same
    return lambda value: {
        None if name is None else key(name): None if each is None else inner(each) for name, each in value.items()
    }


def float_text(value: float) -> str:
    """Return the text of a float of 32 bits (`Float.toString`)."""
    for digits in range(1, 10):
        short = float(f"{value:.{digits}g}")
        try:
            if struct.unpack(">f", struct.pack(">f", short))[0] == value:
                return double_text(short)
        except OverflowError:
            continue
    return double_text(value)


def _boolean_text(value: bool) -> str:
    return "true" if value else "false"


_TEXTS: Final[dict[Base, Convert]] = {
    Base.BOOLEAN: _boolean_text,
    Base.FLOAT32: float_text,
    Base.FLOAT64: double_text,
}


def check_map_keys(names: Sequence[str], kinds: Sequence[SqlType], format_name: str) -> None:
    """Check that keys of maps are STRING. Raises AnalysisError."""
    for name, kind in zip(names, kinds, strict=True):
        if isinstance(kind, types.Map):
            if kind.key != types.STRING:
                raise AnalysisError(
                    f"column {name}: keys of maps are STRING in {format_name}, and {kind} has {kind.key}"
                )
            check_map_keys([name], [kind.value], format_name)
        elif isinstance(kind, types.Array):
            check_map_keys([name], [kind.element], format_name)
        elif isinstance(kind, types.Struct):
            fields = [f"{name}->{field}" for field, _ in kind.fields]
            check_map_keys(fields, [inner for _, inner in kind.fields], format_name)
