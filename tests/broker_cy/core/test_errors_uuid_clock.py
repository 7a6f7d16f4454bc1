"""If these fail, clients get a wrong error, or ids are printed differently than by Kafka's tools."""

from importlib import resources
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker_cy.core import uuid
from broker_cy.core.clock import Clock, ManualClock
from broker_cy.core.errors import ErrorCode, KafkaError, WireError


def test_the_error_codes_are_those_of_the_table() -> None:
    lines = (resources.files("broker_cy.schemas") / "errors.tsv").read_text().splitlines()
    assert lines[0] == "code\tname\tretriable"
    table = [
        (int(code), name, retriable == "yes") for code, name, retriable in (line.split("\t") for line in lines[1:])
    ]
    assert [(int(error), error.name, error.retriable) for error in ErrorCode] == table


@pytest.mark.parametrize("code", [134, 999, 32767, -2, -32768])
def test_a_code_of_a_newer_version_is_an_error(code: int) -> None:
    """If this fails, an answer of a newer Kafka ends the task that reads it: heartbeats, changes of in-sync sets."""
    assert ErrorCode(code) is ErrorCode.UNKNOWN_SERVER_ERROR


def test_what_cannot_be_a_code_is_refused() -> None:
    for wrong in (32768, -32769, "NONE", None):
        with pytest.raises(ValueError, match="is not a valid ErrorCode"):
            ErrorCode(wrong)  # type: ignore[arg-type]


def test_errors_say_what_and_where() -> None:
    assert str(KafkaError(ErrorCode.INVALID_CONFIG, "segment.bytes must be at least 14")) == (
        "INVALID_CONFIG: segment.bytes must be at least 14"
    )
    assert str(KafkaError(ErrorCode.NOT_COORDINATOR)) == "NOT_COORDINATOR"
    assert str(WireError("too short", "Fetch.topics[1]")) == "Fetch.topics[1]: too short"
    assert str(WireError("too short")) == "too short"


# Printed by Kafka: the id of the metadata topic, and the one that means no id.
@pytest.mark.parametrize(("text", "number"), [("AAAAAAAAAAAAAAAAAAAAAQ", 1), ("AAAAAAAAAAAAAAAAAAAAAA", 0)])
def test_uuids_print_as_kafka_prints_them(text: str, number: int) -> None:
    assert uuid.to_text(UUID(int=number)) == text
    assert uuid.from_text(text) == UUID(int=number)


@given(st.uuids())
def test_uuid_text_round_trip(value: UUID) -> None:
    assert uuid.from_text(uuid.to_text(value)) == value
    assert len(uuid.to_text(value)) == 22


@pytest.mark.parametrize("text", ["", "A" * 21, "A" * 23, "A" * 21 + "+", "A" * 21 + "é", "A" * 20 + "=="])
def test_bad_uuid_text_is_named(text: str) -> None:
    with pytest.raises(ValueError, match="not a Kafka uuid"):
        uuid.from_text(text)


def test_reserved_uuids_are_not_given_out() -> None:
    assert not any(uuid.usable(UUID(int=number)) for number in range(100))
    assert uuid.usable(UUID(int=100))
    dashed = uuid.from_text("-" + "A" * 21)
    assert not uuid.usable(dashed)
    assert not uuid.is_reserved(dashed)


def test_manual_clock_moves_only_when_it_is_set() -> None:
    clock = ManualClock(wall_ms=1000)
    assert (clock.wall_ms(), clock.monotonic()) == (1000, 0.0)
    clock.advance_ms(250)
    assert (clock.wall_ms(), clock.monotonic()) == (1250, 0.25)
    clock.set_wall_ms(5)
    assert (clock.wall_ms(), clock.monotonic()) == (5, 0.25)
    with pytest.raises(ValueError, match="-1 ms"):
        clock.advance_ms(-1)


def test_the_machines_clock_counts_milliseconds_since_1970() -> None:
    clock = Clock()
    assert clock.wall_ms() > 1_700_000_000_000
    assert clock.monotonic() <= clock.monotonic()
