"""Random records of a schema: consumers decode them, and the same source draws the same ones."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest

from broker_registry.schema_types.base import Kind, ParsedSchema, ParseSettings, Resolved
from broker_registry.schema_types.parsers import PARSERS

RECURSIVE = {
    "type": "record",
    "name": "Tree",
    "fields": [{"name": "below", "type": {"type": "array", "items": "Tree"}}],
}
AVRO = {
    "type": "record",
    "name": "R",
    "fields": [
        {"name": "i", "type": "int"},
        {"name": "l", "type": ["null", "long", "string", {"type": "map", "values": "double"}]},
        {"name": "e", "type": {"type": "enum", "name": "E", "symbols": ["A", "B"]}},
        {"name": "f", "type": {"type": "fixed", "name": "F", "size": 3}},
        {"name": "d", "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}},
        {"name": "x", "type": {"type": "fixed", "name": "X", "size": 2, "logicalType": "decimal", "precision": 9}},
        {"name": "u", "type": {"type": "string", "logicalType": "uuid"}},
        {"name": "t", "type": {"type": "long", "logicalType": "timestamp-micros"}},
        {"name": "m", "type": {"type": "int", "logicalType": "time-millis"}},
        {"name": "day", "type": {"type": "int", "logicalType": "date"}},
        {"name": "b", "type": ["bytes", "boolean", "float"]},
        {"name": "tree", "type": RECURSIVE},
        {"name": "next", "type": ["null", "R"]},
    ],
}
PROTO = """
syntax = "proto3";
import "google/protobuf/timestamp.proto";
import "google/protobuf/struct.proto";
message A {
  int32 i = 1; uint64 u = 2; bool b = 3; double d = 4; bytes y = 5; string s = 6;
  enum E { NONE = 0; ONE = 1; }
  E e = 7; repeated E es = 8; map<string, A> below = 9; map<int32, string> names = 10;
  oneof either { string left = 11; A right = 12; }
  google.protobuf.Timestamp at = 13; optional string maybe = 14; A next = 15; google.protobuf.Struct any = 16;
}
message Other { string s = 1; }
"""
PROTO2 = 'syntax = "proto2"; message A { required B b = 1; optional A a = 2; } message B { required int32 x = 1; }'
AGE = {"const": 3}
JSON = {
    "type": "object",
    "properties": {
        "id": {"type": "integer", "minimum": 1, "maximum": 9},
        "amount": {"type": "number", "exclusiveMinimum": 0, "multipleOf": 0.5},
        "state": {"enum": ["new", "done"]},
        "kind": {"const": "order"},
        "at": {"type": "string", "format": "date-time"},
        "tags": {"type": "array", "items": {"type": "string", "maxLength": 3}, "minItems": 1, "maxItems": 4},
        "who": {"$ref": "#/definitions/person"},
        "either": {"oneOf": [{"type": "null"}, {"type": "string", "minLength": 2}]},
        "all": {"allOf": [{"$ref": "#/definitions/person"}, {"required": ["age"], "properties": {"age": AGE}}]},
        "more": {"type": ["boolean", "null"]},
        "pair": {"type": "array", "prefixItems": [{"type": "integer"}, AGE], "minItems": 2, "maxItems": 2},
        "other": {"$ref": "other.json"},
    },
    "required": ["id", "who", "undeclared"],
    "definitions": {
        "person": {
            "type": "object",
            "properties": {"name": {"type": "string"}, "boss": {"$ref": "#/definitions/person"}},
            "required": ["name"],
        }
    },
}  # fmt: skip
OTHER = Resolved("other.json", json.dumps({"type": "string", "minLength": 20}))


def of(kind: Kind, text: Any, *references: Resolved) -> ParsedSchema:
    return PARSERS[kind](text if isinstance(text, str) else json.dumps(text), references, ParseSettings())


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        (of(Kind.AVRO, AVRO), None),
        (of(Kind.AVRO, '"long"'), None),
        (of(Kind.PROTOBUF, PROTO), None),
        (of(Kind.PROTOBUF, PROTO), "Other"),
        (of(Kind.PROTOBUF, PROTO2), None),
        (of(Kind.JSON, JSON, OTHER), None),
        (of(Kind.JSON, "true"), None),
        (of(Kind.JSON, {"minimum": 5}), None),
    ],
)
def test_random_records_are_records(schema: ParsedSchema, message: str | None) -> None:
    """If this fails, `broker-load` writes records that consumers cannot read."""
    found = [schema.sample(random.Random(seed), message) for seed in range(100)]
    assert len(set(found)) > 20
    assert found == [schema.sample(random.Random(seed), message) for seed in range(100)]
    for each in found:
        schema.decode(each)
        assert schema.message_of(each) in (None, "A", message)


@pytest.mark.parametrize(
    ("schema", "reason"),
    [
        (of(Kind.AVRO, {"type": "record", "name": "L", "fields": [{"name": "next", "type": "L"}]}), "have no end"),
        (of(Kind.PROTOBUF, 'syntax = "proto2"; message A { required A a = 1; }'), "have no end"),
        (of(Kind.JSON, {"type": "string", "pattern": "^a{40}$"}), "no random value fits, give values in a file: /: "),
        (of(Kind.JSON, {"$ref": "#/nowhere"}), "names no part of the schema"),
        (of(Kind.JSON, "false"), "allows no value"),
    ],
)
def test_schemas_without_random_records_say_why(schema: ParsedSchema, reason: str) -> None:
    """If this fails, `broker-load` hangs, or ends with a traceback, for a schema whose records it cannot make up."""
    with pytest.raises(ValueError, match=r".") as caught:
        schema.sample(random.Random(1))
    assert reason in str(caught.value)


def test_only_protobuf_has_messages() -> None:
    """If this fails, a message that is named for an Avro schema is ignored."""
    with pytest.raises(ValueError, match="AVRO schemas have no messages: A names one"):
        of(Kind.AVRO, '"long"').sample(random.Random(1), "A")
    with pytest.raises(ValueError, match="the schema has no message B"):
        of(Kind.PROTOBUF, 'syntax = "proto3"; message A {}').sample(random.Random(1), "B")
