"""What is typed into fields, checked before anything is sent; ValueError says what is allowed."""

from __future__ import annotations

import re
from collections.abc import Callable

from broker_cy.commands.values import (
    parse_duration,
    parse_header,
    parse_int,
    parse_partitions,
    parse_position,
    parse_setting,
    parse_time,
    unescape,
)

__all__ = [
    "headers",
    "integer",
    "optional",
    "parse_duration",
    "parse_header",
    "parse_partitions",
    "parse_position",
    "parse_setting",
    "parse_time",
    "settings",
    "topic_name",
    "unescape",
]

_TOPIC_NAME = re.compile(r"[a-zA-Z0-9._-]+")
_TOPIC_NAME_MAX = 249
INT64_MAX = (1 << 63) - 1
INT64_MIN = -(1 << 63)


def topic_name(text: str) -> str:
    """A topic name as Kafka allows it."""
    if text in ("", ".", ".."):
        raise ValueError(f"{text!r} is no topic name: 1 to {_TOPIC_NAME_MAX} of letters, digits, . _ and -")
    if len(text) > _TOPIC_NAME_MAX:
        raise ValueError(f"{len(text)} characters: {_TOPIC_NAME_MAX} are allowed")
    if not _TOPIC_NAME.fullmatch(text):
        bad = next(sign for sign in text if not _TOPIC_NAME.fullmatch(sign))
        raise ValueError(f"{bad!r} is not allowed: letters, digits, . _ and - are")
    return text


def integer(low: int, high: int = INT64_MAX) -> Callable[[str], int]:
    """A parser of whole numbers in a range."""
    return lambda text: parse_int(text.strip().replace(",", ""), low, high)


def optional(parse: Callable[[str], object]) -> Callable[[str], object]:
    """A parser that takes an empty field as None."""
    return lambda text: parse(text) if text.strip() else None


def settings(text: str) -> dict[str, str]:
    """`name=value` with commas or blanks between; a value that holds commas is quoted."""
    found: dict[str, str] = {}
    for part in _split(text):
        name, value = parse_setting(part)
        if name in found:
            raise ValueError(f"{name} is there twice")
        found[name] = value
    return found


def headers(text: str) -> tuple[tuple[str, bytes | None], ...]:
    """`name=value` (or `name` for null) with commas between; the same name may come twice."""
    return tuple(parse_header(part) for part in _split(text))


def _split(text: str) -> list[str]:
    """Parts between commas that stand outside of double quotes; the quotes go."""
    if text.count('"') % 2:
        raise ValueError("a quote is not closed")
    parts = re.findall(r'(?:[^,"]|"[^"]*")+', text)
    return [part.strip().replace('"', "") for part in parts if part.strip()]
