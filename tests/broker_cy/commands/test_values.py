"""The accepted forms of times, positions, partitions and formats, and the errors for anything else."""

from __future__ import annotations

import os
from collections.abc import Callable
from datetime import datetime
from typing import Any

import pytest

from broker_cy.admin.metadata import TopicPartition
from broker_cy.admin.records import Start
from broker_cy.client.quantities import parse_duration
from broker_cy.commands.feeder import split
from broker_cy.commands.formats import compile_format
from broker_cy.commands.output import plain
from broker_cy.console.values import (
    parse_delimiter,
    parse_header,
    parse_int,
    parse_partitions,
    parse_position,
    parse_setting,
    parse_time,
    parse_topic_partitions,
    unescape,
)
from broker_cy.reporting.foreign_text import escaped
from broker_cy.reporting.numbers import duration, size
from broker_cy.wire.records import Record

KEY = TopicPartition("orders", 3)
RECORD = Record(7, 1_700_000_000_000, b"k", b"value", [("a", b"1"), ("b", None)])
NOTHING = Record(8, -1, None, None)


@pytest.mark.parametrize(
    ("parse", "text", "value"),
    [
        (parse_duration, "500ms", 500),
        (parse_duration, "1h30m", 5_400_000),
        (parse_duration, "1w", 604_800_000),
        (parse_position, "beginning", Start.earliest()),
        (parse_position, "end", Start.latest()),
        (parse_position, "0", Start.offset(0)),
        (parse_position, "9223372036854775807", Start.offset(2**63 - 1)),
        (parse_position, "-10", Start.last(10)),
        (parse_position, "@1700000000000", Start.time(1_700_000_000_000)),
        (parse_position, "s@1700000000000", Start.time(1_700_000_000_000)),
        (parse_position, "@2026-01-31T12:00Z", Start.time(1_769_860_800_000)),
        (parse_time, "2026-01-31T12:00:00.123+02:00", 1_769_853_600_123),
        (parse_partitions, "0,3-5,4", (0, 3, 4, 5)),
        (parse_topic_partitions, "orders", ("orders", None)),
        (parse_topic_partitions, "orders:0,2", ("orders", (0, 2))),
        (parse_setting, "a=b=c", ("a", "b=c")),
        (parse_setting, "a=", ("a", "")),
        (parse_header, "a=b", ("a", b"b")),
        (parse_header, "a", ("a", None)),
        (parse_delimiter, r"\x01\t\\", b"\x01\t\\"),
        (unescape, "é\\n", "é\n".encode()),
    ],
)
def test_what_is_understood(parse: Callable[[str], Any], text: str, value: object) -> None:
    """If this fails, something that the help names is not understood, or understood as something else."""
    assert parse(text) == value


def test_times_are_local_and_relative() -> None:
    """If this fails, a time of day is interpreted in another zone."""
    assert parse_time("2026-01-31T12:00") == int(datetime(2026, 1, 31, 12).timestamp() * 1000)
    assert parse_time("2026-01-31") == int(datetime(2026, 1, 31).timestamp() * 1000)
    assert parse_time("-15m", lambda: 1_000_000) == 100_000
    assert parse_time("now", lambda: 5) == 5
    # 8 digits are ms, as for Kafka's tools.
    assert parse_time("20260131") == 20_260_131


@pytest.mark.parametrize(
    ("parse", "text", "allowed"),
    [
        (lambda text: parse_int(text, 0), "1_000", "0 or more"),
        (lambda text: parse_int(text, 0), "²", "0 or more"),
        (lambda text: parse_int(text, 0), "9223372036854775808", "0 or more"),
        (lambda text: parse_int(text, 1, 9), "10", "1 to 9"),
        (parse_duration, "5", "30s, 15m"),
        (parse_time, "yesterday", "-15m (ago)"),
        (parse_time, "2026-13-01", "2026-01-31"),
        (parse_position, "middle", "beginning, end, an offset"),
        (parse_position, "@", "2026-01-31"),
        (parse_partitions, "3-1", "low to high"),
        (parse_partitions, "0-99999999", "at most"),
        (parse_partitions, "a", "0,3,5 or 0-7"),
        (parse_setting, "a", "NAME=VALUE"),
        (parse_setting, "=a", "NAME=VALUE"),
        (parse_header, "=a", "NAME=VALUE"),
        (parse_delimiter, "", "at least one byte"),
        (unescape, "\\q", r"\n \t \r"),
        (unescape, "\\x1", r"\xHH"),
        (compile_format, "%q", "%s value"),
        (compile_format, "100%", "%% a percent sign"),
    ],
)
def test_what_is_refused_says_what_is_allowed(parse: Callable[[str], Any], text: str, allowed: str) -> None:
    """If this fails, a typing error is accepted with another meaning, or rejected without help."""
    with pytest.raises(ValueError) as raised:  # noqa: PT011  (the text is looked at below)
        parse(text)
    assert allowed in str(raised.value).replace("\n", " ")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("%s", b"value"),
        (r"%t/%p/%o %T %k(%K)=%s(%S) %h\n", b"orders/3/7 1700000000000 k(1)=value(5) a=1,b=NULL\n"),
        ("100%%", b"100%"),
        ("%%s %%%s%%", b"%s %value%"),
        ("", b""),
        (r"\x00é", b"\0\xc3\xa9"),
    ],
)
def test_formats(text: str, expected: bytes) -> None:
    """If this fails, scripts that were written for kcat print something else."""
    assert compile_format(text, b"NULL")(KEY, RECORD) == expected


def test_null_in_formats() -> None:
    """If this fails, null cannot be distinguished from an empty value."""
    assert compile_format("%k %K %s %S", b"NULL")(KEY, NOTHING) == b"NULL -1 NULL -1"


def test_what_the_terminal_is_shown() -> None:
    """If this fails, a name with control characters affects the terminal."""
    assert escaped("a\x1b[31mb\n\u202ec") == r"a\x1b[31mb\n\u202ec"
    assert escaped("é 漢") == "é 漢"


def test_amounts() -> None:
    """If this fails, a size or time is off by a unit."""
    assert [size(0), size(1023), size(1536), size(5 << 40), size(None)] == ["0 B", "1023 B", "1.5 KiB", "5.0 TiB", "-"]
    shown = [duration(each) for each in (0, 999, 1500, 61_000, 3_700_000, 90_000_000, None)]
    assert shown == ["0 ms", "999 ms", "1.5 s", "1 m 1 s", "1 h 1 m", "1 d 1 h", "-"]
    assert plain({"a": (TopicPartition("t", 1), b"\xff", 2**63)}) == {
        "a": [{"topic": "t", "partition": 1}, {"base64": "/w=="}, 2**63]
    }


def test_input_is_split_where_reads_end_anywhere(tmp_path: Any) -> None:
    """If this fails, a record is split at the end of a read, or an empty one is left out."""
    whole = b"a||b||||" + b"c" * 3_000_000 + b"||d|"
    path = tmp_path / "input"
    path.write_bytes(whole)
    descriptor = os.open(path, os.O_RDONLY)
    try:
        assert [piece for pieces in split(descriptor, b"||") for piece in pieces] == whole.split(b"||")
    finally:
        os.close(descriptor)
    reader, writer = os.pipe()
    for part in (b"one|", b"|two", b"||"):
        os.write(writer, part)
    os.close(writer)
    try:
        assert [piece for pieces in split(reader, b"||") for piece in pieces] == [b"one", b"two"]
    finally:
        os.close(reader)
