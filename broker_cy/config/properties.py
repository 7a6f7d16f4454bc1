"""Java's .properties files and `--set name=value`, with ConfigError for invalid input (core.properties)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import ParamSpec, TypeVar

from broker_cy.config.types import ConfigError
from broker_cy.core import properties
from broker_cy.core.properties import FILE_BYTES_MAX, PropertiesError

__all__ = ["FILE_BYTES_MAX", "lines_of", "parse_override", "parse_properties", "read_properties_file"]

P = ParamSpec("P")
R = TypeVar("R")


def read_properties_file(path: str | Path) -> dict[str, str]:
    """As properties.read_properties_file. Raises ConfigError."""
    return _converted(properties.read_properties_file, path)


def lines_of(path: str | Path) -> dict[str, int]:
    """As properties.lines_of. Raises ConfigError."""
    return _converted(properties.lines_of, path)


def parse_properties(text: str) -> dict[str, str]:
    """As properties.parse_properties. Raises ConfigError."""
    return _converted(properties.parse_properties, text)


def parse_override(text: str) -> tuple[str, str]:
    """Return name and value of one `--set name=value`. Raises ConfigError."""
    name, equals, value = text.partition("=")
    if not equals or not name.strip():
        raise ConfigError(f"--set {text}: expected --set name=value")
    return name.strip(), value.strip()


def _converted(call: Callable[P, R], *args: P.args, **named: P.kwargs) -> R:
    try:
        return call(*args, **named)
    except PropertiesError as error:
        raise ConfigError(str(error)) from error
