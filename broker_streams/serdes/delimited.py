"""Columns as text with a delimiter between them (RFC 4180): `7,"Smith, Ann",true`.

A value is a mapping of column names. An empty field is None. Fields that hold the delimiter, a quote or an end of line
are quoted.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Mapping
from decimal import Decimal, InvalidOperation
from typing import Any, Final

from broker_streams.records import NO_HEADERS, Headers
from broker_streams.serdes import SerdeError, shown


def _boolean(text: str) -> bool:
    if text not in ("true", "false"):
        raise ValueError
    return text == "true"


_TYPES: Final[Mapping[str, Callable[[str], Any]]] = {
    "string": str,
    "integer": int,
    "double": float,
    "boolean": _boolean,
    "decimal": Decimal,
}
# The widest line that is read.
LINE_BYTES_MAX: Final = 1 << 20


class DelimitedSerde:
    """`columns` gives the type of each column by its name: string, integer, double, boolean, decimal."""

    def __init__(self, columns: Mapping[str, str], delimiter: str = ",") -> None:
        if not columns:
            raise ValueError("a delimited format needs at least one column")
        for name, kind in columns.items():
            if not name.isidentifier():
                raise ValueError(f"{name!r} is no name of a column: letters, digits and _ are allowed")
            if kind not in _TYPES:
                raise ValueError(f"column {name} has type {kind!r}; allowed are {', '.join(_TYPES)}")
        if len(delimiter) != 1 or delimiter in '"\r\n':
            raise ValueError(f"the delimiter is {delimiter!r}; one character is allowed, not a quote or an end of line")
        self.columns = dict(columns)
        self.delimiter = delimiter

    @property
    def name(self) -> str:
        columns = ",".join(f"{name}:{kind}" for name, kind in self.columns.items())
        return f"DELIMITED({self.delimiter}|{columns})"

    def serialize(self, topic: str, value: Any, headers: Headers = NO_HEADERS) -> bytes | None:
        if value is None:
            return None
        if not isinstance(value, Mapping) or value.keys() != self.columns.keys():
            raise SerdeError(f"{topic}: {shown(value)} has not the columns {', '.join(self.columns)}")
        written = io.StringIO()
        writer = csv.writer(written, delimiter=self.delimiter, lineterminator="")
        writer.writerow([self._text(value[name]) for name in self.columns])
        return written.getvalue().encode()

    def deserialize(self, topic: str, data: bytes | None, headers: Headers = NO_HEADERS) -> dict[str, Any] | None:
        if data is None:
            return None
        if len(data) > LINE_BYTES_MAX:
            raise SerdeError(f"{topic}: a line of {len(data)} bytes; at most {LINE_BYTES_MAX} are read")
        try:
            rows = list(csv.reader([data.decode()], delimiter=self.delimiter, strict=True))
        except (csv.Error, UnicodeDecodeError) as error:
            raise SerdeError(f"{topic}: {shown(data)} is no delimited text: {error}") from None
        fields = rows[0] if rows else [""]
        if len(fields) != len(self.columns):
            raise SerdeError(f"{topic}: {shown(data)} has {len(fields)} fields; the columns are {len(self.columns)}")
        return {name: self._value(topic, name, field) for name, field in zip(self.columns, fields, strict=True)}

    def _value(self, topic: str, name: str, field: str) -> Any:
        if not field:
            return None
        kind = self.columns[name]
        try:
            return _TYPES[kind](field)
        except (ValueError, InvalidOperation):
            raise SerdeError(f"{topic}: {shown(field)} in column {name} is no {kind}") from None

    @staticmethod
    def _text(value: Any) -> str:
        if value is None:
            return ""
        if isinstance(value, bool):
            return "true" if value else "false"
        return str(value)
