"""Types of columns and expressions, and schemas.

`str(type)` is the text in DESCRIBE, in errors and in answers of the server: `ARRAY<INTEGER>`, `DECIMAL(4, 2)`,
``STRUCT<`A` INTEGER>``. Values of each type in Python: docs/sql.md, "Types".
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from functools import cached_property

# Digits of a DECIMAL. ksqlDB has no bound: its default is 64, and a product of two columns has the digits of both.
MAX_PRECISION = 1000


class SqlType:
    """Base of all types. Two types are equal if their texts are."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Primitive(SqlType):
    """A type without parameters."""

    name: str

    def __str__(self) -> str:
        return self.name


BOOLEAN = Primitive("BOOLEAN")
INTEGER = Primitive("INTEGER")
BIGINT = Primitive("BIGINT")
DOUBLE = Primitive("DOUBLE")
STRING = Primitive("STRING")
BYTES = Primitive("BYTES")
DATE = Primitive("DATE")
TIME = Primitive("TIME")
TIMESTAMP = Primitive("TIMESTAMP")

# Names of primitive types in statements, upper case.
PRIMITIVES = {each.name: each for each in (BOOLEAN, INTEGER, BIGINT, DOUBLE, STRING, BYTES, DATE, TIME, TIMESTAMP)}
PRIMITIVES |= {"INT": INTEGER, "VARCHAR": STRING}


@dataclass(frozen=True, slots=True)
class Decimal(SqlType):
    """A number with `precision` digits, `scale` of them after the point: 1 <= precision, 0 <= scale <= precision.

    Raises ValueError."""

    precision: int
    scale: int

    def __post_init__(self) -> None:
        if not 1 <= self.precision <= MAX_PRECISION:
            raise ValueError(f"DECIMAL precision {self.precision}: 1 to {MAX_PRECISION} is expected")
        if not 0 <= self.scale <= self.precision:
            raise ValueError(f"DECIMAL scale {self.scale}: 0 to the precision, {self.precision}, is expected")

    def __str__(self) -> str:
        return f"DECIMAL({self.precision}, {self.scale})"


@dataclass(frozen=True, slots=True)
class Array(SqlType):
    element: SqlType

    def __str__(self) -> str:
        return f"ARRAY<{self.element}>"


@dataclass(frozen=True, slots=True)
class Map(SqlType):
    key: SqlType
    value: SqlType

    def __str__(self) -> str:
        return f"MAP<{self.key}, {self.value}>"


@dataclass(frozen=True, slots=True)
class Struct(SqlType):
    """`fields` are (name, type) in their order."""

    fields: tuple[tuple[str, SqlType], ...]

    def field(self, name: str) -> SqlType | None:
        return next((kind for each, kind in self.fields if each == name), None)

    def __str__(self) -> str:
        inner = ", ".join(f"{quoted(name)} {kind}" for name, kind in self.fields)
        return f"STRUCT<{inner}>" if inner else "STRUCT< >"


@dataclass(frozen=True, slots=True)
class LambdaType(SqlType):
    """The type of a lambda as an argument of a function: types of its parameters, and of its body."""

    parameters: tuple[SqlType, ...]
    result: SqlType

    def __str__(self) -> str:
        return f"LAMBDA ({', '.join(map(str, self.parameters))}) => {self.result}"


@dataclass(frozen=True, slots=True)
class LambdaShape(SqlType):
    """A lambda before the types of its parameters are known: only their number."""

    arity: int

    def __str__(self) -> str:
        return f"LAMBDA ({self.arity})"


@dataclass(frozen=True, slots=True)
class IntervalUnitType(SqlType):
    """A unit of time in a call, as in DATEADD(DAYS, 1, d). Its value is the name in upper case: `DAYS`."""

    def __str__(self) -> str:
        return "INTERVALUNIT"


INTERVAL_UNIT = IntervalUnitType()


@dataclass(frozen=True, slots=True)
class NamedType(SqlType):
    """The name of a type that a user made (CREATE TYPE), which the catalog resolves."""

    name: str

    def __str__(self) -> str:
        return quoted(self.name)


def quoted(name: str) -> str:
    """Return the name in backquotes, as a statement may have it."""
    return "`" + name.replace("`", "``") + "`"


class Kind(Enum):
    """The part of a record that a column is in."""

    KEY = "KEY"
    VALUE = "VALUE"
    HEADERS = "HEADERS"


@dataclass(frozen=True, slots=True)
class Column:
    """`header` is the name of the one header that the column holds; None: all headers, or no column of headers."""

    name: str
    type: SqlType
    kind: Kind = Kind.VALUE
    header: str | None = None

    def __str__(self) -> str:
        suffix = " KEY" if self.kind is Kind.KEY else " HEADERS" if self.kind is Kind.HEADERS else ""
        return f"{quoted(self.name)} {self.type}{suffix}"


@dataclass(frozen=True)
class Schema:
    """Columns of a stream or table, in the order of the statement that made it."""

    columns: tuple[Column, ...]

    @cached_property
    def key(self) -> tuple[Column, ...]:
        return tuple(each for each in self.columns if each.kind is Kind.KEY)

    @cached_property
    def value(self) -> tuple[Column, ...]:
        return tuple(each for each in self.columns if each.kind is Kind.VALUE)

    @cached_property
    def headers(self) -> tuple[Column, ...]:
        return tuple(each for each in self.columns if each.kind is Kind.HEADERS)

    def find(self, name: str) -> Column | None:
        return next((each for each in self.columns if each.name == name), None)

    def __iter__(self) -> Iterator[Column]:
        return iter(self.columns)

    def __str__(self) -> str:
        return ", ".join(str(each) for each in self.columns)
