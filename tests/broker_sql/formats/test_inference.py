"""Columns from a registry: a wrong name or type makes each statement about the topic wrong."""

from __future__ import annotations

import json
from typing import cast

import pytest

from broker_registry.schema_types.base import Kind
from broker_sql import formats, types
from broker_sql.errors import AnalysisError, StatementError
from broker_sql.formats.inference import infer, register
from broker_sql.types import Column, SqlType
from broker_streams.serdes.schemas.lookups import MemoryRegistry, SchemaText
from broker_streams.serdes.schemas.options import Options

RECORD = {
    "type": "record",
    "name": "Order",
    "namespace": "com.shop",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 6, "scale": 2}},
        {"name": "inner", "type": {"type": "record", "name": "In", "fields": [{"name": "x", "type": ["null", "int"]}]}},
        {"name": "nothing", "type": {"type": "map", "values": {"type": "fixed", "name": "F", "size": 2}}},
    ],
}


@pytest.fixture
def registry() -> MemoryRegistry:
    return MemoryRegistry(Options.of({}))


def columns(
    registry: MemoryRegistry, format_name: str, *, unwraps: bool = False, is_key: bool = False, **properties: str
) -> tuple[tuple[str, SqlType], ...]:
    return infer(registry, format_name, properties, "t", is_key=is_key, unwraps=unwraps).columns


def test_columns_have_upper_case_names_unless_the_schema_is_chosen_by_its_id(registry: MemoryRegistry) -> None:
    known = registry.registered("t-value", SchemaText(Kind.AVRO, json.dumps(RECORD)))
    assert columns(registry, "AVRO") == (
        ("ID", types.BIGINT),
        ("PRICE", types.Decimal(6, 2)),
        ("INNER", types.Struct((("X", types.INTEGER),))),
        ("NOTHING", types.Map(types.STRING, types.BYTES)),
    )
    by_id = infer(registry, "AVRO", {"schemaId": str(known.name)}, "u", is_key=False, unwraps=False)
    assert by_id.columns[0] == ("id", types.BIGINT)
    assert by_id.columns[2] == ("inner", types.Struct((("x", types.INTEGER),)))
    assert by_id.schema_name == "com.shop.Order"


def test_a_schema_that_is_no_record_is_one_column(registry: MemoryRegistry) -> None:
    registry.registered("t-key", SchemaText(Kind.AVRO, '"int"'))
    registry.registered("t-value", SchemaText(Kind.JSON, '{"oneOf": [{"type": "null"}, {"type": "number"}]}'))
    assert columns(registry, "AVRO", is_key=True, unwraps=True) == (("ROWKEY", types.INTEGER),)
    assert columns(registry, "JSON_SR", unwraps=True) == (("ROWVAL", types.DOUBLE),)
    with pytest.raises(AnalysisError, match="is FLOAT64 and no record: set WRAP_SINGLE_VALUE=false"):
        columns(registry, "JSON_SR")


def test_a_message_is_chosen_by_its_name(registry: MemoryRegistry) -> None:
    text = 'syntax = "proto3"; package p; message A { int32 x = 1; } message B { optional string y = 1; }'
    registry.registered("t-value", SchemaText(Kind.PROTOBUF, text))
    assert columns(registry, "PROTOBUF", fullSchemaName="p.B") == (("Y", types.STRING),)
    with pytest.raises(AnalysisError, match=r"several messages: p\.A, p\.B; choose one with VALUE_SCHEMA_FULL_NAME"):
        columns(registry, "PROTOBUF")


def test_a_decimal_of_a_message_has_the_digits_of_its_field(registry: MemoryRegistry) -> None:
    text = (
        'syntax = "proto3"; import "confluent/type/decimal.proto"; message M { confluent.type.Decimal d = 1'
        ' [(confluent.field_meta) = { params: [{ value: "6", key: "precision" }, { value: "2", key: "scale" }]}]; }'
    )
    registry.registered("t-value", SchemaText(Kind.PROTOBUF, text))
    assert columns(registry, "PROTOBUF") == (("D", types.Decimal(6, 2)),)


def test_what_cannot_be_inferred_is_named(registry: MemoryRegistry) -> None:
    with pytest.raises(AnalysisError, match=r"values of topic t is not in the registry \(subject t-value\)"):
        columns(registry, "AVRO")
    with pytest.raises(StatementError, match="format AVRO needs a schema registry"):
        infer(None, "AVRO", {}, "t", is_key=False, unwraps=False)
    registry.registered("t-value", SchemaText(Kind.JSON, '{"type": "object", "properties": {}}'))
    with pytest.raises(AnalysisError, match="is of JSON_SR, and the value format is AVRO"):
        columns(registry, "AVRO")
    with pytest.raises(AnalysisError, match="has no field with a type of SQL"):
        columns(registry, "JSON_SR")
    recursive = {"type": "record", "name": "R", "fields": [{"name": "r", "type": ["null", "R"]}]}
    registry.registered("t-value", SchemaText(Kind.AVRO, json.dumps(recursive)))
    with pytest.raises(AnalysisError, match="the schema is recursive: R is in itself"):
        columns(registry, "AVRO")
    two = 'syntax = "proto3"; message A { int32 x = 1; int32 y = 2; }'
    registry.registered("t-key", SchemaText(Kind.PROTOBUF, two))
    with pytest.raises(AnalysisError, match="has several columns, and keys from the registry have one"):
        columns(registry, "PROTOBUF", is_key=True)


def test_a_schema_is_registered_once_for_a_declared_stream_and_always_for_a_sink(registry: MemoryRegistry) -> None:
    old = formats.value_serde("AVRO", {}, [Column("A", types.INTEGER)])
    new = formats.value_serde("AVRO", {}, [Column("A", types.INTEGER), Column("B", types.STRING)])
    register(registry, old, "t", is_key=False, only_first=True)
    register(registry, new, "t", is_key=False, only_first=True)
    assert len(registry.subjects["t-value"]) == 1
    register(registry, new, "t", is_key=False, only_first=False)
    assert len(registry.subjects["t-value"]) == 2
    register(
        registry, formats.value_serde("JSON", {}, [Column("A", types.INTEGER)]), "u", is_key=False, only_first=False
    )
    assert set(registry.subjects) == {"t-value"}
    known = registry.latest("t-value")
    by_id = formats.value_serde("AVRO", {"schemaId": str(cast(int, known.name))}, [Column("A", types.INTEGER)])
    register(registry, by_id, "sink", is_key=False, only_first=False)
    assert registry.latest("sink-value").name == known.name
    with pytest.raises(StatementError, match="format AVRO needs a schema registry"):
        register(None, old, "t", is_key=False, only_first=True)
