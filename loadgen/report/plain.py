"""Reads dataclasses back from JSON by their annotations, so that a file is either valid, or rejected with the key."""

from __future__ import annotations

import dataclasses
import math
import types
import typing
from collections.abc import Mapping
from typing import Any, TypeVar

T = TypeVar("T")
# Characters of a wrong value that an error shows.
SHOWN_MAX = 60


class PlainError(Exception):
    """The data does not have this form; the text is `key: problem (allowed: ...)`."""


def read(kind: type[T], value: Any, key: str = "") -> T:
    """Return `value`, as JSON has it, as an instance of the dataclass `kind`. Raises PlainError.

    Fields may be int, float, str, bool, Any, other dataclasses, tuple[X, ...], tuple[X, Y], dict[str, X], and X | None.
    A missing key takes the default of its field, if that has one; an unknown key is rejected.
    """
    if not isinstance(value, dict):
        raise _wrong(key, value, "an object")
    hints = typing.get_type_hints(kind)
    known = {each.name: each for each in dataclasses.fields(kind)}  # type: ignore[arg-type]
    for name in value:
        if name not in known:
            raise PlainError(f"{_join(key, name)}: unknown key (allowed: {', '.join(known)})")
    found = {}
    for name, each in known.items():
        if name in value:
            found[name] = _read(hints[name], value[name], _join(key, name))
        elif each.default is dataclasses.MISSING and each.default_factory is dataclasses.MISSING:
            raise PlainError(f"{_join(key, name)}: is missing")
    return kind(**found)


def _read(hint: Any, value: Any, key: str) -> Any:
    origin = typing.get_origin(hint)
    if hint is Any:
        return value
    if origin is types.UnionType or origin is typing.Union:
        inner = [each for each in typing.get_args(hint) if each is not types.NoneType]
        return None if value is None else _read(inner[0], value, key)
    if origin is tuple:
        return _tuple(typing.get_args(hint), value, key)
    if origin in (dict, Mapping):
        if not isinstance(value, dict):
            raise _wrong(key, value, "an object")
        inner_hint = typing.get_args(hint)[1]
        return {name: _read(inner_hint, each, _join(key, name)) for name, each in value.items()}
    if dataclasses.is_dataclass(hint):
        return read(typing.cast(type[Any], hint), value, key)
    return _scalar(hint, value, key)


def _tuple(hints: tuple[Any, ...], value: Any, key: str) -> tuple[Any, ...]:
    if not isinstance(value, list | tuple):
        raise _wrong(key, value, "a list")
    if hints[-1] is Ellipsis:
        return tuple(_read(hints[0], each, f"{key}[{index}]") for index, each in enumerate(value))
    if len(value) != len(hints):
        raise _wrong(key, value, f"a list of {len(hints)}")
    return tuple(
        _read(hint, each, f"{key}[{index}]") for index, (hint, each) in enumerate(zip(hints, value, strict=True))
    )


def _scalar(hint: Any, value: Any, key: str) -> Any:
    if hint is float:
        if isinstance(value, bool) or not isinstance(value, int | float) or not _is_finite(value):
            raise _wrong(key, value, "a number")
        return float(value)
    allowed = {int: "a whole number", str: "a text", bool: "true or false"}[hint]
    if not isinstance(value, hint) or (hint is int and isinstance(value, bool)):
        raise _wrong(key, value, allowed)
    return value


def _is_finite(value: int | float) -> bool:
    try:
        return math.isfinite(value)
    except OverflowError:  # a whole number that is too large for a float
        return False


def _join(key: str, name: str) -> str:
    return f"{key}.{name}" if key else name


def _wrong(key: str, value: Any, allowed: str) -> PlainError:
    shown = repr(value)
    shown = shown if len(shown) <= SHOWN_MAX else shown[: SHOWN_MAX - 3] + "..."
    return PlainError(f"{key + ': ' if key else ''}{shown} is wrong (allowed: {allowed})")
