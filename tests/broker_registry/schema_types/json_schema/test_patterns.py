"""Regular expressions in JSON schemas."""

from __future__ import annotations

import json

import pytest

from broker_registry.checks import Compare, ParsedCache, Source
from broker_registry.compatibility import Level
from broker_registry.schema_types.base import Policy
from broker_registry.schema_types.json_schema.patterns import is_found

# Python's own expressions take 2 to the power of the length for it.
SLOW = "^(a+)+$"
LONG = "a" * 100 + "!"


@pytest.mark.parametrize(
    ("pattern", "text", "expected"),
    [
        ("b", "abc", True),
        ("^b", "abc", False),
        (r"^\p{Lu}", "Ä", True),
        (r"^\d$", "\u0661", False),
        ("(", "(", False),
        ("[", "[", False),
        (SLOW, LONG, False),
        (r"(a|aa)+(?=b)c", LONG, False),
    ],
)
def test_patterns_are_those_of_json_schema(pattern: str, text: str, expected: bool) -> None:
    """If this fails, a property is compared with another schema, or one schema stops the whole registry."""
    assert is_found(pattern, text) is expected


def test_a_pattern_that_takes_very_long_is_compared() -> None:
    """If this fails, the registry answers no client any more after one registration."""
    old = {"type": "object", "patternProperties": {SLOW: {"type": "string"}}, "additionalProperties": False}

    def messages(name: str) -> str:
        new = {**old, "properties": {name: {"type": "integer"}}}
        previous = ((1, Source("JSON", json.dumps(old))),)
        return str(Compare(Source("JSON", json.dumps(new)), previous, Level.BACKWARD, Policy.STRICT).run(ParsedCache()))

    assert messages(LONG) == "[]"
    assert "PROPERTY_ADDED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL" in messages("aaa")
