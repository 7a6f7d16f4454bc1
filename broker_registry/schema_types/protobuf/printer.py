"""The text of a file as Confluent's registry stores it, byte for byte: ids depend on it. It has the form of Wire's
printer without comments, with messages before enums, and a list of options on lines of its own.

A type's text begins behind its opening brace with a line break for each section, so that sections are separated by an
empty line; inside a nested type an empty line keeps the indentation of that type.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from broker_registry.schema_types.base import InvalidSchema
from broker_registry.schema_types.protobuf import ast
from broker_registry.schema_types.protobuf.ast import OptionKind

_ESCAPES: Final = str.maketrans(
    {
        "\a": "\\a",
        "\b": "\\b",
        "\f": "\\f",
        "\n": "\\n",
        "\r": "\\r",
        "\t": "\\t",
        "\v": "\\v",
        "\\": "\\\\",
        "'": "\\'",
        '"': '\\"',
    }
)
_NUMBERS: Final = ast.SCALARS - {"bool", "string"}


def print_file(file: ast.File) -> str:
    """Return the text of a file. Raises InvalidSchema for a map whose keys have no type of keys."""
    lines: list[str] = []
    if file.syntax is not None:
        lines.append(f'syntax = "{file.syntax}";')
    if file.package is not None:
        lines.append(f"package {file.package};")
    if file.imports or file.public_imports:
        lines.append("")
        lines.extend(f'import "{each}";' for each in file.imports)
        lines.extend(f'import public "{each}";' for each in file.public_imports)
    if file.options:
        lines.append("")
        _statements(lines, file.options, "")
    if file.types:
        lines.append("")
        _types(lines, file.types, "")
    if file.extends:
        lines.append("")
        for extend in file.extends:
            _extend(lines, extend, "")
    if file.services:
        lines.append("")
        for service in file.services:
            _service(lines, service)
    lines.append("")
    return "\n".join(lines)


def _types(lines: list[str], types: Iterable[ast.Type], indent: str) -> None:
    for each in types:
        if isinstance(each, ast.Message):
            _message(lines, each, indent)
    for each in types:
        if isinstance(each, ast.EnumType):
            _enum(lines, each, indent)


class _Body:
    """The sections of a type: the first begins behind the opening brace, the others behind an empty line."""

    def __init__(self, lines: list[str], head: str, indent: str) -> None:
        self._lines = lines
        self._indent = indent
        self._head: str | None = head

    def section(self) -> None:
        if self._head is None:
            self._lines.append(self._indent)
        else:
            self._lines.append(self._head)
            self._head = None

    def end(self) -> None:
        self._lines.append(f"{self._indent}}}" if self._head is None else f"{self._head}}}")


def _message(lines: list[str], message: ast.Message, indent: str) -> None:
    body = _Body(lines, f"{indent}message {message.name} {{", indent)
    inner = indent + "  "
    if message.reserved:
        body.section()
        for reserved in message.reserved:
            lines.append(f"{inner}reserved {_values(reserved.values)};")
    if message.options:
        body.section()
        _statements(lines, message.options, inner)
    if message.fields:
        body.section()
        _fields(lines, message.fields, inner)
    if message.oneofs:
        body.section()
        for oneof in message.oneofs:
            _oneof(lines, oneof, inner)
    if message.groups:
        body.section()
        _groups(lines, message.groups, inner)
    if message.extensions:
        body.section()
        for extensions in message.extensions:
            options = _bracketed(extensions.options, inner)
            lines.append(f"{inner}extensions {_values(extensions.values)}{options};")
    if message.extends:
        body.section()
        for extend in message.extends:
            _extend(lines, extend, inner)
    if message.types:
        body.section()
        _types(lines, message.types, inner)
    body.end()


def _enum(lines: list[str], enum: ast.EnumType, indent: str) -> None:
    body = _Body(lines, f"{indent}enum {enum.name} {{", indent)
    inner = indent + "  "
    if enum.reserved or enum.options or enum.values:
        body.section()
    for reserved in enum.reserved:
        lines.append(f"{inner}reserved {_values(reserved.values)};")
    _statements(lines, enum.options, inner)
    for value in enum.values:
        options = _bracketed(value.options, inner) if value.options else ""
        lines.append(f"{inner}{value.name} = {value.tag}{options};")
    body.end()


def _oneof(lines: list[str], oneof: ast.OneOf, indent: str) -> None:
    body = _Body(lines, f"{indent}oneof {oneof.name} {{", indent)
    inner = indent + "  "
    if oneof.options:
        body.section()
        _statements(lines, oneof.options, inner)
    if oneof.fields:
        body.section()
        _fields(lines, oneof.fields, inner)
    if oneof.groups:
        body.section()
        _groups(lines, oneof.groups, inner)
    body.end()


def _groups(lines: list[str], groups: Iterable[ast.Group], indent: str) -> None:
    for group in groups:
        label = f"{group.label} " if group.label else ""
        body = _Body(lines, f"{indent}{label}group {group.name} = {group.tag} {{", indent)
        if group.fields:
            body.section()
            _fields(lines, group.fields, indent + "  ")
        body.end()


def _extend(lines: list[str], extend: ast.Extend, indent: str) -> None:
    body = _Body(lines, f"{indent}extend {extend.name} {{", indent)
    if extend.fields:
        body.section()
        _fields(lines, extend.fields, indent + "  ")
    body.end()


def _service(lines: list[str], service: ast.Service) -> None:
    body = _Body(lines, f"service {service.name} {{", "")
    if service.options:
        body.section()
        _statements(lines, service.options, "  ")
    if service.rpcs:
        body.section()
    for rpc in service.rpcs:
        request = f"stream {rpc.request}" if rpc.streams_request else rpc.request
        response = f"stream {rpc.response}" if rpc.streams_response else rpc.response
        line = f"  rpc {rpc.name} ({request}) returns ({response})"
        if rpc.options:
            lines.append(line + " {")
            _statements(lines, rpc.options, "    ")
            lines.append("  };")
        else:
            lines.append(line + ";")
    body.end()


def _fields(lines: list[str], fields: Iterable[ast.Field], indent: str) -> None:
    for field in fields:
        if field.type.startswith("map<"):
            check_map(field.type)
        line = f"{indent}{field.type} {field.name} = {field.tag}"
        if field.label:
            line = f"{indent}{field.label} {line[len(indent) :]}"
        options = with_special_values(field)
        lines.append(f"{line}{_bracketed(options, indent)};" if options else f"{line};")


def check_map(type_name: str) -> None:
    """Raise InvalidSchema for a map, or a map in it, that has no keys of an allowed type."""
    while types := ast.map_types(type_name):
        key, type_name = types
        if not ast.may_be_key(key):
            raise InvalidSchema(f"map key must be non-byte, non-floating point scalar: {key}")


def with_special_values(field: ast.Field) -> ast.Options:
    """Return the options of a field, and behind them its default and its name in JSON, which are written as such."""
    if field.default is None and field.json_name is None:
        return field.options
    options = list(field.options)
    if field.default is not None:
        options.append(ast.Option("default", _kind_of_default(field.type), field.default))
    if field.json_name is not None:
        options.append(ast.Option("json_name", OptionKind.STRING, field.json_name))
    return tuple(options)


def _kind_of_default(type_name: str) -> OptionKind:
    """A default of type bytes is written as a number, without quotes, as Wire does."""
    simple = type_name.rpartition(".")[2]
    if simple == "bool":
        return OptionKind.BOOLEAN
    if simple == "string":
        return OptionKind.STRING
    return OptionKind.NUMBER if simple in _NUMBERS else OptionKind.ENUM


def _values(values: Sequence[str | int | ast.Range]) -> str:
    parts = []
    for each in values:
        if isinstance(each, ast.Range):
            parts.append(f"{each.first} to {each.last if each.last < ast.TAG_MAX else 'max'}")
        else:
            parts.append(f'"{each}"' if isinstance(each, str) else str(each))
    return ", ".join(parts)


def _statements(lines: list[str], options: Iterable[ast.Option], indent: str) -> None:
    for option in options:
        lines.append(f"{indent}option {_indented(option_text(option), indent)};")


def _indented(text: str, indent: str) -> str:
    """Indent all lines of a text but the first."""
    return text.replace("\n", "\n" + indent) if "\n" in text else text


def _bracketed(options: ast.Options, indent: str) -> str:
    """Return ` [...]` with the options; more than one stand on lines of their own."""
    return f" {_indented(_list(options), indent)}" if options else ""


def _list(values: Sequence[ast.OptionValue]) -> str:
    if len(values) == 1:
        return f"[{_value(values[0])}]"
    return "[\n" + _entries([_value(each) for each in values]) + "]"


def option_text(option: ast.Option) -> str:
    """Return `name = value`."""
    name = f"({option.name})" if option.parenthesized else option.name
    value = option.value
    if option.kind is OptionKind.OPTION and isinstance(value, ast.Option):
        return f"{name}.{option_text(value)}"
    if option.kind is OptionKind.STRING:
        return f"{name} = {_quoted(str(value))}"
    if isinstance(value, dict):
        return f"{name} = {_map(value)}"
    if isinstance(value, list):
        return f"{name} = {_list(value)}"
    return f"{name} = {value}"


def _quoted(text: str) -> str:
    return f'"{text.translate(_ESCAPES)}"'


def _map(values: dict[str, ast.OptionValue]) -> str:
    return "{\n" + _entries([f"{key}: {_value(value)}" for key, value in values.items()]) + "}"


def _entries(texts: Sequence[str]) -> str:
    """Return each text in lines of its own, indented, with commas between them."""
    return "".join(
        f"  {_indented(text, '  ')}{',' if index < len(texts) else ''}\n" for index, text in enumerate(texts, start=1)
    )


def _value(value: ast.OptionValue) -> str:
    if isinstance(value, str):
        return _quoted(value)
    if isinstance(value, ast.Primitive):
        return value.value
    if isinstance(value, ast.Option):
        return option_text(value)
    if isinstance(value, dict):
        return _map(value)
    return "[\n" + _entries([_value(each) for each in value]) + "]"
