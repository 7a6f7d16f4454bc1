"""Small texts that mean much work, and large ones: each ends with an answer."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from broker_registry.checker import Checker
from broker_registry.checks import Compare, Source
from broker_registry.compatibility import Level
from broker_registry.schema_types.base import DIFFERENCES_MAX, InvalidSchema, Kind, ParseSettings, Policy
from broker_registry.schema_types.parsers import PARSERS

NEW = ParseSettings(is_new=True, validates=True)
LEVELS = 10_000
DEEP = {
    "arrays of Avro": (Kind.AVRO, '{"type":"array","items":' * LEVELS + '"int"' + "}" * LEVELS),
    "unions of Avro": (Kind.AVRO, "[" * LEVELS + "]" * LEVELS),
    "records of Avro": (
        Kind.AVRO,
        "".join(f'{{"type":"record","name":"r{level}","fields":[{{"name":"a","type":' for level in range(LEVELS))
        + '"int"'
        + "}]}" * LEVELS,
    ),
    "a property of Avro": (Kind.AVRO, '{"type":"int","x":' + "[" * LEVELS + "]" * LEVELS + "}"),
    "properties of JSON": (Kind.JSON, '{"properties":{"a":' * LEVELS + "{}" + "}}" * LEVELS),
    "a member of JSON": (Kind.JSON, '{"x":' + "[" * LEVELS + "]" * LEVELS + "}"),
    "not of JSON": (Kind.JSON, '{"not":' * LEVELS + "true" + "}" * LEVELS),
    "messages of Protobuf": (Kind.PROTOBUF, "message A {" * LEVELS + "}" * LEVELS),
    "an option of Protobuf": (Kind.PROTOBUF, "option (x) = " + "{a:" * LEVELS + "1" + "}" * LEVELS + ";"),
    "a list of Protobuf": (Kind.PROTOBUF, "option (x) = " + "[" * LEVELS + "1" + "]" * LEVELS + ";"),
}


@pytest.mark.parametrize("name", DEEP)
def test_deep_schemas_are_refused(name: str) -> None:
    """If this fails, one request ends the process that checks schemas, or is an internal error."""
    kind, text = DEEP[name]
    with pytest.raises(InvalidSchema):
        PARSERS[kind](text, (), NEW)


@pytest.mark.parametrize(
    "text",
    [
        '{"$ref":"#"}',
        '{"$ref":"#/a","a":{"$ref":"#/b"},"b":{"$ref":"#/a"}}',
        '{"$id":"http://x/y","$ref":"http://x/y"}',
        '{"allOf":[{"$ref":"#"}]}',
    ],
)
def test_json_schemas_in_a_circle_are_compared(text: str) -> None:
    """If this fails, one schema keeps the registry busy for ever."""
    schema = PARSERS[Kind.JSON](text, (), NEW)
    assert all(each.kind == "EXCEPTION" for each in schema.differences(schema))


def fields_of(level: int, leaf: str) -> Any:
    """Return a record with four fields of the next level's record."""
    if level == 0:
        return {"type": "record", "name": "R0", "fields": [{"name": "x", "type": leaf}]}
    fields = [{"name": "a", "type": fields_of(level - 1, leaf)}]
    fields += [{"name": name, "type": f"R{level - 1}"} for name in "bcd"]
    return {"type": "record", "name": f"R{level}", "fields": fields}


def alternatives(count: int, required: list[str]) -> str:
    """Return definitions, each with an alternative for each of them."""
    of = [
        {"type": "object", "properties": {"p": {"$ref": f"#/definitions/a{index}"}}, "required": required}
        for index in range(count)
    ]
    definitions = {f"a{index}": {"oneOf": of} for index in range(count)}
    return json.dumps({"definitions": definitions, "type": "object", "properties": {"x": {"$ref": "#/definitions/a0"}}})


def chain(count: int) -> str:
    """Return a JSON schema of definitions that refer to the next one each."""
    definitions = {
        f"a{index}": {"type": "object", "properties": {"next": {"$ref": f"#/definitions/a{index + 1}"}}}
        for index in range(count)
    }
    return json.dumps({"definitions": {**definitions, f"a{count}": {}}, "$ref": "#/definitions/a0"})


def test_types_that_lead_to_each_other_are_compared() -> None:
    """If this fails, a large schema, such as one of all resources of a cloud, has no second version."""
    source = Source("JSON", chain(800))

    async def compared() -> list[str]:
        checker = Checker()
        try:
            found: list[str] = await checker.run(Compare(source, ((1, source),), Level.FULL, Policy.STRICT))
            return found
        finally:
            await checker.close()

    assert asyncio.run(compared()) == []


MUCH = {
    # 4 ** 12 ways to one field.
    "Avro": (Kind.AVRO, json.dumps(fields_of(12, "string")), json.dumps(fields_of(12, "int"))),
    "JSON": (Kind.JSON, alternatives(10, ["p"]), alternatives(10, [])),
}


@pytest.mark.parametrize("name", MUCH)
def test_differences_that_multiply_are_bounded(name: str) -> None:
    """If this fails, two small schemas use up the memory of the registry."""
    kind, old, new = MUCH[name]
    parse = PARSERS[kind]
    found = parse(new, (), NEW).differences(parse(old, (), NEW))
    assert [each.kind for each in found] == ["EXCEPTION"]
    assert f"more than {DIFFERENCES_MAX:,} differences" in found[0].text
