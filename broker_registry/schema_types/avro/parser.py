"""JSON text to Avro schemas, with the checks of Avro's Java library (Avro specification 1.12, "Schema Declaration").

JSON may have comments, as that library allows. Names are checked as Confluent's registry does: letters of any script
for stored schemas, ASCII letters for new ones that are checked.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final, NoReturn

from broker_registry.schema_types.avro.defaults import default_problem
from broker_registry.schema_types.avro.model import (
    ABSENT,
    PRIMITIVES,
    Array,
    Enumeration,
    Field,
    Fixed,
    Map,
    Named,
    Pending,
    Primitive,
    Record,
    Schema,
    Union,
    children,
    is_same,
    named_types,
)
from broker_registry.schema_types.base import DEPTH_MAX, InvalidSchema

_SCHEMA_RESERVED: Final = frozenset(
    {"doc", "fields", "items", "name", "namespace", "size", "symbols", "values", "type", "aliases"}
)
_ENUM_RESERVED: Final = _SCHEMA_RESERVED | {"default"}
_FIELD_RESERVED: Final = frozenset({"default", "doc", "name", "order", "type", "aliases"})
_ORDERS: Final = ("ascending", "descending", "ignore")
# A comment, or a string, in which nothing is a comment.
_COMMENT: Final = re.compile(r'"(?:[^"\\]|\\.)*"|/\*.*?\*/|//[^\n]*', re.DOTALL)
_JAVA_DOUBLE: Final = re.compile(r"([+-]?(?:NaN|Infinity|(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?))[fFdD]?")
_SIZE_MAX: Final = 0x7FFFFFFF - 8
"""The size of a fixed type: the longest array of Java."""
_STRICT_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def load_json(text: str) -> Any:
    """Return the value of a JSON text. Raises InvalidSchema, also for a comment behind it, as Java's library does."""
    bare = text
    if "/*" in text or "//" in text:
        bare = _COMMENT.sub(_blank, text)
    try:
        value, end = _DECODER.raw_decode(bare, len(bare) - len(bare.lstrip(" \t\r\n")))
    except RecursionError:
        raise InvalidSchema(f"the schema is nested deeper than {DEPTH_MAX} levels") from None
    except ValueError as error:
        raise InvalidSchema(f"the schema is no JSON: {error}") from None
    if rest := text[end:].strip():
        raise InvalidSchema(f"dangling content after end of schema: {rest[:80]}")
    return value


def _blank(found: re.Match[str]) -> str:
    """Return spaces for a comment, so that places in the text stay the same."""
    text = found.group()
    return text if text[0] == '"' else re.sub(r"[^\n]", " ", text)


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no number of JSON")


_DECODER: Final = json.JSONDecoder(parse_constant=_no_constant)


class Parser:
    """Parses texts one after another; each knows the named types of those before it.

    A name may stand before its definition, and a definition may be repeated.
    """

    def __init__(self, *, is_strict: bool) -> None:
        """`is_strict`: names are those of the specification, and defaults fit their types."""
        self._is_strict = is_strict
        self.names: dict[str, Named] = {}

    def parse(self, text: str) -> Schema:
        """Raises InvalidSchema."""
        return self._resolved(self._schema(load_json(text), None, 0))

    def _resolved(self, schema: Schema) -> Schema:
        """Put definitions in the place of the names that stood before them."""
        found = self._target(schema)
        waiting, seen = [found], set[int]()
        while waiting:
            each = waiting.pop()
            if id(each) in seen:
                continue
            seen.add(id(each))
            if isinstance(each, Array):
                each.items = self._target(each.items)
            elif isinstance(each, Map):
                each.values = self._target(each.values)
            elif isinstance(each, Union):
                each.branches = [self._target(branch) for branch in each.branches]
                _check_branches(each.branches)
            elif isinstance(each, Record):
                for field in each.fields:
                    field.schema = self._target(field.schema)
            waiting.extend(reversed(list(children(each))))
        if self._is_strict:
            for record in named_types(found):
                for field in record.fields if isinstance(record, Record) else ():
                    _check_default(field.name, field.schema, field.default)
        return found

    def _target(self, schema: Schema) -> Schema:
        if not isinstance(schema, Pending):
            return schema
        found = self.names.get(schema.target)
        if found is None:
            raise InvalidSchema(f"Undefined schema: {schema.target}")
        return found

    def _schema(self, value: Any, namespace: str | None, depth: int) -> Schema:
        if depth > DEPTH_MAX:
            raise InvalidSchema(f"the schema is nested deeper than {DEPTH_MAX} levels")
        if isinstance(value, str):
            return self._by_name(value, namespace)
        if isinstance(value, list):
            return self._union(value, namespace, depth)
        if isinstance(value, dict):
            return self._object(value, namespace, depth)
        raise InvalidSchema(f"Schema not yet supported: {json.dumps(value)}")

    def _by_name(self, name: str, namespace: str | None) -> Schema:
        if name in PRIMITIVES:
            return Primitive(name)
        full = name if "." in name or namespace is None else f"{namespace}.{name}"
        found = self.names.get(full) or self.names.get(name)
        return Pending("record", name=full, namespace=None, target=full) if found is None else found

    def _union(self, branches: Sequence[Any], namespace: str | None, depth: int) -> Union:
        found = [self._schema(each, namespace, depth + 1) for each in branches]
        if any(isinstance(each, Union) for each in found):
            raise InvalidSchema(f"Nested union: {json.dumps(branches)}")
        _check_branches([each for each in found if not isinstance(each, Pending)])
        return Union("union", branches=found)

    def _object(self, value: Mapping[str, Any], namespace: str | None, depth: int) -> Schema:
        kind = _text(value, "type")
        if kind is None:
            raise InvalidSchema(f"No type: {json.dumps(value)}")
        schema: Schema
        if kind in PRIMITIVES:
            schema = Primitive(kind)
        elif kind in ("record", "error", "enum", "fixed"):
            return self._named(kind, value, namespace, depth)
        elif kind == "array":
            if value.get("items") is None:
                raise InvalidSchema(f"Array has no items type: {json.dumps(value)}")
            schema = Array(kind, items=self._schema(value["items"], namespace, depth + 1))
        elif kind == "map":
            if value.get("values") is None:
                raise InvalidSchema(f"Map has no values type: {json.dumps(value)}")
            schema = Map(kind, values=self._schema(value["values"], namespace, depth + 1))
        else:
            return self._by_name(kind, namespace)
        schema.props = {key: each for key, each in value.items() if key not in _SCHEMA_RESERVED}
        return schema

    def _named(self, kind: str, value: Mapping[str, Any], namespace: str | None, depth: int) -> Named:
        name, space = self._name(value, namespace)
        doc, aliases = _text(value, "doc"), self._aliases(value, space)
        schema: Named
        if kind == "fixed":
            size = value.get("size")
            if not isinstance(size, int) or isinstance(size, bool) or not 0 <= size <= _SIZE_MAX:
                raise InvalidSchema(f"Invalid or no size: {json.dumps(value)}")
            schema = Fixed(kind, name=name, namespace=space, doc=doc, aliases=aliases, size=size)
        elif kind == "enum":
            symbols = self._symbols(value)
            default = _text(value, "default")
            if default is not None and default not in symbols:
                raise InvalidSchema(f"The Enum Default: {default} is not in the enum symbol set: {symbols}")
            schema = Enumeration(
                kind, name=name, namespace=space, doc=doc, aliases=aliases, symbols=symbols, default=default
            )
        else:
            schema = Record(kind, name=name, namespace=space, doc=doc, aliases=aliases)
        if isinstance(schema, Record):
            schema.fields = self._fields(schema, value, space, depth)
        reserved = _ENUM_RESERVED if kind == "enum" else _SCHEMA_RESERVED
        schema.props = {key: each for key, each in value.items() if key not in reserved}
        self._define(schema)
        return schema

    def _define(self, schema: Named) -> None:
        """Make a name known, behind its definition: within it, the name stands for itself only."""
        if self._is_strict:
            for part in (schema.namespace or "").rstrip(".").split(".") if schema.namespace else ():
                self._check_name(part, "Namespace part")
        before = self.names.setdefault(schema.full_name, schema)
        if not is_same(before, schema):
            raise InvalidSchema(f"Can't redefine: {schema.full_name}")

    def _name(self, value: Mapping[str, Any], namespace: str | None) -> tuple[str, str | None]:
        name = _text(value, "name")
        if name is None:
            raise InvalidSchema(f"No name in schema: {json.dumps(value)}")
        space, dot, last = name.rpartition(".")
        if dot:
            found: str | None = space
        elif (own := _text(value, "namespace")) is not None:
            found, last = own, name
        else:
            found, last = namespace, name
        self._check_name(last)
        if last in PRIMITIVES and not found:
            raise InvalidSchema(f"Schemas may not be named after primitives: {last}")
        return last, found or None

    def _check_name(self, name: str, kind: str = "") -> None:
        problem = _name_problem(name, is_strict=self._is_strict)
        if problem:
            raise InvalidSchema(f'{kind} "{name}" is invalid: {problem}' if kind else problem)

    def _aliases(self, value: Mapping[str, Any], space: str | None) -> list[str]:
        """Return the full names of the aliases of a type."""
        found = []
        for each in _alias_texts(value):
            own, dot, last = each.rpartition(".")
            if self._is_strict:
                self._check_name(last)
            namespace = own if dot else space
            found.append(f"{namespace}.{last}" if namespace else last)
        return list(dict.fromkeys(found))

    def _symbols(self, value: Mapping[str, Any]) -> list[str]:
        symbols = value.get("symbols")
        if not isinstance(symbols, list) or not all(isinstance(each, str) for each in symbols):
            raise InvalidSchema(f"Enum has no symbols: {json.dumps(value)}")
        for each in symbols:
            self._check_name(each)
        if len(set(symbols)) != len(symbols):
            twice = next(each for each in symbols if symbols.count(each) > 1)
            raise InvalidSchema(f"Duplicate enum symbol: {twice}")
        return list(symbols)

    def _fields(self, record: Record, value: Mapping[str, Any], space: str | None, depth: int) -> list[Field]:
        fields = value.get("fields")
        if not isinstance(fields, list):
            raise InvalidSchema(f"Record has no fields: {json.dumps(value)}")
        found: list[Field] = []
        names: set[str] = set()
        for each in fields:
            if not isinstance(each, dict):
                raise InvalidSchema(f"Field in {record.full_name} is no object: {json.dumps(each)}")
            name = _text(each, "name")
            if name is None:
                raise InvalidSchema(f"No field name: {json.dumps(each)}")
            self._check_name(name)
            if name in names:
                raise InvalidSchema(f"Duplicate field {name} in record {record.full_name}")
            names.add(name)
            found.append(self._field(name, each, space, depth))
        return found

    def _field(self, name: str, value: Mapping[str, Any], space: str | None, depth: int) -> Field:
        if value.get("type") is None:
            raise InvalidSchema(f"No field type: {json.dumps(value)}")
        schema = self._schema(value["type"], space, depth + 1)
        order = value.get("order", "ascending")
        if not isinstance(order, str) or order.lower() not in _ORDERS:
            raise InvalidSchema(f"the order of field {name} is {order!r}; allowed are {', '.join(_ORDERS)}")
        default = value.get("default", ABSENT)
        if schema.type in ("float", "double") and isinstance(default, str):
            default = _java_double(default)
        if self._is_strict:
            _check_default(name, schema, default)
        aliases = _alias_texts(value)
        props = {key: each for key, each in value.items() if key not in _FIELD_RESERVED}
        return Field(name, schema, _text(value, "doc"), default, order.lower(), aliases, props)


def _check_default(name: str, schema: Schema, default: Any) -> None:
    if default is not ABSENT and (problem := default_problem(schema, default)):
        raise InvalidSchema(f"Invalid default for field {name}: {json.dumps(default)} not a {problem}")


def _check_branches(branches: Sequence[Schema]) -> None:
    names: set[str] = set()
    for branch in branches:
        name = branch.full_name if isinstance(branch, Named) else branch.type
        if name in names:
            raise InvalidSchema(f"Duplicate in union: {name}")
        names.add(name)


def _name_problem(name: str, *, is_strict: bool) -> str:
    """Return why a part of a name is invalid; empty if it is valid."""
    if not name:
        return "Empty name"
    if is_strict and not _STRICT_NAME.fullmatch(name):
        first = name[0]
        is_first_bad = not (first == "_" or (first.isascii() and first.isalpha()))
        return f"Illegal {'initial character' if is_first_bad else 'character in'}: {name}"
    if not (_is_letter(name[0]) or name[0] == "_"):
        return f"Illegal initial character: {name}"
    is_valid = all(_is_letter(each) or each.isdecimal() or each == "_" for each in name)
    return "" if is_valid else f"Illegal character in: {name}"


def _is_letter(each: str) -> bool:
    # Java looks at the halves of characters above U+FFFF, which are not letters.
    return each.isalpha() and each <= "\uffff"


def _alias_texts(value: Mapping[str, Any]) -> list[str]:
    found = value.get("aliases", [])
    if not isinstance(found, list) or not all(isinstance(each, str) for each in found):
        raise InvalidSchema(f"aliases not an array of strings: {json.dumps(found)}")
    return list(dict.fromkeys(found))


def _java_double(text: str) -> float:
    """Return the number of a text, by the rules of Java's Double.parseDouble but for numbers to the base 16."""
    found = _JAVA_DOUBLE.fullmatch(text.strip())
    if found is None:
        raise InvalidSchema(f"the default {text!r} is no number")
    return float(found[1])


def _text(value: Mapping[str, Any], name: str) -> str | None:
    """Return a member of type text; members of other types are as good as absent, as in Java."""
    found = value.get(name)
    return found if isinstance(found, str) else None
