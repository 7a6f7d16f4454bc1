"""Rows that clients write: INSERT INTO ... VALUES, and /inserts-stream."""

from __future__ import annotations

import base64
import time
from collections.abc import Mapping, Sequence
from datetime import date, datetime
from decimal import Decimal as Number
from decimal import InvalidOperation
from typing import Any, Final

from broker_cy.wire.records import Record
from broker_sql.analysis.functions import with_functions
from broker_sql.analysis.names import Layout
from broker_sql.analysis.settings import INSERT_INTO_VALUES, Settings
from broker_sql.analysis.typed import compiled
from broker_sql.catalog import Catalog, SourceInfo, nearest
from broker_sql.errors import StatementError
from broker_sql.expressions import cast
from broker_sql.planner.stage import no_key_if_null
from broker_sql.server.bound_serdes import bound_key_serde, bound_value_serde
from broker_sql.statements import InsertValues
from broker_sql.types import (
    BIGINT,
    BOOLEAN,
    BYTES,
    DATE,
    DOUBLE,
    INTEGER,
    STRING,
    TIME,
    TIMESTAMP,
    Array,
    Decimal,
    Map,
    SqlType,
    Struct,
    quoted,
)

ROWTIME: Final = "ROWTIME"
_NO_ROW: Final = Layout(())
_MS: Final = 1_000_000
_EPOCH_DAY: Final = date(1970, 1, 1).toordinal()


def values_record(statement: InsertValues, catalog: Catalog, settings: Settings) -> tuple[str, Record]:
    """Return the topic and the record of INSERT INTO ... VALUES. Raises AnalysisError and StatementError."""
    settings = with_functions(settings, catalog)
    source = writable(str(statement.target), catalog, settings, statement)
    names = [str(each) for each in statement.columns]
    if not names:
        names = [each.name for each in (*source.schema.key, *source.schema.value)]
    if len(names) != len(statement.values):
        raise StatementError(
            f"{len(statement.values)} values are given for {len(names)} columns: {', '.join(names)}",
            statement.location,
        )
    types: dict[str, SqlType] = {each.name: each.type for each in source.schema if each not in source.schema.headers}
    types[ROWTIME] = BIGINT
    row: dict[str, Any] = {}
    for name, node in zip(names, statement.values, strict=True):
        if name not in types:
            hint = nearest(name, types)
            raise StatementError(f"{quoted(source.name)} has no column {quoted(name)}{hint}", statement.location)
        row[name] = compiled(node, _NO_ROW, settings, types[name]).evaluate(())
    return source.topic, record_of(source, row, settings)


def writable(name: str, catalog: Catalog, settings: Settings, statement: InsertValues | None = None) -> SourceInfo:
    """Return the source that rows may be written to. Raises AnalysisError and StatementError."""
    where = None if statement is None else statement.location
    source = catalog.source(name, where)
    if not settings.is_on(INSERT_INTO_VALUES, True):
        raise StatementError(f"{INSERT_INTO_VALUES} is false: this server takes no rows", where)
    kind = source.kind.value.lower()
    if source.is_read_only:
        raise StatementError(f"{kind} {quoted(source.name)} is only read: it was made with SOURCE", where)
    if source.window is not None:
        raise StatementError(f"{kind} {quoted(source.name)} has keys in windows, which cannot be written", where)
    if source.schema.headers:
        raise StatementError(f"{kind} {quoted(source.name)} has columns of headers, which cannot be written", where)
    return source


def record_of(source: SourceInfo, row: Mapping[str, Any], settings: Settings) -> Record:
    """Return the record of a row with values by column. Raises StatementError."""
    key = tuple(row.get(each.name) for each in source.schema.key)
    value = tuple(row.get(each.name) for each in source.schema.value)
    if source.is_table and None in key:
        name = source.schema.key[key.index(None)].name
        raise StatementError(f"{quoted(name)} is the primary key of {quoted(source.name)}, and needs a value")
    timestamp = row.get(ROWTIME)
    if timestamp is not None and timestamp < 0:
        raise StatementError(f"ROWTIME is {timestamp}; 0 or more is expected")
    try:
        kept = no_key_if_null(key) if key else None
        key_bytes = None if kept is None else bound_key_serde(source, settings.registry).serialize(source.topic, kept)
        value_bytes = bound_value_serde(source, settings.registry).serialize(source.topic, value)
    except ValueError as error:
        raise StatementError(f"the row cannot be written to {quoted(source.name)}: {error}") from None
    now_ms = time.time_ns() // _MS
    return Record(timestamp=now_ms if timestamp is None else timestamp, key=key_bytes, value=value_bytes)


# ---- JSON


class WrongValue(ValueError):
    """A value of JSON that the type of its column does not have."""


def row_of_json(source: SourceInfo, found: Mapping[str, Any]) -> dict[str, Any]:
    """Return values by column from those of JSON. Names are upper case unless they are in quotes. Raises WrongValue."""
    types = {each.name: each.type for each in (*source.schema.key, *source.schema.value)}
    row: dict[str, Any] = {}
    for given, value in found.items():
        quote = given[:1]
        name = given[1:-1] if len(given) > 1 and quote in '`"' and given.endswith(quote) else given.upper()
        kind = types.get(name)
        if kind is None:
            raise WrongValue(f"{source.name} has no column {name}{nearest(name, types)}")
        try:
            row[name] = of_json(value, kind)
        except WrongValue as error:
            raise WrongValue(f"column {name}: {error}") from None
    return row


def of_json(value: Any, kind: SqlType) -> Any:
    """Return the value of a type from one of JSON. Raises WrongValue."""
    if value is None:
        return None
    if kind in (DATE, TIME, TIMESTAMP):
        return _time(value, kind)
    match kind:
        case Array(element) if isinstance(value, list):
            return [of_json(each, element) for each in value]
        case Map(_, inner) if isinstance(value, dict):
            return {name: of_json(each, inner) for name, each in value.items()}
        case Struct(fields) if isinstance(value, dict):
            return _struct(value, fields)
        case Decimal() if isinstance(value, int | float | str) and not isinstance(value, bool):
            try:
                return cast(Number(str(value)), Decimal(38, max(0, -_exponent(value))), kind)
            except (InvalidOperation, ArithmeticError, ValueError):
                raise _wrong(value, kind) from None
    if kind == BOOLEAN and isinstance(value, bool):
        return value
    if kind == STRING and isinstance(value, str):
        return value
    if kind == BYTES and isinstance(value, str):
        try:
            return base64.b64decode(value, validate=True)
        except ValueError:
            raise WrongValue(f"{value[:40]!r} is no Base64") from None
    if isinstance(value, int | float) and not isinstance(value, bool):
        if kind == DOUBLE:
            return float(value)
        bits = 31 if kind == INTEGER else 63 if kind == BIGINT else 0
        if bits and isinstance(value, int) and -(1 << bits) <= value < 1 << bits:
            return value
    raise _wrong(value, kind)


def _exponent(value: Any) -> int:
    found = Number(str(value)).as_tuple().exponent
    return found if isinstance(found, int) else 0


def _struct(value: Mapping[str, Any], fields: Sequence[tuple[str, SqlType]]) -> dict[str, Any]:
    given = {name.upper(): each for name, each in value.items()} | dict(value)
    return {name: of_json(given.get(name), kind) for name, kind in fields}


def _time(value: Any, kind: SqlType) -> int:
    if not isinstance(value, str):
        raise _wrong(value, kind)
    try:
        if kind == DATE:
            return date.fromisoformat(value).toordinal() - _EPOCH_DAY
        found: Any = cast(value, STRING, kind)
        if kind == TIMESTAMP:
            datetime.fromisoformat(value)
    except ValueError:
        raise _wrong(value, kind) from None
    if found is None:
        raise _wrong(value, kind)
    return int(found)


def _wrong(value: Any, kind: SqlType) -> WrongValue:
    shown = repr(value) if len(repr(value)) <= 60 else f"{repr(value)[:57]}..."
    return WrongValue(f"{shown} is no {kind}")
