"""Changes of rows in repartition topics of grouped tables: Kafka's bytes."""

from __future__ import annotations

import pytest

from broker_streams.records import Change
from broker_streams.serdes import SerdeError
from broker_streams.serdes.changes import ChangeSerde
from broker_streams.serdes.primitives import LONG, STRING

SERDE = ChangeSerde(STRING)
WRITTEN: list[tuple[Change, bytes]] = [
    (Change(None, "old"), b"old\x00"),
    (Change("new", None), b"new\x01"),
    (Change("new", "o"), b"\x06newo\x02"),
    (Change("", ""), b"\x00\x02"),
    (Change("n" * 64, "o"), b"\x80\x01" + b"n" * 64 + b"o\x02"),
]
# Kafka 4.3.1 reads them, and newer versions may write them.
READ: list[tuple[Change, bytes]] = [
    (Change(None, "old", True), b"old\x01\x03"),
    (Change("new", None, False), b"new\x00\x04"),
    (Change("new", "o", False), b"\x06newo\x00\x05"),
]


@pytest.mark.parametrize(("change", "data"), WRITTEN)
def test_a_change_is_written_as_by_kafka(change: Change, data: bytes) -> None:
    """If this fails, an application cannot go on with a repartition topic that Kafka Streams wrote."""
    assert SERDE.serialize("topic", change) == data


@pytest.mark.parametrize(("change", "data"), WRITTEN + READ)
def test_a_change_is_read(change: Change, data: bytes) -> None:
    """If this fails, an aggregation adds or subtracts other rows than were written."""
    assert SERDE.deserialize("topic", data) == change


@pytest.mark.parametrize(
    "data", [None, b"", b"x\x06", b"\x03", b"x\x02\x04", b"\x80\x80\x80\x80\x80\x02", b"\x08abc\x02", b"\x01a\x02"]
)
def test_bytes_that_are_no_change_are_refused(data: bytes | None) -> None:
    """If this fails, a damaged record is aggregated as something else."""
    with pytest.raises(SerdeError, match="topic"):
        SERDE.deserialize("topic", data)


def test_a_change_of_nothing_is_refused() -> None:
    """If this fails, a record that no reader understands is written."""
    with pytest.raises(SerdeError, match="without an old and a new value"):
        SERDE.serialize("topic", Change(None, None))


def test_the_inner_serde_comes_from_the_application() -> None:
    """If this fails, a grouped table without serdes fails at its first row."""
    with pytest.raises(SerdeError, match=r"default\.value\.serde"):
        ChangeSerde(None).serialize("topic", Change("a", None))
    assert ChangeSerde(None).with_defaults(STRING, LONG).serialize("topic", Change(1, None)) == bytes(7) + b"\x01\x01"
    assert SERDE.with_defaults(LONG, LONG).name == "CHANGE(STRING)"
