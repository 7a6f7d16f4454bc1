"""The normalized form of a file, as Confluent's `normalize=true` stores it: names of types in full, members by their
numbers, options by name with parts of one value merged, and entry types of maps written as maps. Messages, enums,
services and rpcs keep their order, because message indexes of records count it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Final, TypeVar

from broker_registry.schema_types.base import InvalidSchema
from broker_registry.schema_types.protobuf import ast, numbers
from broker_registry.schema_types.protobuf.ast import OptionKind
from broker_registry.schema_types.protobuf.lexer import position
from broker_registry.schema_types.protobuf.options import as_map, joined
from broker_registry.schema_types.protobuf.printer import with_special_values
from broker_registry.schema_types.protobuf.types import Types, resolve, within

_Value = TypeVar("_Value", bound="str | int | ast.Range")
_NAMES_LAST: Final = (1 << 31) - 1


def normalized(file: ast.File, types: Types, text: str) -> ast.File:
    """Return the normalized file. Raises InvalidSchema, with the position in `text`, for a name that no type has."""
    return _Normalizer(types, text).file(file)


class _Normalizer:
    def __init__(self, types: Types, text: str) -> None:
        self._types = types
        self._text = text

    def file(self, file: ast.File) -> ast.File:
        scope = self._types.package
        return ast.File(
            syntax="proto3" if file.syntax == "proto3" else None,
            package=file.package,
            imports=tuple(sorted(set(file.imports))),
            public_imports=tuple(sorted(set(file.public_imports))),
            types=self.types(file.types, scope),
            services=tuple(self.service(each, scope) for each in file.services),
            extends=self.extends(file.extends, scope),
            options=self.options(file.options, scope),
        )

    def full_name(self, name: str, scope: str, at: int) -> str:
        found = self._types.resolve(name, scope)
        if found is None:
            line, column = position(self._text, at)
            raise InvalidSchema(f"Could not resolve type: {name} (line {line}, column {column})")
        return f".{found}"

    # Elements

    def types(self, elements: Iterable[ast.Type], scope: str) -> tuple[ast.Type, ...]:
        result: list[ast.Type] = []
        for element in elements:
            if isinstance(element, ast.EnumType):
                result.append(self.enum(element, within(scope, element.name)))
                continue
            info = self._types.find(element.name, scope)
            if info is None or info.map_type is None:
                result.append(self.message(element, within(scope, element.name)))
        return tuple(result)

    def message(self, message: ast.Message, scope: str) -> ast.Message:
        oneofs = [self.oneof(each, scope) for each in message.oneofs if each.fields]
        return replace(
            message,
            fields=self.fields(message.fields, scope),
            oneofs=tuple(sorted(oneofs, key=lambda each: each.fields[0].tag)),
            types=self.types(message.types, scope),
            options=self.options(message.options, scope),
            reserved=_reserved(message.reserved),
            extensions=self.extensions(message.extensions, scope),
            groups=self.groups(message.groups, scope),
            extends=self.extends(message.extends, scope),
        )

    def fields(self, fields: Iterable[ast.Field], scope: str) -> tuple[ast.Field, ...]:
        return tuple(sorted((self.field(each, scope) for each in fields), key=lambda each: each.tag))

    def field(self, field: ast.Field, scope: str) -> ast.Field:
        type_name = field.type
        label = field.label
        if type_name not in ast.SCALARS:
            if not type_name.startswith("map<"):
                type_name = self.full_name(type_name, scope, field.at)
                info = self._types.types[type_name[1:]]
                if info.map_type == "":
                    line, column = position(self._text, field.at)
                    raise InvalidSchema(f"{field.type} has no key and value for a map (line {line}, column {column})")
                if info.map_type is not None:
                    type_name = info.map_type
            if types := ast.map_types(type_name):
                value = self._types.resolve(types[1], scope)
                if value is not None:
                    type_name = f"map<{types[0]}, .{value}>"
                label = None
        if field.options or field.default is not None or field.json_name is not None:
            return self.with_options(replace(field, type=type_name, label=label), scope)
        if type_name is field.type and label is field.label:
            return field
        return replace(field, type=type_name, label=label)

    def with_options(self, field: ast.Field, scope: str) -> ast.Field:
        """Default and name in JSON take part in the order of the options, so that they become options here."""
        options = self.options(with_special_values(field), scope)
        return replace(field, options=options, default=None, json_name=None)

    def oneof(self, oneof: ast.OneOf, scope: str) -> ast.OneOf:
        return replace(
            oneof,
            fields=self.fields(oneof.fields, scope),
            groups=self.groups(oneof.groups, scope),
            options=self.options(oneof.options, scope),
        )

    def groups(self, groups: Iterable[ast.Group], scope: str) -> tuple[ast.Group, ...]:
        result = (replace(each, fields=self.fields(each.fields, scope)) for each in groups)
        return tuple(sorted(result, key=lambda each: each.tag))

    def extensions(self, extensions: Iterable[ast.Extensions], scope: str) -> tuple[ast.Extensions, ...]:
        result: list[ast.Extensions] = []
        for each in extensions:
            options = self.options(each.options, scope)
            result.extend(ast.Extensions((_single(value),), options, each.at) for value in each.values)
        return tuple(sorted(result, key=lambda each: _first(each.values[0])))

    def extends(self, extends: Iterable[ast.Extend], scope: str) -> tuple[ast.Extend, ...]:
        """Return one element for each extended message, in the order in which they are extended first."""
        by_name: dict[str, list[ast.Field]] = {}
        for each in extends:
            if each.fields:
                by_name.setdefault(self.full_name(each.name, scope, each.at), []).extend(each.fields)
        return tuple(ast.Extend(name, self.fields(fields, scope)) for name, fields in by_name.items())

    def enum(self, enum: ast.EnumType, scope: str) -> ast.EnumType:
        values = (
            replace(each, options=self.options(each.options, scope)) if each.options else each for each in enum.values
        )
        return replace(
            enum,
            values=tuple(sorted(values, key=lambda each: (each.tag, each.name))),
            options=self.options(enum.options, scope),
            reserved=_reserved(enum.reserved),
        )

    def service(self, service: ast.Service, scope: str) -> ast.Service:
        rpcs = [
            replace(
                each,
                request=self.full_name(each.request, scope, each.at),
                response=self.full_name(each.response, scope, each.at),
                options=self.options(each.options, scope),
            )
            for each in service.rpcs
        ]
        return replace(service, rpcs=tuple(rpcs), options=self.options(service.options, scope))

    # Options

    def options(self, options: Iterable[ast.Option], scope: str) -> ast.Options:
        named: list[ast.Option] = []
        for option in options:
            if option.parenthesized:
                name = resolve(self._types.extensions, option.name, scope)
                if name is not None:
                    option = as_map(replace(option, name=name))
            named.append(option)
        named.sort(key=lambda each: each.name)
        result: list[ast.Option] = []
        for option in named:
            field = self._types.extensions.get(option.name.removeprefix("."))
            if field is not None and field.label != "repeated" and result and result[-1].name == option.name:
                result[-1] = self.merged(field, result[-1], option, scope)
            else:
                result.append(option)
        return tuple(replace(each, value=self.value(each.value, each.kind, scope)) for each in result)

    def merged(self, field: ast.Field, first: ast.Option, second: ast.Option, scope: str) -> ast.Option:
        second = as_map(second)
        if not (isinstance(first.value, dict) and isinstance(second.value, dict)):
            return second
        values = self.merged_maps(field, first.value, second.value, scope)
        return ast.Option(second.name, OptionKind.MAP, values, second.parenthesized)

    def merged_maps(
        self,
        field: ast.Field | None,
        first: dict[str, ast.OptionValue],
        second: dict[str, ast.OptionValue],
        scope: str,
    ) -> dict[str, ast.OptionValue]:
        message = self.message_of(field, scope)
        members = {each.name: each for each in message.all_fields} if message is not None else {}
        result = dict(first)
        for key, value in second.items():
            result[key] = self.merged_values(members.get(key), first[key], value, scope) if key in first else value
        return result

    def merged_values(
        self, field: ast.Field | None, first: ast.OptionValue, second: ast.OptionValue, scope: str
    ) -> ast.OptionValue:
        if field is None or field.label == "repeated":
            return joined(first, second)
        if isinstance(first, dict) and isinstance(second, dict) and self.message_of(field, scope) is not None:
            return self.merged_maps(field, first, second, scope)
        return second

    def message_of(self, field: ast.Field | None, scope: str) -> ast.Message | None:
        info = None if field is None else self._types.find(field.type, scope)
        return info.element if info is not None and isinstance(info.element, ast.Message) else None

    def value(self, value: ast.OptionValue, kind: OptionKind | None, scope: str) -> ast.OptionValue:
        """Return a value with sorted maps and normalized numbers. `kind` is None inside of a map or list."""
        if isinstance(value, str):
            return numbers.formatted(value) if kind is OptionKind.NUMBER else value
        if isinstance(value, ast.Primitive):
            is_number = value.kind is OptionKind.NUMBER
            return replace(value, value=numbers.formatted(value.value)) if is_number else value
        if isinstance(value, ast.Option):
            return replace(value, value=self.value(value.value, value.kind, scope))
        if isinstance(value, list):
            values = [self.value(each, None, scope) for each in value]
            return values[0] if kind is None and len(values) == 1 else values
        return self.map_value(value, scope)

    def map_value(self, values: dict[str, ast.OptionValue], scope: str) -> dict[str, ast.OptionValue]:
        result: dict[str, ast.OptionValue] = {}
        for key, value in values.items():
            if isinstance(value, list) and not value:
                continue
            if key.startswith("[") and key.endswith("]"):
                name = resolve(self._types.extensions, key[1:-1], scope)
                key = key if name is None else f"[{name}]"
            if key not in result:
                result[key] = self.value(value, None, scope)
        return dict(sorted(result.items()))


def _reserved(statements: Iterable[ast.Reserved]) -> tuple[ast.Reserved, ...]:
    """Return one statement for each value: numbers in their order, and then names."""
    result = [ast.Reserved((_single(value),), each.at) for each in statements for value in each.values]
    return tuple(sorted(result, key=_reserved_order))


def _reserved_order(statement: ast.Reserved) -> tuple[int, str]:
    value = statement.values[0]
    text = f"{value.first}..{value.last}" if isinstance(value, ast.Range) else str(value)
    return _first(value), text


def _first(value: str | int | ast.Range) -> int:
    if isinstance(value, ast.Range):
        return value.first
    return value if isinstance(value, int) else _NAMES_LAST


def _single(value: _Value) -> _Value | int:
    """Return a range of one number as that number."""
    return value.first if isinstance(value, ast.Range) and value.first == value.last else value


def without_extensions(file: ast.File) -> ast.File:
    """Return the file without custom options but Confluent's, and without extensions: the format ignore_extensions."""

    def kept(options: ast.Options) -> ast.Options:
        return tuple(each for each in options if not each.parenthesized or each.name.startswith("confluent."))

    def fields(values: Sequence[ast.Field]) -> tuple[ast.Field, ...]:
        return tuple(replace(each, options=kept(each.options)) if each.options else each for each in values)

    def groups(values: Sequence[ast.Group]) -> tuple[ast.Group, ...]:
        return tuple(replace(each, fields=fields(each.fields)) for each in values)

    def oneof(value: ast.OneOf) -> ast.OneOf:
        return replace(value, options=kept(value.options), fields=fields(value.fields), groups=groups(value.groups))

    def of_type(value: ast.Type) -> ast.Type:
        if isinstance(value, ast.EnumType):
            values = tuple(replace(each, options=kept(each.options)) for each in value.values)
            return replace(value, options=kept(value.options), values=values)
        return replace(
            value,
            options=kept(value.options),
            fields=fields(value.fields),
            oneofs=tuple(map(oneof, value.oneofs)),
            groups=groups(value.groups),
            types=tuple(map(of_type, value.types)),
            extensions=(),
            extends=(),
        )

    def service(value: ast.Service) -> ast.Service:
        rpcs = tuple(replace(each, options=kept(each.options)) for each in value.rpcs)
        return replace(value, options=kept(value.options), rpcs=rpcs)

    return replace(
        file,
        options=kept(file.options),
        types=tuple(map(of_type, file.types)),
        services=tuple(map(service, file.services)),
        extends=(),
    )
