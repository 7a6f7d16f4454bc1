"""The parts of framed values, and the subjects of serializers."""

from __future__ import annotations

from uuid import UUID

import pytest

from broker_registry.serdes.framing import Framed, framed, with_id
from broker_registry.serdes.strategies import Strategy

GUID = UUID("89791762-2336-4186-9674-299b90a802e2")
HEADER = b"\1" + GUID.bytes


def test_the_id_is_in_front() -> None:
    """If this fails, values that Confluent's serializers wrote are not decoded."""
    assert framed(with_id(7, b"abc")) == Framed(7, None, b"abc")
    assert framed(b"plain") is None


def test_the_guid_is_in_the_last_header_of_its_name() -> None:
    """If this fails, values that clients of Confluent 8 wrote with headers are not decoded."""
    headers = [("__value_schema_id", b"\0\0\0\0\1"), ("__key_schema_id", b"\0\0\0\0\2"), ("__value_schema_id", HEADER)]
    assert framed(b"abc", headers) == Framed(None, GUID, b"abc")
    assert framed(b"abc", headers, is_key=True) == Framed(2, None, b"abc")
    # The message indexes of Protobuf are in the header.
    assert framed(b"abc", [("__value_schema_id", HEADER + b"\2\2")]) == Framed(None, GUID, b"\2\2abc")
    assert framed(with_id(7, b"abc"), [("__value_schema_id", None)]) == Framed(7, None, b"abc")
    with pytest.raises(ValueError, match="__value_schema_id"):
        framed(b"abc", [("__value_schema_id", b"?")])


def test_subjects_are_those_of_confluent() -> None:
    """If this fails, a serializer registers schemas where no other client looks for them."""
    assert Strategy.TOPIC_NAME.subject("orders", None) == "orders-value"
    assert Strategy.TOPIC_NAME.subject("orders", "a.Order", is_key=True) == "orders-key"
    assert Strategy.RECORD_NAME.subject("orders", "a.Order") == "a.Order"
    assert Strategy.TOPIC_RECORD_NAME.subject("orders", "a.Order") == "orders-a.Order"
    with pytest.raises(ValueError, match="RecordNameStrategy"):
        Strategy.RECORD_NAME.subject("orders", None)
    name = "io.confluent.kafka.serializers.subject.TopicRecordNameStrategy"
    assert Strategy.of(name) is Strategy.of("TopicRecordName") is Strategy.TOPIC_RECORD_NAME
    with pytest.raises(ValueError, match="Other"):
        Strategy.of("OtherStrategy")
