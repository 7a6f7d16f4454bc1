"""Which changes of a JSON schema break readers: rows of old and new schema with the kinds that are found."""

from __future__ import annotations

import json
from typing import Any

import pytest

from broker_registry.schema_types.base import InvalidSchema, ParseSettings, Policy, Resolved
from broker_registry.schema_types.json_schema import parse
from broker_registry.schema_types.json_schema.matching import matching
from broker_registry.schema_types.json_schema.schema import JsonSchema

OPEN: dict[str, Any] = {"type": "object", "properties": {"a": {"type": "string"}}}
CLOSED = {**OPEN, "additionalProperties": False}
MODERN = "https://json-schema.org/draft/2020-12/schema"


def with_properties(schema: dict[str, Any], **properties: Any) -> dict[str, Any]:
    return {**schema, "properties": {**schema["properties"], **properties}}


def test_numbers_without_an_end_are_compared() -> None:
    """If this fails, a number such as 1e999 in a schema ends in an internal error."""
    texts = [f'{{"type":"number","multipleOf":{number}}}' for number in ("1e999", "2", "3")]
    schemas = [parse(text, (), ParseSettings(validates=True)) for text in texts]
    for new in schemas:
        for old in schemas:
            kinds = {each.kind for each in new.differences(old)}
            assert kinds == (set() if new is old else {"MULTIPLE_OF_CHANGED"})


def schema_of(value: Any, *references: Resolved) -> JsonSchema:
    return parse(json.dumps(value), references, ParseSettings(validates=True))


def found(old: Any, new: Any, policy: Policy = Policy.STRICT) -> list[str]:
    """Return what breaks a reader with the new schema."""
    differences = schema_of(new).differences(schema_of(old))
    return [f"{each.kind} {each.path}" for each in differences if policy in each.breaks]


ROWS = {
    "the same": (OPEN, OPEN, []),
    "a property of an open object": (
        OPEN,
        with_properties(OPEN, b={"type": "string"}),
        ["OPTIONAL_PROPERTY_ADDED_TO_OPEN_CONTENT_MODEL #/properties/b"],
    ),
    "a property of any type of an open object": (OPEN, with_properties(OPEN, b={}), []),
    "a property of a closed object": (CLOSED, with_properties(CLOSED, b={"type": "string"}), []),
    "a required property of a closed object": (
        CLOSED,
        {**with_properties(CLOSED, b={"type": "string"}), "required": ["b"]},
        ["REQUIRED_PROPERTY_ADDED_TO_UNOPEN_CONTENT_MODEL #/properties/b"],
    ),
    "a required property with a default": (
        CLOSED,
        {**with_properties(CLOSED, b={"type": "string", "default": "x"}), "required": ["b"]},
        [],
    ),
    "a property less of a closed object": (
        with_properties(CLOSED, b={"type": "string"}),
        CLOSED,
        ["PROPERTY_REMOVED_FROM_CLOSED_CONTENT_MODEL #/properties/b"],
    ),
    "a property less of an open object": (with_properties(OPEN, b={"type": "string"}), OPEN, []),
    "a closed object": (OPEN, CLOSED, ["ADDITIONAL_PROPERTIES_REMOVED #/additionalProperties"]),
    "a property that becomes required": (
        OPEN,
        {**OPEN, "required": ["a"]},
        ["REQUIRED_ATTRIBUTE_ADDED #/required/a"],
    ),
    "another type": ({"type": "string"}, {"type": "integer"}, ["TYPE_CHANGED #/"]),
    "a wider number": ({"type": "integer"}, {"type": "number"}, []),
    "a narrower number": ({"type": "number"}, {"type": "integer"}, ["TYPE_NARROWED #/"]),
    "shorter texts": (
        {"type": "string", "maxLength": 9},
        {"type": "string", "maxLength": 5},
        ["MAX_LENGTH_DECREASED #/maxLength"],
    ),
    "a multiple": (
        {"type": "number", "multipleOf": 0.5},
        {"type": "number", "multipleOf": 10},
        ["MULTIPLE_OF_EXPANDED #/multipleOf"],
    ),
    "a multiple of another magnitude": (
        {"type": "number", "multipleOf": 1e-300},
        {"type": "number", "multipleOf": 1e300},
        ["MULTIPLE_OF_EXPANDED #/multipleOf"],
    ),
    "a multiple of a lesser magnitude": (
        {"type": "number", "multipleOf": 1e300},
        {"type": "number", "multipleOf": 1e-300},
        [],
    ),
    "a value less": ({"enum": ["a", "b"]}, {"enum": ["a"]}, ["ENUM_ARRAY_NARROWED #/enum"]),
    "a value more": ({"enum": ["a"]}, {"enum": ["b", "a"]}, []),
    "one of more types": ({"type": "string"}, {"type": ["string", "null"]}, []),
    "one of fewer types": (
        {"oneOf": [{"type": "string"}, {"type": "null"}]},
        {"oneOf": [{"type": "null"}]},
        ["SUM_TYPE_NARROWED #/"],
    ),
    "items of a tuple": (
        {"type": "array", "items": [{"type": "string"}]},
        {"type": "array", "items": [{"type": "string"}, {"type": "string"}]},
        ["ITEM_ADDED_TO_OPEN_CONTENT_MODEL #/items/1"],
    ),
    "items of a tuple since 2020": (
        {"$schema": MODERN, "type": "array", "prefixItems": [{"type": "string"}], "items": False},
        {"$schema": MODERN, "type": "array", "prefixItems": [{"type": "integer"}], "items": False},
        ["TYPE_CHANGED #/items/0"],
    ),
    "what must not be": (
        {"not": {"type": "string"}},
        {"not": {"type": ["string", "null"]}},
        ["NOT_TYPE_EXTENDED #/not"],
    ),
}


@pytest.mark.parametrize("row", ROWS)
def test_changes_have_confluents_kinds(row: str) -> None:
    """If this fails, a change that breaks consumers is registered, or a harmless one is refused."""
    old, new, expected = ROWS[row]
    assert found(old, new) == expected


def test_the_lenient_policy_allows_more() -> None:
    """If this fails, `compatibilityPolicy=LENIENT` has no effect."""
    new = with_properties(OPEN, b={"type": "string"})
    assert found(OPEN, new, Policy.LENIENT) == []
    assert found(with_properties(CLOSED, b={"type": "string"}), CLOSED, Policy.LENIENT) == []
    assert found({"type": "string"}, {"type": "integer"}, Policy.LENIENT) == ["TYPE_CHANGED #/"]


def test_messages_are_confluents() -> None:
    """If this fails, tools that read the messages of Confluent's registry do not understand ours."""
    (difference,) = schema_of({"type": "integer"}).differences(schema_of({"type": "string"}))
    assert difference.message("new", "old") == (
        '{errorType:"TYPE_CHANGED", description:"A type at path \'#/\' is different between the new schema and the old '
        "schema'}"
    )


def test_a_change_deep_in_a_recursive_schema_is_found() -> None:
    """If this fails, schemas of trees are never compared beyond their first level."""

    def tree(kind: str) -> dict[str, Any]:
        node = {
            "type": "object",
            "properties": {"value": {"type": kind}, "next": {"$ref": "#/definitions/node"}},
            "additionalProperties": False,
        }
        return {"$ref": "#/definitions/node", "definitions": {"node": node}}

    assert found(tree("string"), tree("string")) == []
    assert "TYPE_CHANGED #/properties/value" in found(tree("string"), tree("integer"))


def test_references_lead_into_other_schemas() -> None:
    """If this fails, schemas that share definitions cannot be registered."""
    other = Resolved("common.json", json.dumps({"definitions": {"id": {"type": "string"}}}))
    text = {"type": "object", "properties": {"id": {"$ref": "common.json#/definitions/id"}}}
    old = schema_of(text, other)
    new = schema_of({"type": "object", "properties": {"id": {"type": "integer"}}})
    assert [each.kind for each in new.differences(old) if each.breaks] == ["TYPE_CHANGED"]
    for missing in ("other.json", "common.json#/definitions/none", "https://example.org/x.json"):
        with pytest.raises(InvalidSchema, match="leads nowhere, and nothing is fetched"):
            schema_of({"$ref": missing}, other)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        "7",
        "NaN",
        '{"type":"thing"}',
        '{"type":7}',
        '{"properties":3}',
        '{"properties":{"a":"b"}}',
        '{"allOf":{}}',
        '{"maxLength":"x","type":"string"}',
        '{"$ref":3}',
        '{"$ref":"#/nowhere"}',
        '{"not":' * 3000,
        '{"not":' * 3000 + "{}" + "}" * 3000,
    ],
)
def test_what_is_no_schema_is_invalid(text: str) -> None:
    """If this fails, a malformed schema ends the check with an exception of another kind."""
    with pytest.raises(InvalidSchema):
        parse(text, (), ParseSettings(validates=True))


def test_stored_schemas_are_not_checked_again() -> None:
    """If this fails, a topic of another registry with one odd schema cannot be opened."""
    assert parse('{"type":"thing"}', (), ParseSettings()).canonical == '{"type":"thing"}'


def test_text_is_that_of_jackson() -> None:
    """If this fails, one schema has two ids."""
    text = '{ "b": 1.0, "a": [1e10, 1.5e-7, "é\\u0001"], "c": 10000000000000000000000 }'
    assert parse(text, (), ParseSettings()).canonical == (
        '{"b":1.0,"a":[1.0E10,1.5E-7,"é\\u0001"],"c":10000000000000000000000}'
    )
    assert parse(text, (), ParseSettings(normalizes=True)).canonical.startswith('{"a":[')


def test_values_are_checked() -> None:
    """If this fails, records that no consumer takes are written."""
    schema = schema_of({**CLOSED, "required": ["a"]})
    assert schema.decode(b'{"a":"x"}') == {"a": "x"}
    assert schema.encode({"a": "x"}) == b'{"a":"x"}'
    for payload in (b"{}", b'{"a":1}', b'{"a":"x","b":1}', b"x"):
        with pytest.raises(ValueError, match=r"."):
            schema.decode(payload)


def test_alternatives_have_partners_of_their_own() -> None:
    """If this fails, two alternatives that match one other count as compatible."""
    assert matching([[0], [0]]) == {0: 0}
    assert matching([[0, 1], [0]]) == {0: 1, 1: 0}
