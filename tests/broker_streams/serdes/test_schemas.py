"""Serdes with schemas, on a registry in memory."""

from __future__ import annotations

import datetime
import json
import uuid
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Any

import pytest

from broker_registry.schema_types.base import Kind
from broker_streams import (
    LONG,
    STRING,
    AvroSerde,
    JsonSchemaSerde,
    ProtobufSerde,
    StreamsBuilder,
    StreamsError,
    TopologyTestDriver,
    log_and_continue,
)
from broker_streams.registry.opening import drop_mock_registry, open_registry
from broker_streams.serdes import SerdeError, SerdeUnavailable, names
from broker_streams.serdes.schemas.avro import _fast
from broker_streams.serdes.schemas.lookups import MemoryRegistry, checked_rules, parse

URL = {"schema.registry.url": "mock://tests"}
ORDER = {
    "type": "record",
    "name": "Order",
    "namespace": "shop",
    "fields": [{"name": "customer", "type": "string"}, {"name": "price", "type": "long"}],
}
# A later version: a field with a default, and a field that is gone.
NEWER = {
    "type": "record",
    "name": "Order",
    "namespace": "shop",
    "fields": [{"name": "customer", "type": "string"}, {"name": "note", "type": ["null", "string"], "default": None}],
}
LOGICAL = {
    "type": "record",
    "name": "All",
    "fields": [
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "day", "type": {"type": "int", "logicalType": "date"}},
        {"name": "sum", "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}},
        {"name": "id", "type": {"type": "string", "logicalType": "uuid"}},
        {"name": "one", "type": ["null", "long", "string", "shop.Order"], "default": None},
    ],
}
PROTO = """syntax = "proto3";
package shop;
message Order {
  string customer = 1; int64 price = 2; optional string note = 3; repeated string tags = 4;
  map<string, int32> counts = 5; Item item = 6; Kind kind = 7; bytes raw = 8;
  oneof choice { int32 number = 9; string text = 10; }
  message Item { int32 n = 1; message Inner { bool b = 1; } }
  enum Kind { A = 0; B = 1; }
}
message Other { int32 q = 1; }
"""
ROW = {"type": "object", "title": "Row", "properties": {"a": {"type": "integer"}}, "required": ["a"]}


@pytest.fixture(autouse=True)
def _registry() -> Iterator[None]:
    drop_mock_registry("tests")
    yield
    drop_mock_registry("tests")


def registry(**settings: Any) -> MemoryRegistry:
    found = open_registry(URL | {name.replace("_", "."): value for name, value in settings.items()})
    assert isinstance(found, MemoryRegistry)
    return found


def bound(serde: Any, *, is_key: bool = False, **settings: Any) -> Any:
    return serde.with_registry(registry(**settings), is_key=is_key)


# ------------------------------------------------------------------------------------------------------ bytes


@pytest.mark.parametrize(
    ("serde", "value", "data"),
    [
        (AvroSerde(ORDER), {"customer": "ann", "price": 3}, "0000000001 06616e6e 06"),
        (AvroSerde('"string"'), "ann", "0000000001 06616e6e"),
        # Bytes alone have no size in front of them, as in Confluent's serializer.
        (AvroSerde('"bytes"'), b"\1\2", "0000000001 0102"),
        (AvroSerde(), 3, "0000000001 06"),
        (JsonSchemaSerde(ROW), {"a": 1}, "0000000001 7b2261223a317d"),
        # The first message of a file has the index list 0.
        (ProtobufSerde(PROTO), {"customer": "ann", "price": 3}, "0000000001 00 0a03616e6e 1003"),
        (ProtobufSerde(PROTO, message="Other"), {"q": 1}, "0000000001 0202 0801"),
        (ProtobufSerde(PROTO, message="shop.Order.Item.Inner"), {"b": True}, "0000000001 06000000 0801"),
    ],
)
def test_bytes_are_those_of_confluents_serializers(serde: Any, value: Any, data: str) -> None:
    """If this fails, other clients cannot read results. test_confluent.py asks these clients themselves."""
    found = bound(serde)
    expected = bytes.fromhex(data)
    assert found.serialize("orders", value) == expected
    read = found.deserialize("orders", expected)
    if isinstance(value, dict):
        read = {name: read[name] for name in value}
    assert read == value
    assert found.serialize("orders", None) is found.deserialize("orders", None) is None


def test_subjects_are_those_of_the_strategies() -> None:
    """If this fails, schemas are registered where other clients do not look."""
    value = {"customer": "ann", "price": 3}
    bound(AvroSerde(ORDER), is_key=True).serialize("orders", value)
    bound(AvroSerde(ORDER)).serialize("orders", value)
    confluent = "io.confluent.kafka.serializers.subject."
    bound(AvroSerde(ORDER), value_subject_name_strategy=f"{confluent}RecordNameStrategy").serialize("orders", value)
    chosen: dict[str, Any] = {"key_subject_name_strategy": f"{confluent}TopicRecordNameStrategy"}
    bound(ProtobufSerde(PROTO, message="Other"), is_key=True, **chosen).serialize("orders", {"q": 1})
    assert list(registry().subjects) == ["orders-key", "orders-value", "shop.Order", "orders-shop.Other"]
    with pytest.raises(ValueError, match=r"RecordNameStrategy needs the schema of a record"):
        bound(AvroSerde('"long"'), value_subject_name_strategy="RecordNameStrategy").serialize("orders", 3)
    with pytest.raises(ValueError, match=r"value.subject.name.strategy is 'Mine'; allowed are TopicNameStrategy"):
        registry(value_subject_name_strategy="Mine")


# ------------------------------------------------------------------------------------------------------ values


def test_logical_types_and_unions_are_values_of_python() -> None:
    """If this fails, times, sums and ids come as numbers and bytes, or a union loses its branch."""
    value = {
        "at": datetime.datetime(2026, 1, 31, 12, 0, 0, 5000, datetime.UTC),
        "day": datetime.date(2026, 1, 31),
        "sum": Decimal("3.50"),
        "id": uuid.UUID(int=7),
        "one": {"customer": "ann", "price": 3},
    }
    schema = json.dumps(LOGICAL).replace('"shop.Order"', json.dumps(ORDER))
    serde = bound(AvroSerde(schema))
    for one in (value["one"], "text", 5, None):
        given = value | {"one": one}
        assert serde.deserialize("t", serde.serialize("t", given)) == given
    named = value | {"one": {"shop.Order": {"customer": "ann", "price": 3}}}
    assert serde.deserialize("t", serde.serialize("t", named)) == value


@pytest.mark.parametrize("seed", range(20))
def test_the_fast_writer_writes_the_same(seed: int) -> None:
    """If this fails, bytes depend on which writer takes a value."""
    schema = {
        **ORDER,
        "fields": [
            *ORDER["fields"],
            {"name": "note", "type": ["null", "string"], "default": None},
            {"name": "tags", "type": {"type": "array", "items": {"type": "map", "values": "int"}}},
            {"name": "kind", "type": {"type": "enum", "name": "Kind", "symbols": ["A", "B"]}, "default": "B"},
            {"name": "d", "type": "double"},
        ],
    }
    parsed = parse(Kind.AVRO, json.dumps(schema))
    fast = _fast(parsed)
    assert fast is not None
    data = parsed.sample(Random(seed))
    value = parsed.decode(data)
    assert fast(value) == parsed.encode(value) == data
    del value["note"], value["kind"]
    assert fast(value) == parsed.encode(value)


def test_messages_are_dicts() -> None:
    """If this fails, a message loses fields, or numbers become text."""
    serde = bound(ProtobufSerde(PROTO))
    value = {
        "customer": "ann",
        "price": 2**40,
        "tags": ["a", "b"],
        "counts": {"k": 3},
        "item": {"n": 4},
        "kind": "B",
        "raw": b"\xff\0",
        "text": "",
    }
    assert serde.deserialize("t", serde.serialize("t", value)) == value
    empty = {"customer": "", "price": 0, "tags": [], "counts": {}, "kind": "A", "raw": b""}
    assert serde.deserialize("t", serde.serialize("t", {})) == empty


def test_a_record_is_written_by_the_schema_that_it_was_read_by() -> None:
    """If this fails, generic topologies cannot pass records on."""
    for kind, schema, value in (
        (AvroSerde, ORDER, {"customer": "ann", "price": 3}),
        (JsonSchemaSerde, ROW, {"a": 1}),
        (ProtobufSerde, PROTO, {"customer": "ann"}),
    ):
        data = bound(kind(schema)).serialize("in", value)
        generic = bound(kind())
        read = generic.deserialize("in", data)
        assert generic.serialize("out", read) == data
        # A new dict has no schema.
        with pytest.raises(SerdeError, match=r"out: .* has no schema, so it cannot be written as .*: give the serde"):
            generic.serialize("out", {**read})
    other = bound(ProtobufSerde(PROTO, message="Other")).serialize("in", {"q": 1})
    generic = bound(ProtobufSerde())
    assert generic.serialize("out", generic.deserialize("in", other)) == other
    assert registry().subjects["out-value"] == [1, 2, 3]


def test_a_reader_has_its_own_schema() -> None:
    """If this fails, an application breaks when a producer changes its schema."""
    data = bound(AvroSerde(ORDER)).serialize("orders", {"customer": "ann", "price": 3})
    reader = bound(AvroSerde(NEWER))
    assert reader.deserialize("orders", data) == {"customer": "ann", "note": None}
    lacking = {**ORDER, "fields": [{"name": "more", "type": "string"}]}
    with pytest.raises(SerdeError, match=r"orders: .* by schema 1 \(subject orders-value\): .*more"):
        bound(AvroSerde(lacking)).deserialize("orders", data)


def test_schemas_refer_to_others(tmp_path: Path) -> None:
    """If this fails, a type that several schemas share must be copied."""
    bound(AvroSerde(ORDER)).serialize("orders", {"customer": "ann", "price": 3})
    path = tmp_path / "list.avsc"
    path.write_text('{"type": "array", "items": "shop.Order"}')
    serde = bound(AvroSerde(path, references=["shop.Order=orders-value:1"]))
    data = serde.serialize("lists", [{"customer": "bob", "price": 4}])
    assert bound(AvroSerde()).deserialize("lists", data) == [{"customer": "bob", "price": 4}]
    with pytest.raises(SerdeError, match=r"subject orders-value has no version 2"):
        bound(AvroSerde(path, references=["shop.Order=orders-value:2"])).serialize("lists", [])
    with pytest.raises(ValueError, match=r"no.avsc cannot be read: No such file"):
        AvroSerde(tmp_path / "no.avsc")


# ------------------------------------------------------------------------------------------------------ settings


def test_schemas_are_registered_or_found() -> None:
    """If this fails, an application registers schemas against the will of its operators."""
    value = {"customer": "ann", "price": 3}
    strict: dict[str, Any] = {"auto_register_schemas": "false"}
    with pytest.raises(SerdeError, match=r"\(subject orders-value\): .* auto.register.schemas is false"):
        bound(AvroSerde(ORDER), **strict).serialize("orders", value)
    assert registry().subjects == {}
    bound(AvroSerde(ORDER)).serialize("orders", value)
    assert bound(AvroSerde(ORDER), **strict).serialize("orders", value)


def test_the_newest_version_is_used() -> None:
    """If this fails, use.latest.version writes by another schema."""
    data = bound(AvroSerde(ORDER)).serialize("orders", {"customer": "ann", "price": 3})
    bound(AvroSerde(NEWER)).serialize("orders", {"customer": "ann"})
    newest = bound(AvroSerde(), use_latest_version="true")
    assert newest.serialize("orders", {"customer": "ann", "note": "x"})[:5] == b"\0\0\0\0\2"
    assert newest.deserialize("orders", data) == {"customer": "ann", "note": None}
    other = {**ORDER, "name": "Other"}
    with pytest.raises(SerdeError, match=r"cannot read what this schema writes.*latest.compatibility.strict"):
        bound(AvroSerde(other), use_latest_version="true").serialize("orders", {"customer": "a", "price": 3})
    with pytest.raises(ValueError, match=r"auto.register.schemas and use.latest.version are both true"):
        registry(use_latest_version="true", auto_register_schemas="true")


def test_json_is_checked_if_asked() -> None:
    """If this fails, json.fail.invalid.schema has no effect, or values are checked that Confluent's clients take."""
    bad = {"a": "x"}
    data = bound(JsonSchemaSerde(ROW)).serialize("rows", bad)
    assert bound(JsonSchemaSerde()).deserialize("rows", data) == bad
    checked = bound(JsonSchemaSerde(), json_fail_invalid_schema="true")
    with pytest.raises(SerdeError, match=r"rows: .* by schema 1 \(subject rows-value\): /a: "):
        checked.deserialize("rows", data)


def test_rules_are_refused() -> None:
    """If this fails, a field that must be encrypted is written as it is."""
    more = {"ruleSet": {"domainRules": [{"name": "encrypt"}, {"name": "old", "disabled": True}]}}
    with pytest.raises(SerdeError, match=r"schema 7 has rules, which are not applied here: encrypt$"):
        checked_rules(more, "schema 7")
    checked_rules({"metadata": {}}, "schema 7")


# ------------------------------------------------------------------------------------------------------ errors


@pytest.mark.parametrize(
    ("serde", "data", "text"),
    [
        (AvroSerde(), b"ann", r"orders: b'ann' names no schema: a byte 0 and an id of 4 bytes"),
        (AvroSerde(), b"\0\0\0\0\x09ann", r"orders: the registry has no schema 9"),
        (AvroSerde(), b"\0\0\0\0\1\x06an", r"orders: .* by schema 1 \(subject orders-value\): the bytes end"),
        (AvroSerde(), b"\0\0\0\0\1\x06ann\x06\0", r"orders: .* by schema 1 .*: 1 bytes follow the record"),
        (JsonSchemaSerde(), b"\0\0\0\0\1{}", r"orders: schema 1 is of type AVRO, and the serde is of JSON"),
    ],
)
def test_bytes_that_cannot_be_read_are_named(serde: Any, data: bytes, text: str) -> None:
    """If this fails, a user does not see which record, schema and subject an error is about."""
    bound(AvroSerde(ORDER)).serialize("orders", {"customer": "ann", "price": 3})
    with pytest.raises(SerdeError, match=text):
        bound(serde).deserialize("orders", data)


@pytest.mark.parametrize(
    ("serde", "value", "text"),
    [
        (AvroSerde(ORDER), {"customer": "ann", "price": "x"}, '/price: "x" is no long'),
        (AvroSerde(ORDER), {"customer": "ann", "price": 2**63}, "/price: 9223372036854775808 is no long"),
        (AvroSerde(ORDER), {"customer": "ann"}, "/price: the field is missing"),
        (AvroSerde(ORDER), {"customer": "ann", "price": 3, "more": 1}, "/more: shop.Order has no such field"),
        (JsonSchemaSerde(ROW), {"a": {1}}, "not JSON serializable"),
        (ProtobufSerde(PROTO), {"customer": 5}, "/customer: 5 does not fit"),
        (ProtobufSerde(PROTO), {"more": 5}, "/more: message shop.Order has no such field"),
        (ProtobufSerde(PROTO), {"kind": "C"}, "/kind: 'C' is no value of shop.Order.Kind; it has A, B"),
        (ProtobufSerde(PROTO), {"price": True}, "/price: True is no number"),
        (ProtobufSerde(PROTO), {"tags": "ab"}, "/tags: 'ab' is no list"),
        (ProtobufSerde(PROTO), {"item": 5}, "/item: 5 is no message shop.Order.Item"),
        (ProtobufSerde(PROTO), [], "/: \\[\\] is no message shop.Order"),
    ],
)
def test_values_that_do_not_fit_are_named(serde: Any, value: Any, text: str) -> None:
    """If this fails, a wrong value is written, or a user does not see which field is wrong."""
    with pytest.raises(SerdeError, match=rf"orders: .* does not fit schema 1 \(subject orders-value\): .*{text}"):
        bound(serde).serialize("orders", value)


def test_a_serde_needs_a_registry() -> None:
    """If this fails, the first record ends an application that could not work."""
    builder = StreamsBuilder()
    builder.stream("orders", key=STRING, value=AvroSerde()).to("out", key=STRING, value=STRING)
    with pytest.raises(StreamsError, match=r"a serde of AVRO needs a schema registry: set schema.registry.url"):
        TopologyTestDriver(builder.build(), {"application.id": "app"})


# ------------------------------------------------------------------------------------------------------ topologies


def test_a_topology_with_schemas() -> None:
    """If this fails, stores, repartition topics or keys in windows have schemas under other subjects than in Kafka."""
    builder = StreamsBuilder()
    orders = builder.stream("orders", key=STRING)
    names_ = AvroSerde('"string"')
    orders.filter(lambda key, order: order["price"] > 1).to("large", key=STRING)
    grouped = orders.group_by(lambda key, order: order["customer"], key=names_, name="by-customer")
    grouped.count().to_stream().to("counts", key=names_, value=LONG)
    config = URL | {"default.value.serde": "io.confluent.kafka.streams.serdes.avro.GenericAvroSerde"}
    with TopologyTestDriver(builder.build(), config) as driver:
        given = driver.create_input_topic("orders", key=STRING, value=AvroSerde(ORDER))
        given.pipe_input("1", {"customer": "ann", "price": 3})
        given.pipe_input("2", {"customer": "ann", "price": 1})
        assert driver.create_output_topic("large", key=STRING).read_value() == {"customer": "ann", "price": 3}
        counts = driver.create_output_topic("counts", key=names_, value=LONG).read_key_values()
        assert counts == [("ann", 1), ("ann", 2)]
    assert set(registry().subjects) == {
        "orders-value",
        "large-value",
        "topology-test-driver-by-customer-repartition-key",
        "topology-test-driver-by-customer-repartition-value",
        "topology-test-driver-KSTREAM-AGGREGATE-STATE-STORE-0000000004-changelog-key",
        "counts-key",
    }


def test_a_serde_is_made_again_from_its_name() -> None:
    """If this fails, a plan cannot go to another process."""
    for serde in (
        AvroSerde(),
        AvroSerde(ORDER, is_key=True),
        JsonSchemaSerde(ROW, references=["a=b:1"]),
        ProtobufSerde(PROTO, message="Other"),
    ):
        again = names.by_name(serde.name)
        assert (type(again), again.name) == (type(serde), serde.name)
    assert isinstance(names.of("io.confluent.kafka.streams.serdes.protobuf.KafkaProtobufSerde"), ProtobufSerde)
    with pytest.raises(ValueError, match=r"SpecificAvroSerde is about a class of Java; give AvroSerde with the schema"):
        names.of("io.confluent.kafka.streams.serdes.avro.SpecificAvroSerde")


def test_ids_in_headers_count_for_inputs_only() -> None:
    """If this fails, records of newer clients cannot be read, or a header of an input says how rows are read."""
    data = bound(AvroSerde(ORDER)).serialize("orders", {"customer": "ann", "price": 3})
    header = (("__value_schema_id", data[:5]),)
    builder = StreamsBuilder()
    table = builder.stream("orders", key=STRING).group_by_key().reduce(lambda old, new: new)
    table.to_stream().to("out", key=STRING)
    with TopologyTestDriver(builder.build(), URL | {"default.value.serde": "AVRO"}) as driver:
        driver.pipe_raw("orders", b"1", data[5:], 0, header)
        driver.pipe_raw("orders", b"1", data[5:], 0, header)
        found = driver.create_output_topic("out", key=STRING).read_key_values()
    assert found == [("1", {"customer": "ann", "price": 3})] * 2


def test_no_handler_skips_a_record_whose_schema_cannot_be_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, records are lost while the registry does not answer."""
    data = bound(AvroSerde(ORDER)).serialize("orders", {"customer": "ann", "price": 3})

    def down(*_: Any) -> Any:
        raise SerdeUnavailable("the registry does not answer")

    builder = StreamsBuilder()
    builder.stream("orders", key=STRING, value=AvroSerde()).to("out", key=STRING)
    config = URL | {"default.value.serde": "AVRO", "deserialization.exception.handler": log_and_continue}
    with TopologyTestDriver(builder.build(), config) as driver:
        driver.pipe_raw("orders", b"1", b"no schema", 0, ())
        monkeypatch.setattr(MemoryRegistry, "schema", down)
        with pytest.raises(StreamsError, match=r"schema 1 is not known yet: the registry does not answer"):
            driver.pipe_raw("orders", b"1", data, 0, ())
