"""Parsers of values in our TOML files, for `toml_file.Table.take`. They raise a ValueError that names the value and the
allowed ones.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable
from typing import Any


def integer(least: int, most: int) -> Callable[[Any], int]:
    """Return a parser of whole numbers."""

    def parse(value: Any) -> int:
        if not isinstance(value, int) or isinstance(value, bool):
            raise ValueError(f"{value!r} is not a whole number (allowed: {least} to {most})")
        if not least <= value <= most:
            raise ValueError(f"{value} is out of range (allowed: {least} to {most})")
        return value

    return parse


def number(least: float, most: float) -> Callable[[Any], float]:
    """Return a parser of numbers."""

    def parse(value: Any) -> float:
        if not isinstance(value, int | float) or isinstance(value, bool) or not least <= value <= most:
            raise ValueError(f"{value!r} is not a number from {least:g} to {most:g}")
        return float(value)

    return parse


def one_of(*names: str) -> Callable[[Any], str]:
    """Return a parser of one of several words."""

    def parse(value: Any) -> str:
        if value not in names:
            close = difflib.get_close_matches(value, names, 1) if isinstance(value, str) else []
            hint = f"; did you mean {close[0]!r}?" if close else ""
            raise ValueError(f"{value!r} is not allowed{hint} (allowed: {', '.join(names)})")
        return str(value)

    return parse


def boolean(value: Any) -> bool:
    """Parse true or false."""
    if not isinstance(value, bool):
        raise ValueError(f"{value!r} is not allowed (allowed: true, false)")
    return value


def text(value: Any) -> str:
    """Parse a text that is not empty."""
    if not isinstance(value, str) or not value:
        raise ValueError(f"{value!r} is not a text")
    return value


def list_of(value: Any) -> list[Any]:
    """Parse a list, whose values the caller checks."""
    if not isinstance(value, list):
        raise ValueError(f"{value!r} is not a list")
    return value


def texts(value: Any) -> tuple[str, ...]:
    """Parse a list of texts."""
    if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
        raise ValueError(f"{value!r} is not a list of texts")
    return tuple(value)
