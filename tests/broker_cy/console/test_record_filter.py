"""The records that a filter selects."""

from __future__ import annotations

import pytest

from broker_cy.console.record_filter import RecordFilter
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
        ({"value": "~" + "x" * 2_000}, "1000 are allowed"),
    ],
)
def test_bad_filters_say_why(fields: dict[str, str], said: str) -> None:
    """If this fails, users do not know why nothing is found."""
    with pytest.raises(ValueError, match=said):
        RecordFilter(**fields).compile()


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
