"""The differences of two JSON schemas, by the rules of Confluent's registry.

A pair of shapes is compared once. A pair below itself counts as compatible; if that assumption proves wrong, the whole
comparison is repeated with what was found, until nothing new is found. The file is long because schemas contain each
other: the comparison of each kind of shape calls those of the others.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from broker_registry.schema_types.base import DIFFERENCES_MAX, Difference, Policy
from broker_registry.schema_types.java_order import ordered, union
from broker_registry.schema_types.json_schema.kinds import ALLOWED, difference
from broker_registry.schema_types.json_schema.limits import Found, enumerations, limit, numbers, strings
from broker_registry.schema_types.json_schema.matching import matching
from broker_registry.schema_types.json_schema.model import (
    ABSENT,
    Anything,
    Array,
    Combined,
    Constant,
    Enumeration,
    Not,
    Nothing,
    Number,
    Object,
    ReferenceTo,
    Shape,
    String,
    followed,
)
from broker_registry.schema_types.json_schema.patterns import is_found

COMPARISONS_MAX: Final = 200_000
"""Pairs of shapes in one comparison: alternatives multiply."""


def differences(reader: Shape, writer: Shape) -> list[Difference]:
    """Return how a reader's schema differs from a writer's. Raises ValueError if the comparison is too large."""
    strict = _compare(reader, writer, ALLOWED[Policy.STRICT])
    if all(kind in ALLOWED[Policy.STRICT] for kind, _ in strict):
        return [_difference(each) for each in strict]
    # The allowed kinds decide which alternatives match, so the other policy has another walk.
    lenient = [
        each for each in _compare(reader, writer, ALLOWED[Policy.LENIENT]) if each[0] not in ALLOWED[Policy.LENIENT]
    ]
    found = [
        _difference(each, *([] if each[0] in ALLOWED[Policy.STRICT] else [Policy.STRICT]), *_taken(lenient, each))
        for each in strict
    ]
    return found + [_difference(each, Policy.LENIENT) for each in lenient]


def _taken(lenient: Found, each: tuple[str, tuple[str, ...]]) -> list[Policy]:
    """Return the policy if its walk has found the same, which is then taken out of its list."""
    if each not in lenient:
        return []
    lenient.remove(each)
    return [Policy.LENIENT]


def _difference(found: tuple[str, tuple[str, ...]], *breaks: Policy) -> Difference:
    kind, path = found
    return difference(kind, "#/" + "/".join(path), frozenset(breaks))


def _compare(reader: Shape, writer: Shape, allowed: frozenset[str]) -> Found:
    known: dict[tuple[int, int], Found] = {}
    while True:
        walk = _Walk(allowed, known)
        found = walk.compare(writer, reader)
        broken = walk.broken()
        if not walk.assumed or broken.keys() == known.keys():
            return found
        known = broken


def _within(path: tuple[str, ...], found: Found) -> Found:
    return [(kind, path + each) for kind, each in found]


class _Walk:
    """Compares an original with its update: the schema of the writer with that of the reader."""

    def __init__(self, allowed: frozenset[str], known: dict[tuple[int, int], Found]) -> None:
        self._allowed, self._known = allowed, known
        self._results: dict[tuple[int, int], Found] = {}
        self._open: set[tuple[int, int]] = set()
        self._comparisons = 0
        self.assumed = False

    def broken(self) -> dict[tuple[int, int], Found]:
        """Return the pairs that are incompatible."""
        return {pair: found for pair, found in self._results.items() if not self._is_allowed(found)}

    def _is_allowed(self, found: Found) -> bool:
        return all(kind in self._allowed for kind, _ in found)

    def compare(self, original: Shape | None, update: Shape | None) -> Found:
        """Return the differences with paths below the pair."""
        if original is None or update is None:
            if original is update:
                return []
            return [("SCHEMA_ADDED" if original is None else "SCHEMA_REMOVED", ())]
        before, after = followed(original), followed(update)
        pair = (id(before), id(after))
        if pair in self._results:
            return self._results[pair]
        if pair in self._open:
            if pair in self._known:
                return self._known[pair]
            self.assumed = True
            return []
        self._comparisons += 1
        if self._comparisons > COMPARISONS_MAX:
            raise ValueError(f"more than {COMPARISONS_MAX:,} pairs of schemas would have to be compared")
        self._open.add(pair)
        found = self._types(before, after)
        if len(found) > DIFFERENCES_MAX:
            raise ValueError(f"more than {DIFFERENCES_MAX:,} differences")
        self._open.remove(pair)
        self._results[pair] = found
        return found

    def _types(self, original: Shape, update: Shape) -> Found:
        found = self._unwrapped(original, update)
        if found is not None:
            return found
        if not _same_type(original, update):
            if isinstance(original, Nothing) or isinstance(update, Anything):
                return []
            if original.connect_type == update.connect_type == "bytes":
                return []
            return [("TYPE_CHANGED", ())]
        found = _annotations(original, update)
        if isinstance(original, String) and isinstance(update, String):
            found += strings(original, update)
        elif isinstance(original, Number) and isinstance(update, Number):
            found += numbers(original, update)
        elif isinstance(original, Constant) and isinstance(update, Constant):
            found += [("ENUM_ARRAY_CHANGED", ("const",))] if original.value != update.value else []
        elif isinstance(original, Enumeration) and isinstance(update, Enumeration):
            found += enumerations(original, update)
        elif isinstance(original, Combined) and isinstance(update, Combined):
            found += self._combined(original, update)
        elif isinstance(original, Not) and isinstance(update, Not):
            # A `not` compares its inner schemas the other way round.
            is_narrower = self._is_allowed(self.compare(update.inner, original.inner))
            found.append(("NOT_TYPE_NARROWED" if is_narrower else "NOT_TYPE_EXTENDED", ("not",)))
        elif isinstance(original, Object) and isinstance(update, Object):
            found += _Objects(self, original, update).differences()
        elif isinstance(original, Array) and isinstance(update, Array):
            found += _Arrays(self, original, update).differences()
        return found

    def _unwrapped(self, original: Shape, update: Shape) -> Found | None:
        """Return the differences if one side is a combination that one part decides; None otherwise."""
        if not isinstance(original, Combined) and isinstance(update, Combined):
            if len(update.parts) == 1:
                found = self.compare(original, update.parts[0])
                return found if self._is_allowed(found) else None
            if update.criterion in ("anyOf", "oneOf"):
                for part in update.parts:
                    found = self.compare(original, part)
                    if self._is_allowed(found):
                        return [*found, ("SUM_TYPE_EXTENDED", ())]
        elif isinstance(original, Combined) and not isinstance(update, Combined):
            if len(original.parts) == 1:
                found = self.compare(original.parts[0], update)
                return found if self._is_allowed(found) else None
            if original.criterion == "allOf":
                for part in original.parts:
                    found = self.compare(part, update)
                    if self._is_allowed(found):
                        return [*found, ("PRODUCT_TYPE_NARROWED", ())]
        return None

    def _combined(self, original: Combined, update: Combined) -> Found:
        kind = _criteria(original, update)
        if kind == "COMBINED_TYPE_CHANGED":
            return [(kind, ())]
        found: Found = [] if kind is None else [(kind, ())]
        before, after = _unique(original.parts), _unique(update.parts)
        if len(before) < len(after):
            found.append(("PRODUCT_TYPE_EXTENDED" if update.criterion == "allOf" else "SUM_TYPE_EXTENDED", ()))
        elif len(before) > len(after):
            found.append(("PRODUCT_TYPE_NARROWED" if original.criterion == "allOf" else "SUM_TYPE_NARROWED", ()))
        results = [[self.compare(part, other) for other in after] for part in before]
        edges = [[index for index, each in enumerate(row) if self._is_allowed(each)] for row in results]
        partners = matching(edges)
        for index, partner in partners.items():
            found += _within((f"{original.criterion}/{index}",), results[index][partner])
        if len(partners) < min(len(before), len(after)):
            found.append(("COMBINED_TYPE_SUBSCHEMAS_CHANGED", ()))
        return found


def _unique(parts: Sequence[Shape]) -> list[Shape]:
    """Return the parts that differ; a reference is another part than the schema that it leads to."""
    return list({(isinstance(part, ReferenceTo), part.text): part for part in parts}.values())


def _same_type(original: Shape, update: Shape) -> bool:
    if isinstance(original, Anything) and isinstance(update, Anything):
        return original.is_literal == update.is_literal
    return type(original) is type(update)


def _annotations(original: Shape, update: Shape) -> Found:
    found: Found = []
    if original.id != update.id:
        found.append(("ID_CHANGED", ()))
    if original.title != update.title:
        found.append(("TITLE_CHANGED", ()))
    if original.description != update.description:
        found.append(("DESCRIPTION_CHANGED", ()))
    if original.default != update.default:
        found.append(("DEFAULT_CHANGED", ()))
    return found


def _criteria(original: Combined, update: Combined) -> str | None:
    if original.criterion == update.criterion:
        return None
    is_single, becomes_single = len(original.parts) == 1, len(update.parts) == 1
    if (
        update.criterion == "anyOf"
        or (is_single and becomes_single)
        or (is_single and update.criterion == "oneOf")
        or (becomes_single and original.criterion == "allOf")
    ):
        return "COMBINED_TYPE_EXTENDED"
    return "COMBINED_TYPE_CHANGED"


def _rest(
    walk: _Walk, word: str, name: str, before: tuple[bool, Shape | None], after: tuple[bool, Shape | None]
) -> Found:
    """Return the difference of what is allowed beside the named properties or items: whether, and by which schema."""
    if before[0] != after[0]:
        return [(f"{name}_{'REMOVED' if before[0] else 'ADDED'}", (word,))]
    if before[1] is None and after[1] is not None:
        return [(f"{name}_NARROWED", (word,))]
    if before[1] is not None and after[1] is None:
        return [(f"{name}_EXTENDED", (word,))]
    return _within((word,), walk.compare(before[1], after[1]))


def _unevaluated(walk: _Walk, word: str, name: str, before: Shape | None, after: Shape | None) -> Found:
    if before is None and after is None:
        return []
    if before is None:
        return [(f"{name}_{'REMOVED' if isinstance(after, Nothing) else 'NARROWED'}", (word,))]
    if after is None:
        return [(f"{name}_{'ADDED' if isinstance(before, Nothing) else 'EXTENDED'}", (word,))]
    if isinstance(before, Nothing) != isinstance(after, Nothing):
        return [(f"{name}_{'ADDED' if isinstance(before, Nothing) else 'REMOVED'}", (word,))]
    if isinstance(before, Anything) != isinstance(after, Anything):
        return [(f"{name}_{'NARROWED' if isinstance(before, Anything) else 'EXTENDED'}", (word,))]
    return _within((word,), walk.compare(before, after))


class _Objects:
    def __init__(self, walk: _Walk, original: Object, update: Object) -> None:
        self._walk, self._original, self._update = walk, original, update

    def differences(self) -> Found:
        original, update, walk = self._original, self._update, self._walk
        rest = ("additionalProperties", "ADDITIONAL_PROPERTIES")
        found = self._required() + self._properties() + self._dependencies()
        found += _rest(walk, *rest, (original.allows_more, original.more), (update.allows_more, update.more))
        beside = ("unevaluatedProperties", "UNEVALUATED_PROPERTIES")
        found += _unevaluated(walk, *beside, original.unevaluated, update.unevaluated)
        found += limit("MAX_PROPERTIES", "maxProperties", original.max_properties, update.max_properties)
        return found + limit("MIN_PROPERTIES", "minProperties", original.min_properties, update.min_properties)

    def _required(self) -> Found:
        found: Found = []
        for name in ordered(self._original.properties):
            if name not in self._update.properties:
                continue
            before, after = name in self._original.required, name in self._update.required
            if before and not after:
                found.append(("REQUIRED_ATTRIBUTE_REMOVED", ("required", name)))
            elif after and not before:
                has_default = self._update.properties[name].default is not ABSENT
                kind = "REQUIRED_ATTRIBUTE_WITH_DEFAULT_ADDED" if has_default else "REQUIRED_ATTRIBUTE_ADDED"
                found.append((kind, ("required", name)))
        return found

    def _properties(self) -> Found:
        found: Found = []
        for name in union(self._original.properties, self._update.properties):
            before, after = self._original.properties.get(name), self._update.properties.get(name)
            if before is None:
                assert after is not None
                each = self._added(name, after)
            elif after is None:
                each = self._removed(name, before)
            else:
                each = self._walk.compare(before, after)
            found += _within(("properties", name), each)
        return found

    def _removed(self, name: str, before: Shape) -> Found:
        if _is_open_object(self._update):
            return [("PROPERTY_REMOVED_FROM_OPEN_CONTENT_MODEL", ())]
        return _covered(self._walk, "PROPERTY_REMOVED", before, _part_of_object(self._update, name)) or [
            (
                "PROPERTY_WITH_FALSE_REMOVED_FROM_CLOSED_CONTENT_MODEL"
                if isinstance(before, Nothing)
                else "PROPERTY_REMOVED_FROM_CLOSED_CONTENT_MODEL",
                (),
            )
        ]

    def _added(self, name: str, after: Shape) -> Found:
        is_required, has_default = name in self._update.required, after.default is not ABSENT
        if _is_open_object(self._original):
            if isinstance(after, Anything):
                return [("PROPERTY_WITH_EMPTY_SCHEMA_ADDED_TO_OPEN_CONTENT_MODEL", ())]
            return [(_added_kind(is_required, has_default, "OPEN"), ())]
        part = _part_of_object(self._original, name)
        found: Found = [] if part is None else _covered(self._walk, "PROPERTY_ADDED", part, after)
        return [*found, (_added_kind(is_required, has_default, "UNOPEN"), ())]

    def _dependencies(self) -> Found:
        found: Found = []
        original, update = self._original, self._update
        for name in union(original.needs, update.needs):
            before, after = original.needs.get(name), update.needs.get(name)
            kind = None
            if after is None:
                kind = "REMOVED"
            elif before is None:
                kind = "ADDED"
            elif set(before) != set(after):
                is_extended, is_narrowed = set(after) > set(before), set(before) > set(after)
                kind = "EXTENDED" if is_extended else "NARROWED" if is_narrowed else "CHANGED"
            if kind is not None:
                found.append((f"DEPENDENCY_ARRAY_{kind}", ("dependencies", name)))
        for name in union(original.needs_schema, update.needs_schema):
            old, new = original.needs_schema.get(name), update.needs_schema.get(name)
            if old is None or new is None:
                found.append((f"DEPENDENCY_SCHEMA_{'REMOVED' if new is None else 'ADDED'}", ("dependencies", name)))
            else:
                found += _within(("dependencies", name), self._walk.compare(old, new))
        return found


def _added_kind(is_required: bool, has_default: bool, model: str) -> str:
    if not is_required:
        return f"OPTIONAL_PROPERTY_ADDED_TO_{model}_CONTENT_MODEL"
    return f"REQUIRED_PROPERTY_{'WITH_DEFAULT_' if has_default else ''}ADDED_TO_{model}_CONTENT_MODEL"


def _covered(walk: _Walk, name: str, before: Shape | None, after: Shape | None) -> Found:
    """Return the differences with a schema for properties or items that are not named; none if there is no such."""
    if before is None or after is None:
        return []
    found = walk.compare(before, after)
    is_covered = "IS" if walk._is_allowed(found) else "NOT"
    return [*found, (f"{name}_{is_covered}_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL", ())]


def _is_open_object(schema: Object) -> bool:
    if not schema.allows_more or schema.more is not None or schema.patterns:
        return False
    return schema.unevaluated is None or isinstance(schema.unevaluated, Anything)


def _part_of_object(schema: Object, name: str) -> Shape | None:
    """Return the schema for a property that is not named, if the object has one."""
    for pattern, each in schema.patterns.items():
        if is_found(pattern, name):
            return each
    if schema.more is not None:
        return schema.more
    if schema.allows_more and not isinstance(schema.unevaluated, Nothing | Anything):
        return schema.unevaluated
    return None


class _Arrays:
    def __init__(self, walk: _Walk, original: Array, update: Array) -> None:
        self._walk, self._original, self._update = walk, original, update

    def differences(self) -> Found:
        original, update, walk = self._original, self._update, self._walk
        found = _within(("items",), walk.compare(original.items, update.items)) + self._prefix()
        rest = ("additionalItems", "ADDITIONAL_ITEMS")
        found += _rest(walk, *rest, (original.allows_more, original.more), (update.allows_more, update.more))
        found += _unevaluated(walk, "unevaluatedItems", "UNEVALUATED_ITEMS", original.unevaluated, update.unevaluated)
        found += limit("MAX_ITEMS", "maxItems", original.max_items, update.max_items)
        found += limit("MIN_ITEMS", "minItems", original.min_items, update.min_items)
        if original.is_unique != update.is_unique:
            found.append((f"UNIQUE_ITEMS_{'REMOVED' if original.is_unique else 'ADDED'}", ("uniqueItems",)))
        found += limit("MAX_CONTAINS", "maxContains", original.max_contains, update.max_contains)
        return found + limit("MIN_CONTAINS", "minContains", original.min_contains, update.min_contains)

    def _prefix(self) -> Found:
        before, after = self._original.prefix, self._update.prefix
        both = min(len(before), len(after))
        found: Found = []
        for index in range(both):
            found += _within((f"items/{index}",), self._walk.compare(before[index], after[index]))
        for index in range(both, len(before)):
            found += _within((f"items/{index}",), self._removed(before[index]))
        for index in range(both, len(after)):
            found += _within((f"items/{index}",), self._added(after[index]))
        return found

    def _removed(self, before: Shape) -> Found:
        if _is_open_array(self._update):
            return [("ITEM_REMOVED_FROM_OPEN_CONTENT_MODEL", ())]
        found = _covered(self._walk, "ITEM_REMOVED", before, _part_of_array(self._update))
        if found:
            return found
        is_false = isinstance(before, Nothing)
        return [(f"ITEM_{'WITH_FALSE_' if is_false else ''}REMOVED_FROM_CLOSED_CONTENT_MODEL", ())]

    def _added(self, after: Shape) -> Found:
        if _is_open_array(self._original):
            is_empty = isinstance(after, Anything)
            return [(f"ITEM_{'WITH_EMPTY_SCHEMA_' if is_empty else ''}ADDED_TO_OPEN_CONTENT_MODEL", ())]
        found = _covered(self._walk, "ITEM_ADDED", _part_of_array(self._original), after)
        return found or [("ITEM_ADDED_TO_CLOSED_CONTENT_MODEL", ())]


def _is_open_array(schema: Array) -> bool:
    if not schema.allows_more or schema.more is not None:
        return False
    return schema.unevaluated is None or isinstance(schema.unevaluated, Anything)


def _part_of_array(schema: Array) -> Shape | None:
    if schema.more is not None:
        return schema.more
    if schema.allows_more and not isinstance(schema.unevaluated, Nothing | Anything):
        return schema.unevaluated
    return None
