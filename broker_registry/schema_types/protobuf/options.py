"""Options in a .proto text: names with paths, and values that may be maps and lists, as Wire reads them. The merging of
options that set parts of one value is Confluent's.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Final

from broker_registry.schema_types.protobuf.ast import PRIMITIVES, Option, OptionKind, OptionValue, Primitive
from broker_registry.schema_types.protobuf.cursor import Cursor

VALUES_DEEP_MAX: Final = 32
"""How deep maps and lists may be nested in a value; readers recurse."""
OPTIONS_MAX: Final = 1_000
"""The most options of one element. Those of one name are merged, which costs the square of their number."""
_BOOLEANS: Final = frozenset(("true", "false"))


def read_options(cursor: Cursor) -> list[Option]:
    """Read `[name = value, ...]`; the list is empty if there is no bracket."""
    if not cursor.accept("["):
        return []
    options = []
    while True:
        options.append(read_option(cursor, "=", 1))
        check_count(cursor, options)
        if cursor.accept("]"):
            return options
        if not cursor.accept(","):
            cursor.fail(f"expected ',' or ']', found {cursor.found()}")


def check_count(cursor: Cursor, options: list[Option]) -> None:
    if len(options) > OPTIONS_MAX:
        cursor.fail(f"an element has more than {OPTIONS_MAX} options")


def read_option(cursor: Cursor, separator: str, depth: int) -> Option:
    """Read a name, the separator and a value. A path such as `(a).b.c = 1` becomes options within options."""
    opening = cursor.tokens[cursor.at]
    parenthesized = opening == "("
    name = cursor.name()
    if opening == "[":
        name = f"[{name}]"
    path = _path(cursor)
    # In a map, a value in braces needs no separator.
    if not (separator == ":" and cursor.tokens[cursor.at] == "{"):
        cursor.require(separator)
    kind, value = _value(cursor, depth)
    for part in reversed(path):
        value = Option(part.strip("()"), kind, value, part.startswith("("))
        kind = OptionKind.OPTION
    return Option(name, kind, value, parenthesized)


def _path(cursor: Cursor) -> list[str]:
    """Read the names behind an option's first one. Words contain dots, so that `.b.c` is one token."""
    path: list[str] = []
    while (token := cursor.tokens[cursor.at])[:1] == ".":
        cursor.at += 1
        if token != ".":
            path.extend(token[1:].split("."))
            continue
        opening = cursor.tokens[cursor.at]
        name = cursor.name()
        if opening == "(":
            path.append(f"({name})")
        elif opening == "[":
            path.append(f"[{name}]")
        else:
            path.extend(name.split("."))
        if len(path) > VALUES_DEEP_MAX:
            cursor.fail(f"the path of an option has more than {VALUES_DEEP_MAX} names")
    if len(path) > VALUES_DEEP_MAX:
        cursor.fail(f"the path of an option has more than {VALUES_DEEP_MAX} names")
    return path


def _value(cursor: Cursor, depth: int) -> tuple[OptionKind, OptionValue]:
    if depth > VALUES_DEEP_MAX:
        cursor.fail(f"values are nested deeper than {VALUES_DEEP_MAX}")
    token = cursor.tokens[cursor.at]
    if token == "{":
        return OptionKind.MAP, _map(cursor, depth)
    if token == "[":
        return OptionKind.LIST, _list(cursor, depth)
    if cursor.is_quoted():
        return OptionKind.STRING, cursor.quoted()
    word = cursor.word()
    if word[0] in "-0123456789":
        return OptionKind.NUMBER, word
    return (OptionKind.BOOLEAN if word in _BOOLEANS else OptionKind.ENUM), word


def _in_container(kind: OptionKind, value: OptionValue) -> OptionValue:
    return Primitive(kind, value) if kind in PRIMITIVES and isinstance(value, str) else value


def _map(cursor: Cursor, depth: int) -> dict[str, OptionValue]:
    """Read `{name: value, ...}`. A name that occurs again makes a list of its values."""
    cursor.require("{")
    result: dict[str, OptionValue] = {}
    repeated: dict[str, list[OptionValue]] = {}
    while not cursor.accept("}"):
        option = read_option(cursor, ":", depth + 1)
        value = _in_container(option.kind, option.value)
        previous = result.get(option.name)
        if isinstance(value, Option):
            nested = previous if isinstance(previous, dict) else {}
            nested[value.name] = value.value
            result[option.name] = nested
            repeated.pop(option.name, None)
        elif previous is None:
            result[option.name] = value
        else:
            if option.name not in repeated:
                repeated[option.name] = list(_values(previous))
            repeated[option.name].extend(_values(value))
            result[option.name] = repeated[option.name]
        if not cursor.accept(","):
            cursor.accept(";")
    return result


def _values(value: OptionValue) -> list[OptionValue]:
    return value if isinstance(value, list) else [value]


def _list(cursor: Cursor, depth: int) -> list[OptionValue]:
    cursor.require("[")
    result: list[OptionValue] = []
    while not cursor.accept("]"):
        kind, value = _value(cursor, depth + 1)
        result.append(_in_container(kind, value))
        if not cursor.accept(",") and cursor.tokens[cursor.at] != "]":
            cursor.fail(f"expected ',' or ']', found {cursor.found()}")
    return result


def as_map(option: Option) -> Option:
    """Return an option with a path as one whose value is a map; another option as it is."""
    if not isinstance(option.value, Option):
        return option
    return Option(option.name, OptionKind.MAP, _as_map(option.value), option.parenthesized)


def _as_map(rest: Option) -> dict[str, OptionValue]:
    if isinstance(rest.value, Option):
        return {rest.name: _as_map(rest.value)}
    return {rest.name: _in_container(rest.kind, rest.value)}


def joined(first: OptionValue, second: OptionValue) -> list[OptionValue]:
    """Return the values of a repeated field that two options set, each value once."""
    found: dict[Hashable, OptionValue] = {}
    for each in (*_values(first), *_values(second)):
        found.setdefault(_key(each), each)
    return list(found.values())


def _key(value: OptionValue) -> Hashable:
    """Return what equal values have in common, also those that have no hash."""
    if isinstance(value, dict):
        return frozenset((name, _key(each)) for name, each in value.items())
    if isinstance(value, list):
        return tuple(map(_key, value))
    if isinstance(value, Option):
        return value.name, value.kind, value.parenthesized, _key(value.value)
    return value


def by_name(options: tuple[Option, ...]) -> dict[str, Option]:
    """Return the options by name, without a leading dot, those of the same name merged: maps by their keys, and of
    other values the last.
    """
    result: dict[str, Option] = {}
    for option in map(as_map, options):
        name = option.name.removeprefix(".")
        existing = result.get(name)
        if existing is not None and isinstance(existing.value, dict) and isinstance(option.value, dict):
            merged = dict(existing.value)
            for key, value in option.value.items():
                merged[key] = joined(merged[key], value) if key in merged else value
            option = Option(option.name, OptionKind.MAP, merged, option.parenthesized)
        result[name] = option
    return result
