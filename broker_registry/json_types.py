"""Values of JSON objects as Jackson reads them into the fields of Confluent's registry: scalars are texts where texts
are wanted, and texts are numbers and flags where they are ones. Values of another form raise InvalidObject.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

INT_MIN: Final = -0x80000000
INT_MAX: Final = 0x7FFFFFFF
_FLAGS: Final = {"true": True, "false": False}
# Longer texts are no 32-bit number.
_DIGITS_MAX: Final = 40


class InvalidObject(ValueError):
    """A value has the wrong form; the message names the member and the value."""


def as_text(value: object, name: str) -> str | None:
    """Return a text; None for null. Raises InvalidObject."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bool | int | float):
        return str(value).lower() if isinstance(value, bool) else str(value)
    raise InvalidObject(f"{name} is {value!r}; a text is expected")


def as_number(value: object, name: str) -> int | None:
    """Return a number of 32 bits; None for null. Raises InvalidObject."""
    if value is None or value == "":
        return None
    number: int | None = None
    if isinstance(value, int | float) and not isinstance(value, bool) and INT_MIN <= value <= INT_MAX:
        number = int(value)
    elif isinstance(value, str) and len(value) <= _DIGITS_MAX:
        number = whole_number(value.strip())
    if number is None:
        raise InvalidObject(f"{name} is {value!r}; a whole number of 32 bits is expected")
    return number


def whole_number(text: str) -> int | None:
    """Return the number that Java's Integer.parseInt finds in a text; None if it is none."""
    if not text.lstrip("+-").isdecimal() or len(text) > _DIGITS_MAX:
        return None
    try:
        found = int(text)
    except ValueError:
        return None
    return found if INT_MIN <= found <= INT_MAX else None


def as_flag(value: object, name: str) -> bool | None:
    """Return a flag; None for null. Raises InvalidObject."""
    if value is None or value == "":
        return None
    if isinstance(value, bool | int):
        return bool(value)
    if isinstance(value, str) and value.strip().lower() in _FLAGS:
        return _FLAGS[value.strip().lower()]
    raise InvalidObject(f"{name} is {value!r}; true or false is expected")


def as_object(value: object, name: str) -> Mapping[str, Any]:
    """Return an object, an empty one for null. Raises InvalidObject."""
    if value is None:
        return {}
    if isinstance(value, dict):
        return value
    raise InvalidObject(f"{name} is {value!r}; an object is expected")


def as_texts(value: object, name: str) -> tuple[str, ...]:
    """Return the texts of a set, sorted. Raises InvalidObject."""
    if value is None:
        return ()
    if isinstance(value, list):
        return tuple(sorted({as_text(each, name) or "" for each in value}))
    raise InvalidObject(f"{name} is {value!r}; a list of texts is expected")


def as_choice(value: object, name: str, allowed: Sequence[str]) -> str | None:
    """Return one of the texts; None for null. Raises InvalidObject."""
    if value is None or (isinstance(value, str) and value in allowed):
        return value
    raise InvalidObject(f"{name} is {value!r}; allowed are {', '.join(allowed)}")
