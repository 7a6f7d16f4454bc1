"""Streams, tables and types: CREATE, DROP, ALTER, INSERT."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

from sqlglot import exp

from broker_sql.errors import Location
from broker_sql.statements.base import NO_PROPERTIES, Name, Properties, Statement
from broker_sql.statements.queries import Query
from broker_sql.types import SqlType


class SourceKind(Enum):
    STREAM = "STREAM"
    TABLE = "TABLE"


class Mark(Enum):
    """The mark behind the type of a column."""

    NONE = ""
    KEY = "KEY"
    PRIMARY_KEY = "PRIMARY KEY"
    HEADERS = "HEADERS"  # all headers, or the one that Element.header names


@dataclass(frozen=True)
class Element:
    """A column as CREATE and ASSERT declare it. The type may hold NamedType."""

    name: Name
    type: SqlType
    mark: Mark = Mark.NONE
    header: str | None = None
    location: Location | None = field(default=None, compare=False)


@dataclass(frozen=True, kw_only=True)
class CreateSource(Statement):
    """CREATE [OR REPLACE] [SOURCE] STREAM|TABLE.

    `elements` is empty if the registry has the schema. `source` says SOURCE: the stream or table is only read."""

    name: Name
    elements: tuple[Element, ...] = ()
    properties: Properties = NO_PROPERTIES
    or_replace: bool = False
    if_not_exists: bool = False
    source: bool = False


@dataclass(frozen=True, kw_only=True)
class CreateStream(CreateSource):
    """CREATE STREAM."""


@dataclass(frozen=True, kw_only=True)
class CreateTable(CreateSource):
    """CREATE TABLE."""


@dataclass(frozen=True, kw_only=True)
class CreateAs(Statement):
    """CREATE [OR REPLACE] STREAM|TABLE ... AS SELECT."""

    name: Name
    query: Query
    properties: Properties = NO_PROPERTIES
    or_replace: bool = False
    if_not_exists: bool = False


@dataclass(frozen=True, kw_only=True)
class CreateStreamAs(CreateAs):
    """CREATE STREAM AS SELECT."""


@dataclass(frozen=True, kw_only=True)
class CreateTableAs(CreateAs):
    """CREATE TABLE AS SELECT."""


@dataclass(frozen=True, kw_only=True)
class InsertInto(Statement):
    """INSERT INTO stream [WITH (QUERY_ID = ...)] SELECT."""

    target: Name
    query: Query
    properties: Properties = NO_PROPERTIES


@dataclass(frozen=True, kw_only=True)
class InsertValues(Statement):
    """INSERT INTO ... VALUES. `columns` is empty for all columns. The analysis compares the lengths of both."""

    target: Name
    columns: tuple[Name, ...] = ()
    values: tuple[exp.Expr, ...]


@dataclass(frozen=True, kw_only=True)
class DropSource(Statement):
    name: Name
    if_exists: bool = False
    delete_topic: bool = False


@dataclass(frozen=True, kw_only=True)
class DropStream(DropSource):
    """DROP STREAM."""


@dataclass(frozen=True, kw_only=True)
class DropTable(DropSource):
    """DROP TABLE."""


@dataclass(frozen=True, kw_only=True)
class CreateType(Statement):
    """CREATE TYPE [IF NOT EXISTS] name AS type."""

    name: Name
    type: SqlType
    if_not_exists: bool = False


@dataclass(frozen=True, kw_only=True)
class DropType(Statement):
    """DROP TYPE [IF EXISTS] name."""

    name: Name
    if_exists: bool = False


@dataclass(frozen=True, kw_only=True)
class CreateFunction(Statement):
    """CREATE [OR REPLACE] FUNCTION [IF NOT EXISTS] name(name type, ...) RETURNS type LANGUAGE PYTHON AS $$ body $$."""

    name: Name
    parameters: tuple[tuple[Name, SqlType], ...]
    returns: SqlType
    body: str
    or_replace: bool = False
    if_not_exists: bool = False


@dataclass(frozen=True, kw_only=True)
class DropFunction(Statement):
    """DROP FUNCTION [IF EXISTS] name."""

    name: Name
    if_exists: bool = False


@dataclass(frozen=True, kw_only=True)
class AlterSource(Statement):
    """ALTER STREAM|TABLE name ADD [COLUMN] column type, ..."""

    kind: SourceKind
    name: Name
    columns: tuple[Element, ...]
