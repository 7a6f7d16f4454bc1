"""Avro schemas: canonical text as Avro's Java library prints it, what is no schema, resolution, records."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest

from broker_registry.schema_types.avro import parse
from broker_registry.schema_types.avro.schema import AvroSchema
from broker_registry.schema_types.base import InvalidSchema, ParseSettings, Resolved

NEW = ParseSettings(is_new=True, validates=True)
TEXTS = {
    # A primitive, and one with a property.
    ' "int" ': '"int"',
    '{"type": "int"}': '"int"',
    '{"logicalType": "date", "type": "int"}': '{"type":"int","logicalType":"date"}',
    # Members have one order; a namespace is named where it changes.
    '{"fields": [{"type": "N", "name": "n"}], "namespace": "x.y", "name": "R", "type": "record", "doc": "d"}'.replace(
        '"N"', '{"type": "enum", "symbols": ["A", "B"], "name": "N", "default": "B"}'
    ): '{"type":"record","name":"R","namespace":"x.y","doc":"d","fields":[{"name":"n","type":{"type":"enum","name":"N",'
    '"symbols":["A","B"],"default":"B"}}]}',
    '{"type": "record", "name": "x.R", "fields": [{"name": "f", "type": {"type": "fixed", "name": "F", "size": 4, '
    '"namespace": "z"}}, {"name": "g", "type": "z.F"}, {"name": "me", "type": ["null", "R"], "default": null}]}': (
        '{"type":"record","name":"R","namespace":"x","fields":[{"name":"f","type":{"type":"fixed","name":"F",'
        '"namespace":"z","size":4}},{"name":"g","type":"z.F"},{"name":"me","type":["null","R"],"default":null}]}'
    ),
    # Properties and aliases come last, in their order.
    '{"aliases": ["Old"], "type": "record", "b": 1, "name": "R", "a": [1.0, 1e10], "fields": [{"name": "f", "order": '
    '"DESCENDING", "type": "int", "aliases": ["e"], "default": 7, "doc": "", "p": {"y": null, "x": true}}]}': (
        '{"type":"record","name":"R","fields":[{"name":"f","type":"int","doc":"","default":7,"order":"descending",'
        '"aliases":["e"],"p":{"y":null,"x":true}}],"b":1,"a":[1.0,1.0E10],"aliases":["Old"]}'
    ),
    '{"type": "map", "values": {"type": "array", "items": ["null", "long"]}, "p": "é\\n"}': (
        '{"type":"map","values":{"type":"array","items":["null","long"]},"p":"é\\n"}'
    ),
    # Comments, as Avro's library allows them, but not in texts.
    '/* one */ {"type": "int", // two\n "doc": "x", "p": "// no /* comment */"}': (
        '{"type":"int","p":"// no /* comment */"}'
    ),
}


@pytest.mark.parametrize("text", TEXTS)
def test_text_is_canonical(text: str) -> None:
    """If this fails, one schema has two ids, or an id differs from that of Confluent's registry."""
    found = parse(text, (), NEW)
    assert found.canonical == TEXTS[text]
    assert parse(found.canonical, (), NEW).canonical == found.canonical


INVALID = {
    "": "no JSON",
    "{": "no JSON",
    "NaN": "NaN is no number",
    "7": "Schema not yet supported: 7",
    '"thing"': "Undefined schema: thing",
    "{}": "No type",
    '{"type": {"type": "string", "a": 1}}': "No type",
    '"int" "int"': "dangling content after end of schema",
    '"int" // comment': "dangling content after end of schema",
    '{"type": "int", "p": "\\ud800"}': "half of a surrogate pair",
    '{"type": "record", "name": "R", "namespace": "a-b", "fields": []}': 'Namespace part "a-b" is invalid',
    '{"type": "record", "name": "a.1b.R", "fields": []}': 'Namespace part "1b" is invalid',
    '{"type": "record", "name": "R", "aliases": null, "fields": []}': "aliases not an array",
    '{"type": "record", "name": "R", "aliases": ["a-b"], "fields": []}': "Illegal character in: a-b",
    '{"type": "record", "name": "R", "fields": [{"name": "a", "type": "int", "default": 7.0}]}': "Invalid default",
    '{"type": "record", "name": "R", "fields": [{"name": "a", "type": "double", "default": "x"}]}': "is no number",
    '{"type": "record", "name": "R", "fields": [{"name": "a", "type": "Later"}]}': "Undefined schema: Later",
    '["Later", "Later", {"type": "fixed", "name": "Later", "size": 1}]': "Duplicate in union: Later",
    '[{"type": "fixed", "name": "F", "size": 1}, {"type": "fixed", "name": "F", "size": 2}]': "Can't redefine: F",
    '{"type": "record", "name": "R", "fields": [{"name": "a", "type": "E", "default": 7}, {"name": "b", "type": '
    '{"type": "enum", "name": "E", "symbols": ["A"]}}]}': "Invalid default for field a",
    '{"type": "record", "name": "R"}': "Record has no fields",
    '{"type": "record", "fields": []}': "No name in schema",
    '{"type": "record", "name": "1R", "fields": []}': "Illegal initial character: 1R",
    '{"type": "record", "name": "a-b", "fields": []}': "Illegal character in: a-b",
    '{"type": "record", "name": "int", "fields": []}': "Schemas may not be named after primitives: int",
    '{"type": "record", "name": "R", "fields": [{"name": "a"}]}': "No field type",
    '{"type": "record", "name": "R", "fields": [{"name": "a", "type": "int"}, {"name": "a", "type": "int"}]}': (
        "Duplicate field a in record R"
    ),
    '{"type": "record", "name": "R", "fields": [{"name": "a", "type": "int", "default": "x"}]}': (
        'Invalid default for field a: "x" not a "int"'
    ),
    '{"type": "record", "name": "R", "fields": [{"name": "a", "type": ["null", "int"], "default": "null"}]}': (
        'Invalid default for field a: "null" not a ["null","int"]'
    ),
    '{"type": "record", "name": "R", "fields": [{"name": "a", "type": "int", "order": "up"}]}': "the order of field a",
    '{"type": "enum", "name": "E"}': "Enum has no symbols",
    '{"type": "enum", "name": "E", "symbols": ["A", "A"]}': "Duplicate enum symbol: A",
    '{"type": "enum", "name": "E", "symbols": ["A"], "default": "B"}': "The Enum Default: B",
    '{"type": "fixed", "name": "F"}': "Invalid or no size",
    '{"type": "array"}': "Array has no items type",
    '{"type": "map"}': "Map has no values type",
    '["int", "int"]': "Duplicate in union: int",
    '["int", ["null"]]': "Nested union",
    "[" * 5_000: "deeper than 400",
    '{"type":"array","items":' * 500 + '"int"' + "}" * 500: "deeper than 400",
}


@pytest.mark.parametrize("text", INVALID, ids=lambda text: text[:60])
def test_what_is_no_schema_is_named(text: str) -> None:
    """If this fails, an author does not learn what is wrong with a schema."""
    with pytest.raises(InvalidSchema) as caught:
        parse(text, (), NEW)
    assert INVALID[text] in str(caught.value)


LATE = {
    # A name before its definition, and a definition that is repeated.
    '{"type": "record", "name": "R", "fields": [{"name": "a", "type": "F"}, {"name": "b", "type": {"type": "fixed", '
    '"name": "F", "size": 1}}]}': (
        '{"type":"record","name":"R","fields":[{"name":"a","type":{"type":"fixed","name":"F","size":1}},'
        '{"name":"b","type":"F"}]}'
    ),
    '{"type": "record", "name": "R", "fields": [{"name": "a", "type": {"type": "fixed", "name": "F", "size": 1}}, '
    '{"name": "b", "type": {"type": "fixed", "name": "F", "size": 1}}]}': (
        '{"type":"record","name":"R","fields":[{"name":"a","type":{"type":"fixed","name":"F","size":1}},'
        '{"name":"b","type":"F"}]}'
    ),
    '[{"type": "array", "items": {"type": "map", "values": "x.E"}}, {"type": "enum", "name": "x.E", "symbols": '
    '["A"]}]': (
        '[{"type":"array","items":{"type":"map","values":{"type":"enum","name":"E","namespace":"x","symbols":["A"]}}},'
        '"x.E"]'
    ),
    # Numbers as texts, as Java reads them.
    '{"type": "record", "name": "R", "fields": [{"name": "a", "type": "double", "default": " 1.50f"}, '
    '{"name": "b", "type": "float", "default": "-Infinity"}]}': (
        '{"type":"record","name":"R","fields":[{"name":"a","type":"double","default":1.5},'
        '{"name":"b","type":"float","default":"-Infinity"}]}'
    ),
    # Words of Avro as names keep their namespace.
    '{"type": "record", "name": "x.enum", "aliases": ["y", "x.map", ".z"], "fields": [{"name": "a", "type": '
    '"x.enum"}]}': (
        '{"type":"record","name":"enum","namespace":"x","fields":[{"name":"a","type":"x.enum"}],'
        '"aliases":["y","x.map","z"]}'
    ),
}


@pytest.mark.parametrize("text", LATE)
def test_texts_of_javas_library_are_read(text: str) -> None:
    """If this fails, a schema that Confluent's registry takes is refused here, or has another id."""
    found = parse(text, (), NEW)
    assert found.canonical == LATE[text]
    assert parse(found.canonical, (), NEW).canonical == found.canonical


def test_stored_schemas_may_have_names_and_defaults_of_their_time() -> None:
    """If this fails, a topic that an older registry wrote cannot be opened."""
    text = '{"type":"record","name":"Zahl","fields":[{"name":"größe","type":"int","default":"x"}]}'
    assert parse(text, (), ParseSettings()).canonical == text
    with pytest.raises(InvalidSchema):
        parse(text, (), NEW)


def test_references_bring_types_that_are_named_only() -> None:
    """If this fails, a schema with references is stored with the types of others in it."""
    base = Resolved("x.Base", '{"type":"record","name":"Base","namespace":"x","fields":[]}')
    text = '{"type":"record","name":"R","namespace":"x","fields":[{"name":"b","type":"Base"}]}'
    found = parse(text, (base,), NEW)
    assert found.canonical == text
    assert found.formatted("resolved") == text.replace('"Base"', base.text.replace(',"namespace":"x"', ""))
    assert found.is_equivalent(parse(found.formatted("resolved"), (), NEW))


def test_normalized_schemas_have_sorted_properties() -> None:
    """If this fails, `normalize=true` does not unite schemas that differ in the order of properties."""
    text = '{"type":"bytes","scale":2,"x":1,"logicalType":"decimal","precision":4,"a":2}'
    found = parse(text, (), ParseSettings(normalizes=True)).canonical
    assert found == '{"type":"bytes","logicalType":"decimal","precision":4,"scale":2,"a":2,"x":1}'


def record(*fields: str, **more: Any) -> AvroSchema:
    """Return a record R; a field is JSON without its braces."""
    whole = {"type": "record", "name": "R", "fields": [json.loads(f"{{{each}}}") for each in fields], **more}
    return parse(json.dumps(whole), (), ParseSettings())


A = '"name":"a","type":"int"'
ENUM = '{"type":"enum","name":"E","symbols":["A","B"]}'
ROWS = {
    "a field more": (record(A, '"name":"b","type":"int"'), record(A), ["READER_FIELD_MISSING_DEFAULT_VALUE /fields/1"]),
    "a field more with a default": (record(A, '"name":"b","type":"int","default":1'), record(A), []),
    "a field less": (record(), record(A), []),
    "a renamed field": (record('"name":"b","type":"int","aliases":["a"]'), record(A), []),
    "a wider field": (record('"name":"a","type":"double"'), record(A), []),
    "a narrower field": (record(A), record('"name":"a","type":"long"'), ["TYPE_MISMATCH /fields/0/type"]),
    "texts as bytes": (record('"name":"a","type":"bytes"'), record('"name":"a","type":"string"'), []),
    "another name": (record(A, name="S"), record(A), ["NAME_MISMATCH /name"]),
    "another name with an alias": (record(A, name="S", aliases=["R"]), record(A), []),
    "a symbol less": (
        parse('{"type":"enum","name":"E","symbols":["A"]}', (), ParseSettings()),
        parse(ENUM, (), ParseSettings()),
        ["MISSING_ENUM_SYMBOLS /symbols"],
    ),
    "a symbol less with a default": (
        parse('{"type":"enum","name":"E","symbols":["A"],"default":"A"}', (), ParseSettings()),
        parse(ENUM, (), ParseSettings()),
        [],
    ),
    "another size": (
        parse('{"type":"fixed","name":"F","size":4}', (), ParseSettings()),
        parse('{"type":"fixed","name":"F","size":8}', (), ParseSettings()),
        ["FIXED_SIZE_MISMATCH /size"],
    ),
    "a branch less": (
        parse('["null","int"]', (), ParseSettings()),
        parse('["null","int","string"]', (), ParseSettings()),
        ["MISSING_UNION_BRANCH /2"],
    ),
    "one of several": (parse('["null","long"]', (), ParseSettings()), parse('"int"', (), ParseSettings()), []),
    "items": (
        parse('{"type":"array","items":"int"}', (), ParseSettings()),
        parse('{"type":"array","items":"string"}', (), ParseSettings()),
        ["TYPE_MISMATCH /items"],
    ),
    "a tree": (
        record('"name":"next","type":["null","R"]', '"name":"v","type":"int"'),
        record('"name":"next","type":["null","R"]', '"name":"v","type":"string"'),
        ["TYPE_MISMATCH /fields/1/type"],
    ),
}


@pytest.mark.parametrize("row", ROWS)
def test_readers_are_compared_with_writers(row: str) -> None:
    """If this fails, a change that consumers cannot read is registered, or a harmless one is refused."""
    reader, writer, expected = ROWS[row]
    assert [f"{each.kind} {each.path}" for each in reader.differences(writer)] == expected


def test_records_are_read_by_another_schema() -> None:
    """If this fails, the preview of a change differs from what consumers would see."""
    writer, reader = record(A), record(A, '"name":"b","type":"string","default":"x"')
    payload = writer.encode({"a": 5})
    assert payload == b"\n"
    assert writer.decode(payload) == {"a": 5}
    assert reader.resolve(payload, writer) == {"a": 5, "b": "x"}
    for wrong in (b"", payload + b"x"):
        with pytest.raises(ValueError, match=r"."):
            writer.decode(wrong)
    with pytest.raises(ValueError, match=r"."):
        writer.encode({"a": "no number"})


PIECES = ('"', "{", "}", "[", "]", ":", ",", "1", "null", "a")


def test_no_text_ends_the_parser() -> None:
    """If this fails, a malformed schema ends in an exception without an answer: 3,000 changed texts."""
    draw = random.Random(7)
    texts = [*TEXTS, *(text for text in INVALID if len(text) < 300)]
    for _ in range(3_000):
        text = list(draw.choice(texts))
        for _ in range(draw.randint(1, 4)):
            place = draw.randrange(len(text) + 1)
            text[place : place + draw.randint(0, 3)] = draw.choice(
                ['"', "{", "}", "[", "]", ":", ",", "1", "null", "a"]
            )
        for settings in (NEW, ParseSettings(normalizes=True)):
            try:
                parse("".join(text), (), settings)
            except InvalidSchema:
                continue
