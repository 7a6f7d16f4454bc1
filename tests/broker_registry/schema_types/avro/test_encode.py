"""Values to Avro's bytes, compared with fastavro, and the values that are refused."""

from __future__ import annotations

import io
import json
import random
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any
from uuid import UUID

import fastavro
import pytest
from fastavro.utils import generate_one

from broker_registry.schema_types.avro import parse
from broker_registry.schema_types.avro.encode import VALUES_MAX
from broker_registry.schema_types.avro.schema import AvroSchema
from broker_registry.schema_types.base import ParseSettings
from broker_registry.serdes.values import json_value

ENUM = {"type": "enum", "name": "E", "symbols": ["A", "B"]}
FIXED = {"type": "fixed", "name": "F", "size": 3}
INNER = {"type": "record", "name": "n.Inner", "fields": [{"name": "x", "type": "int"}]}
OTHER = {"type": "record", "name": "Other", "fields": [{"name": "y", "type": "int", "default": 7}]}


def logical(kind: str, name: str, **more: Any) -> dict[str, Any]:
    return {"type": kind, "logicalType": name, **more}


def of(schema: Any) -> AvroSchema:
    return parse(json.dumps(schema), (), ParseSettings())


def fields(**types: Any) -> dict[str, Any]:
    return {"type": "record", "name": "R", "fields": [{"name": name, "type": each} for name, each in types.items()]}


MONEY = logical("bytes", "decimal", precision=4, scale=2)
INSTANT = logical("long", "timestamp-millis")
EVERYTHING = fields(
    none="null", flag="boolean", i="int", l="long", f="float", d="double", b="bytes", s="string", e=ENUM, x=FIXED,
    list={"type": "array", "items": ["null", "string"]}, map={"type": "map", "values": INNER},
    maybe=["null", "long"], several=["null", "string", "int", OTHER],
)  # fmt: skip


def test_bytes_are_those_of_fastavro() -> None:
    """If this fails, consumers cannot read what `broker-cy produce` writes: 500 random records."""
    random.seed(7)
    schema, library = of(EVERYTHING), fastavro.parse_schema(EVERYTHING)
    for _ in range(500):
        stream = io.BytesIO()
        fastavro.schemaless_writer(stream, library, generate_one(library))
        value = schema.decode(stream.getvalue())
        assert schema.encode(value) == stream.getvalue()
        assert schema.encode(json.loads(json.dumps(json_value(value)))) == stream.getvalue()


LOGICAL: list[tuple[Any, Any, Any]] = [
    (logical("bytes", "decimal", precision=6, scale=2), Decimal("-12.50"), "-12.50"),
    (logical("bytes", "decimal", precision=4), Decimal(300), 300),
    (logical("bytes", "decimal", precision=30, scale=10), Decimal("0.0000000001"), "0.0000000001"),
    ({**logical("fixed", "decimal", precision=6, scale=2), "name": "D", "size": 4}, Decimal("1.5"), 1.5),
    (logical("int", "date"), date(2026, 1, 31), "2026-01-31"),
    (logical("int", "date"), date(1969, 12, 31), -1),
    (logical("int", "time-millis"), time(12, 34, 56, 789_000), "12:34:56.789"),
    (logical("long", "time-micros"), time(12, 34, 56, 789_012), "12:34:56.789012"),
    (logical("long", "timestamp-millis"), datetime(2026, 1, 31, 12, tzinfo=UTC), "2026-01-31T13:00:00+01:00"),
    (logical("long", "timestamp-micros"), datetime(1960, 1, 1, 0, 0, 0, 1, UTC), "1960-01-01T00:00:00.000001Z"),
    (logical("long", "timestamp-millis"), datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC), 1_000),
    (logical("long", "local-timestamp-millis"), datetime(2026, 1, 31, 12), "2026-01-31T12:00:00"),
    (logical("long", "local-timestamp-micros"), datetime(2026, 1, 31, 12, 0, 0, 1), "2026-01-31 12:00:00.000001"),
    (logical("string", "uuid"), UUID(int=5), str(UUID(int=5))),
    ({**logical("fixed", "uuid"), "name": "U", "size": 16}, UUID(int=5), str(UUID(int=5))),
]


@pytest.mark.parametrize(("schema", "value", "text"), LOGICAL)
def test_logical_types_are_texts(schema: Any, value: Any, text: Any) -> None:
    """If this fails, dates and amounts cannot be typed, or are stored as others."""
    stream = io.BytesIO()
    # The library does not write UUIDs of 16 bytes.
    plain = value.bytes if schema["type"] == "fixed" and isinstance(value, UUID) else value
    fastavro.schemaless_writer(stream, fastavro.parse_schema(schema), plain)
    data = stream.getvalue()
    found = of(schema)
    assert found.decode(data) == value or isinstance(value, int)
    assert found.encode(value) == data
    assert found.encode(text) == data
    assert found.encode(json_value(found.decode(data))) == data


UNION = ["null", "int", "double", "string", INNER, {"type": "map", "values": "int"}]


@pytest.mark.parametrize(
    ("union", "value", "index"),
    [
        (UNION, None, 0),
        (UNION, 5, 1),
        (UNION, 5.5, 2),
        (UNION, 2**40, 2),
        (UNION, "NaN", None),
        (UNION, {"double": "NaN"}, 2),
        (UNION, {"string": "NaN"}, 3),
        (UNION, {"n.Inner": {"x": 1}}, 4),
        (UNION, {"x": 1}, None),
        (UNION, {"map": {"x": 1}}, 5),
        (UNION, {"string": 1}, 5),
        (UNION, True, None),
        (["int", "long"], 5, None),
        (["int", "long"], {"long": 5}, 1),
        ([INNER, OTHER], {"x": 1}, 0),
        ([INNER, OTHER], {}, 1),
        (["null", logical("int", "date")], "2026-01-31", 1),
        (["string", logical("int", "date")], "2026-01-31", None),
        (["string", logical("int", "date")], {"int": "2026-01-31"}, 1),
    ],
)
def test_a_branch_is_named_or_is_the_only_one_that_fits(union: Any, value: Any, index: int | None) -> None:
    """If this fails, a value is written with a branch that its producer did not mean."""
    if index is None:
        with pytest.raises(ValueError, match=r"^/: .* fits (none of )?the branches "):
            of(union).encode(value)
    else:
        assert of(union).encode(value)[0] == index * 2


@pytest.mark.parametrize(
    ("schema", "value", "reason"),
    [
        ("int", "5", '/: "5" is no int'),
        ("int", True, "/: true is no int"),
        ("int", 2**31, "/: 2147483648 is no int: -2147483648 to 2147483647 are allowed"),
        ("float", 1e300, "/: 1e+300 is too large for a float"),
        ("double", 10**400, f"/: 1{'0' * 59}... is too large for a double"),
        ("bytes", "€", "/: '€' is no byte: bytes are text of one character each, up to U+00FF"),
        ("string", "\ud800", "/: the text has half of a surrogate pair"),
        (FIXED, "ab", "/: F has 3 bytes, not 2"),
        (ENUM, "C", '/: "C" is none of the symbols A, B'),
        (ENUM, ["A"], '/: ["A"] is none of the symbols A, B'),
        (fields(a=INNER), {"a": {"x": "1"}}, '/a/x: "1" is no int'),
        (fields(a=["null", INNER]), {"a": {"x": "1"}}, '/a/x: "1" is no int'),
        (fields(a={"type": "array", "items": "int"}), {"a": [1, None]}, "/a/1: null is no int"),
        (fields(a={"type": "map", "values": "int"}), {"a": {"k": []}}, "/a/k: [] is no int"),
        (fields(a="int"), {}, "/a: the field is missing, and has no default"),
        (fields(a="int"), {"a": 1, "b": 2}, "/b: R has no such field"),
        (fields(a="int"), [1], "/: [1] is no R"),
        (MONEY, "1.234", "/: 1.234 has more than 2 digits behind the point"),
        (MONEY, "123.45", "/: 123.45 has more than 4 digits"),
        (MONEY, "1e999999999", "/: 1e999999999 is no decimal number that"),
        (MONEY, "x", "/: 'x' is no decimal number"),
        ({**logical("fixed", "decimal", precision=9), "name": "D", "size": 1}, 1000, "/: 1000 does not fit into 1"),
        (logical("int", "date"), "31.1.2026", "/: '31.1.2026' is no date such as 2026-01-31"),
        (INSTANT, "2026-01-31T12:00:00", "/: 2026-01-31 12:00:00 has no zone"),
        (logical("long", "local-timestamp-millis"), "2026-01-31T12:00:00Z", "/: 2026-01-31 12:00:00+00:00 has a zone"),
        (INSTANT, "2026-01-31T12:00:00.0001Z", "/: 2026-01-31 12:00:00.000100+00:00 is finer"),
        (INSTANT, "2026-01-31T12:00:00.0000001Z", "/: '2026-01-31T12:00:00.0000001Z' is no time such as"),
        (logical("string", "uuid"), "5", "/: '5' is no UUID"),
    ],
)  # fmt: skip
def test_what_does_not_fit_names_the_field(schema: Any, value: Any, reason: str) -> None:
    """If this fails, a wrong value is stored, or its producer searches for the wrong field."""
    with pytest.raises(ValueError, match=r".") as caught:
        of(schema).encode(value)
    assert str(caught.value).startswith(reason)


def test_missing_fields_have_their_defaults() -> None:
    """If this fails, a field that has a default must be typed, or gets another value."""
    schema = {
        "type": "record",
        "name": "R",
        "fields": [
            {"name": "a", "type": ["null", "int"], "default": None},
            {"name": "b", "type": "bytes", "default": "ÿ"},
            {"name": "c", "type": logical("bytes", "decimal", precision=4, scale=2), "default": "\x01"},
            {"name": "d", "type": ["int", "long"], "default": 5},
            {"name": "e", "type": {"type": "array", "items": "int"}, "default": [1]},
            {"name": "f", "type": INNER, "default": {"x": 3}},
        ],
    }
    found = of(schema)
    assert found.decode(found.encode({})) == {
        "a": None, "b": b"\xff", "c": Decimal("0.01"), "d": 5, "e": [1], "f": {"x": 3},
    }  # fmt: skip


def test_values_without_a_form_are_those_of_the_type_below() -> None:
    """If this fails, a time beyond the year 9999 hides the whole record."""
    schema = of(fields(t=logical("long", "timestamp-millis"), u=logical("string", "uuid")))
    data = of(fields(t="long", u="string")).encode({"t": 2**62, "u": "no UUID"})
    assert schema.decode(data) == {"t": 2**62, "u": "no UUID"}
    with pytest.raises(ValueError, match="the bytes end before the record does"):
        schema.decode(data[:3])


def test_a_value_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, a value of nested unions keeps a command busy for years, or ends it."""
    assert VALUES_MAX == 10_000_000
    monkeypatch.setattr("broker_registry.schema_types.avro.encode.VALUES_MAX", 1_000)
    # Each level may be each of two branches, so that the tries double with it.
    other = {"type": "record", "name": "B", "fields": [{"name": "n", "type": ["A", "B"]}]}
    schema = of({"type": "record", "name": "A", "fields": [{"name": "n", "type": ["A", other]}]})
    deep: Any = {}
    for _ in range(30):
        deep = {"n": deep}
    with pytest.raises(ValueError, match="1,000 values at most"):
        schema.encode(deep)
    very_deep: Any = None
    for _ in range(3_000):
        very_deep = {"n": very_deep}
    chain = of({"type": "record", "name": "L", "fields": [{"name": "n", "type": ["null", "L"]}]})
    with pytest.raises(ValueError, match=r"nested too deep|values at most"):
        chain.encode(very_deep)
