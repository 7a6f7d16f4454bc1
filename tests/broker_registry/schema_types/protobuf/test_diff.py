"""Compatibility: a wrong verdict lets a producer break its consumers, or stops a deployment for nothing. Kinds, paths
and messages are those that clients of Confluent's registry see.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from broker_registry.schema_types.base import Policy
from broker_registry.schema_types.protobuf.schema import ParsedProtobuf
from tests.broker_registry.schema_types.confluent_classes import confluent_text, needs_confluent
from tests.broker_registry.schema_types.protobuf.schemas import proto3, schema

PROVIDER = "HEAD:protobuf-provider/src/test/resources"


def kinds(new: ParsedProtobuf, old: ParsedProtobuf) -> list[str]:
    return [f"{each.kind} {each.path}" for each in new.differences(old)]


def is_compatible(new: ParsedProtobuf, old: ParsedProtobuf) -> bool:
    return not any(each.breaks for each in new.differences(old))


COMPATIBLE = [
    ("a new field", "message A { int32 a = 1; }", "message A { int32 a = 1; int32 b = 2; }", ["FIELD_ADDED #/A/2"]),
    ("no field", "message A { int32 a = 1; }", "message A { }", ["FIELD_REMOVED #/A/1"]),
    ("another name", "message A { int32 a = 1; }", "message A { int32 b = 1; }", ["FIELD_NAME_CHANGED #/A/1"]),
    ("a wider number", "message A { int32 a = 1; }", "message A { uint64 a = 1; }", []),
    ("bytes for a string", "message A { string a = 1; }", "message A { bytes a = 1; }", []),
    (
        "a bool for an enum",
        "message A { E a = 1; } enum E { Z = 0; }",
        "message A { bool a = 1; } enum E { Z = 0; }",
        [],
    ),
    ("another message", "message A {}", "message A {} message B {}", ["MESSAGE_ADDED #/B"]),
    ("messages moved", "message A {} message B {}", "message B {} message A {}", None),
    ("an enum", "message A {}", "message A {} enum E { Z = 0; }", ["ENUM_ADDED #/E"]),
    ("no enum", "message A { enum E { Z = 0; } }", "message A {}", ["ENUM_REMOVED #/A/E"]),
    ("a value", "enum E { Z = 0; }", "enum E { Z = 0; O = 1; }", ["ENUM_CONST_ADDED #/E/1"]),
    ("no value", "enum E { Z = 0; O = 1; }", "enum E { Z = 0; }", ["ENUM_CONST_REMOVED #/E/1"]),
    ("a value's name", "enum E { Z = 0; }", "enum E { Y = 0; }", ["ENUM_CONST_CHANGED #/E/0"]),
    ("a repeated string", "message A { optional string a = 1; }", "message A { repeated string a = 1; }", None),
    ("one field into a new oneof", "message A { int32 a = 1; }", "message A { oneof o { int32 a = 1; } }", None),
    (
        "a new field in a oneof",
        "message A { oneof o { int32 a = 1; } }",
        "message A { oneof o { int32 a = 1; int32 b = 2; } }",
        ["ONEOF_FIELD_ADDED #/A/o/2"],
    ),
    (
        "a field out of its oneof",
        "message A { oneof o { int32 a = 1; int32 b = 2; } }",
        "message A { oneof o { int32 a = 1; } int32 b = 2; }",
        ["ONEOF_FIELD_MOVED_TO_TOP_LEVEL #/A/2"],
    ),
    ("no oneof at all", "message A { oneof o { int32 a = 1; } }", "message A {}", ["ONEOF_REMOVED #/A/o"]),
    (
        "a map for its entries",
        "message A { map<string, int32> m = 1; }",
        "message A { map<string, uint32> m = 1; }",
        [],
    ),
]
BREAKING = [
    ("no message", "message A {} message B {}", "message A {}", ["MESSAGE_REMOVED #/B"]),
    ("another package", "package p; message A {}", "package q; message A {}", ["PACKAGE_CHANGED #/"]),
    ("text for a number", "message A { int32 a = 1; }", "message A { string a = 1; }", None),
    ("a zigzag number", "message A { int32 a = 1; }", "message A { sint32 a = 1; }", None),
    ("a fixed number", "message A { int32 a = 1; }", "message A { fixed32 a = 1; }", None),
    ("a message for a number", "message A { int32 a = 1; }", "message A { A a = 1; }", ["FIELD_KIND_CHANGED #/A/1"]),
    ("a map for a message", "message A { A a = 1; }", "message A { map<string, A> a = 1; }", None),
    ("another message", "message A { A a = 1; } message B {}", "message A { B a = 1; } message B {}", None),
    ("values of a map", "message A { map<string, int32> m = 1; }", "message A { map<string, string> m = 1; }", None),
    ("keys of a map", "message A { map<int32, int32> m = 1; }", "message A { map<string, int32> m = 1; }", None),
    ("a repeated number", "message A { optional int32 a = 1; }", "message A { repeated int32 a = 1; }", None),
    (
        "no field in a oneof",
        "message A { oneof o { int32 a = 1; int32 b = 2; } }",
        "message A { oneof o { int32 a = 1; } }",
        ["ONEOF_FIELD_REMOVED #/A/o/2"],
    ),
    (
        "two fields into a oneof",
        "message A { int32 a = 1; int32 b = 2; }",
        "message A { oneof o { int32 a = 1; int32 b = 2; } }",
        ["MULTIPLE_FIELDS_MOVED_TO_ONEOF #/A/o", "ONEOF_ADDED #/A/o"],
    ),
    (
        "a field into an existing oneof",
        "message A { oneof o { int32 a = 1; } int32 b = 2; }",
        "message A { oneof o { int32 a = 1; int32 b = 2; } }",
        ["FIELD_MOVED_TO_EXISTING_ONEOF #/A/o"],
    ),
    ("in a nested message", "message A { message B { int32 b = 1; } }", "message A { message B { A b = 1; } }", None),
]


@pytest.mark.parametrize(("change", "old", "new", "expected"), COMPATIBLE, ids=[each[0] for each in COMPATIBLE])
def test_a_change_that_readers_survive_is_compatible(
    change: str, old: str, new: str, expected: list[str] | None
) -> None:
    found = kinds(proto3(new), proto3(old))
    assert is_compatible(proto3(new), proto3(old)), f"{change}: {found}"
    assert expected is None or found == expected


@pytest.mark.parametrize(("change", "old", "new", "expected"), BREAKING, ids=[each[0] for each in BREAKING])
def test_a_change_that_breaks_readers_is_found(change: str, old: str, new: str, expected: list[str] | None) -> None:
    found = kinds(proto3(new), proto3(old))
    assert not is_compatible(proto3(new), proto3(old)), f"{change}: {found}"
    assert expected is None or found == expected


def test_required_fields_may_neither_come_nor_go() -> None:
    """A reader refuses records without them."""
    one, both = "message A { required int32 a = 1; }", "message A { required int32 a = 1; required int32 b = 2; }"
    assert kinds(schema(both), schema(one)) == ["REQUIRED_FIELD_ADDED #/A/2"]
    assert kinds(schema(one), schema(both)) == ["REQUIRED_FIELD_REMOVED #/A/2"]
    assert not is_compatible(schema(both), schema(one))
    assert not is_compatible(schema(one), schema(both))


def test_a_message_has_the_two_schemas_by_the_side_that_is_checked() -> None:
    """Scripts of users look for these sentences in the answer of the compatibility check."""
    (found,) = proto3("message A { string a = 1; }").differences(proto3("message A { int32 a = 1; }"))
    assert found.message("new", "old") == (
        '{errorType:"FIELD_SCALAR_KIND_CHANGED", description:"The kind of a SCALAR field at path \'#/A/1\' in the new '
        'schema does not match its kind in the old schema"}'
    )
    assert found.breaks == frozenset(Policy)


def test_a_change_in_an_imported_file_is_found() -> None:
    """The importing text is the same; its records are not."""
    text = 'syntax = "proto3"; import "l.proto"; message A { lib.B b = 1; }'
    old = schema(text, ("l.proto", 'syntax = "proto3"; package lib; message B { int32 x = 1; }'))
    new = schema(text, ("l.proto", 'syntax = "proto3"; package lib; message B { string x = 1; }'))
    assert kinds(new, old) == ["FIELD_SCALAR_KIND_CHANGED #/B/1", "FIELD_NAMED_TYPE_CHANGED #/A/1"]
    assert kinds(old, old) == []


def test_a_message_may_move_into_an_imported_file_of_another_package() -> None:
    """Local names count, not packages: the bytes are the same."""
    old = proto3('import "l"; message A { p.B b = 1; }', ("l", 'syntax = "proto3"; package p; message B {}'))
    new = proto3('import "l"; message A { q.B b = 1; }', ("l", 'syntax = "proto3"; package q; message B {}'))
    assert is_compatible(new, old)


def test_entries_of_maps_as_messages_are_maps() -> None:
    """Serializers register descriptors, which have a message for each map."""
    text = proto3("message A { map<string, int32> m = 1; }")
    descriptor = schema(text.formatted("serialized"))
    assert kinds(descriptor, text) == []
    assert kinds(text, descriptor) == []


def test_messages_that_name_themselves_are_compared_once() -> None:
    library = 'syntax = "proto3"; package lib; message B {{ B b = 1; C c = 2; }} message C {{ B b = 1; {} x = 2; }}'
    text = 'syntax = "proto3"; import "l"; message A { lib.B b = 1; }'
    old, new = (schema(text, ("l", library.format(each))) for each in ("int32", "bool"))
    assert kinds(new, old) == []
    assert not is_compatible(schema(text, ("l", library.format("string"))), old)


@needs_confluent
@pytest.mark.parametrize("name", ["diff-schema-examples.json", "diff-schema-examples-with-meta.json"])
def test_the_public_verdicts_of_confluents_registry(name: str) -> None:
    """55 pairs of schemas with the differences and the verdict that Confluent's own tests expect."""
    rows = json.loads(confluent_text("show", f"{PROVIDER}/{name}"))
    assert rows
    for row in rows:
        new, old = of_row(row, "update"), of_row(row, "original")
        assert (kinds(new, old), is_compatible(new, old)) == (row["changes"], row["compatible"]), row["description"]


def of_row(row: dict[str, Any], side: str) -> ParsedProtobuf:
    """A schema may be the name of a file; dependencies without a text are those that need no reference."""
    named = row.get(f"{side}_dependencies", [])
    imported = [(each["name"], each["dependency"]) for each in named if "dependency" in each]
    text = row[f"{side}_schema"]
    if text.endswith(".proto"):
        text = confluent_text("show", f"{PROVIDER}/{text}")
    return schema(text, *imported)
