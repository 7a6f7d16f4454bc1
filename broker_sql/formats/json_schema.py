"""JSON_SR: JSON by a JSON Schema of the registry, as Connect's JsonSchemaData has both.

A map whose keys are optional, as all of SQL's are, is an array of objects with `key` and `value`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from decimal import Decimal
from typing import Any, ClassVar, Final

import orjson

from broker_registry.schema_types.base import Kind, ParsedSchema
from broker_registry.schema_types.json_schema.schema import JsonSchema
from broker_sql import types
from broker_sql.formats import json_text
from broker_sql.formats.connect import (
    DATE,
    DECIMAL,
    PRECISION,
    PRECISION_DEFAULT,
    TIME,
    TIMESTAMP,
    Base,
    Convert,
    Shape,
)
from broker_sql.formats.registered import RegisteredSerde

UNION: Final = "io.confluent.connect.json.OneOf"
DEPTH_MAX: Final = 100
"""How deep types of a schema may be nested, with its references."""
_TYPES: Final = {
    Base.INT8: ("integer", "int8"),
    Base.INT16: ("integer", "int16"),
    Base.INT32: ("integer", "int32"),
    Base.INT64: ("integer", "int64"),
    Base.FLOAT32: ("number", "float32"),
    Base.FLOAT64: ("number", "float64"),
    Base.BOOLEAN: ("boolean", None),
    Base.STRING: ("string", None),
    Base.BYTES: ("string", "bytes"),
}
_BASES: Final = {connect: base for base, (_, connect) in _TYPES.items() if connect is not None}
_LOGICAL: Final = {DATE: Base.INT32, TIME: Base.INT32, TIMESTAMP: Base.INT64}


# ------------------------------------------------------------------------------------------------ schema of a shape


def schema_text(shape: Shape) -> str:
    """Return the schema of a key or value."""
    return json.dumps(_schema(shape))


def _schema(shape: Shape, index: int | None = None) -> dict[str, Any]:
    place = {} if index is None else {"connect.index": index}
    inner = _required(shape)
    return place | ({"oneOf": [{"type": "null"}, inner]} if shape.is_optional else inner)


def _required(shape: Shape) -> dict[str, Any]:
    if shape.base is Base.STRUCT:
        fields = {name: _schema(each, index) for index, (name, each) in enumerate(shape.fields)}
        return {"type": "object", "properties": fields}
    if shape.base is Base.ARRAY:
        assert shape.element is not None
        return {"type": "array", "items": _schema(shape.element)}
    if shape.base is Base.MAP:
        assert shape.key is not None
        assert shape.element is not None
        entry = {"key": _schema(shape.key, 0), "value": _schema(shape.element, 1)}
        return {"type": "array", "items": {"type": "object", "properties": entry}, "connect.type": "map"}
    kind, connect = _TYPES[shape.base]
    if shape.name is None:
        return {"type": kind} if connect is None else {"type": kind, "connect.type": connect}
    found: dict[str, Any] = {"type": "number" if shape.name == DECIMAL else kind, "title": shape.name}
    found |= {"connect.version": 1, "connect.type": connect}
    if shape.name == DECIMAL:
        found["connect.parameters"] = {"scale": str(shape.scale), PRECISION: str(shape.precision)}
    return found


# ------------------------------------------------------------------------------------------------ shape of a schema


def shape_of_schema(root: Any) -> Shape:
    """Return the shape of a schema. References to other schemas are not followed. Raises ValueError."""
    return _shape(root, root, 0)


def _shape(schema: Any, root: Any, depth: int) -> Shape:
    if depth > DEPTH_MAX:
        raise ValueError(f"the schema is nested deeper than {DEPTH_MAX}, or recursive")
    if not isinstance(schema, dict):
        raise ValueError(f"{schema!r} is no schema with a type")
    if "$ref" in schema:
        return _shape(_referenced(schema["$ref"], root), root, depth + 1)
    for key in ("oneOf", "anyOf"):
        if key in schema:
            return _union(schema[key], root, depth)
    if "allOf" in schema and len(schema["allOf"]) == 1:
        return _shape(schema["allOf"][0], root, depth + 1)
    kind = schema.get("type")
    if isinstance(kind, list):
        return _union([{**schema, "type": each} for each in kind], root, depth)
    if kind == "object" or (kind is None and "properties" in schema):
        return _object(schema, root, depth)
    if kind == "array":
        return _array(schema, root, depth)
    if kind == "integer" or kind == "number":
        return _number(schema, kind)
    if kind == "boolean":
        return Shape(Base.BOOLEAN, is_optional=False)
    if kind == "string" or "enum" in schema or isinstance(schema.get("const"), str):
        base = Base.BYTES if schema.get("connect.type") == "bytes" else Base.STRING
        return Shape(base, is_optional=False)
    raise ValueError(f"{json.dumps(schema)[:80]} has no type of SQL")


def _referenced(place: Any, root: Any) -> Any:
    found = root
    if not isinstance(place, str) or not place.startswith("#"):
        raise ValueError(f"$ref {place!r} is no place in the schema: #/definitions/NAME is expected")
    for part in place[1:].split("/")[1:]:
        part = part.replace("~1", "/").replace("~0", "~")
        if not isinstance(found, dict) or part not in found:
            raise ValueError(f"$ref {place}: the schema has no such place")
        found = found[part]
    return found


def _union(schemas: list[Any], root: Any, depth: int) -> Shape:
    others = [each for each in schemas if not (isinstance(each, dict) and each.get("type") == "null")]
    has_null = len(others) < len(schemas)
    if len(others) == 1:
        found = _shape(others[0], root, depth + 1)
        return replace(found, is_optional=found.is_optional or has_null)
    fields = []
    for index, each in enumerate(others):
        shape = _shape(each, root, depth + 1)
        fields.append((f"connect_union_field_{index}", replace(shape, is_optional=True)))
    return Shape(Base.STRUCT, UNION, is_optional=has_null, fields=tuple(fields))


def _object(schema: dict[str, Any], root: Any, depth: int) -> Shape:
    properties = schema.get("properties")
    if not properties:
        values = schema.get("additionalProperties")
        if isinstance(values, dict):
            key = Shape(Base.STRING, is_optional=False)
            return Shape(Base.MAP, is_optional=False, key=key, element=_shape(values, root, depth + 1))
        properties = {}
    required = schema.get("required", ())
    placed = []
    for number, (name, each) in enumerate(properties.items()):
        shape = _shape(each, root, depth + 1)
        if name not in required:
            shape = replace(shape, is_optional=True)
        index = each.get("connect.index", number) if isinstance(each, dict) else number
        placed.append((index, name, shape))
    placed.sort(key=lambda each: each[0])
    fields = tuple((name, shape) for _, name, shape in placed)
    return Shape(Base.STRUCT, schema.get("title"), is_optional=False, fields=fields)


def _array(schema: dict[str, Any], root: Any, depth: int) -> Shape:
    if "items" not in schema:
        raise ValueError("an array has no items in its schema")
    element = _shape(schema["items"], root, depth + 1)
    if schema.get("connect.type") == "map":
        fields = dict(element.fields)
        if "key" not in fields or "value" not in fields:
            raise ValueError("an array of connect.type map has no key and value in its items")
        return Shape(Base.MAP, is_optional=False, key=replace(fields["key"], is_optional=True), element=fields["value"])
    return Shape(Base.ARRAY, is_optional=False, element=element)


def _number(schema: dict[str, Any], kind: str) -> Shape:
    title, connect = schema.get("title"), schema.get("connect.type")
    if title == DECIMAL:
        parameters = schema.get("connect.parameters", {})
        scale, precision = int(parameters.get("scale", 0)), int(parameters.get(PRECISION, PRECISION_DEFAULT))
        return Shape(Base.BYTES, DECIMAL, is_optional=False, scale=scale, precision=precision)
    base = _BASES.get(str(connect), Base.INT64 if kind == "integer" else Base.FLOAT64)
    name = title if isinstance(title, str) and _LOGICAL.get(title) is base else None
    return Shape(base, name, is_optional=False)


# ------------------------------------------------------------------------------------------------ values


_SQL: Final = {
    Base.INT8: types.INTEGER,
    Base.INT16: types.INTEGER,
    Base.INT32: types.INTEGER,
    Base.INT64: types.BIGINT,
    Base.FLOAT32: types.DOUBLE,
    Base.FLOAT64: types.DOUBLE,
    Base.BOOLEAN: types.BOOLEAN,
    Base.BYTES: types.BYTES,
}


def from_json(shape: Shape) -> Convert:
    """Return the function from a value of JSON, not null, to a value of a shape. It raises ValueError."""
    if shape.name == DECIMAL:
        return _decimal
    if shape.base is Base.STRING:
        return _string
    if shape.base is Base.ARRAY:
        assert shape.element is not None
        return _list_reader(from_json(shape.element))
    if shape.base is Base.MAP:
        assert shape.element is not None
        return _map_reader(from_json(shape.element))
    if shape.name == UNION:
        return _union_reader(shape)
    if shape.base is Base.STRUCT:
        return _struct_reader(shape)
    coerce = json_text.coercion(_SQL[shape.base])

    def read(value: Any) -> Any:
        if isinstance(value, str) and shape.base is not Base.BYTES:
            raise ValueError(f"{value[:40]!r} is no {shape.base.value}")
        return coerce(value)

    return read


def _decimal(value: Any) -> Decimal:
    if isinstance(value, Decimal | int) and not isinstance(value, bool):
        return Decimal(value)
    raise ValueError(f"{value!r} is no number")


def _string(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError(f"{value!r} is no text")
    return value


def _list_reader(read: Convert) -> Convert:
    def convert(value: Any) -> list[Any]:
        if not isinstance(value, list):
            raise ValueError(f"{value!r} is no array")
        return [None if each is None else read(each) for each in value]

    return convert


def _map_reader(read: Convert) -> Convert:
    def convert(value: Any) -> dict[Any, Any]:
        if isinstance(value, list):
            value = {each.get("key"): each.get("value") for each in value}
        if not isinstance(value, dict):
            raise ValueError(f"{value!r} is no map")
        return {key: None if each is None else read(each) for key, each in value.items()}

    return convert


def _struct_reader(shape: Shape) -> Convert:
    readers = tuple((name, from_json(each)) for name, each in shape.fields)

    def convert(value: Any) -> dict[str, Any]:
        if not isinstance(value, dict):
            raise ValueError(f"{value!r} is no object")
        found = {}
        for name, read in readers:
            given = value.get(name)
            found[name] = None if given is None else read(given)
        return found

    return convert


def _union_reader(shape: Shape) -> Convert:
    readers = tuple((name, from_json(each)) for name, each in shape.fields)

    def convert(value: Any) -> dict[str, Any]:
        found: dict[str, Any] = dict.fromkeys(name for name, _ in readers)
        for name, read in readers:
            try:
                found[name] = read(value)
            except ValueError:
                continue
            return found
        raise ValueError(f"{value!r} is of no type of the union")

    return convert


def to_json(shape: Shape) -> Convert | None:
    """Return the function from a value of a shape to what orjson writes; None: the value as it is."""
    if shape.name == DECIMAL:
        return lambda value: orjson.Fragment(str(value))
    if shape.base is Base.ARRAY:
        assert shape.element is not None
        inner = to_json(shape.element)
        return inner and (lambda value: [None if each is None else inner(each) for each in value])
    if shape.base is Base.MAP:
        return _map_writer(shape)
    if shape.base is Base.STRUCT:
        return _struct_writer({name: to_json(each) for name, each in shape.fields})
    kind = _SQL.get(shape.base)
    return None if kind is None else json_text.encoding(kind)


def _map_writer(shape: Shape) -> Convert | None:
    assert shape.key is not None
    assert shape.element is not None
    inner, is_array = to_json(shape.element), shape.key.is_optional
    if inner is None and not is_array:
        return None

    def write(value: dict[Any, Any]) -> Any:
        pairs = [(key, each if each is None or inner is None else inner(each)) for key, each in value.items()]
        return [{"key": key, "value": each} for key, each in pairs] if is_array else dict(pairs)

    return write


def _struct_writer(fields: Mapping[str, Convert | None]) -> Convert | None:
    if not any(fields.values()):
        return None

    def write(value: dict[str, Any]) -> dict[str, Any]:
        found = {}
        for name, each in value.items():
            inner = fields.get(name)
            found[name] = each if each is None or inner is None else inner(each)
        return found

    return write


def has_decimal(shape: Shape) -> bool:
    inner = (*(each for _, each in shape.fields), shape.element)
    return shape.name == DECIMAL or any(each is not None and has_decimal(each) for each in inner)


# ------------------------------------------------------------------------------------------------ the serde


class JsonSchemaRows(RegisteredSerde):
    """See RegisteredSerde. The payload is JSON without blanks."""

    kind: ClassVar[Kind] = Kind.JSON
    label: ClassVar[str] = "JSON_SR"

    def schema_text(self, shape: Shape) -> str:
        return schema_text(shape)

    def shape_of(self, parsed: ParsedSchema) -> Shape:
        assert isinstance(parsed, JsonSchema)
        return shape_of_schema(parsed.root)

    def encoder(self, parsed: ParsedSchema, shape: Shape) -> Callable[[Any], bytes]:
        convert = to_json(shape)
        if convert is None:
            return json_text.dumped
        return lambda value: json_text.dumped(convert(value))

    def decoder(self, parsed: ParsedSchema, shape: Shape) -> Callable[[bytes], Any]:
        convert = from_json(shape)
        loads = json_text.exact if has_decimal(shape) else json_text.read_once

        def decode(payload: bytes) -> Any:
            value = loads(payload)
            return None if value is None else convert(value)

        return decode


make = JsonSchemaRows
