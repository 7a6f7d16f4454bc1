"""Serdes of rows: a key or value is a tuple of its columns' values, None is no key or a tombstone.

A format makes two functions of the columns, from a row to bytes and from bytes to a row. They are made when a serde is
first used, so that a serde itself is data, which a plan and another process can hold.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from broker_sql.types import SqlType
from broker_streams.records import NO_HEADERS, Headers
from broker_streams.serdes import SerdeError, shown

Row = tuple[Any, ...]
Write = Callable[[Row], bytes | None]
Read = Callable[[bytes], Row | None]


@dataclass(frozen=True)
class RowShape:
    """The columns of a key or value in a format. `unwraps`: the only column is the whole key or value."""

    format: str
    names: tuple[str, ...]
    types: tuple[SqlType, ...]
    properties: tuple[tuple[str, str], ...] = ()
    unwraps: bool = False
    is_key: bool = False

    @property
    def settings(self) -> Mapping[str, str]:
        return dict(self.properties)

    @property
    def part(self) -> str:
        return "key" if self.is_key else "value"

    def __str__(self) -> str:
        columns = ", ".join(f"`{name}` {kind}" for name, kind in zip(self.names, self.types, strict=True))
        settings = f" {json.dumps(self.settings, sort_keys=True)}" if self.properties else ""
        return f"{self.format}({self.part}{' unwrapped' if self.unwraps else ''}: {columns}{settings})"


class RowSerde:
    """A serde without a schema registry. `make` returns the two functions of a shape."""

    def __init__(self, shape: RowShape, make: Callable[[RowShape], tuple[Write, Read]]) -> None:
        """Raises AnalysisError: the format cannot hold the columns."""
        self.shape = shape
        self._make = make
        self._write, self._read = make(shape)

    def __reduce__(self) -> tuple[Any, ...]:
        return RowSerde, (self.shape, self._make)

    def __repr__(self) -> str:
        return f"RowSerde({self.shape})"

    @property
    def name(self) -> str:
        return f"SQL_{self.shape}"

    def serialize(self, topic: str, value: Any, headers: Headers = NO_HEADERS) -> bytes | None:
        if value is None:
            return None
        try:
            return self._write(value)
        except Exception as error:
            raise SerdeError(
                f"{topic}: {self.shape.part} {shown(value)} cannot be written as {self.shape.format}: {error}"
            ) from None

    def deserialize(self, topic: str, data: bytes | None, headers: Headers = NO_HEADERS) -> Row | None:
        if data is None:
            return None
        try:
            return self._read(data)
        except Exception as error:
            raise SerdeError(
                f"{topic}: {self.shape.part} {shown(data)} cannot be read as {self.shape.format}: {error}"
            ) from None


def checked_count(row: Sequence[Any], expected: int) -> None:
    """Raises ValueError: a row has another number of columns than its format."""
    if len(row) != expected:
        raise ValueError(f"it has {len(row)} columns, {expected} are expected")
