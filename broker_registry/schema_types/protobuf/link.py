"""Descriptors from the elements of a file: those that Confluent's format `serialized` returns, byte for byte, and
those that the library reads records with.

As in Confluent's registry, custom options are left out but its own, and files that an import names without a reference
are left out, too.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from google.protobuf import descriptor_pb2

from broker_registry.schema_types.base import InvalidSchema
from broker_registry.schema_types.protobuf import ast, descriptors
from broker_registry.schema_types.protobuf.ast import OptionKind, Primitive
from broker_registry.schema_types.protobuf.descriptors import classes
from broker_registry.schema_types.protobuf.options import as_map, by_name
from broker_registry.schema_types.protobuf.types import Types, within

FILE_NAME: Final = "default"
"""The name of a schema's own file in descriptors."""
_LENIENT_ENUMS: Final = frozenset(("retention", "verification"))
"""Options whose unknown values become UNKNOWN or nothing; an unknown value of another one is an error."""


class Linker:
    """Makes descriptors. `types` has the names in the scope of the file's package. `has_groups` makes fields of groups,
    which the format `serialized` lacks: records with them are readable.
    """

    def __init__(self, types: Types, *, has_groups: bool) -> None:
        self._types = types
        self._has_groups = has_groups
        self._is_proto3 = False

    def file(self, file: ast.File, name: str, known_paths: Iterable[str]) -> descriptor_pb2.FileDescriptorProto:
        """Return the descriptor of a file. Raises InvalidSchema."""
        try:
            return self._file(file, name, set(known_paths))
        except (ValueError, TypeError) as error:
            raise InvalidSchema(f"Invalid protobuf schema definition: {error}") from error

    def _file(self, file: ast.File, name: str, known_paths: set[str]) -> descriptor_pb2.FileDescriptorProto:
        result = classes().new_file()
        result.name = name
        self._is_proto3 = file.syntax == "proto3"
        if file.syntax is not None:
            result.syntax = file.syntax
        if file.package is not None:
            result.package = file.package
        scope = file.package or ""
        for each in file.types:
            if isinstance(each, ast.Message):
                self._message(result.message_type.add(), each, within(scope, each.name))
            else:
                self._enum(result.enum_type.add(), each)
        for service in file.services:
            self._service(result.service.add(), service)
        for extend in file.extends:
            for field in extend.fields:
                self._field(result.extension.add(extendee=extend.name), field, field.label, scope)
        for path in (*file.imports, *file.public_imports):
            if path in known_paths and path not in result.dependency:
                result.dependency.append(path)
        for path in file.public_imports:
            if path in known_paths:
                result.public_dependency.append(list(result.dependency).index(path))
        options = by_name(file.options)
        _set_options(result, options, descriptors.FILE_OPTIONS)
        _set_meta(result, options, "file_meta")
        return result

    def _message(self, result: descriptor_pb2.DescriptorProto, message: ast.Message, scope: str) -> None:
        result.name = message.name
        for each in message.types:
            if isinstance(each, ast.Message):
                self._message(result.nested_type.add(), each, within(scope, each.name))
            else:
                self._enum(result.enum_type.add(), each)
        in_oneofs = self._oneofs(result, message, scope)
        for field in message.fields:
            if field.name not in in_oneofs:
                self._member(result, field, scope)
        if self._has_groups:
            for group in message.groups:
                self._group(result, group, group.label, scope)
        for reserved in message.reserved:
            for value in reserved.values:
                if isinstance(value, str):
                    result.reserved_name.append(value)
                else:
                    first, last = _ends(value)
                    result.reserved_range.add(start=first, end=last + 1)
        for extensions in message.extensions:
            for value in extensions.values:
                first, last = _ends(value)
                added = result.extension_range.add(start=first, end=last + 1)
                added.options.SetInParent()
                options = by_name(extensions.options)
                _set_repeated(added, extensions.options, descriptors.RANGE_OPTIONS)
                _set_options(added, options, descriptors.RANGE_OPTIONS)
        for extend in message.extends:
            for field in extend.fields:
                self._field(result.extension.add(extendee=extend.name), field, field.label, scope)
        message_options = by_name(message.options)
        _set_options(result, message_options, descriptors.MESSAGE_OPTIONS)
        _set_meta(result, message_options, "message_meta")

    def _oneofs(self, result: descriptor_pb2.DescriptorProto, message: ast.Message, scope: str) -> set[str]:
        """Add the oneofs and their fields, which stand before the others; return the names of these fields."""
        names: set[str] = set()
        for index, oneof in enumerate(message.oneofs):
            added = result.oneof_decl.add(name=oneof.name)
            added.options.SetInParent()
            _set_options(added, by_name(oneof.options), descriptors.ONEOF_OPTIONS)
            for field in oneof.fields:
                member = result.field.add(oneof_index=index)
                self._field(member, field, "optional", scope)
                names.add(field.name)
            if self._has_groups:
                for group in oneof.groups:
                    self._group(result, group, "optional", scope).oneof_index = index
        return names

    def _member(self, result: descriptor_pb2.DescriptorProto, field: ast.Field, scope: str) -> None:
        if types := ast.map_types(field.type):
            entry = result.nested_type.add(name=entry_name(field.name))
            for tag, (name, type_name) in enumerate(zip(("key", "value"), types, strict=True), start=1):
                self._field(entry.field.add(), ast.Field(None, type_name, name, tag), None, scope)
            entry.options.map_entry = True
            added = result.field.add()
            self._field(added, field, "repeated", scope, entry.name)
            return
        if field.label == "optional" and self._is_proto3:
            oneof = result.oneof_decl.add(name=f"_{field.name}")
            oneof.options.SetInParent()
            added = result.field.add(oneof_index=len(result.oneof_decl) - 1, proto3_optional=True)
            self._field(added, field, "optional", scope)
            return
        self._field(result.field.add(), field, field.label, scope)

    def _field(
        self,
        result: descriptor_pb2.FieldDescriptorProto,
        field: ast.Field,
        label: str | None,
        scope: str,
        entry: str | None = None,
    ) -> None:
        result.name = field.name
        result.number = field.tag
        type_name = entry or field.type
        kinds = descriptor_pb2.FieldDescriptorProto
        if type_name in ast.SCALARS:
            result.type = kinds.Type.Value(f"TYPE_{type_name.upper()}")
        else:
            info = None if entry else self._types.find(type_name, scope)
            if info is not None:
                result.type = kinds.TYPE_ENUM if isinstance(info.element, ast.EnumType) else kinds.TYPE_MESSAGE
            result.type_name = type_name
        if label is not None:
            result.label = kinds.Label.Value(f"LABEL_{label.upper()}")
        if field.default is not None:
            result.default_value = field.default
        if field.json_name is not None:
            result.json_name = field.json_name
        if field.options:
            options = by_name(field.options)
            _set_repeated(result, field.options, descriptors.FIELD_OPTIONS)
            _set_options(result, options, descriptors.FIELD_OPTIONS)
            _set_meta(result, options, "field_meta")

    def _group(
        self, result: descriptor_pb2.DescriptorProto, group: ast.Group, label: str | None, scope: str
    ) -> descriptor_pb2.FieldDescriptorProto:
        message = result.nested_type.add()
        self._message(message, ast.Message(group.name, group.fields), scope)
        kinds = descriptor_pb2.FieldDescriptorProto
        return result.field.add(
            name=group.name.lower(),
            number=group.tag,
            label=kinds.Label.Value(f"LABEL_{(label or 'optional').upper()}"),
            type=kinds.TYPE_GROUP,
            type_name=group.name,
        )

    def _enum(self, result: descriptor_pb2.EnumDescriptorProto, enum: ast.EnumType) -> None:
        result.name = enum.name
        options = by_name(enum.options)
        _set_options(result, options, descriptors.ENUM_OPTIONS)
        for reserved in enum.reserved:
            for value in reserved.values:
                if isinstance(value, str):
                    result.reserved_name.append(value)
                else:
                    first, last = _ends(value)
                    result.reserved_range.add(start=first, end=last)
        for constant in enum.values:
            added = result.value.add(name=constant.name, number=constant.tag)
            if constant.options:
                value_options = by_name(constant.options)
                _set_options(added, value_options, descriptors.ENUM_VALUE_OPTIONS)
                _set_meta(added, value_options, "enum_value_meta")
        _set_meta(result, options, "enum_meta")

    def _service(self, result: descriptor_pb2.ServiceDescriptorProto, service: ast.Service) -> None:
        result.name = service.name
        _set_options(result, by_name(service.options), descriptors.SERVICE_OPTIONS)
        for rpc in service.rpcs:
            added = result.method.add(
                name=rpc.name,
                input_type=rpc.request,
                output_type=rpc.response,
                client_streaming=rpc.streams_request,
                server_streaming=rpc.streams_response,
            )
            _set_options(added, by_name(rpc.options), descriptors.METHOD_OPTIONS)


def entry_name(field_name: str) -> str:
    """Return the name of a map's entry type. Unlike protoc, Confluent keeps the first letter of a single word."""
    if "_" in field_name:
        field_name = "".join(each[:1].upper() + each[1:].lower() for each in field_name.split("_"))
    return f"{field_name}Entry"


def _ends(value: int | str | ast.Range) -> tuple[int, int]:
    if isinstance(value, ast.Range):
        return value.first, value.last
    assert isinstance(value, int)
    return value, value


# Options


def _set_options(result: Any, options: Mapping[str, ast.Option], names: Iterable[str]) -> None:
    """Set the options of these names that are given. Raises ValueError for a value that the option cannot have."""
    for name in names:
        if name in options:
            value = options[name].value
            field = result.options.DESCRIPTOR.fields_by_name.get(name)
            if field is None:
                # An option of older releases of protobuf.
                continue
            if field.is_repeated:
                continue
            if field.message_type is not None:
                getattr(result.options, name).SetInParent()
                _set_message(getattr(result.options, name), _as_dict(name, value))
            else:
                _set(result.options, field, value, is_strict=name not in _LENIENT_ENUMS)


def _set_repeated(result: Any, options: Iterable[ast.Option], names: Sequence[str]) -> None:
    for option in map(as_map, options):
        if option.name not in names:
            continue
        field = result.options.DESCRIPTOR.fields_by_name.get(option.name)
        if field is None or not field.is_repeated:
            continue
        values = getattr(result.options, option.name)
        if field.message_type is not None:
            _set_message(values.add(), _as_dict(option.name, option.value))
        else:
            values.append(_enum_number(field, _text(option.value), is_strict=True))


def _as_dict(name: str, value: ast.OptionValue) -> dict[str, ast.OptionValue]:
    if not isinstance(value, dict):
        raise ValueError(f"the value of the option {name} must be a map")
    return value


def _set_message(result: Any, values: Mapping[str, ast.OptionValue]) -> None:
    for name, value in values.items():
        field = result.DESCRIPTOR.fields_by_name.get(name)
        if field is not None and field.message_type is None and not field.is_repeated:
            _set(result, field, value, is_strict=False)


def _set(result: Any, field: Any, value: ast.OptionValue, *, is_strict: bool) -> None:
    text = _text(value)
    if field.enum_type is not None:
        number = _enum_number(field, text, is_strict=is_strict)
        if number is not None:
            setattr(result, field.name, number)
    elif field.type == field.TYPE_BOOL:
        setattr(result, field.name, text.lower() == "true")
    elif field.type == field.TYPE_STRING:
        setattr(result, field.name, text)
    else:
        setattr(result, field.name, int(text))


def _text(value: ast.OptionValue) -> str:
    if isinstance(value, Primitive):
        return value.value
    if not isinstance(value, str):
        raise ValueError("an option with one value has a map or a list")
    return value


def _enum_number(field: Any, text: str, *, is_strict: bool) -> int | None:
    found = field.enum_type.values_by_name.get(text)
    if found is None and field.enum_type.name == "Edition":
        found = field.enum_type.values_by_name.get(f"EDITION_{text}" if text == "2023" else "EDITION_UNKNOWN")
    if found is not None:
        return int(found.number)
    if is_strict:
        raise ValueError(f"No enum constant {field.enum_type.full_name}.{text}")
    # `verification` has no value for an unknown one.
    return None if field.name == "verification" else 0


def _set_meta(result: Any, options: Mapping[str, ast.Option], name: str) -> None:
    """Set Confluent's option of this name: documentation, parameters, tags and rules. Raises ValueError."""
    option = options.get(f"confluent.{name}")
    if option is None:
        return
    if option.kind is not OptionKind.MAP or not isinstance(option.value, dict):
        raise ValueError(f"the option confluent.{name} must be a map")
    values = option.value
    meta = classes().new_meta()
    if doc := values.get("doc"):
        meta.doc = _string(doc)
    for entry in _many(values.get("params")):
        pair = _as_dict("params", entry)
        meta.params.add(key=_string(pair.get("key")), value=_string(pair.get("value")))
    meta.tags.extend(_string(each) for each in _many(values.get("tags")))
    for entry in _many(values.get("rules")):
        rule = {key: _string(value) for key, value in _as_dict("rules", entry).items() if value}
        if rule := {key: value for key, value in rule.items() if key in ("name", "doc", "expr", "sql")}:
            meta.rules.add(**rule)
    if meta.ByteSize():
        result.options.Extensions[classes().metas[name]].CopyFrom(meta)


def _many(value: ast.OptionValue | None) -> list[ast.OptionValue]:
    if value is None:
        return []
    return value if isinstance(value, list) else [value]


def _string(value: ast.OptionValue | None) -> str:
    if not isinstance(value, str):
        raise ValueError("a value of a confluent option must be a quoted string")
    return value
