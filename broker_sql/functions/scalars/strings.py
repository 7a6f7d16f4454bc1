"""Functions of texts. Positions count from 1, in UTF-16 units as in Java."""

from __future__ import annotations

import hashlib
import re
import uuid
from collections.abc import Callable
from typing import Any, Final

from broker_sql.functions import java_text
from broker_sql.functions.definitions import Category, Resolved

STRING = Category("STRING")
_SPACES: Final = "".join(map(chr, range(33)))  # of Java's String.trim
_PAD_LIMIT: Final = 1 << 24  # characters or bytes of a padded value: a length from a record must not exhaust the memory
_TEXT = {"text": "the text"}
_chr = STRING.scalar(
    "chr",
    "The character with a code point; NULL if there is none.",
    code="the code point: a number, or a text such as \\u004b",
)
_concat = STRING.scalar(
    "concat", "The texts or bytes, one behind the other; NULL is left out.", values="texts, or bytes"
)
_concat_ws = STRING.scalar(
    "concat_ws",
    "The texts or bytes with a separator between them; NULL is left out. NULL if the separator is NULL.",
    separator="the separator",
    first="the first value",
    others="more values",
)
_elt = STRING.scalar(
    "elt", "The text at a position; NULL if the position is not of the list.", position="from 1", values="texts"
)
_field = STRING.scalar(
    "field", "The position of a text in a list, from 1; 0 if it is not in it.", text="the text", values="the list"
)
_initcap = STRING.scalar(
    "initcap", "The text with capitals at the beginnings of words, and small letters else.", **_TEXT
)
_instr = STRING.scalar(
    "instr",
    "The position of a part of a text, from 1; 0 if it is not in it.",
    text="the text",
    part="the part",
    position="where the search begins; below 0, the search goes backwards from this position before the end",
    occurrence="which occurrence is wanted, from 1",
)
_lcase = STRING.scalar("lcase", "The text in small letters.", **_TEXT)
_ucase = STRING.scalar("ucase", "The text in capitals.", **_TEXT)
_len = STRING.scalar("len", "The length of a text, or the number of bytes.", value="a text, or bytes")
_PAD = {"value": "a text, or bytes", "length": "the length of the result", "padding": "the text or bytes to fill with"}
_lpad = STRING.scalar("lpad", "The value, filled from the left or cut to a length.", **_PAD)
_rpad = STRING.scalar("rpad", "The value, filled from the right or cut to a length.", **_PAD)
_md5 = STRING.scalar("md5", "The MD5 digest of the text in UTF-8, as hexadecimal digits.", **_TEXT)
_replace = STRING.scalar(
    "replace", "The text with another in place of a part, everywhere.", text="the text", old="the part", new="the other"
)
_split = STRING.scalar(
    "split",
    "The parts of a text, or of bytes, between delimiters. With an empty delimiter, its characters or bytes.",
    value="the text, or bytes",
    delimiter="the delimiter",
)
_split_to_map = STRING.scalar(
    "split_to_map",
    "A map of the entries in a text; entries without the second delimiter are left out. The last entry of a key wins.",
    text="the text",
    entry_delimiter="the delimiter between entries",
    value_delimiter="the delimiter between key and value",
)
_substring = STRING.scalar(
    "substring",
    "A part of a text, or of bytes.",
    value="the text, or bytes",
    position="the first position, from 1; below 0, it counts from the end",
    length="the length of the part; without it, the part ends with the value",
)
_trim = STRING.scalar("trim", "The text without spaces and control characters at both ends.", **_TEXT)
_uuid = STRING.scalar(
    "uuid", "A random UUID, or the UUID of 16 bytes; NULL for another number of bytes.", value="the 16 bytes"
)
_MASK = {
    "text": "the text",
    "count": "a number of characters",
    "upper": "the character in place of capitals; NULL keeps them",
    "lower": "the character in place of small letters; NULL keeps them",
    "digit": "the character in place of digits; NULL keeps them",
    "other": "the character in place of all others; NULL keeps them",
}
_CODES: Final = re.compile(r"(?:\\u[0-9a-fA-F]{4}){1,2}")


@_chr("(code INT) STRING")
def _(code: int | None) -> str | None:
    return chr(code) if code is not None and 0 <= code <= 0x10FFFF else None


@_chr("(code STRING) STRING", strict=True)
def _(code: str) -> str | None:
    if not _CODES.fullmatch(code):
        return None
    return java_text.text("".join(chr(int(each, 16)) for each in code.split("\\u")[1:]))


@_concat("(values STRING...) STRING")
def _(*values: str | None) -> str:
    return "".join([each for each in values if each is not None])


@_concat("(values BYTES...) BYTES")
def _(*values: bytes | None) -> bytes:
    return b"".join([each for each in values if each is not None])


@_concat_ws("(separator STRING, first STRING, others STRING...) STRING")
@_concat_ws("(separator BYTES, first BYTES, others BYTES...) BYTES")
def _(separator: Any, *values: Any) -> Any:
    return None if separator is None else separator.join([each for each in values if each is not None])


@_elt("(position INT, values STRING...) STRING")
def _(position: int | None, *values: str | None) -> str | None:
    return values[position - 1] if position is not None and 1 <= position <= len(values) else None


@_field("(text STRING, values STRING...) INT")
def _(text: str | None, *values: str | None) -> int:
    return 0 if text is None or text not in values else values.index(text) + 1


@_initcap("(text STRING) STRING", strict=True)
def _(text: str) -> str:
    return re.sub(r"(?<!\S)\S", lambda found: found[0].upper(), text.lower())


@_instr("(text STRING, part STRING, [position INT], [occurrence INT]) INT")
def _(text: str | None, part: str | None, position: int | None = 1, occurrence: int | None = 1) -> int:
    if text is None or part is None or position is None or occurrence is None or occurrence < 1:
        return 0
    text, part = java_text.units(text), java_text.units(part)
    found = -1
    if position < 0:
        end = len(text) + position
        for _ in range(occurrence):
            found = text.rfind(part, 0, end + len(part)) if end >= 0 else -1
            if found < 0:
                return 0
            end = found - 1
        return found + 1
    start = max(position - 1, 0)
    for _ in range(occurrence):
        found = text.find(part, start)
        if found < 0:
            return 0
        start = found + 1
    return found + 1


_lcase("(text STRING) STRING", strict=True)(str.lower)
_ucase("(text STRING) STRING", strict=True)(str.upper)


@_len("(value STRING) INT")
def _(value: str | None) -> int | None:
    return None if value is None else len(value) if value.isascii() else len(java_text.units(value))


@_len("(value BYTES) INT")
def _(value: bytes | None) -> int | None:
    return None if value is None else len(value)


def _padded(value: Any, length: int, padding: Any, left: bool) -> Any:
    if not padding or length < 0:
        return None
    if length > _PAD_LIMIT:
        raise ValueError(f"length {length}: at most {_PAD_LIMIT} is allowed")
    missing = length - len(value)
    if missing <= 0:
        return value[:length]
    filling = (padding * (missing // len(padding) + 1))[:missing]
    return filling + value if left else value + filling


for _function, _left in ((_lpad, True), (_rpad, False)):

    @_function("(value STRING, length INT, padding STRING) STRING", strict=True)
    def _(value: str, length: int, padding: str, left: bool = _left) -> str | None:
        found = _padded(java_text.units(value), length, java_text.units(padding), left)
        return None if found is None else java_text.text(found)

    @_function("(value BYTES, length INT, padding BYTES) BYTES", strict=True)
    def _(value: bytes, length: int, padding: bytes, left: bool = _left) -> bytes | None:
        found: bytes | None = _padded(value, length, padding, left)
        return found


@_md5("(text STRING) STRING", strict=True)
def _(text: str) -> str:
    return hashlib.md5(text.encode("utf-8", "replace"), usedforsecurity=False).hexdigest()


@_replace("(text STRING, old STRING, new STRING) STRING")
def _(text: str | None, old: str | None, new: str | None) -> str | None:
    return None if text is None or old is None or new is None else text.replace(old, new)


@_split("(value STRING, delimiter STRING) ARRAY<STRING>")
def _(value: str | None, delimiter: str | None) -> list[str] | None:
    if value is None or delimiter is None:
        return None
    return value.split(delimiter) if delimiter else list(value) or [""]


@_split("(value BYTES, delimiter BYTES) ARRAY<BYTES>")
def _(value: bytes | None, delimiter: bytes | None) -> list[bytes] | None:
    if value is None or delimiter is None:
        return None
    return value.split(delimiter) if delimiter else [bytes((each,)) for each in value] or [b""]


@_split_to_map("(text STRING, entry_delimiter STRING, value_delimiter STRING) MAP<STRING, STRING>", strict=True)
def _(text: str, entry_delimiter: str, value_delimiter: str) -> dict[str, str] | None:
    if not entry_delimiter or not value_delimiter or entry_delimiter == value_delimiter:
        return None
    parts = (each.split(value_delimiter) for each in text.split(entry_delimiter))
    return {each[0]: each[1] for each in parts if len(each) > 1}


def _part(value: Any, position: int, length: int | None) -> Any:
    start = position - 1 if position > 0 else max(len(value) + position, 0) if position < 0 else 0
    return value[start:] if length is None else value[start : start + max(length, 0)]


@_substring("(value STRING, position INT) STRING", strict=True)
def _(value: str, position: int) -> str:
    found: str = _part(value, position, None) if value.isascii() else _units_part(value, position, None)
    return found


@_substring("(value STRING, position INT, length INT) STRING", strict=True)
def _(value: str, position: int, length: int) -> str:
    found: str = _part(value, position, length) if value.isascii() else _units_part(value, position, length)
    return found


def _units_part(value: str, position: int, length: int | None) -> str:
    return java_text.text(_part(java_text.units(value), position, length))


@_substring("(value BYTES, position INT) BYTES", strict=True)
def _(value: bytes, position: int) -> bytes:
    found: bytes = _part(value, position, None)
    return found


@_substring("(value BYTES, position INT, length INT) BYTES", strict=True)
def _(value: bytes, position: int, length: int) -> bytes:
    found: bytes = _part(value, position, length)
    return found


@_trim("(text STRING) STRING")
def _(text: str | None) -> str | None:
    return None if text is None else text.strip(_SPACES)


@_uuid("() STRING", build=True)
def _(resolved: Resolved) -> Callable[[], str]:
    bits = resolved.environment.random.getrandbits
    return lambda: str(uuid.UUID(int=bits(128), version=4))


@_uuid("(value BYTES) STRING")
def _(value: bytes | None) -> str | None:
    return None if value is None or len(value) != 16 else str(uuid.UUID(bytes=value))


# Characters in place of capitals, small letters, digits and others.
Masks = tuple[str | None, str | None, str | None, str | None]
_DEFAULT: Final[Masks] = ("X", "x", "n", "-")


def _masked(text: str, masks: Masks) -> str:
    upper, lower, digit, other = masks
    return "".join(
        (upper if each.isupper() else lower if each.islower() else digit if each.isdecimal() else other) or each
        for each in text
    )


def _checked(masks: tuple[str | None, ...]) -> Masks:
    for each in masks:
        if each is not None and len(java_text.units(each)) != 1:
            raise ValueError(f"mask {each!r}: one character is expected")
    upper, lower, digit, other = masks
    return upper, lower, digit, other


_mask = STRING.scalar(
    "mask",
    "The text with other characters in place of its own: by default X for capitals, x for small letters, n for digits, "
    "- for others.",
    **_MASK,
)


@_mask("(text STRING) STRING")
def _(text: str | None) -> str | None:
    return None if text is None else _masked(text, _DEFAULT)


@_mask("(text STRING, upper STRING, lower STRING, digit STRING, other STRING) STRING")
def _(text: str | None, *masks: str | None) -> str | None:
    return None if text is None else _masked(text, _checked(masks))


def _both(text: str, count: int) -> tuple[str, str]:
    return text[:count], text[count:]


def _both_from_end(text: str, count: int) -> tuple[str, str]:
    at = max(len(text) - count, 0)
    return text[:at], text[at:]


def _define_mask(
    name: str, description: str, divide: Callable[[str, int], tuple[str, str]], mask_left: bool, mask_right: bool
) -> None:
    function = STRING.scalar(name, description, **_MASK)

    def apply(text: str | None, count: int | None, masks: Masks) -> str | None:
        if count is None or count < 0:
            raise ValueError(f"{name.upper()}: {count} characters: 0 or more is expected")
        if text is None:
            return None
        left, right = divide(text, count)
        return (_masked(left, masks) if mask_left else left) + (_masked(right, masks) if mask_right else right)

    @function("(text STRING, count INT) STRING")
    def _(text: str | None, count: int | None) -> str | None:
        return apply(text, count, _DEFAULT)

    @function("(text STRING, count INT, upper STRING, lower STRING, digit STRING, other STRING) STRING")
    def _(text: str | None, count: int | None, *masks: str | None) -> str | None:
        return apply(text, count, _checked(masks))


_define_mask("mask_left", "As MASK, for the first characters only.", _both, True, False)
_define_mask("mask_right", "As MASK, for the last characters only.", _both_from_end, False, True)
_define_mask("mask_keep_left", "As MASK, for all but the first characters.", _both, False, True)
_define_mask("mask_keep_right", "As MASK, for all but the last characters.", _both_from_end, True, False)
