"""The differences of what may be said about one value: limits of strings and numbers, and enumerations."""

from __future__ import annotations

import math
from fractions import Fraction

from broker_registry.schema_types.json_schema.model import Enumeration, Number, String

Found = list[tuple[str, tuple[str, ...]]]
"""Kinds with paths."""


def limit(name: str, word: str, before: float | None, after: float | None) -> Found:
    """Return the difference of a limit; `name` begins its kind."""
    if before == after:
        return []
    if before is None:
        return [(f"{name}_ADDED", (word,))]
    if after is None:
        return [(f"{name}_REMOVED", (word,))]
    return [(f"{name}_{'INCREASED' if before < after else 'DECREASED'}", (word,))]


def strings(original: String, update: String) -> Found:
    found = limit("MAX_LENGTH", "maxLength", original.max_length, update.max_length)
    found += limit("MIN_LENGTH", "minLength", original.min_length, update.min_length)
    if original.pattern != update.pattern:
        kind = "ADDED" if original.pattern is None else "REMOVED" if update.pattern is None else "CHANGED"
        found.append((f"PATTERN_{kind}", ("pattern",)))
    return found


def numbers(original: Number, update: Number) -> Found:
    found = limit("MAXIMUM", "maximum", original.maximum, update.maximum)
    found += limit("MINIMUM", "minimum", original.minimum, update.minimum)
    found += limit("EXCLUSIVE_MAXIMUM", "exclusiveMaximum", original.exclusive_maximum, update.exclusive_maximum)
    found += limit("EXCLUSIVE_MINIMUM", "exclusiveMinimum", original.exclusive_minimum, update.exclusive_minimum)
    before, after = original.multiple_of, update.multiple_of
    if before != after:
        if before is None or after is None:
            kind = "ADDED" if before is None else "REMOVED"
        else:
            kind = "EXPANDED" if _divides(before, after) else "REDUCED" if _divides(after, before) else "CHANGED"
        found.append((f"MULTIPLE_OF_{kind}", ("multipleOf",)))
    if original.is_integer != update.is_integer:
        found.append(("TYPE_EXTENDED" if original.is_integer else "TYPE_NARROWED", ()))
    return found


def _divides(divisor: float, number: float) -> bool:
    """Return whether a number is a multiple of another one, by their decimal digits."""
    if not divisor or math.inf in (abs(divisor), abs(number)):
        return False
    return Fraction(str(number)) % Fraction(str(divisor)) == 0


def enumerations(original: Enumeration, update: Enumeration) -> Found:
    if original.values == update.values:
        return []
    kind = "CHANGED"
    if original.values < update.values:
        kind = "EXTENDED"
    elif update.values < original.values:
        kind = "NARROWED"
    return [(f"ENUM_ARRAY_{kind}", ("enum",))]
