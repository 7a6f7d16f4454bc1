"""Serdes beside the bytes that Kafka 4.3.1 wrote (KafkaSerdes.java)."""

from __future__ import annotations

import uuid
from pathlib import Path
from typing import Any

import pytest

from broker_streams.records import Window, Windowed
from broker_streams.serdes import Serde
from broker_streams.serdes.lists import ListSerde
from broker_streams.serdes.primitives import BOOLEAN, DOUBLE, FLOAT, INTEGER, LONG, SHORT, STRING, UUID
from broker_streams.serdes.windowed import SessionWindowedSerde, TimeWindowedSerde

LINES = dict(line.split("\t") for line in (Path(__file__).parent / "kafka_bytes.txt").read_text().splitlines())
AN_ID = uuid.UUID("12345678-1234-5678-1234-567812345678")
VALUES: dict[str, tuple[Serde, Any]] = {
    "STRING a": (STRING, "aé\U0001f600"),
    "STRING empty": (STRING, ""),
    "SHORT -2": (SHORT, -2),
    "INTEGER 70000": (INTEGER, 70_000),
    "LONG -1": (LONG, -1),
    "LONG max": (LONG, (1 << 63) - 1),
    "FLOAT 1.5": (FLOAT, 1.5),
    "DOUBLE -0.1": (DOUBLE, -0.1),
    "BOOLEAN true": (BOOLEAN, True),
    "UUID": (UUID, AN_ID),
    "LIST(LONG) 1 None 3": (ListSerde(LONG), [1, None, 3]),
    "LIST(STRING) a None empty": (ListSerde(STRING), ["a", None, ""]),
    "LIST(UUID) one": (ListSerde(UUID), [AN_ID]),
    "LIST(STRING) empty": (ListSerde(STRING), []),
    "TIME_WINDOWED k 60000": (TimeWindowedSerde(STRING, 60_000), Windowed("k", Window(60_000, 120_000))),
    "SESSION_WINDOWED k 5 9": (SessionWindowedSerde(STRING), Windowed("k", Window(5, 9))),
}


@pytest.mark.parametrize("name", VALUES)
def test_bytes_are_kafkas_in_both_directions(name: str) -> None:
    """If this fails, Java applications cannot read the topics of ours, or ours not theirs."""
    serde, value = VALUES[name]
    data = bytes.fromhex(LINES[name])
    assert serde.serialize("t", value) == data
    assert serde.deserialize("t", data) == value


def test_each_recorded_value_is_compared() -> None:
    """If this fails, a recorded format has no test."""
    assert {name for name in LINES if not name.startswith("read ")} == {*VALUES, "STRING lone surrogate"}


def test_text_that_is_no_unicode_becomes_what_java_makes_of_it() -> None:
    """If this fails, keys with such text are other keys than in Java."""
    assert STRING.serialize("t", "a\ud800b") == bytes.fromhex(LINES["STRING lone surrogate"])
    for name, expected in LINES.items():
        if name.startswith("read "):
            text = STRING.deserialize("t", bytes.fromhex(name.removeprefix("read ")))
            assert STRING.serialize("t", text) == bytes.fromhex(expected)
