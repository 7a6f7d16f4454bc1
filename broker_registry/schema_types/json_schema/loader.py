"""JSON documents to shapes. A reference leads into the document, or into one that the registry's references name.

Nothing is fetched from the network: a reference to any other address is an error, but for those of meta-schemas, which
stand for any value.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final
from urllib.parse import urldefrag, urljoin

from broker_registry.schema_types.base import DEPTH_MAX, InvalidSchema, Resolved
from broker_registry.schema_types.json_schema.documents import CONDITIONS, Document, value_at, value_of_anchor
from broker_registry.schema_types.json_schema.model import (
    ABSENT,
    Anything,
    Array,
    Boolean,
    Combined,
    Conditional,
    Constant,
    Enumeration,
    Not,
    Nothing,
    Null,
    Number,
    Object,
    ReferenceTo,
    Shape,
    String,
)

_META: Final = re.compile(r"https?://json-schema\.org/draft(-0[3467]|/2019-09|/2020-12)/(hyper-)?schema#?$")
_COMBINATIONS: Final = ("allOf", "anyOf", "oneOf")
_STRING_WORDS: Final = frozenset({"maxLength", "minLength", "pattern"})
_NUMBER_WORDS: Final = frozenset({"maximum", "minimum", "exclusiveMaximum", "exclusiveMinimum", "multipleOf"})
_ARRAY_WORDS: Final = frozenset(
    {"items", "prefixItems", "additionalItems", "maxItems", "minItems", "uniqueItems", "contains", "unevaluatedItems"}
)
_OBJECT_WORDS: Final = frozenset(
    {
        "properties",
        "patternProperties",
        "additionalProperties",
        "required",
        "maxProperties",
        "minProperties",
        "dependencies",
        "dependentRequired",
        "dependentSchemas",
        "propertyNames",
        "unevaluatedProperties",
    }
)
_TYPES: Final = ("string", "integer", "number", "boolean", "null", "array", "object")


def json_of(value: Any) -> str:
    """Return the one text of a value, with the members of objects sorted."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"))


class Loader:
    """Loads one document; `references` are the others that it may name."""

    def __init__(self, root: Any, references: Sequence[Resolved], *, is_checked: bool) -> None:
        """`is_checked`: a reference that leads nowhere is an error now, and not when it is followed."""
        base = root.get("$id") if isinstance(root, dict) else None
        self._main = Document(root, base if isinstance(base, str) else "")
        self._documents = {urldefrag(self._main.address)[0]: self._main}
        for each in references:
            try:
                found = Document(json.loads(each.text), each.name)
            except ValueError as error:
                raise InvalidSchema(f"the reference {each.name} is no JSON: {error}") from None
            for name in {each.name, urljoin(self._main.address, each.name)}:
                self._documents[urldefrag(name)[0]] = found
            own = found.root.get(found.id_word) if isinstance(found.root, dict) else None
            if isinstance(own, str):
                self._documents.setdefault(urldefrag(own)[0], found)
        self.is_checked = is_checked
        if is_checked and isinstance(root, dict) and not isinstance(root.get("$schema", ""), str):
            raise InvalidSchema(f"#/$schema: a text is expected, found {json_of(root['$schema'])[:80]}")
        # (document, path) -> shape, so that a pointer always leads to the same one.
        self._shapes: dict[tuple[str, str], Shape] = {}
        self._open: list[tuple[Document, ReferenceTo]] = []

    def load(self) -> Shape:
        """Raises InvalidSchema."""
        found = self._shape(self._main, self._main.root, "#", 0)
        while self._open:
            document, reference = self._open.pop()
            reference.target = self._target(document, reference.reference)
            if reference.target is None and self.is_checked:
                raise InvalidSchema(f"the reference {reference.reference} leads nowhere, and nothing is fetched")
        return found

    # ------------------------------------------------------------------------------------------------ references

    def _target(self, document: Document, reference: str) -> Shape | None:
        if _META.match(reference):
            return self._shapes.setdefault((reference, "#"), Anything(text=json_of({"$ref": reference})))
        address, fragment = urldefrag(urljoin(document.address, reference) if document.address else reference)
        if reference.startswith("#"):
            other: Document | None = document
        else:
            other = self._documents.get(address) or self._documents.get(urldefrag(reference)[0])
            if other is None and reference.startswith("./"):
                other = self._documents.get(urldefrag(reference[2:])[0])
        if other is None:
            return None
        if not fragment:
            return self._shape(other, other.root, "#", 0)
        path = f"#{fragment}"
        value = (
            value_at(other.root, fragment)
            if fragment.startswith("/")
            else value_of_anchor(other.root, fragment, other.id_word)
        )
        return None if value is ABSENT else self._shape(other, value, path, 0)

    # ------------------------------------------------------------------------------------------------ shapes

    def _shape(self, document: Document, value: Any, path: str, depth: int) -> Shape:
        if depth > DEPTH_MAX:
            raise InvalidSchema(f"the schema is nested deeper than {DEPTH_MAX} levels")
        key = (document.address + "|" + str(id(document)), path)
        found = self._shapes.get(key)
        if found is None:
            found = _Reader(self, document, path, depth).shape(value)
            self._shapes[key] = found
        return found

    def child(self, document: Document, value: Any, path: str, depth: int) -> Shape:
        return self._shape(document, value, path, depth)

    def refer(self, document: Document, reference: str) -> ReferenceTo:
        found = ReferenceTo(text=json_of({"$ref": reference}), reference=reference)
        self._open.append((document, found))
        return found


class _Reader:
    """Makes the shape of one JSON value."""

    def __init__(self, loader: Loader, document: Document, path: str, depth: int) -> None:
        self._loader, self._document, self._path, self._depth = loader, document, path, depth

    def shape(self, value: Any) -> Shape:
        if value is True:
            return Anything(text="true", is_literal=True)
        if value is False:
            return Nothing(text="false")
        if not isinstance(value, dict):
            raise InvalidSchema(f"{self._path}: an object or a boolean is expected, found {json_of(value)[:80]}")
        parts = self._parts(value)
        if self._loader.is_checked:
            self._check(value, str, "title", "description")
        found = parts[0] if len(parts) == 1 else Combined(criterion="allOf", parts=parts) if parts else Anything()
        if isinstance(found, ReferenceTo) and not self._document.is_modern:
            return found
        found.text = json_of(value)
        found.id = _text(value.get(self._document.id_word))
        found.title, found.description = _text(value.get("title")), _text(value.get("description"))
        found.default = value.get("default", ABSENT)
        found.connect_type = _text(value.get("connect.type"))
        return found

    def _parts(self, value: Mapping[str, Any]) -> list[Shape]:
        reference = value.get("$ref", ABSENT)
        parts: list[Shape] = []
        if reference is not ABSENT:
            if not isinstance(reference, str):
                raise InvalidSchema(f"{self._path}/$ref: a text is expected, found {json_of(reference)[:80]}")
            parts.append(self._loader.refer(self._document, reference))
            if not self._document.is_modern:
                # Before 2019-09, members beside $ref have no meaning.
                return parts
        if "enum" in value:
            values = self._list(value, "enum")
            parts.append(Enumeration(text=json_of({"enum": values}), values=frozenset(map(json_of, values))))
        for word in _COMBINATIONS:
            if word in value:
                inner = [self._child(each, f"{word}/{index}") for index, each in enumerate(self._list(value, word))]
                parts.append(Combined(text=json_of({word: value[word]}), criterion=word, parts=inner))
        if "not" in value:
            parts.append(Not(text=json_of({"not": value["not"]}), inner=self._child(value["not"], "not")))
        if "const" in value and not self._document.is_draft_4:
            parts.append(Constant(text=json_of({"const": value["const"]}), value=json_of(value["const"])))
        used, typed = self._typed(value)
        parts += typed
        return parts + self._untyped(value, used)

    def _typed(self, value: Mapping[str, Any]) -> tuple[frozenset[str], list[Shape]]:
        """Return the keywords that belong to the named types, and the shapes of these."""
        kinds = value.get("type", ABSENT)
        if kinds is ABSENT:
            return frozenset(), []
        names = kinds if isinstance(kinds, list) else [kinds]
        for name in names:
            if not isinstance(name, str) or name not in _TYPES:
                raise InvalidSchema(f"{self._path}/type: {json_of(name)} is no type; allowed are {', '.join(_TYPES)}")
        shapes = [self._of_type(name, value) for name in names]
        used = frozenset[str]().union(*(_WORDS.get(name, frozenset()) for name in names))
        if isinstance(kinds, list):
            return used, [Combined(text=json_of({"type": kinds}), criterion="anyOf", parts=shapes)]
        return used, shapes

    def _untyped(self, value: Mapping[str, Any], used: frozenset[str]) -> list[Shape]:
        """Return the shapes of keywords whose type is not named."""
        names = (
            (_ARRAY_WORDS, "array"),
            (_OBJECT_WORDS, "object"),
            (_NUMBER_WORDS, "number"),
            (_STRING_WORDS, "string"),
        )
        found = [self._of_type(name, value) for words, name in names if (words - used) & value.keys()]
        if "format" in value and not self._document.is_modern and not (_STRING_WORDS & (used | value.keys())):
            # Up to draft 7, a format is one of a text, also beside another type.
            found.append(self._of_type("string", value))
        if self._document.conditions & value.keys():
            for word in sorted(CONDITIONS & value.keys()):
                self._child(value[word], word)
            found.append(Conditional(text=json_of({word: value.get(word) for word in sorted(CONDITIONS)})))
        return found

    def _of_type(self, name: str, value: Mapping[str, Any]) -> Shape:
        if self._loader.is_checked and name in _KINDS_OF:
            self._check(value, *_KINDS_OF[name])
        if name == "string":
            found: Shape = String(
                max_length=self._count(value, "maxLength"),
                min_length=self._count(value, "minLength"),
                pattern=_text(value.get("pattern")),
            )
        elif name in ("integer", "number"):
            found = self._number(value, is_integer=name == "integer")
        elif name == "array":
            found = self._array(value)
        elif name == "object":
            found = self._object(value)
        else:
            found = Boolean() if name == "boolean" else Null()
        words = _WORDS.get(name, frozenset())
        found.text = json_of({"type": name, **{word: value[word] for word in words & value.keys()}})
        return found

    def _number(self, value: Mapping[str, Any], *, is_integer: bool) -> Number:
        def bound(word: str) -> float | None:
            each = value.get(word)
            if each is None or (isinstance(each, bool) and word in ("exclusiveMaximum", "exclusiveMinimum")):
                # In draft 4 this is a boolean that belongs to the bound.
                return None
            if not isinstance(each, int | float) or isinstance(each, bool):
                raise InvalidSchema(f"{self._path}/{word}: a number is expected, found {json_of(each)[:80]}")
            return each

        return Number(
            maximum=bound("maximum"),
            minimum=bound("minimum"),
            exclusive_maximum=bound("exclusiveMaximum"),
            exclusive_minimum=bound("exclusiveMinimum"),
            multiple_of=bound("multipleOf"),
            is_integer=is_integer,
        )

    def _array(self, value: Mapping[str, Any]) -> Array:
        found = Array(
            max_items=self._count(value, "maxItems"),
            min_items=self._count(value, "minItems"),
            is_unique=value.get("uniqueItems") is True,
        )
        items, more = value.get("items"), value.get("additionalItems")
        self._check_old(items, "items")
        prefix = value.get("prefixItems") if self._document.is_modern else None
        if isinstance(items, list):
            found.prefix = [self._child(each, f"items/{index}") for index, each in enumerate(items)]
        elif prefix is not None:
            prefixes = self._list(value, "prefixItems")
            found.prefix = [self._child(each, f"prefixItems/{index}") for index, each in enumerate(prefixes)]
            more = items
        elif items is not None:
            if self._document.is_modern and items is False:
                found.allows_more = False
            elif not (self._document.is_modern and items is True):
                found.items = self._child(items, "items")
        if more is False:
            found.allows_more = False
        elif more is not None and more is not True:
            found.more = self._child(more, "items" if prefix is not None else "additionalItems")
        if "contains" in value:
            self._child(value["contains"], "contains")
            if self._document.is_modern:
                found.min_contains = self._count(value, "minContains", 1)
                found.max_contains = self._count(value, "maxContains")
        if "unevaluatedItems" in value and self._document.is_modern:
            found.unevaluated = self._child(value["unevaluatedItems"], "unevaluatedItems")
        return found

    def _object(self, value: Mapping[str, Any]) -> Object:
        found = Object(
            properties=self._children(value, "properties"),
            patterns=self._children(value, "patternProperties"),
            max_properties=self._count(value, "maxProperties"),
            min_properties=self._count(value, "minProperties"),
        )
        if "required" in value and not isinstance(value["required"], bool):
            found.required = self._texts(value, "required")
        more = value.get("additionalProperties", True)
        if more is False:
            found.allows_more = False
        elif more is not True:
            found.more = self._child(more, "additionalProperties")
        if "unevaluatedProperties" in value and self._document.is_modern:
            found.unevaluated = self._child(value["unevaluatedProperties"], "unevaluatedProperties")
        for word in ("dependencies", "dependentRequired", "dependentSchemas"):
            for name, each in self._members(value, word).items():
                if isinstance(each, list):
                    found.needs[name] = self._texts(self._members(value, word), name)
                else:
                    self._check_old(each, f"{word}/{name}")
                    found.needs_schema[name] = self._child(each, f"{word}/{name}")
        return found

    # ------------------------------------------------------------------------------------------------ members

    def _child(self, value: Any, path: str) -> Shape:
        return self._loader.child(self._document, value, f"{self._path}/{path}", self._depth + 1)

    def _children(self, value: Mapping[str, Any], word: str) -> dict[str, Shape]:
        return {name: self._child(each, f"{word}/{name}") for name, each in self._members(value, word).items()}

    def _members(self, value: Mapping[str, Any], word: str) -> Mapping[str, Any]:
        found = value.get(word, {})
        if not isinstance(found, dict):
            raise InvalidSchema(f"{self._path}/{word}: an object is expected, found {json_of(found)[:80]}")
        return found

    def _list(self, value: Mapping[str, Any], word: str) -> list[Any]:
        found = value[word]
        if not isinstance(found, list):
            raise InvalidSchema(f"{self._path}/{word}: a list is expected, found {json_of(found)[:80]}")
        return found

    def _texts(self, value: Mapping[str, Any], word: str) -> list[str]:
        found = self._list(value, word)
        wrong = [each for each in found if not isinstance(each, str)]
        if wrong and self._loader.is_checked:
            raise InvalidSchema(f"{self._path}/{word}: texts are expected, found {json_of(wrong[0])[:80]}")
        return [each for each in found if isinstance(each, str)]

    def _check_old(self, value: Any, path: str) -> None:
        if self._loader.is_checked and self._document.is_draft_4 and isinstance(value, bool):
            raise InvalidSchema(f"{self._path}/{path}: an object is expected, found {json_of(value)}")

    def _check(self, value: Mapping[str, Any], kind: type, *words: str) -> None:
        """Raise InvalidSchema if a word has a value of another type."""
        for word in words:
            if word in value and not isinstance(value[word], kind):
                found = json_of(value[word])[:80]
                raise InvalidSchema(f"{self._path}/{word}: {_NAMES[kind]} is expected, found {found}")

    def _count(self, value: Mapping[str, Any], word: str, default: int | None = None) -> int | None:
        found = value.get(word, default)
        if found is None:
            return None
        if isinstance(found, bool) or not isinstance(found, int | float) or found != int(found):
            raise InvalidSchema(f"{self._path}/{word}: a whole number is expected, found {json_of(found)[:80]}")
        return int(found)


_WORDS: Final[Mapping[str, frozenset[str]]] = {
    "string": _STRING_WORDS,
    "integer": _NUMBER_WORDS,
    "number": _NUMBER_WORDS,
    "array": _ARRAY_WORDS,
    "object": _OBJECT_WORDS,
}


_NAMES: Final[Mapping[type, str]] = {str: "a text", bool: "true or false"}
_KINDS_OF: Final[Mapping[str, tuple[Any, ...]]] = {
    "string": (str, "pattern", "format"),
    "array": (bool, "uniqueItems"),
}


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None
