"""The `valid` column of the tables as functions that raise Kafka's messages.

The column has the text of Kafka's own documentation (`[1,...]`, `[compact, delete]`). For lists without such a text it
has `any non-empty value`, or `non-empty` after the allowed values.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from broker_cy.core.config_def.types import ConfigError, invalid
from broker_cy.core.configs import ConfigType
from broker_cy.core.java_duration import duration_ms

Validator = Callable[[str, Any], None]

_NUMBER = r"-?[0-9]+(?:\.[0-9]+)?"
_RANGE = re.compile(rf"\[({_NUMBER}),\.\.\.(?:,({_NUMBER}))?\]( or -1)?")
_CHOICE = re.compile(r"(\(case insensitive\) )?\[([A-Za-z0-9_:. ,-]+)\]( non-empty)?")
_THROTTLED = "[partitionId]:[brokerId],[partitionId]:[brokerId],..."
_OFFSET_RESET = "[latest, earliest, by_duration:PnDTnHnMn.nS]"
_CONSUMER_RESET = "[latest, earliest, none, by_duration:PnDTnHnMn.nS]"
_HOST_PORT = re.compile(r"(?:\[[0-9A-Fa-f:.%]+\]|[^\s:@\[\]]+):[0-9]{1,5}", re.ASCII)
_VOTER = re.compile(r"[0-9]+@" + _HOST_PORT.pattern, re.ASCII)


def from_column(text: str, config_type: ConfigType) -> Validator | None:
    """Return the validator of one row, None if every value of the type is allowed. Raises ValueError for unknown
    text.
    """
    special = {
        "non-null string": None,
        "non-empty string": _non_empty_string,
        "any non-empty value": _list_of(None, may_be_empty=False, shown="any non-empty value"),
        _THROTTLED: _throttled_replicas,
        _OFFSET_RESET: _offset_reset(("latest", "earliest")),
        _CONSUMER_RESET: _offset_reset(("latest", "earliest", "none")),
        "{id}@{host}:{port}": _voters,
        "{host}:{port}": _bootstrap_servers,
    }
    if not text:
        return _list_of(None, may_be_empty=True, shown="") if config_type is ConfigType.LIST else None
    if text in special:
        return special[text]
    if found := _RANGE.fullmatch(text):
        return _range(found[1], found[2], or_minus_one=found[3] is not None)
    if found := _CHOICE.fullmatch(text):
        allowed = found[2].split(", ")
        if found[1]:
            return _one_of_any_case(allowed)
        if config_type is ConfigType.LIST:
            return _list_of(allowed, may_be_empty=not found[3], shown=f"[{found[2]}]")
        return _one_of(allowed)
    raise ValueError(f"no validator for {text!r}")


def _range(low: str, high: str | None, *, or_minus_one: bool) -> Validator:
    at_least, at_most = float(low), None if high is None else float(high)

    def check(name: str, value: Any) -> None:
        if value is None:
            raise invalid(name, "null", "Value must be non-null")
        if or_minus_one:
            if value != -1 and not (at_least <= value and (at_most is None or value <= at_most)):
                raise invalid(name, value, f"Value must be between {low} and {high} or equal to -1")
        elif value < at_least:
            raise invalid(name, value, f"Value must be at least {low}")
        elif at_most is not None and value > at_most:
            raise invalid(name, value, f"Value must be no more than {high}")

    return check


def _one_of(allowed: list[str]) -> Validator:
    def check(name: str, value: Any) -> None:
        if value not in allowed:
            raise invalid(name, value, f"String must be one of: {', '.join(allowed)}")

    return check


def _one_of_any_case(allowed: list[str]) -> Validator:
    def check(name: str, value: Any) -> None:
        if value is None or value.upper() not in allowed:
            raise invalid(name, value, f"String must be one of (case insensitive): {', '.join(allowed)}")

    return check


def _list_of(allowed: list[str] | None, *, may_be_empty: bool, shown: str) -> Validator:
    element = None if allowed is None else _one_of(allowed)

    def check(name: str, value: Any) -> None:
        if value is None:
            return
        if not value and not may_be_empty:
            raise ConfigError(f"Configuration '{name}' must not be empty. Valid values include: {shown}", name)
        for text in value:
            if not text:
                raise ConfigError(f"Configuration '{name}' values must not be empty.", name)
            if element is not None:
                element(name, text)

    return check


def _non_empty_string(name: str, value: Any) -> None:
    if value is not None and not value:
        raise invalid(name, value, "String must be non-empty")


def _throttled_replicas(name: str, value: Any) -> None:
    if tuple(value) == ("*",):
        return
    if any(not re.fullmatch(r"[0-9]+:[0-9]+", text, re.ASCII) for text in value):
        raise invalid(
            name,
            f"[{', '.join(value)}]",
            f"{name} must be the literal '*' or a list of replicas in the following format: {_THROTTLED}",
        )


def _offset_reset(allowed: tuple[str, ...]) -> Validator:
    shown = "".join(f", '{each}'" for each in allowed if each not in ("earliest", "latest"))

    def check(name: str, value: Any) -> None:
        kind, _, duration = value.partition(":")
        if value in allowed or (kind == "by_duration" and _is_duration(duration)):
            return
        raise invalid(
            name,
            value,
            f"Invalid value `{value}` for configuration {name}. The value must be either 'earliest', 'latest'{shown} "
            "or of the format 'by_duration:<PnDTnHnMn.nS>'.",
        )

    return check


def _is_duration(text: str) -> bool:
    try:
        duration_ms(text)
    except ValueError:
        return False
    return True


def _voters(name: str, value: Any) -> None:
    if any(not _VOTER.fullmatch(text) for text in value or ()):
        raise ConfigError(
            f"Invalid configuration value for {name}. Each entry should be in the form `{{id}}@{{host}}:{{port}}`."
        )


def _bootstrap_servers(name: str, value: Any) -> None:
    for text in value or ():
        if not _HOST_PORT.fullmatch(text):
            raise ConfigError(
                f"Failed to parse host name from {text} for the configuration {name}. Each entry should be in the form "
                '"{host}:{port}"'
            )
