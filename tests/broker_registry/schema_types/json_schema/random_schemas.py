"""Random JSON schemas and changes of them, of any kind, compatible or not. A seed gives the same ones again."""

from __future__ import annotations

import copy
import json
import random
from typing import Any

from tests.broker_registry.schema_types.json_objects import objects_in

MODERN = "https://json-schema.org/draft/2020-12/schema"
DRAFTS = (None, None, "http://json-schema.org/draft-07/schema#", "http://json-schema.org/draft-04/schema#", MODERN)
DEPTH_MAX = 3
_NAMES = ("a", "b", "total", "x y", "é")
_TYPES = ("string", "integer", "number", "boolean", "null", "array", "object")
_VALUES: tuple[Any, ...] = (1, 2.5, "x", "", None, True, [1], {"a": 1})
_WRONG: tuple[Any, ...] = (*_VALUES, -1, [], {}, "object", ["string", "x"], [True], {"type": "int"}, "#/nowhere", False)


class Schemas:
    """`schema` returns one as a value of JSON."""

    def __init__(self, seed: int) -> None:
        self.source = random.Random(seed)
        self.draft = self.source.choice(DRAFTS)
        self._bucket = "$defs" if self.draft == MODERN else "definitions"
        self._is_top = True

    def schema(self) -> Any:
        if self.source.random() < 0.03:
            return self.source.choice((True, False, {}))
        found = self._object(0) if self.source.random() < 0.7 else self._any(0)
        if isinstance(found, bool):
            found = {"not": found}
        if "$ref" in json.dumps(found):
            names = ("one", "two")
            found[self._bucket] = {name: self._any(DEPTH_MAX - 1) for name in names}
            # A reference of a definition may lead to itself, which has no meaning.
            for each in found[self._bucket].values():
                if isinstance(each, dict):
                    each.pop("$ref", None)
        if self.draft is not None:
            found = {"$schema": self.draft, **found}
        return found

    def _any(self, depth: int) -> Any:
        source = self.source
        act = source.random()
        if depth >= DEPTH_MAX or act < 0.35:
            return self._plain()
        if act < 0.42:
            return source.choice((True, False, {}, {"title": "t"}))
        if act < 0.5:
            return {"$ref": f"#/{self._bucket}/{source.choice(('one', 'two'))}"}
        if act < 0.6:
            return {source.choice(("allOf", "anyOf", "oneOf")): self._several(depth)}
        if act < 0.65:
            return {"not": self._any(depth + 1)}
        if act < 0.75:
            return self._array(depth)
        if act < 0.8:
            return self._conditional(depth)
        return self._object(depth)

    def _several(self, depth: int) -> list[Any]:
        return [self._any(depth + 1) for _ in range(self.source.randrange(1, 4))]

    def _conditional(self, depth: int) -> dict[str, Any]:
        words = self.source.sample(("if", "then", "else"), self.source.randrange(1, 4))
        return {word: self._any(depth + 1) for word in words}

    def _plain(self) -> dict[str, Any]:
        source = self.source
        kind = source.choice(("string", "integer", "number", "boolean", "null", "enum", "const", "several"))
        if kind == "enum":
            found: dict[str, Any] = {"enum": source.sample(_VALUES, source.randrange(1, 4))}
        elif kind == "const":
            found = {"const": source.choice(_VALUES)}
        elif kind == "several":
            found = {"type": source.sample(_TYPES, 2)}
        else:
            found = {"type": kind} if source.random() < 0.9 else {}
            found |= self._limits(kind)
        if source.random() < 0.15:
            found[source.choice(("title", "description", "$comment", "format"))] = source.choice(("x", "date"))
        if source.random() < 0.15:
            found["default"] = source.choice(_VALUES)
        return found

    def _limits(self, kind: str) -> dict[str, Any]:
        source = self.source
        if kind == "string":
            words: dict[str, Any] = {
                "maxLength": source.randrange(9),
                "minLength": source.randrange(3),
                "pattern": "a*",
            }
        elif kind in ("integer", "number"):
            words = {
                "maximum": source.choice((5, 7.5)),
                "minimum": source.randrange(3),
                "multipleOf": source.choice((2, 4)),
            }
            if self.draft is None or "draft-04" not in self.draft:
                words["exclusiveMaximum"] = source.choice((5, 9))
        else:
            return {}
        return {word: words[word] for word in source.sample(sorted(words), source.randrange(2))}

    def _array(self, depth: int) -> dict[str, Any]:
        source = self.source
        found: dict[str, Any] = {"type": "array"}
        prefix = "prefixItems" if self.draft == MODERN else "items"
        more = "items" if self.draft == MODERN else "additionalItems"
        if source.random() < 0.4:
            found[prefix] = self._several(depth)
            if source.random() < 0.5:
                found[more] = source.choice((True, False, self._any(depth + 1)))
        elif source.random() < 0.8:
            found["items"] = self._any(depth + 1)
        for word, value in (
            ("maxItems", source.randrange(4)),
            ("minItems", source.randrange(2)),
            ("uniqueItems", True),
        ):
            if source.random() < 0.2:
                found[word] = value
        return found

    def _object(self, depth: int) -> dict[str, Any]:
        source = self.source
        names = source.sample(_NAMES, source.randrange(4))
        found: dict[str, Any] = {"type": "object", "properties": {name: self._any(depth + 1) for name in names}}
        if names and source.random() < 0.5:
            found["required"] = source.sample(names, source.randrange(1, len(names) + 1))
        if source.random() < 0.5:
            found["additionalProperties"] = source.choice((True, False, False, self._any(depth + 1)))
        if source.random() < 0.15:
            found["patternProperties"] = {source.choice(("^a", "b", "x.*")): self._any(depth + 1)}
        if source.random() < 0.1:
            found[source.choice(("maxProperties", "minProperties"))] = source.randrange(4)
        if source.random() < 0.1 and self.draft != MODERN:
            found["dependencies"] = {source.choice(_NAMES): source.choice((["b"], ["a", "b"], self._any(depth + 1)))}
        if source.random() < 0.1:
            found["title"] = source.choice(("A", "B"))
        return found

    # ------------------------------------------------------------------------------------------------ changes

    def changed(self, schema: Any) -> Any:
        """Return the schema with some changes."""
        found = copy.deepcopy(schema)
        for _ in range(self.source.choice((1, 1, 2, 3))):
            places = [each for each in objects_in(found) if each]
            if not places:
                return self.schema()
            self._change(self.source.choice(places))
        return found

    def _change(self, value: dict[str, Any]) -> None:
        source = self.source
        word = source.choice(sorted(value))
        act = source.randrange(4)
        if word in ("$schema", "$defs", "definitions", "$ref") or act == 0:
            if "properties" in value:
                value["properties"][source.choice(_NAMES)] = self._any(DEPTH_MAX - 1)
            else:
                value[source.choice(("title", "default"))] = "x"
        elif act == 1 and word != "type":
            del value[word]
        elif isinstance(value[word], dict) and word not in ("default", "const"):
            value[word] = self._any(DEPTH_MAX - 1) if word in ("items", "not", "additionalProperties") else value[word]
        elif isinstance(value[word], bool):
            value[word] = not value[word]
        elif isinstance(value[word], int | float):
            value[word] = source.choice((0, 1, 3, 8))
        elif isinstance(value[word], list) and len(value[word]) > 1:
            del value[word][source.randrange(len(value[word]))]
        elif word == "type":
            value["type"] = source.choice((*_TYPES, ["string", "null"], ["integer", "number"]))


def nearly(seed: int) -> str:
    """Return the text of a schema with one or two wrong members."""
    schemas = Schemas(seed)
    source, value = schemas.source, schemas.schema()
    for _ in range(source.choice((1, 1, 2))):
        objects = [each for each in objects_in(value) if each]
        if not objects:
            return json.dumps(source.choice(_WRONG))
        found = source.choice(objects)
        found[source.choice(sorted(found))] = copy.deepcopy(source.choice(_WRONG))
    return json.dumps(value)
