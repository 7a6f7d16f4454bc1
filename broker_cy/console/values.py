"""Values as users type them: offsets, partitions, settings. A ValueError describes the allowed values. Durations, sizes
and times are those of client.quantities.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable

from broker_cy.admin.records import Start
from broker_cy.client import quantities
from broker_cy.client.quantities import BYTES_HELP, TIME_HELP, parse_size

_PARTITIONS_MAX = 100_000
POSITION_HELP = f"beginning, end, an offset, -N (the last N), or @TIME: {TIME_HELP}"
_TOPIC_NAME = re.compile(r"[a-zA-Z0-9._-]+")
_TOPIC_NAME_MAX = 249
INT64_MAX = (1 << 63) - 1
INT64_MIN = -(1 << 63)


def parse_int(text: str, low: int, high: int = INT64_MAX) -> int:
    """Parse a decimal number in a range; int() would also accept underscores and digits of other scripts."""
    if not re.fullmatch(r"[+-]?[0-9]{1,19}", text) or not low <= int(text) <= high:
        allowed = f"{low} or more" if high == INT64_MAX else f"{low} to {high}"
        raise ValueError(f"{text!r}: a whole number, {allowed}, is expected")
    return int(text)


def parse_time(text: str, now_ms: Callable[[], int] = lambda: int(time.time() * 1000)) -> int:
    """Parse a time to milliseconds since 1970. Raises ValueError."""
    return quantities.parse_time(text, now_ms)


def parse_bytes(text: str) -> int:
    """Parse a size of at least one byte. Raises ValueError."""
    if (found := parse_size(text)) < 1:
        raise ValueError(f"{text!r}: at least 1 byte is expected, {BYTES_HELP}")
    return found


def parse_position(text: str) -> Start:
    """Parse the position to read from. kcat's form `s@TIME` is also accepted."""
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
    raise ValueError(f"{text!r} is not a position: {POSITION_HELP}")


def parse_partitions(text: str) -> tuple[int, ...]:
    """Parse `0`, `0,3,5`, `0-7`, and combinations; the result is in ascending order, without duplicates."""
    found: set[int] = set()
    for part in text.split(","):
        match = re.fullmatch(r"([0-9]{1,9})(?:-([0-9]{1,9}))?", part)
        if match is None:
            raise ValueError(f"{text!r}: partitions such as 0, 0,3,5 or 0-7 are expected")
        low, high = int(match[1]), int(match[2] or match[1])
        if high < low or high - low >= _PARTITIONS_MAX:
            raise ValueError(f"{part!r}: a range goes from low to high, with at most {_PARTITIONS_MAX} partitions")
        found.update(range(low, high + 1))
    return tuple(sorted(found))


def parse_topic_partitions(text: str) -> tuple[str, tuple[int, ...] | None]:
    """Parse `topic` (all partitions: None) or `topic:0,3-5`."""
    topic, colon, partitions = text.rpartition(":")
    if not colon:
        return text, None
    return topic, parse_partitions(partitions)


def parse_setting(text: str) -> tuple[str, str]:
    """Parse `name=value`."""
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise ValueError(f"{text!r}: NAME=VALUE is expected")
    return name, value


def parse_header(text: str) -> tuple[str, bytes | None]:
    """Parse `name=value`, or `name` for a header whose value is null."""
    name, equals, value = text.partition("=")
    if not name:
        raise ValueError(f"{text!r}: NAME=VALUE is expected, or NAME for a null value")
    return name, value.encode() if equals else None


_ESCAPES = {"n": b"\n", "t": b"\t", "r": b"\r", "0": b"\0", "\\": b"\\"}
_ESCAPE = re.compile(r"\\(x[0-9a-fA-F]{2}|.?)", re.DOTALL)


def unescape(text: str) -> bytes:
    r"""Return the bytes of a text with the escapes \n, \t, \r, \0, \\ and \xHH."""

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
            raise ValueError(rf"{text!r}: \{said} is not an escape; allowed are \n \t \r \0 \\ and \xHH")
        at = match.end()
    return bytes(out + text[at:].encode())


def parse_delimiter(text: str) -> bytes:
    """Parse a delimiter with escapes, which must not be empty."""
    if not text:
        raise ValueError(r"a delimiter needs at least one byte, such as , or \t or \x01")
    return unescape(text)


def topic_name(text: str) -> str:
    """Check a topic name by Kafka's rules."""
    if text in ("", ".", ".."):
        raise ValueError(f"{text!r} is not a topic name: 1 to {_TOPIC_NAME_MAX} letters, digits, . _ and -")
    if len(text) > _TOPIC_NAME_MAX:
        raise ValueError(f"{len(text)} characters: {_TOPIC_NAME_MAX} are allowed")
    if not _TOPIC_NAME.fullmatch(text):
        bad = next(sign for sign in text if not _TOPIC_NAME.fullmatch(sign))
        raise ValueError(f"{bad!r} is not allowed; allowed are letters, digits, . _ and -")
    return text


def integer(low: int, high: int = INT64_MAX) -> Callable[[str], int]:
    """Return a parser of integers in a range."""
    return lambda text: parse_int(text.strip().replace(",", ""), low, high)


def optional(parse: Callable[[str], object]) -> Callable[[str], object]:
    """Return a parser that maps an empty field to None."""
    return lambda text: parse(text) if text.strip() else None


def settings(text: str) -> dict[str, str]:
    """Parse `name=value`, separated by commas; a value that contains commas is quoted."""
    found: dict[str, str] = {}
    for part in _split(text):
        name, value = parse_setting(part)
        if name in found:
            raise ValueError(f"{name} occurs twice")
        found[name] = value
    return found


def headers(text: str) -> tuple[tuple[str, bytes | None], ...]:
    """Parse `name=value` (or `name` for null), separated by commas; a name may occur several times."""
    return tuple(parse_header(part) for part in _split(text))


def _split(text: str) -> list[str]:
    """Return the parts between commas outside of double quotes, without the quotes."""
    if text.count('"') % 2:
        raise ValueError("a quote is not closed")
    parts = re.findall(r'(?:[^,"]|"[^"]*")+', text)
    return [part.strip().replace('"', "") for part in parts if part.strip()]
