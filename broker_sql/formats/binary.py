"""KAFKA: one column, as Kafka's serializers of primitives write it. NONE: no column; what a record has is not read."""

from __future__ import annotations

from typing import Final

from broker_sql import types
from broker_sql.errors import AnalysisError
from broker_sql.formats.rows import Read, Row, RowShape, Write, checked_count
from broker_sql.types import SqlType
from broker_streams.serdes import Serde, primitives

_SERDES: Final[dict[SqlType, Serde]] = {
    types.INTEGER: primitives.INTEGER,
    types.BIGINT: primitives.LONG,
    types.DOUBLE: primitives.DOUBLE,
    types.STRING: primitives.STRING,
    types.BYTES: primitives.BYTES,
}


def make(shape: RowShape) -> tuple[Write, Read]:
    """Raises AnalysisError."""
    if not shape.types:
        return _write_nothing, _read_nothing
    if shape.format == "NONE":
        raise AnalysisError(f"format NONE has no columns; {', '.join(shape.names)} need another {shape.part} format")
    if len(shape.types) > 1:
        raise AnalysisError(
            f"format KAFKA has one column: {', '.join(shape.names)} are {len(shape.names)}; JSON has several"
        )
    serde = _SERDES.get(shape.types[0])
    if serde is None:
        allowed = ", ".join(map(str, _SERDES))
        raise AnalysisError(f"column {shape.names[0]}: format KAFKA has no {shape.types[0]}, only {allowed}")
    serialize, deserialize, topic = serde.serialize, serde.deserialize, shape.part

    def write(row: Row) -> bytes | None:
        checked_count(row, 1)
        return serialize(topic, row[0])

    def read(data: bytes) -> Row | None:
        return (deserialize(topic, data),)

    return write, read


def _write_nothing(row: Row) -> bytes | None:
    checked_count(row, 0)
    return None


def _read_nothing(data: bytes) -> Row | None:
    return None
