"""Rows by the schemas of a registry: other programs read them by the schemas that are registered for them."""

from __future__ import annotations

import json
import pickle
from decimal import Decimal
from typing import Any, cast

import pytest

from broker_registry.schema_types.base import Kind
from broker_sql import formats, types
from broker_sql.errors import AnalysisError
from broker_sql.formats.avro import key_schema_name
from broker_sql.formats.registered import RegisteredSerde
from broker_sql.types import Column, SqlType
from broker_streams.serdes import Serde, SerdeError
from broker_streams.serdes.schemas.avro import AvroSerde
from broker_streams.serdes.schemas.json_schema import JsonSchemaSerde
from broker_streams.serdes.schemas.lookups import MemoryRegistry, SchemaText
from broker_streams.serdes.schemas.options import Options
from broker_streams.serdes.schemas.protobuf import ProtobufSerde

FORMATS = ("AVRO", "JSON_SR", "PROTOBUF")
STRUCT = types.Struct((("A", types.INTEGER), ("B", types.Array(types.STRING))))
VALUES: list[tuple[SqlType, Any]] = [
    (types.BOOLEAN, True),
    (types.INTEGER, -5),
    (types.BIGINT, 2**62),
    (types.DOUBLE, 1.5e10),
    (types.STRING, "\u20ac"),
    (types.BYTES, b"\0abc"),
    (types.Decimal(6, 4), Decimal("-10.1000")),
    (types.Decimal(38, 0), Decimal("12345678901234567890123456789012345678")),
    (types.DATE, 20_000),
    (types.TIME, 86_399_999),
    (types.TIMESTAMP, -1),
    (types.Array(types.BIGINT), [1, 2]),
    (types.Map(types.STRING, types.Decimal(4, 2)), {"k": Decimal("1.50")}),
    (types.Map(types.STRING, STRUCT), {"k": {"A": 1, "B": ["x"]}}),
    (STRUCT, {"A": 1, "B": ["x", "y"]}),
    (types.Array(STRUCT), [{"A": 1, "B": []}]),
]


@pytest.fixture
def registry() -> MemoryRegistry:
    return MemoryRegistry(Options.of({}))


def bound(serde: Serde, registry: MemoryRegistry, *, is_key: bool = False) -> RegisteredSerde:
    assert isinstance(serde, RegisteredSerde)
    return serde.with_registry(registry, is_key=is_key)


def value_serde(
    registry: MemoryRegistry, format_name: str, *columns: Column, unwraps: bool = False, **properties: str
) -> RegisteredSerde:
    return bound(formats.value_serde(format_name, properties, columns, unwraps=unwraps), registry)


@pytest.mark.parametrize("format_name", [*FORMATS, "PROTOBUF_NOSR"])
@pytest.mark.parametrize(("kind", "value"), VALUES, ids=str)
def test_a_row_is_read_as_it_was_written(registry: MemoryRegistry, format_name: str, kind: SqlType, value: Any) -> None:
    serde = formats.value_serde(format_name, {}, [Column("C0", kind), Column("C1", types.STRING)])
    if isinstance(serde, RegisteredSerde):
        serde = pickle.loads(pickle.dumps(serde)).with_registry(registry, is_key=False).of_source()
    data = serde.serialize("t", (value, "x"))
    assert data is not None
    found = serde.deserialize("t", data)
    assert found == (value, "x")
    assert repr(found) == repr((value, "x"))
    assert serde.serialize("t", None) is None
    assert serde.deserialize("t", None) is None


@pytest.mark.parametrize("format_name", ["AVRO", "JSON_SR"])
@pytest.mark.parametrize(("kind", "value"), VALUES, ids=str)
def test_a_single_column_and_nulls_are_read_as_they_were_written(
    registry: MemoryRegistry, format_name: str, kind: SqlType, value: Any
) -> None:
    single = value_serde(registry, format_name, Column("C0", kind), unwraps=True)
    assert single.deserialize("t", single.serialize("t", (value,))) == (value,)
    assert single.serialize("t", (None,)) is None
    rows = value_serde(registry, format_name, Column("C0", kind), Column("C1", types.Array(kind)))
    assert rows.deserialize("u", rows.serialize("u", (None, [value, None]))) == (None, [value, None])


@pytest.mark.parametrize(
    ("settings", "row"),
    [({}, (0, "", None, [])), ({"nullableRepresentation": "optional"}, (None, None, None, []))],
    ids=str,
)
@pytest.mark.parametrize("format_name", ["PROTOBUF", "PROTOBUF_NOSR"])
def test_nulls_of_a_message_are_defaults_unless_fields_are_nullable(
    registry: MemoryRegistry, format_name: str, settings: dict[str, str], row: tuple[Any, ...]
) -> None:
    columns = [
        Column("I", types.INTEGER),
        Column("S", types.STRING),
        Column("D", types.DATE),
        Column("A", types.Array(types.STRING)),
    ]
    for each, expected in ((settings, row), ({"nullableRepresentation": "wrapper"}, (None, None, None, []))):
        serde = formats.value_serde(format_name, each, columns)
        if isinstance(serde, RegisteredSerde):
            serde = serde.with_registry(registry, is_key=False)
        assert serde.deserialize("t", serde.serialize("t", (None, None, None, None))) == expected


def test_the_avro_schema_has_connects_names(registry: MemoryRegistry) -> None:
    columns = [
        Column("I", types.INTEGER),
        Column("D", types.Decimal(4, 2)),
        Column("T", types.TIMESTAMP),
        Column("M", types.Map(types.STRING, types.INTEGER)),
        Column("S", types.Struct((("A", types.Array(types.STRING)),))),
    ]
    serde = value_serde(registry, "AVRO", *columns)
    serde.serialize("orders", (1, None, None, None, None))
    schema = json.loads(registry.latest("orders-value").parsed.canonical)
    space = "io.confluent.ksql.avro_schemas"
    assert (schema["namespace"], schema["name"]) == (space, "KsqlDataSourceSchema")
    assert schema["connect.name"] == f"{space}.KsqlDataSourceSchema"
    found = {each["name"]: each["type"][1] for each in schema["fields"]}
    assert all(each["type"][0] == "null" and each["default"] is None for each in schema["fields"])
    assert found["I"] == "int"
    assert found["D"] == {
        "type": "bytes",
        "scale": 2,
        "precision": 4,
        "connect.version": 1,
        "connect.parameters": {"scale": "2", "connect.decimal.precision": "4"},
        "connect.name": "org.apache.kafka.connect.data.Decimal",
        "logicalType": "decimal",
    }
    assert (found["T"]["type"], found["T"]["logicalType"]) == ("long", "timestamp-millis")
    assert found["M"]["connect.name"] == f"{space}.KsqlDataSourceSchema_M"
    assert found["M"]["items"]["connect.internal.type"] == "MapEntry"
    assert found["S"]["connect.name"] == f"{space}.KsqlDataSourceSchema_S"
    assert found["S"]["fields"][0]["type"][1] == {"type": "array", "items": ["null", "string"]}
    named = value_serde(registry, "AVRO", columns[0], fullSchemaName="com.shop.Order")
    named.serialize("named", (1,))
    assert registry.latest("named-value").parsed.name == "com.shop.Order"
    assert key_schema_name("MY_ORDERS") == f"{space}.MyOrdersKey"


def test_a_key_of_one_column_is_registered_alone_and_without_null(registry: MemoryRegistry) -> None:
    key = Column("K", types.Decimal(4, 2))
    bound(formats.key_serde("AVRO", {}, [key]), registry, is_key=True).serialize("t", (Decimal("1.00"),))
    schema = json.loads(registry.latest("t-key").parsed.canonical)
    assert (schema["type"], schema["precision"]) == ("bytes", 4)
    assert "connect.version" not in schema
    bound(formats.key_serde("JSON_SR", {}, [key]), registry, is_key=True).serialize("u", (Decimal("1.00"),))
    assert json.loads(registry.latest("u-key").parsed.canonical)["oneOf"][0] == {"type": "null"}
    with pytest.raises(AnalysisError, match="has a map, and keys have none"):
        formats.key_serde("AVRO", {}, [Column("K", types.Array(types.Map(types.STRING, types.STRING)))])


def test_messages_are_named_as_connect_names_them(registry: MemoryRegistry) -> None:
    columns = [
        Column("ID", types.BIGINT),
        Column("M", types.Map(types.STRING, types.BOOLEAN)),
        Column("S", types.Struct((("X", types.INTEGER),))),
        Column("D", types.Decimal(6, 4)),
    ]
    value_serde(registry, "PROTOBUF", *columns).serialize("t", (1, {"a": True}, {"X": 1}, Decimal("1.0000")))
    text = registry.latest("t-value").parsed.canonical
    for line in (
        'import "confluent/type/decimal.proto";',
        "message ConnectDefault1 {",
        "repeated ConnectDefault2Entry M = 2;",
        "message ConnectDefault2Entry {",
        "ConnectDefault3 S = 3;",
        'value: "6"',
    ):
        assert line in text
    wrapped = value_serde(registry, "PROTOBUF", columns[0], nullableRepresentation="wrapper", fullSchemaName="a.B")
    wrapped.serialize("u", (1,))
    assert "google.protobuf.Int64Value ID = 1;" in registry.latest("u-value").parsed.canonical
    assert registry.latest("u-value").parsed.name == "a.B"


def test_records_of_other_programs_are_read_by_the_schemas_that_they_name(registry: MemoryRegistry) -> None:
    avro = AvroSerde(
        json.dumps(
            {
                "type": "record",
                "name": "Order",
                "fields": [
                    {"name": "id", "type": "int"},
                    {"name": "Kind", "type": {"type": "enum", "name": "Kind", "symbols": ["NEW", "OLD"]}},
                    {"name": "when", "type": {"type": "long", "logicalType": "timestamp-millis"}},
                    {"name": "tags", "type": {"type": "map", "values": "float"}},
                    {"name": "either", "type": ["null", "int", "string"]},
                    {"name": "other", "type": "string"},
                ],
            }
        )
    ).with_registry(registry, is_key=False)
    import datetime

    when = datetime.datetime(1970, 1, 1, 0, 0, 1, tzinfo=datetime.UTC)
    data = avro.serialize("t", {"id": 1, "Kind": "NEW", "when": when, "tags": {"a": 0.1}, "either": "x", "other": "y"})
    columns = [
        Column("ID", types.STRING),
        Column("KIND", types.STRING),
        Column("WHEN", types.TIMESTAMP),
        Column("TAGS", types.Map(types.STRING, types.STRING)),
        Column("EITHER", types.Struct((("int", types.INTEGER), ("string", types.STRING)))),
        Column("MISSING", types.DOUBLE),
    ]
    serde = value_serde(registry, "AVRO", *columns)
    assert serde.deserialize("t", data) == ("1", "NEW", 1000, {"a": "0.1"}, {"int": None, "string": "x"}, None)
    with pytest.raises(SerdeError, match=r"INT32 cannot be read as BOOLEAN \(->ID\)"):
        value_serde(registry, "AVRO", Column("ID", types.BOOLEAN)).deserialize("t", data)


def test_json_and_messages_of_other_programs_are_read(registry: MemoryRegistry) -> None:
    text = (
        '{"type": "object", "properties": {"a": {"type": "integer"}, "b": {"$ref": "#/definitions/N"},'
        ' "m": {"type": "object", "additionalProperties": {"type": "boolean"}}, "u": {"type": ["null", "string"]}},'
        ' "definitions": {"N": {"type": "number"}}}'
    )
    sent = (
        JsonSchemaSerde(text)
        .with_registry(registry, is_key=False)
        .serialize("t", {"a": 1, "b": 2, "m": {"x": True}, "u": "z", "ignored": 1})
    )
    columns = [
        Column("A", types.BIGINT),
        Column("B", types.DOUBLE),
        Column("M", types.Map(types.STRING, types.BOOLEAN)),
        Column("U", types.STRING),
    ]
    assert value_serde(registry, "JSON_SR", *columns).deserialize("t", sent) == (1, 2.0, {"x": True}, "z")
    proto = (
        'syntax = "proto3"; import "google/protobuf/wrappers.proto";'
        " message First { int32 x = 1; } message Second { enum E { NONE = 0; ONE = 1; } E e = 1;"
        " map<string, sint64> m = 2; google.protobuf.StringValue w = 3;"
        " oneof choice { int32 i = 4; string s = 5; } uint32 n = 6; }"
    )
    message = (
        ProtobufSerde(proto, message="Second")
        .with_registry(registry, is_key=False)
        .serialize("p", {"e": "ONE", "m": {"k": -1}, "w": {"value": "v"}, "s": "x", "n": 7})
    )
    columns = [
        Column("E", types.STRING),
        Column("M", types.Map(types.STRING, types.BIGINT)),
        Column("W", types.STRING),
        Column("CHOICE_0", types.Struct((("I", types.INTEGER), ("S", types.STRING)))),
        Column("N", types.BIGINT),
    ]
    found = value_serde(registry, "PROTOBUF", *columns).deserialize("p", message)
    assert found == ("ONE", {"k": -1}, "v", {"I": None, "S": "x"}, 7)


def test_rows_are_written_by_the_schema_of_an_id(registry: MemoryRegistry) -> None:
    text = json.dumps(
        {
            "type": "record",
            "name": "Given",
            "fields": [{"name": "a", "type": "int"}, {"name": "b", "type": "string", "default": "none"}],
        }
    )
    known = registry.registered("elsewhere", SchemaText(Kind.AVRO, text))
    serde = value_serde(registry, "AVRO", Column("a", types.INTEGER), schemaId=str(known.name))
    data = cast(bytes, serde.serialize("t", (5,)))
    assert data[1:5] == cast(int, known.name).to_bytes(4, "big")
    assert AvroSerde(text).with_registry(registry, is_key=False).deserialize("t", data) == {"a": 5, "b": "none"}
    assert "t-value" not in registry.subjects
    with pytest.raises(SerdeError, match="does not have the field c"):
        value_serde(registry, "AVRO", Column("c", types.INTEGER), schemaId=str(known.name)).serialize("t", (5,))


def test_columns_without_a_schema_are_refused() -> None:
    with pytest.raises(AnalysisError, match="columns A have no schema of PROTOBUF: an array of arrays"):
        formats.value_serde("PROTOBUF", {}, [Column("A", types.Array(types.Array(types.STRING)))])
    with pytest.raises(AnalysisError, match="columns A B have no schema of AVRO"):
        formats.value_serde("AVRO", {}, [Column("A B", types.STRING)])
    with pytest.raises(AnalysisError, match="keys of maps are STRING in AVRO"):
        formats.value_serde("AVRO", {}, [Column("A", types.Map(types.BIGINT, types.STRING))])
