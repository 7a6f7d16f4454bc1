"""Avro: records as dicts, logical types as Python's Decimal, date, time, datetime and UUID.

A branch of a union that the value does not tell is named: {"com.shop.Order": {...}}, as in Avro's JSON.
"""

from __future__ import annotations

import io
import json
from typing import Any, ClassVar, Final

from broker_registry.schema_types.base import Kind, ParsedSchema
from broker_streams.serdes.schemas.base import Decode, Encode, RegistrySerde, SchemaDict
from broker_streams.serdes.schemas.lookups import SchemaText

# Schemas of values other than records, as Confluent's serializer chooses them; Python's int is a long.
_PRIMITIVES: Final[dict[type, str]] = {
    bool: '"boolean"',
    bytes: '"bytes"',
    float: '"double"',
    int: '"long"',
    str: '"string"',
}


class AvroSerde(RegistrySerde):
    """See RegistrySerde. Records are read as SchemaDict. Text, numbers and bytes need no schema."""

    kind: ClassVar[Kind] = Kind.AVRO
    label: ClassVar[str] = "AVRO"

    def _schema_of(self, topic: str, value: Any) -> SchemaText:
        primitive = _PRIMITIVES.get(type(value))
        return super()._schema_of(topic, value) if primitive is None else SchemaText(Kind.AVRO, primitive)

    def _payload(self, parsed: ParsedSchema) -> Encode:
        if _is_bytes(parsed):
            return _checked_bytes
        return _fast(parsed) or parsed.encode

    def _read(self, written: ParsedSchema, reader: ParsedSchema, text: SchemaText) -> Decode:
        if _is_bytes(written) and _is_bytes(reader):
            return bytes
        resolve = reader.resolve
        if reader.name is None:
            return lambda payload: resolve(payload, written)
        return lambda payload: SchemaDict(resolve(payload, written), text)


def _is_bytes(parsed: ParsedSchema) -> bool:
    """Confluent's serializer writes a value that is nothing but bytes as it is, without its size."""
    schema = json.loads(parsed.canonical)
    return schema == "bytes" or (isinstance(schema, dict) and schema.get("type") == "bytes")


def _checked_bytes(value: Any) -> bytes:
    if not isinstance(value, bytes | bytearray | memoryview):
        raise ValueError("bytes are expected")
    return bytes(value)


def _fast(parsed: ParsedSchema) -> Encode | None:
    """A writer of values with the library in C, where it cannot differ from `parsed.encode`: in schemas without logical
    types and without unions of several types. None for other schemas. A value that the library refuses goes to
    `parsed.encode`, which knows more forms, and names the field that does not fit.
    """
    import fastavro

    schema = json.loads(parsed.formatted("resolved"))
    if not _is_plain(schema):
        return None
    library = fastavro.parse_schema(schema)
    validate, write = fastavro.validate, fastavro.schemaless_writer

    def encode(value: Any) -> bytes:
        try:
            if validate(value, library, raise_errors=False, strict=True):
                stream = io.BytesIO()
                write(stream, library, value, strict_allow_default=True)
                return stream.getvalue()
        except (ValueError, TypeError, OverflowError, KeyError, AttributeError):
            pass
        return parsed.encode(value)

    return encode


def _is_plain(schema: Any) -> bool:
    if isinstance(schema, list):
        types = [each for each in schema if each != "null"]
        return len(types) <= 1 and all(map(_is_plain, types))
    if isinstance(schema, dict):
        if "logicalType" in schema or schema.get("type") in ("float", "fixed", "error"):
            return False
        inner = [schema["type"]] if not isinstance(schema["type"], str) else []
        inner += [schema[name] for name in ("items", "values") if name in schema]
        inner += [field["type"] for field in schema.get("fields", ())]
        return all(map(_is_plain, inner))
    return schema not in ("float", "error")
