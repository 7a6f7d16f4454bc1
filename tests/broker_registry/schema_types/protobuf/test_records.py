"""Records by their schema: consoles show them, tools write them, and a planned change is tried on them."""

from __future__ import annotations

import random

import pytest

from broker_registry.schema_types.base import ParseSettings
from broker_registry.schema_types.protobuf.indexes import indexes_of, message_at, read_indexes, write_indexes
from broker_registry.schema_types.protobuf.parser import parse_file
from tests.broker_registry.schema_types.protobuf import corpus
from tests.broker_registry.schema_types.protobuf.schemas import proto3, schema
from tests.support.tiers import by_tier

LIST, MAP = {"b": [{"x": "y"}]}, {"b": {"1": {"x": 1}}}
ORDERS = schema(corpus.text_of("orders"))
ORDER = {
    "id": "7",
    "customer": "Ada",
    "lines": [{"sku": "x", "count": 2, "price": {"currencyCode": "EUR", "units": "3", "nanos": 0}, "unit": "GRAM"}],
    "placedAt": "2026-11-29T20:00:00Z",
    "status": "PAID",
    "labels": {"a": "b"},
    "linesBySku": {},
    "note": "",
    "discount": {"value": "AQ==", "precision": 3, "scale": 1},
    "voucher": "free",
}
GROUPS = {"result": [{"url": "u", "counts": {"a": 1}}], "left": {"l": 5}, "empty": {}}


@pytest.mark.parametrize(
    ("indexes", "data"),
    [((0,), b"\0"), ((1,), b"\2\2"), ((0, 0), b"\4\0\0"), ((2, 1, 0), b"\6\4\2\0"), ((100,), b"\2\xc8\1")],
)
def test_message_indexes_are_zigzag_varints(indexes: tuple[int, ...], data: bytes) -> None:
    """Confluent's deserializers read them; the first message has the short form."""
    assert write_indexes(indexes) == data
    assert read_indexes(data + b"rest") == (indexes, len(data))


def test_the_long_form_of_the_first_message_is_read() -> None:
    """Some clients write it."""
    assert read_indexes(b"\2\0") == ((0,), 2)


@pytest.mark.parametrize("data", [b"", b"\2", b"\x80", b"\xff\xff\xff\xff\xff\1", b"\1", b"\xfe\1"])
def test_a_record_without_message_indexes_is_refused(data: bytes) -> None:
    with pytest.raises(ValueError, match="message indexes"):
        read_indexes(data)


def test_indexes_count_messages_and_not_enums() -> None:
    """The index of a message is that of the text; enums stand between messages there."""
    file = parse_file('syntax = "proto3"; enum E { Z = 0; } message A { enum F { Y = 0; } message B {} } message C {}')
    assert [message_at(file, each) for each in ((0,), (0, 0), (1,))] == ["A", "A.B", "C"]
    assert [indexes_of(file, each) for each in ("A", "A.B", "C")] == [(0,), (0, 0), (1,)]
    for indexes in ((2,), (0, 1), (-1,)):
        with pytest.raises(ValueError, match="no message with the indexes"):
            message_at(file, indexes)
    with pytest.raises(ValueError, match=r"no message A\.C"):
        indexes_of(file, "A.C")


def test_a_record_is_written_and_read_again() -> None:
    assert ORDERS.decode(ORDERS.encode(ORDER)) == ORDER


def test_fields_that_a_record_lacks_have_their_defaults() -> None:
    """A console shows a field of value 0 as 0, and a message that is not set not at all."""
    assert ORDERS.decode(b"\0") == {
        "id": "0",
        "customer": "",
        "lines": [],
        "status": "STATUS_UNKNOWN",
        "labels": {},
        "linesBySku": {},
    }


def test_a_message_is_written_by_its_name() -> None:
    payload = ORDERS.encode_message({"id": 1}, "shop.orders.v1.OrderKey")
    assert payload == b"\2\2\x08\1"
    assert ORDERS.encode_message({"sku": "x"}, "Order.Line")[:3] == b"\4\0\0"
    assert ORDERS.decode(payload) == {"id": "1"}


@pytest.mark.parametrize("value", [{"nothing": 1}, {"id": "x"}, {"status": "NONE"}, {"lines": 3}, 5, [], None, "x"])
def test_a_value_that_does_not_fit_is_refused(value: object) -> None:
    with pytest.raises(ValueError, match=r"the value is no shop\.orders\.v1\.Order"):
        ORDERS.encode(value)


@pytest.mark.parametrize("payload", [b"\0\xff", b"\0\x0a", b"\0\x12\1\xff", b"\2\x28", b"", b"\4\0\x50"])
def test_bytes_that_are_no_record_are_refused(payload: bytes) -> None:
    with pytest.raises(ValueError, match=r"record|message"):
        ORDERS.decode(payload)


def test_any_bytes_are_a_record_or_a_value_error() -> None:
    """Another exception would end the page of records, or a search in a topic."""
    source = random.Random(13)
    schemas = [schema(corpus.text_of(name)) for name in ("orders", "groups", "legacy", "nested", "wrapper")]
    whole = [ORDERS.encode(ORDER), schemas[1].encode(GROUPS)]
    count_read = 0
    for _ in range(by_tier(500, 20_000)):
        data = bytearray(source.choice(whole)) if source.random() < 0.7 else bytearray(source.randbytes(20))
        for _ in range(source.randrange(4)):
            data[source.randrange(len(data))] = source.randrange(256)
        found = source.choice(schemas)
        try:
            found.decode(bytes(data))
            count_read += 1
            found.resolve(bytes(data), source.choice(schemas))
        except ValueError:
            pass
    assert count_read


def test_groups_are_read_and_written() -> None:
    """Confluent's descriptor lacks them; the records have them."""
    groups = schema(corpus.text_of("groups"))
    assert groups.decode(groups.encode(GROUPS)) == GROUPS
    with pytest.raises(ValueError, match=r"lacks required fields: .*empty"):
        groups.decode(b"\0")


def test_records_of_imported_messages() -> None:
    """The library gets each file of the references, in the order of their imports."""
    base = ("base.proto", 'syntax = "proto3"; package base; message B { int32 b = 1; enum E { Z = 0; O = 1; } }')
    middle = (
        "middle.proto",
        'syntax = "proto3"; package middle; import public "base.proto"; message M { base.B b = 1; base.B.E e = 2; }',
    )
    found = proto3('import "middle.proto"; message A { middle.M m = 1; base.B b = 2; }', base, middle)
    value = {"m": {"b": {"b": 1}, "e": "O"}, "b": {"b": 2}}
    assert found.decode(found.encode(value)) == value


def test_records_of_a_file_that_is_one_public_import() -> None:
    found = schema(corpus.text_of("wrapper"))
    assert found.name == "google.protobuf.Timestamp"
    assert found.decode(found.encode("1970-01-01T00:00:01Z")) == "1970-01-01T00:00:01Z"
    assert found.has_top_level_field("seconds")


def test_a_reader_reads_what_a_compatible_writer_wrote() -> None:
    """Shown before a registration: what consumers would see."""
    writer = proto3("package p; message Z {} message A { int32 a = 1; string b = 2; int32 gone = 3; }")
    reader = proto3("package q; message A { int64 a = 1; bytes b = 2; int32 added = 4; } message Z {}")
    payload = writer.encode_message({"a": 5, "b": "x", "gone": 6}, "A")
    assert reader.resolve(payload, writer) == {"a": "5", "b": "eA==", "added": 0}


@pytest.mark.parametrize(
    ("written", "read", "value", "field"),
    [
        ("int32 a = 1;", "string a = 1;", {"a": 5}, "/a:"),
        (
            "repeated B b = 1; message B { string x = 2; }",
            "repeated B b = 1; message B { fixed32 x = 2; }",
            LIST,
            "/b/0/x:",
        ),
        (
            "map<string, B> b = 1; message B { int32 x = 1; }",
            "map<string, B> b = 1; message B { B x = 1; }",
            MAP,
            "/b/1/x:",
        ),
    ],
)
def test_a_field_that_the_reader_would_lose_is_named(written: str, read: str, value: object, field: str) -> None:
    """The library keeps such a field aside without an error: consumers would see it empty."""
    writer, reader = proto3(f"message A {{ {written} }}"), proto3(f"message A {{ {read} }}")
    with pytest.raises(ValueError, match=field):
        reader.resolve(writer.encode(value), writer)


def test_a_reader_without_the_message_is_an_error() -> None:
    writer = proto3("message A { int32 a = 1; }")
    with pytest.raises(ValueError, match="no message A"):
        proto3("message B {}").resolve(writer.encode({"a": 1}), writer)


def test_a_required_field_that_the_writer_did_not_have_is_named() -> None:
    writer, reader = schema("message A { }"), schema("message A { required int32 a = 1; }")
    with pytest.raises(ValueError, match="lacks required fields: a"):
        reader.resolve(writer.encode({}), writer)


def test_a_value_of_an_enum_that_the_reader_lacks_is_no_error() -> None:
    """Protobuf reads it as the default; Confluent counts the change as compatible."""
    writer = schema("message A { optional E e = 1; } enum E { Z = 0; O = 1; }")
    reader = schema("message A { optional E e = 1; } enum E { Z = 0; }")
    assert reader.resolve(writer.encode({"e": "O"}), writer) == {}


def test_a_schema_that_the_library_refuses_has_no_records() -> None:
    """A stored schema may be one; its records are shown as bytes then."""
    broken = proto3("message A { int32 a = 1; int32 b = 1; }", settings=ParseSettings())
    with pytest.raises(ValueError, match="Invalid protobuf schema definition"):
        broken.decode(b"\0")


def test_top_level_fields_are_those_of_any_outer_message() -> None:
    """For metadata `confluent:reserved`: such a field may not come."""
    found = proto3("message A { oneof o { int32 in = 1; } message C { int32 inner = 1; } } message B { int32 b = 1; }")
    assert [found.has_top_level_field(each) for each in ("b", "in", "inner")] == [True, False, False]
