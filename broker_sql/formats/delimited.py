"""DELIMITED: the fields of a row as text with a character between them.

A field is in quotes if commons-csv's minimal quoting asks for it, and a quote in it is doubled. An empty field is NULL.
Times are numbers: TIMESTAMP and TIME in ms, DATE in days. BYTES are base64, decimals have no exponent.
"""

from __future__ import annotations

import base64
import csv
import io
from collections.abc import Callable
from typing import Any, Final

from broker_cy.core.java_numbers import double_text
from broker_sql import types
from broker_sql.errors import AnalysisError
from broker_sql.formats.kinds import delimiter_of
from broker_sql.formats.numbers import fitted, parsed_bytes, parsed_double, parsed_int, parsed_long, parsed_time
from broker_sql.formats.rows import Read, Row, RowShape, Write, checked_count
from broker_sql.java_format import decimal_text, parse_decimal
from broker_sql.types import SqlType

_WRITERS: Final[dict[SqlType, Callable[[Any], str]]] = {
    types.BOOLEAN: lambda value: "true" if value else "false",
    types.DOUBLE: double_text,
    types.STRING: str,
    types.BYTES: lambda value: base64.b64encode(value).decode(),
}
_READERS: Final[dict[SqlType, Callable[[str], Any]]] = {
    types.BOOLEAN: lambda text: text.lower() == "true",
    types.INTEGER: parsed_int,
    types.BIGINT: parsed_long,
    types.DOUBLE: parsed_double,
    types.STRING: str,
    types.BYTES: parsed_bytes,
    types.DATE: parsed_int,
    types.TIME: parsed_time,
    types.TIMESTAMP: parsed_long,
}


def make(shape: RowShape) -> tuple[Write, Read]:
    """Raises AnalysisError."""
    delimiter = delimiter_of(shape.settings)
    for name, kind in zip(shape.names, shape.types, strict=True):
        if not isinstance(kind, types.Primitive | types.Decimal):
            raise AnalysisError(f"column {name}: format DELIMITED has no {kind}")
    writers = tuple(_writer(kind) for kind in shape.types)
    readers = tuple(_reader(kind) for kind in shape.types)
    count = len(readers)

    def write(row: Row) -> bytes | None:
        checked_count(row, count)
        fields: list[str] = []
        for writer, value in zip(writers, row, strict=True):
            text = "" if value is None else writer(value)
            if value is not None and _needs_quotes(text, delimiter, is_first=not fields):
                text = '"' + text.replace('"', '""') + '"'
            fields.append(text)
        return delimiter.join(fields).encode("utf-8", "replace")

    def read(data: bytes) -> Row | None:
        text = data.decode("utf-8", "replace")
        if '"' in text or "\n" in text or "\r" in text:
            fields = _parsed(text, delimiter)
        else:
            fields = text.split(delimiter) if text else []
        if not fields:
            raise ValueError("it has no fields")
        checked_count(fields, count)
        return tuple([reader(field) if field else None for reader, field in zip(readers, fields, strict=True)])

    return write, read


def _writer(kind: SqlType) -> Callable[[Any], str]:
    return decimal_text if isinstance(kind, types.Decimal) else _WRITERS.get(kind, str)


def _reader(kind: SqlType) -> Callable[[str], Any]:
    if isinstance(kind, types.Decimal):
        return lambda text: fitted(parse_decimal(text), kind)
    return _READERS[kind]


def _needs_quotes(text: str, delimiter: str, *, is_first: bool) -> bool:
    """Quotes as commons-csv writes them by default: also for texts that other readers may take for comments or trim."""
    if not text:
        return is_first
    first = text[0]
    if is_first and not (first.isascii() and first.isalnum()):
        return True
    if first <= "#" or text[-1] <= " ":
        return True
    return delimiter in text or '"' in text or "\n" in text or "\r" in text


def _parsed(text: str, delimiter: str) -> list[str]:
    """The fields of the first record. Lines without text before it are skipped. Raises ValueError."""
    try:
        for fields in csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True):
            if fields:
                return fields
    except csv.Error as error:
        raise ValueError(str(error)) from None
    return []
