"""Values as they are typed: times, offsets, partitions, settings. What is wrong is told with what is allowed."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any

import click

from broker_cy.admin.metadata import TopicPartition
from broker_cy.admin.records import Start

_UNITS_MS = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 604_800_000}
_DURATION = re.compile(r"(\d+)(ms|s|m|h|d|w)")
_INT64_MAX = (1 << 63) - 1
_PARTITIONS_MAX = 100_000
DURATION_HELP = "such as 500ms, 30s, 15m, 2h, 1d or 1w"
TIME_HELP = "2026-01-31, 2026-01-31T12:00[:00.123][Z|+02:00], -15m (ago), now, or ms since 1970"
POSITION_HELP = f"beginning, end, an offset, -N (the last N), or @TIME: {TIME_HELP}"


class Parsed(click.ParamType[Any]):
    """A click type of a function that raises ValueError, which says what is allowed."""

    def __init__(self, name: str, parse: Callable[[str], Any]) -> None:
        self.name = name
        self._parse = parse

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if not isinstance(value, str):
            return value
        try:
            return self._parse(value)
        except ValueError as error:
            self.fail(str(error), param, ctx)


def parse_int(text: str, low: int, high: int = _INT64_MAX) -> int:
    """A decimal number in a range; int() would take underscores and other scripts' digits, too."""
    if not re.fullmatch(r"[+-]?[0-9]{1,19}", text) or not low <= int(text) <= high:
        allowed = f"{low} or more" if high == _INT64_MAX else f"{low} to {high}"
        raise ValueError(f"{text!r}: a whole number, {allowed}, is expected")
    return int(text)


def parse_duration(text: str) -> int:
    """Milliseconds of `2h`, or of `1h30m`."""
    parts = _DURATION.findall(text)
    if not parts or "".join(number + unit for number, unit in parts) != text:
        raise ValueError(f"{text!r} is no duration, {DURATION_HELP}")
    return sum(int(number) * _UNITS_MS[unit] for number, unit in parts)


def parse_time(text: str, now_ms: Callable[[], int] | None = None) -> int:
    """Milliseconds since 1970. A time without a zone is local."""
    if text == "now" or text.startswith("-"):
        now = int(datetime.now(UTC).timestamp() * 1000) if now_ms is None else now_ms()
        return now if text == "now" else max(0, now - parse_duration(text[1:]))
    if re.fullmatch(r"[0-9]{1,19}", text):
        # 8 digits are a date to datetime, and ms since 1970 to Kafka's tools.
        return parse_int(text, 0)
    try:
        return int(datetime.fromisoformat(text).timestamp() * 1000)
    except (ValueError, OverflowError, OSError):
        raise ValueError(f"{text!r} is no time: {TIME_HELP}") from None


def parse_position(text: str) -> Start:
    """Where to read from. `s@TIME`, kcat's form, is understood, too."""
    if text in ("beginning", "earliest"):
        return Start.earliest()
    if text in ("end", "latest"):
        return Start.latest()
    if text.startswith(("@", "s@")):
        return Start.time(parse_time(text.partition("@")[2]))
    if re.fullmatch(r"-[0-9]{1,18}", text):
        return Start.last(int(text[1:]))
    if re.fullmatch(r"[0-9]{1,19}", text):
        return Start.offset(parse_int(text, 0))
    raise ValueError(f"{text!r} is no position: {POSITION_HELP}")


def parse_partitions(text: str) -> tuple[int, ...]:
    """`0`, `0,3,5`, `0-7`, and mixtures; rising, each once."""
    found: set[int] = set()
    for part in text.split(","):
        match = re.fullmatch(r"([0-9]{1,9})(?:-([0-9]{1,9}))?", part)
        if match is None:
            raise ValueError(f"{text!r}: partitions such as 0, 0,3,5 or 0-7 are expected")
        low, high = int(match[1]), int(match[2] or match[1])
        if high < low or high - low >= _PARTITIONS_MAX:
            raise ValueError(f"{part!r}: a range goes from low to high, over {_PARTITIONS_MAX} partitions at most")
        found.update(range(low, high + 1))
    return tuple(sorted(found))


def parse_topic_partitions(text: str) -> tuple[str, tuple[int, ...] | None]:
    """`topic` (all partitions: None), or `topic:0,3-5`."""
    topic, colon, partitions = text.rpartition(":")
    if not colon:
        return text, None
    return topic, parse_partitions(partitions)


def parse_setting(text: str) -> tuple[str, str]:
    """`name=value`."""
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise ValueError(f"{text!r}: NAME=VALUE is expected")
    return name, value


def parse_header(text: str) -> tuple[str, bytes | None]:
    """`name=value`, or `name` for a header whose value is null."""
    name, equals, value = text.partition("=")
    if not name:
        raise ValueError(f"{text!r}: NAME=VALUE is expected, or NAME for a null value")
    return name, value.encode() if equals else None


_ESCAPES = {"n": b"\n", "t": b"\t", "r": b"\r", "0": b"\0", "\\": b"\\"}
_ESCAPE = re.compile(r"\\(x[0-9a-fA-F]{2}|.?)", re.DOTALL)


def unescape(text: str) -> bytes:
    r"""The bytes of a text with \n, \t, \r, \0, \\ and \xHH."""

    out = bytearray()
    at = 0
    for match in _ESCAPE.finditer(text):
        out += text[at : match.start()].encode()
        said = match[1]
        if said.startswith("x") and len(said) == 3:
            out.append(int(said[1:], 16))
        elif said in _ESCAPES:
            out += _ESCAPES[said]
        else:
            raise ValueError(rf"{text!r}: \{said} is no escape; \n \t \r \0 \\ and \xHH are")
        at = match.end()
    return bytes(out + text[at:].encode())


def parse_delimiter(text: str) -> bytes:
    """A delimiter, with escapes; not empty."""
    if not text:
        raise ValueError(r"a delimiter has at least one byte, such as , or \t or \x01")
    return unescape(text)


OFFSET = Parsed("offset", lambda text: parse_int(text, 0))
COUNT = Parsed("count", lambda text: parse_int(text, 1, 2**31 - 1))
DURATION = Parsed("duration", parse_duration)
TIME = Parsed("time", parse_time)
POSITION = Parsed("position", parse_position)
PARTITIONS = Parsed("partitions", parse_partitions)
TOPIC_PARTITIONS = Parsed("topic[:partitions]", parse_topic_partitions)
SETTING = Parsed("name=value", parse_setting)
HEADER = Parsed("name=value", parse_header)
DELIMITER = Parsed("delimiter", parse_delimiter)


def chosen(every: Sequence[TopicPartition], wanted: Sequence[int] | None) -> list[TopicPartition]:
    """The partitions of a topic that are wanted (None: all); click.BadParameter where one does not exist."""
    if wanted is None:
        return list(every)
    by_number = {key.partition: key for key in every}
    missing = [index for index in wanted if index not in by_number]
    if missing:
        topic = every[0].topic if every else "the topic"
        raise click.BadParameter(f"{topic} has no partition {missing[0]}; it has 0 to {len(every) - 1}")
    return [by_number[index] for index in wanted]
