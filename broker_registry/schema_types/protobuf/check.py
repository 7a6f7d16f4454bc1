"""Checks of a new schema that the grammar does not have: what protoc refuses, with line and column in the text.

Confluent's registry makes them only with `schema.validate.fields`; records of a schema that fails them cannot be read.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable
from itertools import accumulate
from typing import Final, NoReturn

from broker_registry.schema_types.base import InvalidSchema
from broker_registry.schema_types.protobuf import ast
from broker_registry.schema_types.protobuf.lexer import position
from broker_registry.schema_types.protobuf.options import by_name
from broker_registry.schema_types.protobuf.schema import ParsedProtobuf
from broker_registry.schema_types.protobuf.types import TypeInfo, within

_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*").fullmatch
_TYPE: Final = re.compile(r"\.?[A-Za-z_][A-Za-z0-9_]*(?:\.[A-Za-z_][A-Za-z0-9_]*)*").fullmatch
_RESERVED_FIRST, _RESERVED_LAST = 19_000, 19_999


def check(schema: ParsedProtobuf, text: str) -> None:
    """Raise InvalidSchema for the first defect."""
    checker = _Checker(schema, text)
    checker.file(schema.file)
    try:
        schema.check_records()
    except InvalidSchema as error:
        # The library names the element, not its place.
        place = max((name for name in checker.places if name in str(error)), key=len, default=None)
        checker.fail(str(error), 0 if place is None else checker.places[place])


class _Checker:
    """`places` has the first token of each message, field and enum by its full name."""

    def __init__(self, schema: ParsedProtobuf, text: str) -> None:
        self._types = schema.types
        self._visible = schema.visible_paths()
        self._is_proto3 = schema.file.syntax == "proto3"
        self._text = text
        self.places: dict[str, int] = {}

    def fail(self, message: str, at: int) -> NoReturn:
        line, column = position(self._text, at)
        raise InvalidSchema(f"{message} (line {line}, column {column})")

    def file(self, file: ast.File) -> None:
        if file.package is not None and not _TYPE(file.package):
            self.fail(f"'{file.package}' is no name of a package", 0)
        scope = file.package or ""
        self._types_of(file.types, scope)
        for extend in file.extends:
            self._extend(extend, scope)
        for service in file.services:
            self._name(service.name, within(scope, service.name), service.at)
            for rpc in service.rpcs:
                self._name(rpc.name, within(scope, f"{service.name}.{rpc.name}"), rpc.at)
                for name in (rpc.request, rpc.response):
                    if not isinstance(self._type(name, scope, rpc.at).element, ast.Message):
                        self.fail(f"{name} is no message", rpc.at)

    def _name(self, name: str, full_name: str, at: int) -> None:
        if not _NAME(name):
            self.fail(f"'{name}' is no name", at)
        self.places[full_name] = at

    def _types_of(self, types: Iterable[ast.Type], scope: str) -> None:
        seen: dict[str, int] = {}
        for each in types:
            if each.name in seen:
                self.fail(f"{each.name} is already defined", each.at)
            seen[each.name] = each.at
            full_name = within(scope, each.name)
            self._name(each.name, full_name, each.at)
            if isinstance(each, ast.Message):
                self._message(each, full_name)
            else:
                self._enum(each, full_name)

    def _message(self, message: ast.Message, scope: str) -> None:
        reserved = _Reserved(message.reserved, message.extensions)
        names: dict[str, int] = {}
        tags: dict[int, str] = {}
        fields = list(message.all_fields)
        groups = [*message.groups, *(group for oneof in message.oneofs for group in oneof.groups)]
        members: list[ast.Field | ast.Group] = [*fields, *groups]
        for member in sorted(members, key=lambda each: each.at):
            if member.name in names:
                self.fail(f"field {member.name} is already defined in {scope}", member.at)
            if member.tag in tags:
                self.fail(f"field {member.name} has the number {member.tag} of {tags[member.tag]}", member.at)
            names[member.name] = member.at
            tags[member.tag] = member.name
            if found := reserved.contains(member.name, member.tag):
                self.fail(f"field {member.name} uses {found}", member.at)
            self._tag(member.tag, member.at)
            self._name(member.name, within(scope, member.name), member.at)
        for field in fields:
            self._field(field, scope)
        for group in groups:
            for field in group.fields:
                self._tag(field.tag, field.at)
                self._field(field, scope)
        for oneof in message.oneofs:
            if oneof.name in names:
                self.fail(f"{oneof.name} is already defined in {scope}", oneof.at)
            names[oneof.name] = oneof.at
            if not oneof.fields and not oneof.groups:
                self.fail(f"oneof {oneof.name} has no fields", oneof.at)
        for extend in message.extends:
            self._extend(extend, scope)
        if message.extensions and self._is_proto3:
            self.fail("proto3 has no extension ranges", message.extensions[0].at)
        self._types_of(message.types, scope)

    def _tag(self, tag: int, at: int) -> None:
        if not 0 < tag <= ast.TAG_MAX:
            self.fail(f"{tag} is no number of a field: they go from 1 to {ast.TAG_MAX}", at)
        if _RESERVED_FIRST <= tag <= _RESERVED_LAST:
            self.fail(f"{tag} is reserved for Protobuf itself ({_RESERVED_FIRST} to {_RESERVED_LAST})", at)

    def _field(self, field: ast.Field, scope: str) -> None:
        if self._is_proto3 and field.default is not None:
            self.fail(f"field {field.name} has a default, which proto3 does not have", field.at)
        types = ast.map_types(field.type)
        name = types[1] if types else field.type
        if name in ast.SCALARS:
            return
        if name.startswith("map<"):
            self.fail(f"field {field.name} is a map of maps", field.at)
        self._type(name, scope, field.at)

    def _type(self, name: str, scope: str, at: int) -> TypeInfo:
        info = self._types.find(name, scope)
        if info is None:
            self.fail(f"Could not resolve type: {name}", at)
        if info.path not in self._visible:
            self.fail(f'"{name}" is not defined: import "{info.path}"', at)
        return info

    def _extend(self, extend: ast.Extend, scope: str) -> None:
        if not isinstance(self._type(extend.name, scope, extend.at).element, ast.Message):
            self.fail(f"{extend.name} is no message", extend.at)
        for field in extend.fields:
            self._tag(field.tag, field.at)
            self._field(field, scope)
            self._name(field.name, within(scope, field.name), field.at)

    def _enum(self, enum: ast.EnumType, scope: str) -> None:
        if not enum.values:
            self.fail(f"enum {enum.name} has no values", enum.at)
        if self._is_proto3 and enum.values[0].tag != 0:
            self.fail(f"the first value of enum {enum.name} must be 0 in proto3", enum.values[0].at)
        alias = by_name(enum.options).get("allow_alias")
        may_repeat = alias is not None and str(alias.value).lower() == "true"
        reserved = _Reserved(enum.reserved, ())
        names: set[str] = set()
        tags: dict[int, str] = {}
        outer = scope.rpartition(".")[0]
        for value in enum.values:
            if value.name in names:
                self.fail(f"value {value.name} is already defined in {scope}", value.at)
            if value.tag in tags and not may_repeat:
                self.fail(f"value {value.name} has the number {value.tag} of {tags[value.tag]}", value.at)
            names.add(value.name)
            tags.setdefault(value.tag, value.name)
            if found := reserved.contains(value.name, value.tag):
                self.fail(f"value {value.name} uses {found}", value.at)
            # Values are in the scope around their enum, as in C++.
            self._name(value.name, within(outer, value.name), value.at)


class _Reserved:
    """Names and numbers that members of a type may not have. A type may have as many as the text is long."""

    def __init__(self, reserved: Iterable[ast.Reserved], extensions: Iterable[ast.Extensions]) -> None:
        values = [value for statement in reserved for value in statement.values]
        self._names = {each for each in values if isinstance(each, str)}
        self._reserved = _Numbers(values)
        self._extensions = _Numbers([value for statement in extensions for value in statement.values])

    def contains(self, name: str, tag: int) -> str | None:
        """Describe the reserved name or number that a member uses."""
        if name in self._names:
            return f"the name {name}, which is reserved"
        if tag in self._reserved:
            return f"the number {tag}, which is reserved"
        return f"the number {tag}, which is for extensions" if tag in self._extensions else None


class _Numbers:
    """Numbers and ranges, in any order and with any overlap."""

    def __init__(self, values: Iterable[str | int | ast.Range]) -> None:
        ranges = sorted(
            (each.first, each.last) if isinstance(each, ast.Range) else (each, each)
            for each in values
            if not isinstance(each, str)
        )
        self._firsts = [first for first, _ in ranges]
        # The largest last number of the ranges up to each one.
        self._lasts = list(accumulate((last for _, last in ranges), max))

    def __contains__(self, tag: int) -> bool:
        index = bisect_right(self._firsts, tag)
        return index > 0 and self._lasts[index - 1] >= tag
