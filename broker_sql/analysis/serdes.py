"""Serdes of the topics and stores of a plan: rows in the formats of their sources and sinks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from broker_sql import formats
from broker_sql.analysis.names import Layout
from broker_sql.catalog import Format, KeyWindow, SourceInfo
from broker_sql.statements import WindowKind
from broker_sql.types import Column, Kind
from broker_streams.serdes import Serde
from broker_streams.serdes.windowed import SessionWindowedSerde, TimeWindowedSerde

# Formats for one column, or none, and those that have no NULL in arrays and maps. In topics of a query, rows are JSON.
_NARROW: Final = frozenset({"KAFKA", "NONE", "PROTOBUF", "PROTOBUF_NOSR"})
# Settings of a format that say how rows are written, whatever the columns are.
_OF_ROWS: Final = frozenset({"delimiter", "nullableRepresentation"})


def key_serde(key_format: Format, columns: Sequence[Column], window: KeyWindow | None) -> Any:
    """The serde of keys within a query, in windows if there are any."""
    kept = _of_rows(key_format)
    return in_windows(formats.key_serde(kept.name, kept.properties, columns), window)


def _of_rows(given: Format) -> Format:
    """Without the schemas and names of one topic."""
    return Format(given.name, {name: text for name, text in given.properties.items() if name in _OF_ROWS})


def in_windows(inner: Serde, window: KeyWindow | None) -> Any:
    if window is None:
        return inner
    if window.kind is WindowKind.SESSION:
        return SessionWindowedSerde(inner)
    return TimeWindowedSerde(inner, window.size_ms)


def source_key_serde(source: SourceInfo) -> Any:
    """The serde of keys in the topic of a source."""
    given = source.key_format
    return in_windows(formats.key_serde(given.name, given.properties, source.schema.key), source.window)


def source_value_serde(source: SourceInfo) -> Any:
    """The serde of values in the topic of a source."""
    return formats.value_serde(
        source.value_format.name,
        source.value_format.properties,
        source.schema.value,
        unwraps=source.wrap_value is False,
    )


def row_serde(value_format: Format, layout: Layout) -> Any:
    """The serde of rows within a query: in repartition topics, and in stores with their changelogs."""
    kept = _of_rows(value_format)
    if kept.name in _NARROW:
        kept = Format("JSON")
    columns = tuple(Column(name, kind, Kind.VALUE) for name, kind in layout.columns)
    return formats.value_serde(kept.name, kept.properties, columns, unwraps=False)
