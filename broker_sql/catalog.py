"""Streams, tables, types and queries that statements made. A catalog never changes: `apply` returns another one.

The server keeps one catalog for each replay of its command topic; a statement is planned against it, and its changes
are applied when the statement is done.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from broker_sql.errors import AnalysisError, Location
from broker_sql.statements import SourceKind, WindowKind
from broker_sql.types import Array, Map, NamedType, Schema, SqlType, Struct, quoted


@dataclass(frozen=True)
class Format:
    """A format and its own settings, as `formats.kinds` names them."""

    name: str
    properties: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class KeyWindow:
    """The windows that the keys of a topic are in. `size_ms` is None for sessions."""

    kind: WindowKind
    size_ms: int | None = None


@dataclass(frozen=True)
class TimestampColumn:
    """The column that the times of records come from. `format` is that of a STRING column (DateTimeFormatter's)."""

    name: str
    format: str | None = None


@dataclass(frozen=True)
class SourceInfo:
    """A stream or table. `wrap_value` False: the only value column is the whole value of a record; None: the format has
    no choice, or there are several columns. `unwraps_key`: as for keys, where one column is never wrapped if the format
    allows that.

    `is_read_only`: made with SOURCE. `query_id` is the query that makes it, for CREATE ... AS SELECT.
    """

    name: str
    kind: SourceKind
    schema: Schema
    topic: str
    key_format: Format
    value_format: Format
    window: KeyWindow | None = None
    timestamp: TimestampColumn | None = None
    wrap_value: bool | None = None
    unwraps_key: bool = False
    partitions: int | None = None
    replicas: int | None = None
    retention_ms: int | None = None
    is_read_only: bool = False
    query_id: str | None = None
    text: str = ""

    @property
    def is_table(self) -> bool:
        return self.kind is SourceKind.TABLE


@dataclass(frozen=True)
class QueryInfo:
    """A persistent query. `sink` is None for the query that fills a table made with SOURCE."""

    id: str
    sources: tuple[str, ...]
    sink: str | None
    text: str


@dataclass(frozen=True)
class FunctionInfo:
    """A function that a user wrote in Python. `text` is the statement."""

    name: str
    parameters: tuple[tuple[str, SqlType], ...]
    returns: SqlType
    body: str
    text: str = ""


@dataclass(frozen=True)
class PutSource:
    """Add a stream or table, or replace the one of its name."""

    source: SourceInfo


@dataclass(frozen=True)
class RemoveSource:
    name: str


@dataclass(frozen=True)
class PutType:
    name: str
    type: SqlType


@dataclass(frozen=True)
class RemoveType:
    name: str


@dataclass(frozen=True)
class PutQuery:
    """Add a query, or replace the one of its id."""

    query: QueryInfo


@dataclass(frozen=True)
class RemoveQuery:
    id: str


@dataclass(frozen=True)
class PutFunction:
    """Add a function, or replace the one of its name."""

    function: FunctionInfo


@dataclass(frozen=True)
class RemoveFunction:
    name: str


Change = PutSource | RemoveSource | PutType | RemoveType | PutQuery | RemoveQuery | PutFunction | RemoveFunction


@dataclass(frozen=True)
class Catalog:
    """`next_query` is the number of the next query's id, one more than that of the query before."""

    sources: Mapping[str, SourceInfo] = field(default_factory=dict)
    types: Mapping[str, SqlType] = field(default_factory=dict)
    queries: Mapping[str, QueryInfo] = field(default_factory=dict)
    functions: Mapping[str, FunctionInfo] = field(default_factory=dict)
    next_query: int = 0

    def apply(self, change: Change) -> Catalog:
        match change:
            case PutSource(source):
                return replace(self, sources={**self.sources, source.name: source})
            case RemoveSource(name):
                return replace(self, sources=_without(self.sources, name))
            case PutType(name, kind):
                return replace(self, types={**self.types, name: kind})
            case RemoveType(name):
                return replace(self, types=_without(self.types, name))
            case PutQuery(query):
                is_new = query.id not in self.queries
                return replace(
                    self,
                    queries={**self.queries, query.id: query},
                    next_query=self.next_query + is_new,
                )
            case RemoveQuery(query_id):
                return replace(self, queries=_without(self.queries, query_id))
            case PutFunction(function):
                return replace(self, functions={**self.functions, function.name: function})
            case RemoveFunction(name):
                return replace(self, functions=_without(self.functions, name))

    def apply_all(self, changes: Iterable[Change]) -> Catalog:
        found = self
        for each in changes:
            found = found.apply(each)
        return found

    def source(self, name: str, location: Location | None = None) -> SourceInfo:
        """Raises AnalysisError: there is no such stream or table."""
        found = self.sources.get(name)
        if found is None:
            message = f"{quoted(name)} is no stream or table{nearest(name, self.sources)}"
            raise AnalysisError(message, location or getattr(name, "location", None))
        return found

    def readers(self, name: str) -> list[str]:
        """Ids of the queries that read a source."""
        return sorted(each.id for each in self.queries.values() if name in each.sources)

    def writers(self, name: str) -> list[str]:
        """Ids of the queries that write a source."""
        return sorted(each.id for each in self.queries.values() if each.sink == name)

    def resolved(self, kind: SqlType, location: Location | None = None) -> SqlType:
        """The type without names that users gave. Raises AnalysisError: a name is no type."""
        match kind:
            case NamedType(name):
                found = self.types.get(name)
                if found is None:
                    message = f"{quoted(name)} is no type{nearest(name, self.types)}"
                    raise AnalysisError(message, location)
                return found
            case Array(element):
                return Array(self.resolved(element, location))
            case Map(key, value):
                return Map(self.resolved(key, location), self.resolved(value, location))
            case Struct(fields):
                return Struct(tuple((name, self.resolved(each, location)) for name, each in fields))
        return kind


def _without(entries: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    return {each: value for each, value in entries.items() if each != name}


def nearest(name: str, known: Iterable[str]) -> str:
    """Text that names the known names that look like this one; empty: none does.

    A name of another case is shown in the quotes that it needs.
    """
    names = list(known)
    found = [each for each in names if each.upper() == name.upper()]
    by_upper = {each.upper(): each for each in names}
    close = difflib.get_close_matches(name.upper(), by_upper, 3, 0.6)
    found.extend(by_upper[each] for each in close if by_upper[each] not in found)
    if not found:
        return ""
    shown = ", ".join(each if each.isidentifier() and each == each.upper() else quoted(each) for each in found[:3])
    return f". Did you mean {shown}?"
