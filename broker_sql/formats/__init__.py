"""Formats of keys and values: rows as bytes.

kinds        the formats, their settings and features        rows        serdes of rows
registered   serdes of rows with a schema registry            connect     its types, and SQL's by them
binary       KAFKA, NONE       delimited    DELIMITED         json_text   JSON
avro         AVRO              json_schema  JSON_SR           protobuf    PROTOBUF, PROTOBUF_NOSR
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Final

from broker_sql import types
from broker_sql.errors import AnalysisError
from broker_sql.formats.kinds import check, kind_of
from broker_sql.formats.rows import Read, RowSerde, RowShape, Write
from broker_sql.types import Column, SqlType
from broker_streams.serdes import Serde

_ROOMS: Final = {"NONE": "binary", "KAFKA": "binary", "DELIMITED": "delimited", "JSON": "json_text"}
_REGISTERED: Final = {"AVRO": "avro", "JSON_SR": "json_schema", "PROTOBUF": "protobuf"}


def key_serde(
    format_name: str, properties: Mapping[str, str], columns: Sequence[Column], *, unwraps: bool | None = None
) -> Serde:
    """Return the serde of keys, tuples of the columns' values. Keys in windows: serdes of broker_streams around it.

    `unwraps`: the only column is the whole key; None: as the format does it. Raises AnalysisError: the format cannot
    hold the columns.
    """
    kind = kind_of(format_name)
    for each in columns:
        if has_map(each.type):
            raise AnalysisError(f"key column {each.name}: {each.type} has a map, and keys have none")
    whole = len(columns) == 1 and kind.unwraps_key if unwraps is None else unwraps
    return _serde(format_name, properties, columns, unwraps=whole, is_key=True)


def value_serde(
    format_name: str, properties: Mapping[str, str], columns: Sequence[Column], *, unwraps: bool = False
) -> Serde:
    """Return the serde of values, tuples of the columns' values; None is a tombstone. `unwraps`: the only column is the
    whole value (WRAP_SINGLE_VALUE=false). Raises AnalysisError: the format cannot hold the columns.
    """
    return _serde(format_name, properties, columns, unwraps=unwraps, is_key=False)


def has_map(kind: SqlType) -> bool:
    """Return whether a type is, or contains, a map: equal maps may have different bytes."""
    if isinstance(kind, types.Struct):
        return any(has_map(inner) for _, inner in kind.fields)
    return isinstance(kind, types.Map) or (isinstance(kind, types.Array) and has_map(kind.element))


def _serde(
    format_name: str, properties: Mapping[str, str], columns: Sequence[Column], *, unwraps: bool, is_key: bool
) -> Serde:
    kind = kind_of(format_name)
    check(kind.name, properties)
    if unwraps and len(columns) != 1:
        raise AnalysisError(f"a record that is not wrapped has one column; {len(columns)} are given")
    if unwraps and not kind.unwraps:
        raise AnalysisError(f"format {kind.name} has no record without a field around its only column")
    shape = RowShape(
        kind.name,
        tuple(each.name for each in columns),
        tuple(each.type for each in columns),
        tuple(sorted(properties.items())),
        unwraps,
        is_key,
    )
    if kind.name in _REGISTERED:
        registered: Serde = import_module(f"broker_sql.formats.{_REGISTERED[kind.name]}").make(shape)
        return registered
    if kind.name == "PROTOBUF_NOSR":
        from broker_sql.formats.protobuf import make_without_registry

        return RowSerde(shape, make_without_registry)
    make: Callable[[RowShape], tuple[Write, Read]] = import_module(f"broker_sql.formats.{_ROOMS[kind.name]}").make
    return RowSerde(shape, make)
