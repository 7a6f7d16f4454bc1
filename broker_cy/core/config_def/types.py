"""Kafka's setting types: conversion of text to values and back (org.apache.kafka.common.config.ConfigDef).

| type | value here | text |
|---|---|---|
| BOOLEAN | bool | true or false, any case |
| INT, SHORT, LONG | int, within 32, 16, 64 bits | decimal digits with a sign |
| DOUBLE | float | as Java writes it: 0.5, 1.0E-5 |
| STRING, CLASS | str | trimmed |
| LIST | tuple of str | separated by commas, blanks around them dropped |
| PASSWORD | Password | never shown |
"""

from __future__ import annotations

import re
from typing import Any

from broker_cy.core.configs import ConfigType


class ConfigError(ValueError):
    """A setting that cannot be used. The message is one line, and Kafka's if Kafka has one. `setting` is its name; it
    is empty if the message is about several or none.
    """

    def __init__(self, message: str, setting: str = "") -> None:
        super().__init__(message)
        self.setting = setting


class Password:
    """A secret, which is hidden in logs and messages."""

    __slots__ = ("value",)

    def __init__(self, value: str) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Password) and other.value == self.value

    def __hash__(self) -> int:
        return hash(self.value)

    def __repr__(self) -> str:
        return "[hidden]"


_INTEGER = re.compile(r"[+-]?[0-9]+", re.ASCII)
_DECIMAL = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?[dDfF]?", re.ASCII)
_NOT_FINITE = re.compile(r"[+-]?(?:NaN|Infinity)")
_COMMA = re.compile(r"\s*,\s*", re.ASCII)
# The characters that Java's String.trim removes.
_BLANKS = "".join(map(chr, range(33)))

_BITS = {ConfigType.INT: 32, ConfigType.SHORT: 16, ConfigType.LONG: 64}

# The longest accepted text of a setting; Kafka's string fields end at 32767 bytes.
TEXT_LENGTH_MAX = 32767


def invalid(name: str, value: object, reason: str = "") -> ConfigError:
    """Return an error with the text of Kafka's ConfigException(name, value, message)."""
    return ConfigError(f"Invalid value {value} for configuration {name}" + (f": {reason}" if reason else ""), name)


def parse(name: str, text: str, config_type: ConfigType) -> Any:
    """Return the value of `text`. Raises ConfigError with Kafka's message."""
    trimmed = text.strip(_BLANKS)
    match config_type:
        case ConfigType.BOOLEAN:
            lowered = trimmed.lower()
            if lowered not in ("true", "false"):
                raise invalid(name, text, "Expected value to be either true or false")
            return lowered == "true"
        case ConfigType.INT | ConfigType.SHORT | ConfigType.LONG:
            return _parse_integer(name, text, trimmed, config_type)
        case ConfigType.DOUBLE:
            if _NOT_FINITE.fullmatch(trimmed):
                return float(trimmed)
            if not _DECIMAL.fullmatch(trimmed):
                raise invalid(name, text, "Not a number of type DOUBLE")
            return float(trimmed.rstrip("dDfF"))
        case ConfigType.LIST:
            return tuple(_COMMA.split(trimmed)) if trimmed else ()
        case ConfigType.PASSWORD:
            return Password(trimmed)
        case _:
            return trimmed


def _parse_integer(name: str, text: str, trimmed: str, config_type: ConfigType) -> int:
    # 20 characters hold every 64-bit number; more can only be leading zeros.
    if len(trimmed) <= 40 and _INTEGER.fullmatch(trimmed):
        value = int(trimmed)
        limit = 1 << (_BITS[config_type] - 1)
        if -limit <= value < limit:
            return value
    raise invalid(name, text, f"Not a number of type {config_type.name}")


def to_text(value: Any, config_type: ConfigType) -> str | None:
    """Return the text of a value, as DescribeConfigs returns it; None for a setting without a value."""
    if value is None:
        return None
    match config_type:
        case ConfigType.BOOLEAN:
            return "true" if value else "false"
        case ConfigType.DOUBLE:
            return java_double_text(value)
        case ConfigType.LIST:
            return ",".join(value)
        case ConfigType.PASSWORD:
            return "[hidden]"
        case _:
            return str(value)


def java_double_text(value: float) -> str:
    """Format a number as Java's Double.toString: plain from 1e-3 to 1e7, otherwise with one digit before the point and
    an exponent.
    """
    if value != value:
        return "NaN"
    if value in (float("inf"), float("-inf")):
        return "Infinity" if value > 0 else "-Infinity"
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        text = repr(value)
        return text if "e" not in text else format(value, "f").rstrip("0")
    mantissa, _, exponent = f"{value:e}".partition("e")
    digits = repr(value).lower().partition("e")[0].replace(".", "").replace("-", "").strip("0") or "0"
    sign = "-" if mantissa.startswith("-") else ""
    return f"{sign}{digits[0]}.{digits[1:] or '0'}E{int(exponent)}"
