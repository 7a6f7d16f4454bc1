"""The verdict about the schemas that the records of a batch name."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from broker_cy.core.errors import ErrorCode
from broker_cy.record_schemas.checks import RecordSchemas, Strategy, Verdict
from broker_cy.record_schemas.known import KnownSchemas, SchemaVersion
from broker_cy.wire.records import Record, encode_batch
from broker_cy.wire.schema_header import VALUE_HEADER, id_header

BATCH_HEADER_BYTES = 61
GUID = UUID(int=7)


class Known:
    """A follower that has read everything."""

    def __init__(self) -> None:
        self.known = KnownSchemas()
        self.known.apply(SchemaVersion("orders-value", 1, 3, GUID.bytes, "shop.Order"))
        self.known.apply(SchemaVersion("orders-key", 1, 4, None, None))
        self.known.apply(SchemaVersion("shop.Item", 1, 5, None, "shop.Item"))
        self.known.apply(SchemaVersion("orders-shop.Item", 1, 6, None, "shop.Item"))

    def up_to_date(self) -> Any:
        raise AssertionError("a verdict does not wait")


def judge(records: list[Record], key: Strategy | None, value: Strategy | None) -> Verdict:
    check = RecordSchemas("orders", key, value, Known())
    return check.judge(check.collect(encode_batch(records)[BATCH_HEADER_BYTES:], len(records)), 2)


def value(schema: int) -> Record:
    return Record(value=id_header(schema) + b"x")


@pytest.mark.parametrize(
    ("schema", "strategy", "reason"),
    [
        (3, Strategy.TOPIC_NAME, None),
        (5, Strategy.RECORD_NAME, None),
        (6, Strategy.TOPIC_RECORD_NAME, None),
        (5, Strategy.TOPIC_NAME, "the value has schema id 5, which subject orders-value does not have"),
        (3, Strategy.RECORD_NAME, "the value has schema id 3, which subject shop.Order does not have"),
        (5, Strategy.TOPIC_RECORD_NAME, "the value has schema id 5, which subject orders-shop.Item does not have"),
        (9, Strategy.RECORD_NAME, "the value has schema id 9, which no subject of RecordNameStrategy has"),
    ],
)
def test_the_strategy_decides_the_subject(schema: int, strategy: Strategy, reason: str | None) -> None:
    """If this fails, records are looked up in another subject than their producer registered in."""
    refusal, is_certain = judge([value(schema)], None, strategy)
    if reason is None:
        assert refusal is None
        return
    assert refusal is not None
    assert refusal.code is ErrorCode.INVALID_RECORD
    assert refusal.record_errors == [(0, f"Record 0 for orders-2: {reason}")]
    assert not is_certain


def test_keys_and_values_are_checked_apart() -> None:
    """If this fails, the schema of a key is accepted in a value, or a side is checked that is switched off."""
    both = Record(key=id_header(4), value=id_header(3))
    swapped = Record(key=id_header(3), value=id_header(4))
    assert judge([both], Strategy.TOPIC_NAME, Strategy.TOPIC_NAME).refusal is None
    refusal, _ = judge([both, swapped], Strategy.TOPIC_NAME, Strategy.TOPIC_NAME)
    assert refusal is not None
    assert [place for place, _ in refusal.record_errors] == [1, 1]
    refusal, _ = judge([swapped], Strategy.TOPIC_NAME, None)
    assert refusal is not None
    assert len(refusal.record_errors) == 1


def test_null_is_accepted() -> None:
    """If this fails, no record of a compacted topic can be deleted."""
    records = [Record(key=id_header(4), value=None), Record(key=None, value=id_header(3))]
    assert judge(records, Strategy.TOPIC_NAME, Strategy.TOPIC_NAME).refusal is None


def test_records_without_a_schema_are_refused_for_good() -> None:
    """If this fails, plain text is stored in a checked topic, or each such record waits for the registry."""
    refusal, is_certain = judge([value(3), Record(value=b"plain text")], None, Strategy.TOPIC_NAME)
    assert refusal is not None
    assert refusal.record_errors == [
        (1, "Record 1 for orders-2: the value names no schema; one of subject orders-value is required")
    ]
    assert "RecordError(batchIndex=1" in refusal.message
    assert is_certain


def test_guids_in_headers_are_found() -> None:
    """If this fails, records of Confluent's newer serializers are refused."""
    header = (VALUE_HEADER, b"\1" + GUID.bytes)
    assert judge([Record(value=b"payload", headers=[header])], None, Strategy.TOPIC_NAME).refusal is None
    other = UUID(int=8)
    refusal, _ = judge(
        [Record(value=b"payload", headers=[(VALUE_HEADER, b"\1" + other.bytes)])], None, Strategy.TOPIC_NAME
    )
    assert refusal is not None
    assert f"schema GUID {other}" in refusal.record_errors[0][1]


def test_too_many_schemas_are_refused() -> None:
    """If this fails, one batch fills the memory of the broker with schemas."""
    refusal, is_certain = judge([value(each) for each in range(1_001)], None, Strategy.TOPIC_NAME)
    assert refusal is not None
    assert refusal.code is ErrorCode.INVALID_RECORD
    assert "more than 1,000 different schemas" in refusal.message
    assert is_certain
