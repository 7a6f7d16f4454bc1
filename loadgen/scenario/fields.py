"""The fields of JSON values, by kind. `Payload.fields` has each of them as `take_fields` returns it: with all keys."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from broker_cy.client import toml_values
from broker_cy.client.toml_file import Table

FIELDS_MAX = 1_000
CHOICES_MAX = 10_000
STRING_MAX = 100_000
_INT_MAX = (1 << 63) - 1
_integer = toml_values.integer(-_INT_MAX - 1, _INT_MAX)
_float = toml_values.number(-1e300, 1e300)


def take_fields(payload: Table) -> dict[str, dict[str, Any]]:
    """Take the table `fields` of a payload. Raises SpecError."""
    table = payload.table("fields")
    if not 1 <= len(table.values) <= FIELDS_MAX:
        raise payload.error("fields", f"{len(table.values)} fields (allowed: 1 to {FIELDS_MAX})")
    found: dict[str, dict[str, Any]] = {}
    for name in table.values:
        each = table.table(name)
        kind = each.take("kind", toml_values.one_of(*FIELD_KINDS))
        found[name] = {"kind": kind, **FIELD_KINDS[kind](each)}
        each.finish()
    return found


def _ordered(field: Table, least: float, most: float) -> None:
    if least > most:
        raise field.error("min", f"{least!r} is above max, {most!r}")


def _int(field: Table) -> dict[str, Any]:
    least, most = field.take("min", _integer, 0), field.take("max", _integer)
    _ordered(field, least, most)
    return {"min": least, "max": most}


def _floating(field: Table) -> dict[str, Any]:
    least, most = field.take("min", _float, 0.0), field.take("max", _float, 1.0)
    _ordered(field, least, most)
    return {"min": least, "max": most, "digits": field.take("digits", toml_values.integer(0, 15), 3)}


def _choice(field: Table) -> dict[str, Any]:
    values = field.take("values", _list)
    weights = field.take("weights", _weights, [1.0] * len(values))
    if len(weights) != len(values):
        raise field.error("weights", f"{len(weights)} weights for {len(values)} values (allowed: one for each)")
    return {"values": values, "weights": weights}


def _string(field: Table) -> dict[str, Any]:
    length = toml_values.integer(0, STRING_MAX)
    least = field.take("min", length, 10)
    most = field.take("max", length, max(least, 10))
    _ordered(field, least, most)
    return {"min": least, "max": most}


def _uuid(field: Table) -> dict[str, Any]:
    return {}


def _timestamp(field: Table) -> dict[str, Any]:
    return {"format": field.take("format", toml_values.one_of("ms", "s", "iso"), "ms")}


def _constant(field: Table) -> dict[str, Any]:
    return {"value": field.take("value", _plain)}


def _sequence(field: Table) -> dict[str, Any]:
    return {"start": field.take("start", _integer, 0), "step": field.take("step", _integer, 1)}


def _plain(value: Any) -> Any:
    """Check that a TOML value can be represented in JSON."""
    if isinstance(value, dict):
        return {name: _plain(each) for name, each in value.items()}
    if isinstance(value, list):
        return [_plain(each) for each in value]
    if not isinstance(value, bool | int | float | str) or (isinstance(value, float) and not math.isfinite(value)):
        raise ValueError(f"{value!r} has no form in JSON (allowed: numbers, texts, true, false, lists, tables)")
    return value


def _list(value: Any) -> list[Any]:
    if not isinstance(value, list) or not 1 <= len(value) <= CHOICES_MAX:
        raise ValueError(f"is not a list of 1 to {CHOICES_MAX} values")
    return [_plain(each) for each in value]


def _weights(value: Any) -> list[float]:
    if not isinstance(value, list):
        raise ValueError(f"{value!r} is not a list of numbers")
    found = [toml_values.number(0, 1e9)(each) for each in value]
    if not sum(found) > 0:
        raise ValueError(f"{value!r}: one weight at least must be above 0")
    return found


FIELD_KINDS: dict[str, Callable[[Table], dict[str, Any]]] = {
    "int": _int,
    "float": _floating,
    "choice": _choice,
    "string": _string,
    "uuid": _uuid,
    "timestamp": _timestamp,
    "constant": _constant,
    "sequence": _sequence,
}
