"""The .proto text of a schema of columns, as Connect's ProtobufData writes it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from broker_sql.formats.connect import DATE, DECIMAL, TIME, TIMESTAMP, Base, Shape
from broker_sql.formats.kinds import FULL_SCHEMA_NAME, NULLABLE

DEFAULT_NAME: Final = "ConnectDefault"
MAP_SUFFIX: Final = "Entry"
_SCALARS: Final = {
    Base.INT8: "int32",
    Base.INT16: "int32",
    Base.INT32: "int32",
    Base.INT64: "int64",
    Base.FLOAT32: "float",
    Base.FLOAT64: "double",
    Base.BOOLEAN: "bool",
    Base.STRING: "string",
    Base.BYTES: "bytes",
}
WRAPPERS: Final = {
    Base.INT8: "Int32Value",
    Base.INT16: "Int32Value",
    Base.INT32: "Int32Value",
    Base.INT64: "Int64Value",
    Base.FLOAT32: "FloatValue",
    Base.FLOAT64: "DoubleValue",
    Base.BOOLEAN: "BoolValue",
    Base.STRING: "StringValue",
    Base.BYTES: "BytesValue",
}
LOGICAL: Final = {
    DECIMAL: ("confluent.type.Decimal", "confluent/type/decimal.proto"),
    DATE: ("google.type.Date", "google/type/date.proto"),
    TIME: ("google.type.TimeOfDay", "google/type/timeofday.proto"),
    TIMESTAMP: ("google.protobuf.Timestamp", "google/protobuf/timestamp.proto"),
}


def schema_text(shape: Shape, settings: Mapping[str, str]) -> str:
    """Return the .proto text of a struct. Raises ValueError: a message cannot hold the shape."""
    if shape.base is not Base.STRUCT:
        raise ValueError(f"a message has fields, and {shape.base.value} is none")
    full_name = settings.get(FULL_SCHEMA_NAME, "").strip()
    if full_name.startswith(DEFAULT_NAME):
        full_name = ""
    return _Writer(settings.get(NULLABLE)).file(shape, full_name)


class _Writer:
    def __init__(self, nullable: str | None) -> None:
        self._nullable = nullable
        self._imports: dict[str, None] = {}
        self._messages = 0

    def file(self, shape: Shape, full_name: str) -> str:
        package, _, name = full_name.rpartition(".")
        message = "\n".join(self._message(shape, name or self._next_name()))
        head = ['syntax = "proto3";', *([f"package {package};"] if package else [])]
        return "\n".join([*head, *(f'import "{path}";' for path in self._imports), message])

    def _next_name(self) -> str:
        self._messages += 1
        return f"{DEFAULT_NAME}{self._messages}"

    def _message(self, shape: Shape, name: str) -> list[str]:
        fields, inner = [], []
        for number, (field, each) in enumerate(shape.fields, 1):
            kind, messages = self._type(each)
            inner += messages
            fields.append(f"  {kind} {field} = {number}{self._options(each)};")
        return [f"message {name} {{", *fields, *(f"  {line}" for line in inner), "}"]

    def _type(self, shape: Shape) -> tuple[str, list[str]]:
        """The label and type of a field, and the messages that it needs."""
        if shape.base is Base.ARRAY:
            assert shape.element is not None
            if shape.element.base is Base.ARRAY:
                raise ValueError("an array of arrays is no field of a message")
            if shape.element.base is Base.MAP:
                raise ValueError("an array of maps is no field of a message")
            kind, messages = self._single(shape.element)
            return f"repeated {kind}", messages
        if shape.base is Base.MAP:
            assert shape.key is not None
            assert shape.element is not None
            name = self._next_name() + MAP_SUFFIX
            entry = Shape(Base.STRUCT, fields=(("key", shape.key), ("value", shape.element)))
            return f"repeated {name}", self._message(entry, name)
        kind, messages = self._single(shape)
        if self._nullable == "optional" and shape.is_optional:
            return f"optional {kind}", messages
        return kind, messages

    def _single(self, shape: Shape) -> tuple[str, list[str]]:
        if shape.base is Base.STRUCT:
            name = self._next_name()
            return name, self._message(shape, name)
        if shape.name in LOGICAL:
            kind, path = LOGICAL[shape.name]
            self._imports[path] = None
            return kind, []
        if self._nullable == "wrapper" and shape.is_optional:
            self._imports["google/protobuf/wrappers.proto"] = None
            return f"google.protobuf.{WRAPPERS[shape.base]}", []
        return _SCALARS[shape.base], []

    @staticmethod
    def _options(shape: Shape) -> str:
        inner = shape.element if shape.base is Base.ARRAY and shape.element is not None else shape
        if inner.name != DECIMAL:
            return ""
        parameters = (("precision", inner.precision), ("scale", inner.scale))
        texts = ", ".join(f'{{ value: "{number}", key: "{name}" }}' for name, number in parameters)
        return f" [(confluent.field_meta) = {{ params: [{texts}] }}]"
