"""Random Avro schemas, changes of them that readers may survive or not, and texts that are nearly schemas. A seed gives
the same ones again.
"""

from __future__ import annotations

import copy
import json
import random
from typing import Any

from tests.broker_registry.schema_types.json_objects import objects_in

DEPTH_MAX = 4
_PRIMITIVES = ("null", "boolean", "int", "long", "float", "double", "bytes", "string")
_LOGICAL = (
    {"type": "int", "logicalType": "date"},
    {"type": "long", "logicalType": "timestamp-millis"},
    {"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 2},
    {"type": "string", "logicalType": "uuid"},
    {"type": "string", "avro.java.string": "String"},
)
_FIELDS = ("id", "total", "a", "b", "Note", "_x9")
_SYMBOLS = ("A", "B", "C", "NONE", "unknown")
_SPACES = (None, None, "", "x", "x.y", "z")
_DOCS = ("", "text", 'with "quotes" and é', "a\nb")
_PROPS: tuple[tuple[str, Any], ...] = (
    ("p", 1),
    ("p", 1.5e10),
    ("connect.name", "x"),
    ("q", [1, None, {"b": True, "a": 0.1}]),
    ("r", {}),
)
_DEFAULTS: dict[str, tuple[Any, ...]] = {
    "null": (None,),
    "boolean": (True, False),
    "int": (0, -5, 7.0),
    "long": (1, 2**40),
    "float": (1.5, 1, 1e-7),
    "double": (0.25, 123456789012345680.0, 3),
    "bytes": ("", "\u00ff"),
    "string": ("", "é"),
}
_WRONG: tuple[Any, ...] = (None, True, 0, -1, 2**31, 1.5, "", "x", "1x", "a-b", "int", "x.y", [], {}, ["int"], {"a": 1})


class Schemas:
    """`schema` returns one as a value of JSON; named types have names of their own in it."""

    def __init__(self, seed: int) -> None:
        self.source = random.Random(seed)
        self._count = 0
        # Full names of the types so far, with their values.
        self._known: list[str] = []

    def schema(self, depth: int = 0, space: str | None = None) -> Any:
        source = self.source
        kind = source.choice(("record",) * 3 + ("array", "map", "union", "enum", "fixed", "logical", "known", "plain"))
        if depth == 0:
            kind = source.choice(("record", "record", "record", kind))
        if kind == "known" and self._known:
            return source.choice(self._known)
        if depth >= DEPTH_MAX or kind in ("plain", "known"):
            name = source.choice(_PRIMITIVES)
            return source.choice((name, name, name, {"type": name}, self._with_more({"type": name})))
        if kind == "logical":
            return dict(source.choice(_LOGICAL))
        if kind == "array":
            return self._with_more({"type": "array", "items": self.schema(depth + 1, space)})
        if kind == "map":
            return self._with_more({"type": "map", "values": self.schema(depth + 1, space)})
        if kind == "union":
            return [self._branch(depth, space, each) for each in source.sample(_PRIMITIVES, source.randrange(1, 4))]
        return self._named(kind, depth, space)

    def _branch(self, depth: int, space: str | None, plain: str) -> Any:
        if self.source.random() < 0.3:
            return self._named(self.source.choice(("record", "enum", "fixed")), depth + 1, space)
        return plain

    def _named(self, kind: str, depth: int, space: str | None) -> dict[str, Any]:
        source = self.source
        self._count += 1
        name, own = f"T{self._count}", source.choice(_SPACES)
        found: dict[str, Any] = {"type": kind, "name": name}
        inner = space
        if own is not None:
            if own and source.random() < 0.3:
                found["name"] = f"{own}.{name}"
            else:
                found["namespace"] = own
            inner = own or None
        self._known.append(f"{inner}.{name}" if inner else name)
        if kind == "enum":
            found["symbols"] = source.sample(_SYMBOLS, source.randrange(1, 5))
            if source.random() < 0.3:
                found["default"] = source.choice(found["symbols"])
        elif kind == "fixed":
            found["size"] = source.choice((0, 1, 16))
        else:
            names = source.sample(_FIELDS, source.randrange(5))
            found["fields"] = [self.field(each, depth, inner) for each in names]
        if source.random() < 0.2:
            found["doc"] = source.choice(_DOCS)
        if source.random() < 0.2:
            found["aliases"] = source.sample(("Old", "x.Old", "T1", "z.T2", "Old"), 2)
        return self._with_more(found)

    def field(self, name: str, depth: int, space: str | None) -> dict[str, Any]:
        source = self.source
        kind = self.schema(depth + 1, space)
        found: dict[str, Any] = {"name": name, "type": kind}
        if source.random() < 0.4:
            default = self._default(kind)
            if default is not ...:
                found["default"] = default
        if source.random() < 0.15:
            found["order"] = source.choice(("ascending", "descending", "ignore", "IGNORE"))
        if source.random() < 0.2:
            found["doc"] = source.choice(_DOCS)
        if source.random() < 0.2:
            found["aliases"] = source.sample((*_FIELDS, "old"), source.randrange(3))
        return self._with_more(found)

    def _default(self, kind: Any) -> Any:
        """Return a default that fits, mostly; `...` for none."""
        source = self.source
        if source.random() < 0.08:
            return source.choice(_WRONG)
        if isinstance(kind, list):
            return self._default(source.choice(kind))
        name = kind["type"] if isinstance(kind, dict) else kind
        if isinstance(name, str) and name in _DEFAULTS:
            return source.choice(_DEFAULTS[name])
        if name == "array":
            return [] if source.random() < 0.5 else [each for each in [self._default(kind["items"])] if each is not ...]
        if name == "map":
            found = self._default(kind["values"])
            return {} if found is ... else {"k": found}
        if name == "enum":
            return source.choice(kind["symbols"])
        if name == "fixed":
            return "\u0001" * int(kind["size"])
        return ...

    def _with_more(self, found: dict[str, Any]) -> dict[str, Any]:
        """Return an object with properties, or with its members in another order, at times."""
        source = self.source
        if source.random() < 0.15:
            name, value = source.choice(_PROPS)
            found[name] = value
        if source.random() < 0.2:
            members = list(found.items())
            source.shuffle(members)
            return dict(members)
        return found

    # ------------------------------------------------------------------------------------------------ changes

    def changed(self, schema: Any) -> Any:
        """Return the schema with some changes, as the next version of a subject has them."""
        found = copy.deepcopy(schema)
        for _ in range(self.source.choice((1, 1, 2, 3))):
            places = [each for each in objects_in(found) if each.get("type") in ("record", "enum", "fixed")]
            if not places or self.source.random() < 0.1:
                return self._promoted(found)
            self._change(self.source.choice(places))
        return found

    def _change(self, value: dict[str, Any]) -> None:
        source = self.source
        if source.random() < 0.15:
            value["aliases"] = [value["name"]]
            value["name"] = source.choice(("Renamed", "T1", "x.T2"))
        elif value["type"] == "fixed":
            value["size"] = source.choice((1, 2, 16))
        elif value["type"] == "enum":
            value["symbols"] = source.sample(_SYMBOLS, source.randrange(1, 5))
            value.pop("default", None)
            if source.random() < 0.3:
                value["default"] = value["symbols"][0]
        else:
            self._change_fields(value["fields"])

    def _change_fields(self, fields: list[dict[str, Any]]) -> None:
        source = self.source
        act = source.randrange(7)
        if not fields or act == 0:
            name = source.choice(_FIELDS)
            if all(each["name"] != name for each in fields):
                fields.insert(source.randrange(len(fields) + 1), self.field(name, DEPTH_MAX - 1, None))
            return
        field = source.choice(fields)
        if act == 1:
            fields.remove(field)
        elif act == 2:
            field["type"] = self._promoted(field["type"])
        elif act == 3:
            field["aliases"] = [field["name"]]
            field["name"] = "renamed"
        elif act == 4:
            field.pop("default", None)
        elif act == 5:
            field["type"] = self.schema(DEPTH_MAX - 1)
            field.pop("default", None)
        else:
            source.shuffle(fields)

    def _promoted(self, kind: Any) -> Any:
        source = self.source
        if isinstance(kind, list):
            return source.choice((kind[1:], [*kind, "x.Missing"], kind[::-1], kind[:1], kind[0] if kind else kind))
        if isinstance(kind, str):
            return source.choice(("long", "float", "double", "bytes", "string", ["null", kind], [kind, "null"]))
        return source.choice((["null", kind], [kind], {"type": "array", "items": kind}))


def nearly(seed: int) -> str:
    """Return the text of a schema with one or two wrong members, or with a wrong character."""
    schemas = Schemas(seed)
    source, value = schemas.source, schemas.schema()
    for _ in range(source.choice((1, 1, 2))):
        objects = [each for each in objects_in(value) if each]
        if not objects:
            return json.dumps(source.choice(_WRONG))
        found = source.choice(objects)
        name = source.choice(list(found))
        act = source.randrange(4)
        if act == 0:
            del found[name]
        elif act == 1:
            found[source.choice(("name", "namespace", "type", "doc", "aliases", "default", "order"))] = found[name]
        else:
            found[name] = copy.deepcopy(source.choice(_WRONG))
    text = json.dumps(value)
    if source.random() < 0.1:
        at = source.randrange(len(text))
        text = text[:at] + source.choice(("", " ", "/* c */", "// c\n", ",", "'", "\\", "}", "NaN", "01")) + text[at:]
    return text
