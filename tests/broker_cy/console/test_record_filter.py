"""The records that a filter selects."""

from __future__ import annotations

import pytest

from broker_cy.console.record_filter import FilterError, RecordFilter, compile_all, parse_part
from broker_cy.wire.compression import Codec
from broker_cy.wire.records import Record, decode_batches, encode_batch

ORDER = Record(
    offset=1,
    key=b"order-42",
    value=b'{"user": {"id": 42, "name": "Ann"}, "items": [{"sku": "a"}, {"sku": "b"}], "paid": true, "note": null}',
    headers=[("trace", b"abc-1"), ("trace", b"def-2"), ("empty", None)],
)


def keeps(**fields: str) -> bool:
    """Return whether the filter accepts ORDER; searching its batch first must not change that."""
    wanted = RecordFilter(**fields)
    keep = wanted.compile()
    found = keep([ORDER]) == [ORDER]
    for codec in (Codec.NONE, Codec.LZ4):
        (batch,) = decode_batches(encode_batch([Record(value=b"before"), ORDER], codec=codec))
        records = batch.records(containing=wanted.needle())
        assert found is (records is not None and any(record.key == ORDER.key for record in keep(records)))
    return found


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, True),
        ({"key": "order-4"}, True),
        ({"key": "~order-\\d+$"}, True),
        ({"key": "~^42"}, False),
        ({"value": "Ann"}, True),
        ({"value": "ann"}, False),
        ({"value": "~A[n]+"}, True),
        ({"header": "trace"}, True),
        ({"header": "trace=def"}, True),
        ({"header": "trace=ghi"}, False),
        ({"header": "empty"}, True),
        ({"header": "absent"}, False),
        ({"path": "$.user.id"}, True),
        ({"path": "$.user.id = 42"}, True),
        ({"path": '$.user.id = "42"'}, False),
        ({"path": "$.user.id > 41"}, True),
        ({"path": "$.user.id >= 42"}, True),
        ({"path": "$.user.id < 42"}, False),
        ({"path": "$.user.id != 42"}, False),
        ({"path": "$.user.name = Ann"}, True),
        ({"path": "$.user.name ~ nn"}, True),
        ({"path": "$.items[1].sku = b"}, True),
        ({"path": "$.items[2].sku"}, False),
        ({"path": '$["user"].name = Ann'}, True),
        ({"path": "$.paid = true"}, True),
        ({"path": "$.paid = 1"}, False),
        ({"path": "$.note = null"}, True),
        ({"path": "$.absent"}, False),
        ({"key": "order", "value": "Ann", "path": "$.paid = true"}, True),
        ({"key": "order", "value": "Bob"}, False),
    ],
)
def test_filters(fields: dict[str, str], expected: bool) -> None:
    """If this fails, a search misses a matching record, or finds another one."""
    assert keeps(**fields) is expected


@pytest.mark.parametrize("value", [None, b"", b"no json", b'{"user": 5}', b"[" * 100_000, b"\xff\xfe"])
def test_values_that_are_no_such_json_do_not_match(value: bytes | None) -> None:
    """If this fails, one malformed record ends a search through ten million."""
    record = Record(value=value)
    wanted = RecordFilter(path="$.user.id = 1", value="user").compile()
    assert wanted([record]) == []


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"key": "~("}, "not a regular expression"),
        ({"header": "=x"}, "a header's name"),
        ({"path": "user.id"}, "is not a path"),
        ({"path": "$.user ? 1"}, "is not understood"),
        ({"path": "$.user ="}, "a value is expected"),
        ({"path": "$.user > true"}, "compares with a number"),
        ({"value": "~" + "x" * 2_000}, "at most 1,000 are allowed"),
    ],
)
def test_bad_filters_say_why(fields: dict[str, str], said: str) -> None:
    """If this fails, users do not know why nothing is found."""
    with pytest.raises(ValueError, match=said):
        RecordFilter(**fields).compile()


@pytest.mark.parametrize(
    ("text", "column"),
    [
        ("user", 1),
        ("name:x", 1),
        ("key:", 5),
        ("value:  ", 9),
        ("key:~é(", 7),
        ("value: ~a[", 10),
        ("header:=x", 8),
        ("header:trace=~(", 15),
        ("json:user.id", 6),
        ("json:$.user ? 1", 13),
        ("json:$.user =", 14),
        ("json:  $.user > true", 17),
    ],
)
def test_mistakes_in_a_part_have_a_column(text: str, column: int) -> None:
    """If this fails, a user searches a long filter for the mistake in it."""
    with pytest.raises(FilterError, match=f"^column {column}: ") as caught:
        parse_part(text)
    assert caught.value.column == column


def test_records_match_all_parts() -> None:
    """If this fails, a command prints records that one of its filters excludes."""
    texts = ("json:$.user.id = 42", "json: $.paid = true", "header:trace=abc", "key:order", "value:~A[n]+")
    keep, needle = compile_all([parse_part(text) for text in texts])
    assert keep([Record(value=b"{}"), ORDER]) == [ORDER]
    assert needle == b'"paid"'
    for text in ("json:$.user.id = 41", "header:absent", "key:bill"):
        keep, _ = compile_all([parse_part(each) for each in (*texts, text)])
        assert keep([ORDER]) == []
    keep, needle = compile_all(())
    assert (keep([ORDER]), needle) == ([ORDER], None)


def test_batches_without_the_text_are_not_read_record_by_record() -> None:
    """If this fails, a search for one record through ten million takes minutes."""
    (batch,) = decode_batches(encode_batch([ORDER] * 3, codec=Codec.ZSTD))
    for wanted in (
        RecordFilter(value="Bob"),
        RecordFilter(header="span"),
        RecordFilter(path="$.total"),
        RecordFilter(key="x9"),
    ):
        assert batch.records(containing=wanted.needle()) is None
    assert RecordFilter(value="~B.b").needle() is None
