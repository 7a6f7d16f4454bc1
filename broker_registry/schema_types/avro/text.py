"""Avro schemas to text, byte for byte as `Schema.toString` of Avro's Java library: members in its order, named types in
full where they come first, by their names later.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from broker_registry.schema_types.avro.model import (
    ABSENT,
    PRIMITIVES,
    Array,
    Enumeration,
    Field,
    Fixed,
    Map,
    Named,
    Record,
    Schema,
    Union,
)
from broker_registry.schema_types.json_text import json_text


def schema_text(schema: Schema, known: Iterable[Named] = ()) -> str:
    """Return the text of a schema; the types of `known` are named only."""
    return _Printer({each.full_name for each in known}).text(schema, None)


_WORDS: Final = (*PRIMITIVES, "record", "enum", "array", "map", "union", "fixed")


class _Printer:
    def __init__(self, known: set[str]) -> None:
        self._known = known

    def text(self, schema: Schema, space: str | None) -> str:
        if isinstance(schema, Union):
            return f"[{','.join(self.text(each, space) for each in schema.branches)}]"
        if isinstance(schema, Named):
            return self._named(schema, space)
        if isinstance(schema, Array):
            middle = f',"items":{self.text(schema.items, space)}'
        elif isinstance(schema, Map):
            middle = f',"values":{self.text(schema.values, space)}'
        elif not schema.props:
            return f'"{schema.type}"'
        else:
            middle = ""
        return f'{{"type":"{schema.type}"{middle}{_props(schema.props)}}}'

    def _named(self, schema: Named, space: str | None) -> str:
        if schema.full_name in self._known:
            return json_text(_qualified(schema.full_name, space))
        self._known.add(schema.full_name)
        parts = [f'{{"type":"{schema.type}","name":{json_text(schema.name)}']
        if schema.namespace != space:
            parts.append(f',"namespace":{json_text(schema.namespace or "")}')
        if schema.doc is not None:
            parts.append(f',"doc":{json_text(schema.doc)}')
        if isinstance(schema, Record):
            fields = ",".join(self._field(each, schema.namespace) for each in schema.fields)
            parts.append(f',"fields":[{fields}]')
        elif isinstance(schema, Enumeration):
            parts.append(f',"symbols":{json_text(schema.symbols)}')
            if schema.default is not None:
                parts.append(f',"default":{json_text(schema.default)}')
        elif isinstance(schema, Fixed):
            parts.append(f',"size":{schema.size}')
        parts.append(_props(schema.props))
        if schema.aliases:
            parts.append(f',"aliases":{json_text([_qualified(each, schema.namespace) for each in schema.aliases])}')
        return "".join([*parts, "}"])

    def _field(self, field: Field, space: str | None) -> str:
        parts = [f'{{"name":{json_text(field.name)},"type":{self.text(field.schema, space)}']
        if field.doc is not None:
            parts.append(f',"doc":{json_text(field.doc)}')
        if field.default is not ABSENT:
            parts.append(f',"default":{json_text(field.default)}')
        if field.order != "ascending":
            parts.append(f',"order":"{field.order}"')
        if field.aliases:
            parts.append(f',"aliases":{json_text(field.aliases)}')
        return "".join([*parts, _props(field.props), "}"])


def _props(props: dict[str, Any]) -> str:
    return "".join(f",{json_text(key)}:{json_text(value)}" for key, value in props.items())


def _qualified(full_name: str, space: str | None) -> str:
    """Return the shortest name that leads to a type from a namespace. A word of Avro is never short."""
    namespace, _, name = full_name.rpartition(".")
    if (namespace or None) == space and name not in _WORDS:
        return name
    return full_name
