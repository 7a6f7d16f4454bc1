"""Which place of a record a reader cannot take, and which values it leaves out, against the library that decodes."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest

from broker_registry.schema_types.avro import parse
from broker_registry.schema_types.avro.schema import AvroSchema
from broker_registry.schema_types.avro.trace import trace
from broker_registry.schema_types.base import ParseSettings, Unreadable

ITEM = '{"type":"record","name":"Item","fields":[{"name":"price","type":"%s"},{"name":"sku","type":"string"}]}'


def avro(text: Any) -> AvroSchema:
    return parse(text if isinstance(text, str) else json.dumps(text), (), ParseSettings())


def record(*fields: tuple[str, Any] | tuple[str, Any, Any], name: str = "R") -> AvroSchema:
    """A field is (name, type) or (name, type, default)."""
    parts = [{"name": each[0], "type": each[1], **({"default": each[2]} if len(each) == 3 else {})} for each in fields]
    return avro({"type": "record", "name": name, "fields": parts})


def items(kind: str) -> AvroSchema:
    return avro(
        f'{{"type":"record","name":"R","fields":[{{"name":"items","type":{{"type":"array","items":{ITEM % kind}}}}}]}}'
    )


E = {"type": "enum", "name": "E", "symbols": ["A", "B"]}
CASES: dict[str, tuple[AvroSchema, AvroSchema, Any, str, str]] = {
    "a field without a default": (
        record(("x", "int")),
        record(("x", "int"), ("y", "string")),
        {"x": 1},
        "/y",
        "no default",
    ),
    "a type in a list": (
        items("int"),
        items("string"),
        {"items": [{"price": 1, "sku": "a"}, {"price": 2, "sku": "b"}]},
        "/items/0/price",
        "the record has int, the schema reads string",
    ),
    "a symbol": (
        record(("e", E)),
        record(("e", {**E, "symbols": ["A"]})),
        {"e": "B"},
        "/e",
        "symbol B",
    ),
    "a branch": (
        record(("u", ["null", "int", "string"])),
        record(("u", ["null", "int"])),
        {"u": "text"},
        "/u",
        "no branch of the union takes string",
    ),
    "a size": (
        record(("f", {"type": "fixed", "name": "F", "size": 2})),
        record(("f", {"type": "fixed", "name": "F", "size": 3})),
        {"f": b"ab"},
        "/f",
        "2 bytes",
    ),
    "a value of a map": (
        record(("m", {"type": "map", "values": ["int", "string"]})),
        record(("m", {"type": "map", "values": ["int"]})),
        {"m": {"k": "text"}},
        "/m/k",
        "takes string",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_the_place_that_a_reader_cannot_take_is_named(case: str) -> None:
    """If this fails, a user learns that a record breaks, and not which field of it."""
    writer, reader, value, path, reason = CASES[case]
    with pytest.raises(Unreadable, match=reason) as caught:
        reader.resolve(writer.encode(value), writer)
    assert caught.value.path == path


def test_a_branch_or_symbol_matters_where_a_record_has_it() -> None:
    """If this fails, records count as broken that every reader takes."""
    for case, harmless in (("a symbol", {"e": "A"}), ("a branch", {"u": 5}), ("a value of a map", {"m": {"k": 5}})):
        writer, reader, *_ = CASES[case]
        payload = writer.encode(harmless)
        assert reader.resolve(payload, writer) == harmless
        assert trace(payload, reader.schema, writer.schema).problem is None


def test_fields_that_the_reader_does_not_have_are_named_once() -> None:
    """If this fails, a change drops data without a warning."""
    writer = items("int")
    reader = avro(writer.canonical.replace(',{"name":"sku","type":"string"}', ""))
    payload = writer.encode({"items": [{"price": 1, "sku": "a"}, {"price": 2, "sku": "b"}]})
    assert reader.left_out(payload, writer) == ("/items/*/sku",)
    assert writer.left_out(payload, writer) == ()


def test_a_record_is_rewritten_with_the_branches_that_it_has() -> None:
    """If this fails, the trial of present readers reads other records than producers will write."""
    same = [{"type": "record", "name": name, "fields": [{"name": "x", "type": "int"}]} for name in ("One", "Two")]
    writer = record(("u", same))
    reader = record(("u", same), ("added", "int", 7))
    payload = writer.encode({"u": {"Two": {"x": 1}}})
    assert reader.rewritten(payload, writer) == payload + b"\x0e"


def test_the_walk_agrees_with_the_library_on_random_schemas() -> None:
    """If this fails, a record that breaks has no place, or a place is named in one that does not break."""
    source = random.Random(7)
    broken = 0
    for _ in range(1_000):
        fields = _fields(source)
        changed = [
            each if source.random() < 0.6 else (each[0], dict(_fields(source)).get(each[0], each[1])) for each in fields
        ]
        writer, reader = record(*fields), record(*source.sample(changed, source.randint(1, len(changed))))
        payload = writer.encode(_value(source, json.loads(writer.canonical)))
        problem = trace(payload, reader.schema, writer.schema).problem
        error = _error(reader, payload, writer)
        if error is None:
            assert problem is None, (writer.canonical, reader.canonical)
            continue
        broken += 1
        # The library also refuses an empty list whose items it could not read; a Java reader takes it.
        is_placed = isinstance(error, Unreadable) or "[]" in str(writer.decode(payload))
        assert is_placed, (writer.canonical, reader.canonical, error)
    assert 100 < broken < 900


def _error(reader: AvroSchema, payload: bytes, writer: AvroSchema) -> ValueError | None:
    try:
        reader.resolve(payload, writer)
    except ValueError as error:
        return error
    return None


TYPES = ("int", "long", "string", "bytes", "double", "boolean")


def _fields(source: random.Random) -> list[tuple[str, Any]]:
    fields: list[tuple[str, Any]] = []
    for name in source.sample("abcd", source.randint(1, 3)):
        kind: Any = source.choice(TYPES)
        shape = source.randint(0, 4)
        if shape == 0:
            kind = {"type": "array", "items": kind}
        elif shape == 1:
            kind = ["null", *source.sample(("int", "string", "boolean"), 2)]
        elif shape == 2:
            kind = {"type": "enum", "name": f"E{name}", "symbols": source.sample("XYZ", 2)}
        fields.append((name, kind))
    return fields


def _value(source: random.Random, kind: Any) -> Any:
    if isinstance(kind, list):
        return _value(source, source.choice(kind))
    if isinstance(kind, dict):
        if kind["type"] == "record":
            return {each["name"]: _value(source, each["type"]) for each in kind["fields"]}
        if kind["type"] == "array":
            return [_value(source, kind["items"]) for _ in range(source.randint(0, 2))]
        return source.choice(kind["symbols"])
    values: dict[str, Any] = {
        "null": None,
        "int": 5,
        "long": 1 << 40,
        "string": "text",
        "bytes": b"\x01",
        "double": 1.5,
        "boolean": True,
    }
    return values[kind]


def test_bytes_of_another_schema_end_the_walk() -> None:
    """If this fails, a damaged record ends the trial of all others, or never ends it."""
    nulls = avro({"type": "array", "items": "null"})
    # 2^62 items of no bytes.
    assert trace(b"\xfe" + b"\xff" * 8 + b"\x01", nulls.schema, nulls.schema).problem is None
    writer = record(("x", "string"))
    for payload in (b"", b"\xff", b"\x10ab", b"\x01"):
        assert trace(payload, writer.schema, writer.schema) == (None, ())
