"""AVRO: schemas as Connect's AvroData writes them, and values by the schemas of the registry.

A map is an array of records with `key` and `value`, because Connect's map keys are optional here. A record is named
io.confluent.ksql.avro_schemas.KsqlDataSourceSchema unless fullSchemaName is set; the ones in it append the path of
fields. Values have no logical types here: decimals are their unscaled bytes, times are numbers.
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any, ClassVar, Final

from broker_registry.schema_types.avro.schema import AvroSchema
from broker_registry.schema_types.base import Kind, ParsedSchema
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
from broker_sql.formats.kinds import FULL_SCHEMA_NAME
from broker_sql.formats.registered import RegisteredSerde

NAMESPACE: Final = "io.confluent.ksql.avro_schemas"
FULL_NAME: Final = f"{NAMESPACE}.KsqlDataSourceSchema"
UNION: Final = "io.confluent.connect.avro.Union"
_ENTRY: Final = "MapEntry"
_INTERNAL: Final = "connect.internal.type"
_NUMBERS: Final = {
    Base.INT8: ("int", "int8"),
    Base.INT16: ("int", "int16"),
    Base.INT32: ("int", None),
    Base.INT64: ("long", None),
    Base.FLOAT32: ("float", None),
    Base.FLOAT64: ("double", None),
    Base.BOOLEAN: ("boolean", None),
    Base.STRING: ("string", None),
    Base.BYTES: ("bytes", None),
}
_LOGICAL: Final = {DATE: "date", TIME: "time-millis", TIMESTAMP: "timestamp-millis"}


def key_schema_name(source: str) -> str:
    """Return the name of the record of a stream's or table's key: UPPER_UNDERSCORE becomes UpperCamel, with `Key`."""
    camel = "".join(word[:1].upper() + word[1:].lower() for word in source.split("_"))
    return f"{NAMESPACE}.{camel}Key"


# ------------------------------------------------------------------------------------------------ schema of a shape


def schema_text(shape: Shape, full_name: str = FULL_NAME) -> str:
    """Return the schema of a key or value."""
    return json.dumps(_schema(shape.required(), full_name, full_name.rpartition(".")[0], is_root=True))


def _schema(shape: Shape, name: str, namespace: str, *, is_root: bool = False) -> Any:
    found: Any
    if shape.base is Base.STRUCT:
        short = name.rpartition(".")[2]
        found = {"type": "record", "name": short}
        if is_root and namespace:
            found["namespace"] = namespace
        found["fields"] = [
            {"name": _field_name(field), "type": _schema(inner, f"{name}_{field}", namespace)}
            | ({"default": None} if inner.is_optional else {})
            for field, inner in shape.fields
        ]
        found["connect.name"] = name
    elif shape.base is Base.ARRAY:
        assert shape.element is not None
        found = {"type": "array", "items": _schema(shape.element, name, namespace)}
    elif shape.base is Base.MAP:
        found = _map_schema(shape, name, namespace)
        if is_root and namespace:
            found["items"]["namespace"] = namespace
    else:
        found = _primitive(shape, has_version=not is_root)
    return ["null", found] if shape.is_optional else found


def _map_schema(shape: Shape, name: str, namespace: str) -> dict[str, Any]:
    assert shape.key is not None
    assert shape.element is not None
    fields = [
        {"name": field, "type": _schema(inner, f"{name}_{part}", namespace), "default": None}
        for field, inner, part in (("key", shape.key, "MapKey"), ("value", shape.element, "MapValue"))
    ]
    record = {"type": "record", "name": name.rpartition(".")[2], "fields": fields, _INTERNAL: _ENTRY}
    return {"type": "array", "items": record, "connect.name": name}


def _primitive(shape: Shape, *, has_version: bool) -> Any:
    kind, connect_type = _NUMBERS[shape.base]
    found: dict[str, Any] = {"type": kind}
    if shape.name == DECIMAL:
        found |= {"scale": shape.scale, "precision": shape.precision}
    if shape.name is None:
        return {**found, "connect.type": connect_type} if connect_type else kind
    if has_version:
        found["connect.version"] = 1
    if shape.name == DECIMAL:
        found["connect.parameters"] = {"scale": str(shape.scale), PRECISION: str(shape.precision)}
    return found | {"connect.name": shape.name, "logicalType": _LOGICAL.get(shape.name, "decimal")}


def _field_name(name: str) -> str:
    return name.replace(".", "_")


# ------------------------------------------------------------------------------------------------ shape of a schema


class _Names:
    """Named types of a schema, by their full names."""

    def __init__(self) -> None:
        self.known: dict[str, tuple[dict[str, Any], str]] = {}
        self.open: set[str] = set()


def _full(schema: Mapping[str, Any], namespace: str) -> str:
    name = str(schema["name"])
    if "." in name:
        return name
    space = str(schema.get("namespace", namespace) or "")
    return f"{space}.{name}" if space else name


def shape_of_schema(schema: Any) -> Shape:
    """Return the shape of a schema in JSON, all of its names resolved in it. Raises ValueError."""
    return _shape(schema, "", _Names())


def _shape(schema: Any, namespace: str, names: _Names) -> Shape:
    if isinstance(schema, list):
        return _union_shape(schema, namespace, names)
    if isinstance(schema, str):
        if schema in _BASES:
            return Shape(_BASES[schema], is_optional=False)
        found = names.known.get(schema) or names.known.get(f"{namespace}.{schema}")
        if found is None:
            raise ValueError(f"{schema} is no type that can be read")
        return _shape(*found, names)
    kind = schema["type"]
    if not isinstance(kind, str):
        return _shape(kind, namespace, names)
    if kind in ("record", "error"):
        return _record_shape(schema, namespace, names)
    if kind in ("enum", "fixed"):
        names.known[_full(schema, namespace)] = schema, namespace
    if kind == "array":
        return _array_shape(schema, namespace, names)
    if kind == "map":
        key = Shape(Base.STRING, is_optional=False)
        return Shape(Base.MAP, is_optional=False, key=key, element=_shape(schema["values"], namespace, names))
    return _primitive_shape(schema, kind, namespace, names)


_BASES: Final = {
    "int": Base.INT32,
    "long": Base.INT64,
    "float": Base.FLOAT32,
    "double": Base.FLOAT64,
    "boolean": Base.BOOLEAN,
    "string": Base.STRING,
    "bytes": Base.BYTES,
    "enum": Base.STRING,
    "fixed": Base.BYTES,
}


def _primitive_shape(schema: Mapping[str, Any], kind: str, namespace: str, names: _Names) -> Shape:
    if kind not in _BASES:
        return _shape(kind, namespace, names)
    logical = schema.get("logicalType")
    if logical == "decimal" and kind in ("bytes", "fixed"):
        precision = int(schema.get("precision", PRECISION_DEFAULT))
        return Shape(Base.BYTES, DECIMAL, is_optional=False, scale=int(schema.get("scale", 0)), precision=precision)
    for name, each in _LOGICAL.items():
        if logical == each and kind == ("long" if name == TIMESTAMP else "int"):
            return Shape(_BASES[kind], name, is_optional=False)
    small = {"int8": Base.INT8, "int16": Base.INT16}.get(str(schema.get("connect.type")))
    return Shape(small if small and kind == "int" else _BASES[kind], is_optional=False)


def _record_shape(schema: dict[str, Any], namespace: str, names: _Names) -> Shape:
    full = _full(schema, namespace)
    if full in names.open:
        raise ValueError(f"the schema is recursive: {full} is in itself")
    names.open.add(full)
    names.known[full] = schema, namespace
    inner = full.rpartition(".")[0]
    fields = tuple((str(each["name"]), _shape(each["type"], inner, names)) for each in schema["fields"])
    defaults = {str(each["name"]): each["default"] for each in schema["fields"] if each.get("default") is not None}
    names.open.discard(full)
    with_defaults = tuple(
        (name, Shape(**{**vars(shape), "default": defaults[name]}) if name in defaults else shape)
        for name, shape in fields
    )
    return Shape(Base.STRUCT, str(schema.get("connect.name", full)), is_optional=False, fields=with_defaults)


def _array_shape(schema: Mapping[str, Any], namespace: str, names: _Names) -> Shape:
    items = schema["items"]
    element = _shape(items, namespace, names)
    if _is_entry(items):
        fields = dict(element.fields)
        return Shape(Base.MAP, is_optional=False, key=fields["key"], element=fields["value"])
    return Shape(Base.ARRAY, is_optional=False, element=element)


def _is_entry(items: Any) -> bool:
    if not isinstance(items, dict):
        return False
    is_old = items.get("name") == _ENTRY and items.get("namespace") == "io.confluent.connect.avro"
    return items.get(_INTERNAL) == _ENTRY or is_old


def _union_shape(schema: list[Any], namespace: str, names: _Names) -> Shape:
    others = [each for each in schema if each != "null"]
    if len(others) == 1:
        found = _shape(others[0], namespace, names)
        return Shape(**{**vars(found), "is_optional": len(schema) > 1})
    fields = []
    for each in others:
        shape = _shape(each, namespace, names)
        fields.append((_branch_name(each), Shape(**{**vars(shape), "is_optional": True})))
    return Shape(Base.STRUCT, UNION, is_optional="null" in schema, fields=tuple(fields))


def _branch_name(schema: Any) -> str:
    if isinstance(schema, str):
        return schema.rpartition(".")[2]
    name = schema.get("name") if schema["type"] in ("record", "enum", "fixed", "error") else schema["type"]
    return str(name).rpartition(".")[2]


# ------------------------------------------------------------------------------------------------ values


def unscaled(data: bytes, scale: int) -> Decimal:
    number = int.from_bytes(data, "big", signed=True)
    return Decimal((int(number < 0), tuple(map(int, str(abs(number)))), -scale))


def decimal_bytes(value: Decimal, scale: int) -> bytes:
    sign, digits, exponent = value.as_tuple()
    if exponent != -scale:
        raise ValueError(f"{value} does not have {scale} digits after the point")
    number = int("".join(map(str, digits)))
    number = -number if sign else number
    return number.to_bytes((number if number >= 0 else ~number).bit_length() // 8 + 1, "big", signed=True)


def from_library(shape: Shape) -> Convert | None:
    """Return the function from the library's value to a value of a shape; None: they are the same."""
    if shape.name == DECIMAL:
        return lambda data: unscaled(data, shape.scale)
    if shape.base is Base.ARRAY:
        assert shape.element is not None
        inner = from_library(shape.element)
        return inner and (lambda value: [None if each is None else inner(each) for each in value])
    if shape.base is Base.MAP:
        return _map_from_library(shape)
    if shape.name == UNION:
        return _union_from_library(shape)
    if shape.base is Base.STRUCT:
        changed = {name: convert for name, each in shape.fields if (convert := from_library(each)) is not None}
        return _fields_converter(changed) if changed else None
    return None


def _fields_converter(changed: Mapping[str, Convert]) -> Convert:
    def convert(value: dict[str, Any]) -> dict[str, Any]:
        return {
            name: each if each is None or name not in changed else changed[name](each) for name, each in value.items()
        }

    return convert


def _map_from_library(shape: Shape) -> Convert:
    assert shape.element is not None
    inner = from_library(shape.element) or _same

    def convert(value: Any) -> dict[Any, Any]:
        pairs = value.items() if isinstance(value, dict) else ((each["key"], each["value"]) for each in value)
        return {key: None if each is None else inner(each) for key, each in pairs}

    return convert


def _union_from_library(shape: Shape) -> Convert:
    """A branch of a union of several types is the field of a struct. Its type tells which one it is."""
    places: tuple[tuple[str, Shape, Convert], ...] = tuple(
        (name, each, from_library(each) or _same) for name, each in shape.fields
    )

    def convert(value: Any) -> dict[str, Any]:
        found: dict[str, Any] = dict.fromkeys(name for name, _, _ in places)
        for name, each, inner in places:
            if _is_of(value, each):
                found[name] = inner(value)
                break
        return found

    return convert


_PYTHON: Final[dict[Base, type | tuple[type, ...]]] = {
    Base.BOOLEAN: bool,
    Base.STRING: str,
    Base.BYTES: bytes,
    Base.ARRAY: list,
    Base.FLOAT32: float,
    Base.FLOAT64: float,
}


def _is_of(value: Any, shape: Shape) -> bool:
    if shape.base is Base.STRUCT:
        return isinstance(value, dict) and {name for name, _ in shape.fields} == set(value)
    if shape.base is Base.MAP:
        return isinstance(value, dict | list)
    if shape.base in _PYTHON:
        return isinstance(value, _PYTHON[shape.base])
    return isinstance(value, int) and not isinstance(value, bool)


def to_library(shape: Shape, schema: Any) -> Convert | None:
    """Return the function from a value of a shape to the library's, for a schema with that shape; None: the same."""
    if isinstance(schema, list):
        others = [each for each in schema if each != "null"]
        return to_library(shape, others[0]) if len(others) == 1 else None
    if shape.name == DECIMAL:
        return lambda value: decimal_bytes(value, shape.scale)
    if shape.base is Base.ARRAY:
        assert shape.element is not None
        inner = to_library(shape.element, schema["items"])
        return inner and (lambda value: [None if each is None else inner(each) for each in value])
    if shape.base is Base.MAP:
        assert shape.element is not None
        is_array = schema["type"] == "array"
        each_schema = schema["items"]["fields"][1]["type"] if is_array else schema["values"]
        return _map_to_library(to_library(shape.element, each_schema), is_array=is_array)
    if shape.base is Base.STRUCT and isinstance(schema, dict) and "fields" in schema:
        return _struct_to_library(shape, schema)
    return None


def _map_to_library(inner: Convert | None, *, is_array: bool) -> Convert:
    convert = inner or _same

    def write(value: dict[Any, Any]) -> Any:
        pairs = [(key, None if each is None else convert(each)) for key, each in value.items()]
        return [{"key": key, "value": each} for key, each in pairs] if is_array else dict(pairs)

    return write


def _struct_to_library(shape: Shape, schema: Mapping[str, Any]) -> Convert | None:
    schemas = {each["name"]: each["type"] for each in schema["fields"]}
    plan = tuple(
        (name, _field_name(name), to_library(each, schemas[_field_name(name)]), each.default)
        for name, each in shape.fields
    )
    if all(name == written and convert is None and default is None for name, written, convert, default in plan):
        return None

    def write(value: dict[str, Any]) -> dict[str, Any]:
        found = {}
        for name, written, convert, default in plan:
            given = value.get(name)
            if given is None:
                # As Connect's Struct: a field without a value has its default.
                found[written] = default
            else:
                found[written] = given if convert is None else convert(given)
        return found

    return write


def _same(value: Any) -> Any:
    return value


# ------------------------------------------------------------------------------------------------ the serde


class AvroRows(RegisteredSerde):
    """See RegisteredSerde."""

    kind: ClassVar[Kind] = Kind.AVRO
    label: ClassVar[str] = "AVRO"

    def schema_text(self, shape: Shape) -> str:
        return schema_text(shape, self.row.settings.get(FULL_SCHEMA_NAME, FULL_NAME).strip())

    def shape_of(self, parsed: ParsedSchema) -> Shape:
        return shape_of_schema(json.loads(_of(parsed).resolved))

    def encoder(self, parsed: ParsedSchema, shape: Shape) -> Callable[[Any], bytes]:
        import fastavro

        schema = _of(parsed)
        convert = to_library(shape, json.loads(schema.resolved)) or _same
        library, write = schema.library_schema(has_logical=False), fastavro.schemaless_writer

        def encode(value: Any) -> bytes:
            stream = io.BytesIO()
            write(stream, library, convert(value))
            return stream.getvalue()

        return encode

    def decoder(self, parsed: ParsedSchema, shape: Shape) -> Callable[[bytes], Any]:
        import fastavro

        schema = _of(parsed)
        convert = from_library(shape) or _same
        library, read = schema.library_schema(has_logical=False), fastavro.schemaless_reader

        def decode(payload: bytes) -> Any:
            schema.check_bounds(payload)
            return convert(read(io.BytesIO(payload), library, None))

        return decode


def _of(parsed: ParsedSchema) -> AvroSchema:
    assert isinstance(parsed, AvroSchema)
    return parsed


make = AvroRows
