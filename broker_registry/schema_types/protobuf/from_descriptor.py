"""Elements of a file from its descriptor: the form `serialized`, a FileDescriptorProto in base64, which may be
registered in place of a text. Names of types have a leading dot, as in descriptors. Custom options other than
Confluent's are left out, and groups, too.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterable
from typing import Any, Final

from google.protobuf import descriptor_pb2
from google.protobuf.message import DecodeError, Message

from broker_registry.schema_types.protobuf import ast, descriptors
from broker_registry.schema_types.protobuf.ast import Option, OptionKind, OptionValue, Primitive
from broker_registry.schema_types.protobuf.descriptors import classes

_BASE64: Final = re.compile(r"[A-Za-z0-9+/]+={0,2}").fullmatch
_LABELS: Final = {1: "optional", 2: "required", 3: "repeated"}
_VALUE_FIRST: Final = frozenset(("precision", "scale"))


def file_from_base64(text: str) -> ast.File | None:
    """Return the file of a serialized form; None if the text is none."""
    if not _BASE64(text):
        return None
    file = classes().new_file()
    try:
        file.ParseFromString(base64.b64decode(text + "=" * (-len(text) % 4), validate=True))
        return file_of(file) if _is_utf8(file) else None
    except (binascii.Error, DecodeError, ValueError, KeyError):
        return None


def _is_utf8(message: Message) -> bool:
    """Return whether all strings are. The library returns bytes for others, which proto2 does not refuse."""
    for field, value in message.ListFields():
        for each in value if field.is_repeated else (value,):
            if field.type == field.TYPE_STRING and not isinstance(each, str):
                return False
            if isinstance(each, Message) and not _is_utf8(each):
                return False
    return True


def file_of(file: descriptor_pb2.FileDescriptorProto) -> ast.File:
    public, weak = set(file.public_dependency), set(file.weak_dependency)
    names = list(enumerate(file.dependency))
    is_proto3 = file.syntax == "proto3"
    return ast.File(
        syntax=file.syntax if file.syntax in ("proto2", "proto3") else None,
        package=file.package or None,
        imports=tuple(name for index, name in names if index not in public and index not in weak),
        public_imports=tuple(name for index, name in names if index in public),
        weak_imports=tuple(name for index, name in names if index in weak and index not in public),
        types=(
            *(_message(each, is_proto3) for each in file.message_type),
            *(_enum(each) for each in file.enum_type),
        ),
        services=tuple(_service(each) for each in file.service),
        extends=_extends(file.extension, is_proto3),
        options=_options(file.options, descriptors.FILE_OPTIONS, "file_meta"),
    )


def _message(message: descriptor_pb2.DescriptorProto, is_proto3: bool) -> ast.Message:
    members: list[list[ast.Field]] = [[] for _ in message.oneof_decl]
    fields = []
    for each in message.field:
        if each.HasField("oneof_index") and not each.proto3_optional and 0 <= each.oneof_index < len(members):
            members[each.oneof_index].append(_field(each, None, is_proto3))
        else:
            fields.append(_field(each, _label(each, is_proto3), is_proto3))
    reserved = [ast.Reserved((_range(each.start, each.end - 1),)) for each in message.reserved_range]
    return ast.Message(
        name=message.name,
        fields=tuple(fields),
        oneofs=tuple(
            ast.OneOf(each.name, tuple(own), (), _options(each.options, descriptors.ONEOF_OPTIONS))
            for each, own in zip(message.oneof_decl, members, strict=True)
            if own
        ),
        types=(
            *(_message(each, is_proto3) for each in message.nested_type),
            *(_enum(each) for each in message.enum_type),
        ),
        options=_options(message.options, descriptors.MESSAGE_OPTIONS, "message_meta"),
        reserved=(*reserved, *(ast.Reserved((name,)) for name in message.reserved_name)),
        extensions=tuple(_extensions(each) for each in message.extension_range),
        extends=_extends(message.extension, is_proto3),
    )


def _range(first: int, last: int) -> int | ast.Range:
    return first if first == last else ast.Range(first, last)


def _extensions(extensions: descriptor_pb2.DescriptorProto.ExtensionRange) -> ast.Extensions:
    options = _options(extensions.options, descriptors.RANGE_OPTIONS)
    return ast.Extensions((_range(extensions.start, extensions.end - 1),), options)


def _extends(fields: Iterable[descriptor_pb2.FieldDescriptorProto], is_proto3: bool) -> tuple[ast.Extend, ...]:
    by_name: dict[str, list[ast.Field]] = {}
    for each in fields:
        by_name.setdefault(each.extendee, []).append(_field(each, _label(each, is_proto3), is_proto3))
    return tuple(ast.Extend(name, tuple(own)) for name, own in by_name.items())


def _label(field: descriptor_pb2.FieldDescriptorProto, is_proto3: bool) -> str | None:
    if field.proto3_optional:
        return "optional"
    label = _LABELS[field.label]
    return None if is_proto3 and label != "repeated" else label


def _field(field: descriptor_pb2.FieldDescriptorProto, label: str | None, is_proto3: bool) -> ast.Field:
    type_name = field.type_name
    if not field.HasField("type_name"):
        type_name = descriptor_pb2.FieldDescriptorProto.Type.Name(field.type).removeprefix("TYPE_").lower()
    return ast.Field(
        label=label,
        type=type_name,
        name=field.name,
        tag=field.number,
        options=_options(field.options, descriptors.FIELD_OPTIONS, "field_meta"),
        default=field.default_value if field.HasField("default_value") and not is_proto3 else None,
        json_name=field.json_name if field.HasField("json_name") else None,
    )


def _enum(enum: descriptor_pb2.EnumDescriptorProto) -> ast.EnumType:
    reserved = [ast.Reserved((_range(each.start, each.end),)) for each in enum.reserved_range]
    return ast.EnumType(
        name=enum.name,
        values=tuple(
            ast.EnumValue(
                each.name, each.number, _options(each.options, descriptors.ENUM_VALUE_OPTIONS, "enum_value_meta")
            )
            for each in enum.value
        ),
        options=_options(enum.options, descriptors.ENUM_OPTIONS, "enum_meta"),
        reserved=(*reserved, *(ast.Reserved((name,)) for name in enum.reserved_name)),
    )


def _service(service: descriptor_pb2.ServiceDescriptorProto) -> ast.Service:
    rpcs = tuple(
        ast.Rpc(
            each.name,
            each.input_type,
            each.output_type,
            each.client_streaming,
            each.server_streaming,
            _options(each.options, descriptors.METHOD_OPTIONS),
        )
        for each in service.method
    )
    return ast.Service(service.name, rpcs, _options(service.options, descriptors.SERVICE_OPTIONS))


# Options


def _options(message: Any, names: Iterable[str], meta: str | None = None) -> ast.Options:
    """Return the options of these names, in their order, and then Confluent's."""
    result: list[Option] = []
    by_name = message.DESCRIPTOR.fields_by_name
    for name in names:
        field = by_name.get(name)
        if field is None:
            continue
        value = getattr(message, name)
        for each in value if field.is_repeated else [value] if message.HasField(name) else []:
            result.append(_option(field, each))
    if meta is not None and message.DESCRIPTOR.file.pool is not descriptor_pb2.DESCRIPTOR.pool:
        extension = classes().metas[meta]
        if message.HasExtension(extension):
            values = _meta(message.Extensions[extension])
            if values:
                result.append(Option(f"confluent.{meta}", OptionKind.MAP, values, True))
    return tuple(result)


def _option(field: Any, value: Any) -> Option:
    if field.message_type is not None:
        return Option(field.name, OptionKind.MAP, {each.name: _in_map(each, part) for each, part in value.ListFields()})
    primitive = _in_map(field, value)
    if isinstance(primitive, Primitive):
        # Confluent's registry gives `verification` the kind of a boolean, which has the same text.
        return Option(field.name, primitive.kind, primitive.value)
    return Option(field.name, OptionKind.STRING, primitive)


def _in_map(field: Any, value: Any) -> OptionValue:
    if field.enum_type is not None:
        return Primitive(OptionKind.ENUM, field.enum_type.values_by_number[value].name)
    if isinstance(value, bool):
        return Primitive(OptionKind.BOOLEAN, "true" if value else "false")
    return value if isinstance(value, str) else Primitive(OptionKind.NUMBER, str(value))


def _meta(meta: Any) -> dict[str, OptionValue]:
    """Return the parts of a Meta that have a value."""
    result: dict[str, OptionValue] = {}
    if meta.doc:
        result["doc"] = meta.doc
    params: list[OptionValue] = []
    for key, value in {each.key: each.value for each in meta.params}.items():
        pair: list[tuple[str, OptionValue]] = [("key", key), ("value", value)]
        params.append(dict(reversed(pair) if key in _VALUE_FIRST else pair))
    if params:
        result["params"] = params
    if meta.tags:
        result["tags"] = list(meta.tags)
    rules: list[OptionValue] = []
    for rule in meta.rules:
        entry: dict[str, OptionValue] = {
            name: text for name in ("name", "doc", "expr", "sql") if (text := getattr(rule, name))
        }
        if entry:
            rules.append(entry)
    if rules:
        result["rules"] = rules
    return result
