"""Values of cases as bytes of records, and back: as ksqlDB's own harness makes them, not by the code under test alone.

JSON is any text of JSON. KAFKA is by the type of the column. AVRO, JSON_SR, PROTOBUF are by the schema in the registry,
which may have other types and fields than the columns. DELIMITED is text.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final

from broker_registry.schema_types.base import Kind
from broker_sql import types
from broker_sql.formats import inference, json_text
from broker_sql.formats.connect import DECIMAL, Base, Shape, shape_of_row
from broker_sql.formats.protobuf import Messages
from broker_sql.formats.protobuf_text import schema_text as message_text
from broker_sql.formats.registered import RegisteredSerde
from broker_sql.java_format import EXACT
from broker_sql.types import Column, SqlType
from broker_streams.serdes import primitives
from broker_streams.serdes.schemas.lookups import SchemaRegistry, parse

Encode = Callable[[Any], bytes | None]
Decode = Callable[[bytes], Any]
_NUMBERS: Final = {types.INTEGER: primitives.INTEGER, types.BIGINT: primitives.LONG}


class SpecError(Exception):
    """A value of a case cannot be written or read in the format of its topic."""


@dataclass(frozen=True)
class Side:
    """The key or the value of a topic. `is_exact`: numbers of JSON are compared with all their digits."""

    format: str
    properties: Mapping[str, str]
    columns: tuple[Column, ...]
    is_key: bool
    registry: SchemaRegistry
    topic: str
    is_exact: bool = True

    def encode(self, value: Any) -> bytes | None:
        """Raises SpecError."""
        if value is None:
            return None
        try:
            return self._encoded(value)
        except Exception as error:
            raise SpecError(f"{self.topic}: {value!r} cannot be written as {self.format}: {error}") from error

    def decode(self, data: bytes | None) -> Any:
        """Raises SpecError."""
        if data is None:
            return None
        try:
            return self._decoded(data)
        except Exception as error:
            raise SpecError(f"{self.topic}: {data!r} cannot be read as {self.format}: {error}") from error

    def _encoded(self, value: Any) -> bytes | None:
        match self.format:
            case "NONE":
                return None
            case "DELIMITED":
                return str(value).encode()
            case "JSON":
                return json_of(value).encode()
            case "KAFKA":
                return _primitive(self.columns, value)
            case "PROTOBUF_NOSR":
                messages = self._messages()
                return messages.writer()(of_spec(value, messages.shape))
        known = self.registry.latest(inference.subject_of(self.topic, is_key=self.is_key))
        serde = self._serde()
        shape = serde.shape_of(known.parsed)
        assert isinstance(known.name, int)
        return b"\0" + known.name.to_bytes(4, "big") + serde.encoder(known.parsed, shape)(of_spec(value, shape))

    def _decoded(self, data: bytes) -> Any:
        match self.format:
            case "NONE":
                return None
            case "DELIMITED":
                return data.decode()
            case "JSON":
                return json_text.exact(data) if self.is_exact else json.loads(data)
            case "KAFKA":
                return _from_primitive(self.columns, data)
            case "PROTOBUF_NOSR":
                return to_spec(self._messages().reader()(data))
        parsed = self.registry.schema(int.from_bytes(data[1:5], "big")).parsed
        serde = self._serde()
        return to_spec(serde.decoder(parsed, serde.shape_of(parsed))(data[5:]))

    def _serde(self) -> RegisteredSerde:
        return inference.serde_without_columns(self.format, self.properties, is_key=self.is_key)

    def _messages(self) -> Messages:
        shape = shape_of_row([each.name for each in self.columns], [each.type for each in self.columns], unwraps=False)
        return Messages(parse(Kind.PROTOBUF, message_text(shape, self.properties)), self.properties, None)


def json_of(value: Any) -> str:
    """The text of JSON with all digits of decimals."""
    if isinstance(value, dict):
        return "{" + ",".join(f"{json.dumps(key)}:{json_of(each)}" for key, each in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(json_of, value)) + "]"
    return str(value) if isinstance(value, Decimal) else json.dumps(value, ensure_ascii=False)


def _primitive(columns: tuple[Column, ...], value: Any) -> bytes | None:
    kind: SqlType = columns[0].type if columns else types.STRING
    if kind == types.DOUBLE:
        return primitives.DOUBLE.serialize("", float(value))
    if kind in _NUMBERS:
        return _NUMBERS[kind].serialize("", value)
    return str(value).encode()


def _from_primitive(columns: tuple[Column, ...], data: bytes) -> Any:
    kind: SqlType = columns[0].type if columns else types.STRING
    if kind == types.DOUBLE:
        return primitives.DOUBLE.deserialize("", data)
    return _NUMBERS[kind].deserialize("", data) if kind in _NUMBERS else data.decode()


def of_spec(value: Any, shape: Shape) -> Any:
    """A value of a case as one of a shape. Fields are found in any case; others are left out."""
    if value is None:
        return None
    if shape.base is Base.STRUCT:
        upper = {name.upper(): name for name, _ in shape.fields}
        fields = dict(shape.fields)
        names = {key: upper.get(str(key).upper()) for key in value}
        return {name: of_spec(value[key], fields[name]) for key, name in names.items() if name is not None}
    if shape.base is Base.ARRAY:
        assert shape.element is not None
        return [of_spec(each, shape.element) for each in value]
    if shape.base is Base.MAP:
        assert shape.element is not None
        return {key: of_spec(each, shape.element) for key, each in value.items()}
    if shape.name == DECIMAL:
        return EXACT.quantize(Decimal(str(value)), Decimal((0, (1,), -shape.scale)))
    if shape.base is Base.BYTES:
        return base64.b64decode(value)
    if shape.base in (Base.FLOAT32, Base.FLOAT64):
        return float(value)
    if shape.base is Base.BOOLEAN:
        return value if isinstance(value, bool) else str(value).lower() == "true"
    if shape.base is Base.STRING:
        return value if isinstance(value, str) else json_of(value)
    return int(str(value))


def to_spec(value: Any, *, is_top: bool = True) -> Any:
    """A value of a shape as the text of a case has it: keys of maps are text, a field of no bytes is null."""
    if isinstance(value, dict) and is_top:
        return {name: None if each == b"" else to_spec(each, is_top=False) for name, each in value.items()}
    if isinstance(value, dict):
        return {"null" if key is None else str(key): to_spec(each, is_top=False) for key, each in value.items()}
    return [to_spec(each, is_top=False) for each in value] if isinstance(value, list) else value
