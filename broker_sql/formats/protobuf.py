"""PROTOBUF: messages as Connect's ProtobufData has them, and PROTOBUF_NOSR: the same without a registry.

A schema of columns is the message ConnectDefault1, or that of fullSchemaName; messages in it are ConnectDefault2 and so
on, those of maps end with Entry. A field without presence is its default value if a column is NULL, unless
nullableRepresentation is `optional` or `wrapper`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Final, cast

from broker_registry.schema_types.base import Kind, ParsedSchema
from broker_sql.errors import AnalysisError
from broker_sql.formats.connect import (
    DECIMAL,
    PRECISION_DEFAULT,
    TIMESTAMP,
    Base,
    Convert,
    Shape,
    check_map_keys,
    row_reader,
    shape_of_row,
)
from broker_sql.formats.kinds import FULL_SCHEMA_NAME, NULLABLE, UNWRAP_PRIMITIVES
from broker_sql.formats.protobuf_logical import FROM_LOGICAL, TO_LOGICAL, decimal_filler
from broker_sql.formats.protobuf_text import DEFAULT_NAME, LOGICAL, MAP_SUFFIX, WRAPPERS, schema_text
from broker_sql.formats.registered import RegisteredSerde
from broker_sql.formats.rows import Read, Row, RowShape, Write, checked_count
from broker_streams.serdes import SerdeError
from broker_streams.serdes.schemas.base import Decode
from broker_streams.serdes.schemas.lookups import SchemaText, parse

if TYPE_CHECKING:
    from broker_registry.schema_types.protobuf.schema import ParsedProtobuf

DEPTH_MAX: Final = 100
"""How deep messages of a schema may be nested."""
_UNION: Final = "io.confluent.connect.protobuf.Union."
_OF_LOGICAL: Final = {full: name for name, (full, _) in LOGICAL.items()}
# The numbers of (confluent.field_meta) and of its params.
_FIELD_META: Final = 1088
_PARAMETERS: Final = 2


# ------------------------------------------------------------------------------------------------ messages


class Messages:
    """A message of a schema: its shape, and values of it as bytes.

    `is_wrapped`: a message of google.protobuf.*Value is the value in it. `has_null`: a field with `optional` that is
    not set is NULL, not the default value.
    """

    def __init__(self, parsed: ParsedSchema, settings: Mapping[str, str], message: str | None) -> None:
        """Raises ValueError: the schema has no such message, or one that is recursive."""
        schema = cast("ParsedProtobuf", parsed)
        nullable = settings.get(NULLABLE)
        self._schema = schema
        self._is_wrapped = settings.get(UNWRAP_PRIMITIVES, "true").lower() == "true" or nullable == "wrapper"
        self._has_null = nullable == "optional"
        self.indexes, full_name = schema.place_of(message)
        self._class = schema.records.class_of(full_name)
        self.shape = self._shape_of(self._class.DESCRIPTOR, 0)

    # Shapes.

    def _shape_of(self, descriptor: Any, depth: int) -> Shape:
        if depth > DEPTH_MAX:
            raise ValueError(f"message {descriptor.full_name} is nested deeper than {DEPTH_MAX}, or recursive")
        fields = []
        for oneof in descriptor.oneofs:
            if not _is_synthetic(oneof):
                inner = tuple((each.name, self._field_shape(each, depth)) for each in oneof.fields)
                shape = Shape(Base.STRUCT, _UNION + oneof.name, fields=inner)
                fields.append((f"{oneof.name}_{oneof.index}", shape))
        for field in descriptor.fields:
            if field.containing_oneof is None or _is_synthetic(field.containing_oneof):
                fields.append((field.name, self._field_shape(field, depth)))
        return Shape(Base.STRUCT, descriptor.full_name, is_optional=depth > 0, fields=tuple(fields))

    def _field_shape(self, field: Any, depth: int) -> Shape:
        if field.is_repeated:
            entry = _map_entry(field)
            if entry is not None:
                key, value = (self._one_shape(entry.fields_by_name[name], depth) for name in ("key", "value"))
                return Shape(Base.MAP, key=key, element=value)
            return Shape(Base.ARRAY, element=self._one_shape(field, depth))
        return self._one_shape(field, depth)

    def _one_shape(self, field: Any, depth: int) -> Shape:
        kind = field.message_type
        if kind is None:
            return Shape(_BASES[field.type])
        logical = _OF_LOGICAL.get(kind.full_name)
        if logical == DECIMAL:
            parameters = _parameters(field)
            scale, precision = int(parameters.get("scale", 0)), int(parameters.get("precision", PRECISION_DEFAULT))
            return Shape(Base.BYTES, DECIMAL, scale=scale, precision=precision)
        if logical is not None:
            return Shape(Base.INT64 if logical == TIMESTAMP else Base.INT32, logical)
        if self._is_wrapped and kind.full_name in _WRAPPED:
            return Shape(_BASES[kind.fields_by_name["value"].type])
        return self._shape_of(kind, depth + 1)

    # From bytes.

    def reader(self) -> Callable[[bytes], Any]:
        convert = self._message_reader(self._class.DESCRIPTOR)
        kind = self._class
        return lambda payload: convert(kind.FromString(payload))

    def _message_reader(self, descriptor: Any) -> Convert:
        unions, plan = [], []
        for oneof in descriptor.oneofs:
            if not _is_synthetic(oneof):
                unions.append((f"{oneof.name}_{oneof.index}", oneof.name, self._readers(oneof.fields)))
        for field in descriptor.fields:
            if field.containing_oneof is None or _is_synthetic(field.containing_oneof):
                needs = field.has_presence and (field.message_type is not None or self._has_null)
                plan.append((field.name, needs, self._field_reader(field)))

        def read(message: Any) -> dict[str, Any]:
            found: dict[str, Any] = {}
            for name, oneof, readers in unions:
                chosen = message.WhichOneof(oneof)
                found[name] = None if chosen is None else dict.fromkeys(readers)
                if chosen is not None:
                    found[name][chosen] = readers[chosen](getattr(message, chosen))
            for name, needs_presence, convert in plan:
                if needs_presence and not message.HasField(name):
                    found[name] = None
                else:
                    found[name] = convert(getattr(message, name))
            return found

        return read

    def _readers(self, fields: Any) -> dict[str, Convert]:
        return {each.name: self._field_reader(each) for each in fields}

    def _field_reader(self, field: Any) -> Convert:
        if not field.is_repeated:
            return self._one_reader(field)
        entry = _map_entry(field)
        if entry is None:
            convert = self._one_reader(field)
            return lambda values: [convert(each) for each in values]
        value = self._one_reader(entry.fields_by_name["value"])
        needs = entry.fields_by_name["value"].has_presence
        if field.message_type.GetOptions().map_entry:
            return lambda values: {key: value(each) for key, each in values.items()}
        return lambda values: {
            each.key: value(each.value) if not needs or each.HasField("value") else None for each in values
        }

    def _one_reader(self, field: Any) -> Convert:
        kind = field.message_type
        if kind is None:
            return _enum_reader(field.enum_type) if field.enum_type is not None else _same
        logical = _OF_LOGICAL.get(kind.full_name)
        if logical is not None:
            return FROM_LOGICAL[logical]
        if self._is_wrapped and kind.full_name in _WRAPPED:
            return _wrapped_value
        return self._message_reader(kind)

    # To bytes.

    def writer(self) -> Callable[[Any], bytes]:
        """The function from a struct to the bytes of a message; it raises ValueError and what the library raises."""
        fill, kind = self._message_writer(self._class.DESCRIPTOR), self._class

        def write(value: Any) -> bytes:
            message = kind()
            fill(message, value)
            return message.SerializeToString(deterministic=True)

        return write

    def _message_writer(self, descriptor: Any) -> Callable[[Any, dict[str, Any]], None]:
        plan: dict[str, Callable[[Any, Any], None]] = {}
        for field in descriptor.fields:
            plan[field.name] = self._field_writer(field)
        unions = {f"{each.name}_{each.index}" for each in descriptor.oneofs if not _is_synthetic(each)}

        def fill(message: Any, value: dict[str, Any]) -> None:
            for name, given in value.items():
                if given is None:
                    continue
                if name in unions:
                    fill(message, given)
                elif name in plan:
                    plan[name](message, given)
                else:
                    raise ValueError(f"message {descriptor.full_name} has no field {name}")

        return fill

    def _field_writer(self, field: Any) -> Callable[[Any, Any], None]:
        name = field.name
        if not field.is_repeated:
            if field.message_type is None:
                convert = _enum_writer(field.enum_type) if field.enum_type is not None else _same
                return lambda message, value: setattr(message, name, convert(value))
            put = self._message_part(field)

            def fill_one(message: Any, value: Any) -> None:
                inner = getattr(message, name)
                inner.SetInParent()
                put(inner, value)

            return fill_one
        entry = _map_entry(field)
        if entry is not None:
            return self._map_writer(field, entry)
        if field.message_type is None:
            element = _enum_writer(field.enum_type) if field.enum_type is not None else _same
            return lambda message, value: getattr(message, name).extend(element(_checked(each)) for each in value)
        put_each = self._message_part(field)

        def fill_all(message: Any, value: Any) -> None:
            target = getattr(message, name)
            for each in value:
                put_each(target.add(), _checked(each))

        return fill_all

    def _map_writer(self, field: Any, entry: Any) -> Callable[[Any, Any], None]:
        name, value_field = field.name, entry.fields_by_name["value"]
        if field.message_type.GetOptions().map_entry:
            if value_field.message_type is None:
                return lambda message, value: getattr(message, name).update(value)
            put = self._message_part(value_field)

            def fill_map(message: Any, value: Any) -> None:
                target = getattr(message, name)
                for key, each in value.items():
                    put(target[key], _checked(each))

            return fill_map
        fill = self._message_writer(entry)

        def fill_entries(message: Any, value: Any) -> None:
            target = getattr(message, name)
            for key, each in value.items():
                fill(target.add(), {"key": key, "value": each})

        return fill_entries

    def _message_part(self, field: Any) -> Callable[[Any, Any], None]:
        """The function that fills a message that is a field."""
        kind = field.message_type
        logical = _OF_LOGICAL.get(kind.full_name)
        if logical == DECIMAL:
            parameters = _parameters(field)
            return decimal_filler(parameters)
        if logical is not None:
            return TO_LOGICAL[logical]
        if self._is_wrapped and kind.full_name in _WRAPPED:
            return lambda message, value: setattr(message, "value", value)
        return self._message_writer(kind)


def _checked(value: Any) -> Any:
    if value is None:
        raise ValueError("NULL is no element of a repeated field")
    return value


def _same(value: Any) -> Any:
    return value


def _wrapped_value(message: Any) -> Any:
    return message.value


def _is_synthetic(oneof: Any) -> bool:
    """Whether the oneof only stands for the label `optional`."""
    return len(oneof.fields) == 1 and oneof.name == f"_{oneof.fields[0].name}"


def _map_entry(field: Any) -> Any:
    """The message of the entries of a map; None: the field is no map. Connect takes a message with the suffix too."""
    kind = field.message_type
    if kind is None:
        return None
    is_entry = kind.name.endswith(MAP_SUFFIX) and [each.name for each in kind.fields] == ["key", "value"]
    return kind if kind.GetOptions().map_entry or is_entry else None


def _enum_reader(kind: Any) -> Convert:
    def read(number: int) -> str:
        named = kind.values_by_number.get(number)
        return str(number) if named is None else str(named.name)

    return read


def _enum_writer(kind: Any) -> Convert:
    def write(name: str) -> int:
        named = kind.values_by_name.get(name)
        if named is None:
            raise ValueError(f"{name!r} is no value of {kind.full_name}: {', '.join(kind.values_by_name)}")
        return int(named.number)

    return write


def _parameters(field: Any) -> dict[str, str]:
    """The parameters of (confluent.field_meta), an extension that the library's class of options does not know."""
    from google.protobuf.empty_pb2 import Empty
    from google.protobuf.unknown_fields import UnknownFieldSet

    found: dict[str, str] = {}
    unknown: Any = UnknownFieldSet(field.GetOptions())
    for option in unknown:
        if option.field_number != _FIELD_META:
            continue
        # A message without fields shows those of Meta as unknown ones.
        entries: Any = UnknownFieldSet(Empty.FromString(option.data))
        for entry in entries:
            if entry.field_number == _PARAMETERS:
                parts: Any = UnknownFieldSet(Empty.FromString(entry.data))
                texts = {part.field_number: part.data.decode() for part in parts}
                found[texts.get(1, "")] = texts.get(2, "")
    return found


_BASES: Final = {
    1: Base.FLOAT64,
    2: Base.FLOAT32,
    3: Base.INT64,
    4: Base.INT64,
    5: Base.INT32,
    6: Base.INT64,
    7: Base.INT64,
    8: Base.BOOLEAN,
    9: Base.STRING,
    12: Base.BYTES,
    13: Base.INT64,
    14: Base.STRING,
    15: Base.INT32,
    16: Base.INT64,
    17: Base.INT32,
    18: Base.INT64,
}
"""By FieldDescriptor.TYPE_*: unsigned integers of 32 bits are INT64."""
_WRAPPED: Final = frozenset(f"google.protobuf.{each}" for each in (*WRAPPERS.values(), "UInt32Value", "UInt64Value"))


# ------------------------------------------------------------------------------------------------ the serdes


class ProtobufRows(RegisteredSerde):
    """See RegisteredSerde."""

    kind: ClassVar[Kind] = Kind.PROTOBUF
    label: ClassVar[str] = "PROTOBUF"

    def schema_text(self, shape: Shape) -> str:
        return schema_text(shape, self.row.settings)

    def _messages(self, parsed: ParsedSchema) -> Messages:
        name = self.row.settings.get(FULL_SCHEMA_NAME, "").strip() or None
        if name is not None and name.startswith(DEFAULT_NAME):
            name = None
        return Messages(parsed, self.row.settings, name)

    def shape_of(self, parsed: ParsedSchema) -> Shape:
        return self._messages(parsed).shape

    def encoder(self, parsed: ParsedSchema, shape: Shape) -> Callable[[Any], bytes]:
        messages = self._messages(parsed)
        write, indexes = messages.writer(), messages.indexes
        return lambda value: indexes + write(value)

    def decoder(self, parsed: ParsedSchema, shape: Shape) -> Decode:
        return self._by_message(parsed, lambda messages: messages.reader())

    def _read(self, written: ParsedSchema, reader: ParsedSchema, text: SchemaText) -> Decode:
        row = self.row

        def made(messages: Messages) -> Callable[[bytes], Any]:
            to_row = row_reader(messages.shape, row.names, row.types, unwraps=row.unwraps)
            read_message = messages.reader()
            return lambda payload: to_row(read_message(payload))

        return self._by_message(written, made)

    def _by_message(self, written: ParsedSchema, make: Callable[[Messages], Callable[[bytes], Any]]) -> Decode:
        """A record may be of any message of its schema: the indexes in front of it tell which one."""
        from broker_registry.schema_types.protobuf.indexes import read_indexes

        schema, settings = cast("ParsedProtobuf", written), self.row.settings
        known: dict[tuple[int, ...], Callable[[bytes], Any]] = {}

        def read(payload: bytes) -> Any:
            indexes, at = read_indexes(payload)
            place = tuple(indexes)
            if place not in known:
                known[place] = make(Messages(written, settings, schema.message_name(place)))
            return known[place](payload[at:])

        return read


make = ProtobufRows


def make_without_registry(shape: RowShape) -> tuple[Write, Read]:
    """PROTOBUF_NOSR: both sides know the schema of the columns. Raises AnalysisError."""
    check_map_keys(shape.names, shape.types, shape.format)
    row = shape_of_row(shape.names, shape.types, unwraps=shape.unwraps)
    try:
        messages = Messages(parse(Kind.PROTOBUF, schema_text(row, shape.settings)), shape.settings, None)
    except (SerdeError, ValueError) as error:
        raise AnalysisError(f"columns {', '.join(shape.names)} are no message: {error}") from None
    write_message, read_message = messages.writer(), messages.reader()
    to_row = row_reader(messages.shape, shape.names, shape.types, unwraps=False)
    names, count = shape.names, len(shape.names)

    def write(given: Row) -> bytes | None:
        checked_count(given, count)
        return write_message(dict(zip(names, given, strict=True)))

    def read(data: bytes) -> Row | None:
        found: Row | None = to_row(read_message(data))
        return found

    return write, read
