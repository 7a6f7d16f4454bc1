"""Trials of a new schema on records, without a broker and a registry."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from broker_cy.admin.metadata import TopicPartition
from broker_cy.wire.records import Record
from broker_registry.impact.groups import Group
from broker_registry.impact.result import GroupImpact, Impact, Name, ReaderImpact, as_json
from broker_registry.impact.shown import first_lines, notes, verdict
from broker_registry.impact.trial import Reader, Row, Trial
from broker_registry.schema_types.base import Kind, ParsedSchema, ParseSettings
from broker_registry.schema_types.parsers import PARSERS
from tests.broker_registry.operations.support import record_of

PART = TopicPartition("orders", 0)


def schema(text: str, kind: Kind = Kind.AVRO) -> ParsedSchema:
    return PARSERS[kind](text, (), ParseSettings())


def proto(body: str) -> ParsedSchema:
    return schema(f'syntax = "proto3"; {body}', Kind.PROTOBUF)


def closed(**properties: str) -> ParsedSchema:
    kinds = {name: {"type": kind} for name, kind in properties.items()}
    return schema(json.dumps({"type": "object", "properties": kinds, "required": list(kinds)}), Kind.JSON)


def framed(name: int, writer: ParsedSchema, value: Any) -> bytes:
    return b"\0" + name.to_bytes(4) + writer.encode(value)


def rows(*values: bytes | None, first: int = 0) -> list[Row]:
    return [Row(PART, Record(first + at, 1_000 + at, b"key", value, ())) for at, value in enumerate(values)]


def tried(
    new: ParsedSchema,
    writers: Mapping[Name, ParsedSchema | str],
    taken: Sequence[Row],
    *,
    readers: Sequence[Reader] = (),
    groups: Sequence[tuple[Group, GroupImpact]] = (),
    own: frozenset[Name] | None = None,
    is_key: bool = False,
) -> Impact:
    found = Impact("orders-value", ("orders",), is_key, "BACKWARD", needs_old=True, needs_new=False)
    found.readers = [each.impact for each in readers]
    found.groups = [each for _, each in groups]
    Trial(found, new, writers, versions={1: 1, 2: 2}, own=own, groups=groups, readers=readers).take(taken)
    json.dumps(as_json(found))
    return found


OLD = schema(record_of("x:int"))
BOTH = schema(record_of("x:int", "y:string"))


def test_the_first_record_that_breaks_is_shown_with_its_place() -> None:
    """If this fails, a user registers a schema that consumers cannot read records with."""
    taken = rows(framed(2, BOTH, {"x": 1, "y": ""}), framed(1, OLD, {"x": 2}), framed(1, OLD, {"x": 3}))
    found = tried(BOTH, {1: OLD, 2: BOTH}, taken)
    assert (found.new.tried, found.new.broken, found.breaks) == (3, 2, True)
    first = found.new.first
    assert first is not None
    assert (first.place, first.schema, first.path) == ((1_001, "orders", 0, 1), 1, "/y")
    assert [(each.name, each.version, each.tried, each.broken) for each in found.schemas] == [
        (1, 1, 2, 2),
        (2, 2, 1, 0),
    ]
    assert verdict(found) == "2 of 3 records could not be read with the new schema."
    (line,) = first_lines(found)
    assert "orders-0 offset 1" in line
    assert "schema 1: /y:" in line


def test_records_are_tried_in_any_order() -> None:
    """If this fails, a trial that reads the newest records first shows the last one that breaks."""
    taken = rows(*(framed(1, OLD, {"x": 2}) for _ in range(3)))
    assert tried(BOTH, {1: OLD}, taken[::-1]).new.first == tried(BOTH, {1: OLD}, taken).new.first


def test_records_without_a_schema_are_counted_and_not_tried() -> None:
    """If this fails, tombstones or records of other producers count as broken."""
    taken = rows(None, b"plain", framed(1, OLD, {"x": 1}), framed(9, OLD, {"x": 1}), b"\0\0\0\0\x01\xff")
    found = tried(OLD, {1: OLD, 9: "the registry has no schema 9"}, taken)
    assert (found.seen, found.empty, found.plain, found.damaged, found.new.tried) == (5, 1, 1, 2, 1)
    assert not found.breaks
    assert found.first_damaged is not None
    assert found.first_damaged.reason == "the registry has no schema 9"
    assert any("cannot be read with their own schema" in line for line in notes(found))


def test_records_of_other_subjects_are_left_alone() -> None:
    """If this fails, a topic with several record types breaks with each change of one of them."""
    taken = rows(framed(1, OLD, {"x": 1}), framed(3, BOTH, {"x": 1, "y": "z"}))
    found = tried(schema(record_of("x:int", "z:int=1")), {1: OLD, 3: BOTH}, taken, own=frozenset({1}))
    assert (found.new.tried, found.other, found.new.broken) == (1, 1, 0)


def test_keys_are_tried_instead_of_values() -> None:
    """If this fails, the subject of keys is tried on values."""
    key = framed(1, OLD, {"x": 1})
    taken = [Row(PART, Record(0, 0, key, b"value", ())), Row(PART, Record(1, 0, None, key, ()))]
    found = tried(BOTH, {1: OLD}, taken, is_key=True)
    assert (found.new.tried, found.new.broken, found.empty) == (1, 1, 1)


def test_a_group_is_tried_with_what_is_ahead_of_it() -> None:
    """If this fails, a group that has read everything seems to break, or one that is behind seems safe."""
    taken = rows(framed(1, OLD, {"x": 1}), framed(1, OLD, {"x": 2}), framed(2, BOTH, {"x": 3, "y": ""}), first=10)
    groups = [(Group(name, {PART: at}), GroupImpact(group=name)) for name, at in (("behind", 11), ("done", 13))]
    groups.append((Group("elsewhere", {TopicPartition("orders", 1): 0}), GroupImpact(group="elsewhere")))
    found = tried(BOTH, {1: OLD, 2: BOTH}, taken, groups=groups)
    assert [(each.group, each.tried, each.broken) for each in found.groups] == [
        ("behind", 2, 1),
        ("done", 0, 0),
        ("elsewhere", 0, 0),
    ]
    first = found.groups[0].first
    assert first is not None
    assert first.place.offset == 11


def reader(name: int, parsed: ParsedSchema) -> Reader:
    return Reader(parsed, ReaderImpact(name=name, is_newest=True))


def test_present_readers_read_records_of_the_new_schema() -> None:
    """If this fails, a producer with the new schema breaks consumers that the level protects."""
    new = schema(record_of("x:int"))
    taken = rows(framed(2, BOTH, {"x": 1, "y": "z"}))
    found = tried(new, {2: BOTH}, taken, readers=[reader(2, BOTH), reader(1, OLD)])
    assert not found.breaks_readers_of_old
    assert [(each.name, each.tried, each.broken) for each in found.readers] == [(2, 1, 1), (1, 1, 0)]
    assert found.breaks_present_readers
    # BACKWARD does not promise that they do.
    assert not found.breaks
    assert replace(found, needs_new=True).breaks
    assert found.schemas[0].left_out == {"/y": 1}


def test_protobuf_records_are_read_with_the_new_message() -> None:
    """If this fails, a field whose type on the wire changed is read as empty, without an error."""
    old = proto("message A { int32 x = 1; string gone = 2; B b = 3; } message B { int32 y = 1; }")
    new = proto("message A { string x = 1; B b = 3; } message B { int32 y = 1; }")
    found = tried(new, {1: old}, rows(framed(1, old, {"x": 5}), framed(1, old, {"gone": "z", "b": {"y": 1}})))
    assert found.new.broken == 1
    assert found.new.first is not None
    assert found.new.first.path == "/x"
    assert found.schemas[0].left_out == {"/gone": 1}
    required = schema('syntax = "proto2"; message A { required int32 q = 9; }', Kind.PROTOBUF)
    found = tried(required, {1: old}, rows(framed(1, old, {"gone": "z"})))
    assert found.new.first is not None
    assert "required fields: q" in found.new.first.reason
    moved = proto("message Z {} message A { int32 x = 1; string gone = 2; B b = 3; } message B { int32 y = 1; }")
    found = tried(moved, {1: old}, rows(framed(1, old, {"x": 5})), readers=[reader(1, old)])
    # The present reader finds the message by its name, whatever its index.
    assert (found.new.broken, found.readers[0].tried, found.readers[0].broken) == (0, 1, 0)


def test_values_of_enums_that_the_new_message_lacks_are_named() -> None:
    """If this fails, a state that was removed becomes a number without a name."""
    old = proto("message A { repeated E e = 1; map<string, B> m = 2; } enum E { Z = 0; O = 1; } message B { E e = 1; }")
    new = proto("message A { repeated E e = 1; map<string, B> m = 2; } enum E { Z = 0; } message B { E e = 1; }")
    found = tried(new, {1: old}, rows(framed(1, old, {"e": ["Z", "O"], "m": {"k": {"e": "O"}}})))
    assert found.new.broken == 0
    assert sorted(found.schemas[0].left_out) == [
        "/e (the value 1 has no name)",
        "/m/*/e (the value 1 has no name)",
    ]


def test_documents_are_validated_with_the_new_schema() -> None:
    """If this fails, a JSON document that consumers would refuse is not found."""
    old, new = closed(x="integer"), closed(x="integer", y="string")
    found = tried(new, {1: old}, rows(framed(1, old, {"x": 1}), framed(1, old, {"x": 1, "y": "z"})))
    assert (found.new.tried, found.new.broken) == (2, 1)
    assert found.new.first is not None
    assert "'y'" in found.new.first.reason or '"y"' in found.new.first.reason
    deep = closed(x="string")
    broken = tried(deep, {1: old}, rows(framed(1, old, {"x": 1}))).new.first
    assert broken is not None
    assert broken.path == "/x"


def test_another_schema_type_breaks_every_record() -> None:
    """If this fails, a change of the type seems harmless."""
    found = tried(closed(x="integer"), {1: OLD}, rows(framed(1, OLD, {"x": 1})))
    assert found.new.first is not None
    assert "schema type AVRO" in found.new.first.reason


def test_nothing_tried_is_no_promise() -> None:
    """If this fails, a trial of an empty topic reads like a proof."""
    found = tried(BOTH, {}, [])
    assert "nothing is known" in verdict(found)
    assert not found.breaks
