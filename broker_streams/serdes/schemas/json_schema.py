"""JSON by a JSON Schema: the text is JSON without blanks, as Jackson writes it.

Values are checked if `json.fail.invalid.schema` is true; as in Confluent's clients, it is not by default.
"""

from __future__ import annotations

import json
from typing import Any, ClassVar

from broker_registry.schema_types.base import Kind, ParsedSchema
from broker_streams.serdes.schemas.base import Decode, Encode, RegistrySerde, SchemaDict
from broker_streams.serdes.schemas.lookups import SchemaText


class JsonSchemaSerde(RegistrySerde):
    """See RegistrySerde. Objects are read as SchemaDict."""

    kind: ClassVar[Kind] = Kind.JSON
    label: ClassVar[str] = "JSON_SCHEMA"

    def _payload(self, parsed: ParsedSchema) -> Encode:
        if self._bound().options.checks_json:
            return parsed.encode
        write = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode
        return lambda value: write(value).encode()

    def _read(self, written: ParsedSchema, reader: ParsedSchema, text: SchemaText) -> Decode:
        decode = reader.decode if self._bound().options.checks_json else json.loads

        def read(payload: bytes) -> Any:
            value = decode(payload)
            return SchemaDict(value, text) if isinstance(value, dict) else value

        return read
