"""Keys and values of records in readable form, limited to the size that a screen can show.

A broker does not know formats (it has no schema registry): UTF-8 that is JSON is shown as JSON, other UTF-8 as text,
and all other values as bytes.
"""

from __future__ import annotations

import json
from enum import Enum
from typing import Any

from broker_cy.reporting.foreign_text import clean, clean_lines
from broker_cy.reporting.numbers import count

# Bytes of one value that are shown, in a row and in the view of one record; of the rest only the size is shown. A value
# may have 20 MB.
ROW_BYTES_MAX = 400
TEXT_BYTES_MAX = 64 << 10
HEX_BYTES_MAX = 8 << 10
# A larger JSON value is shown as text: parsing it would block the screen.
JSON_BYTES_MAX = 1 << 20
_NULL = "null"
# The width of a hex dump with 16 bytes per line; a narrower one has 8.
HEX_COLUMNS = 78


class Format(Enum):
    """How bytes are shown; AUTO decides by their content."""

    AUTO = "auto"
    TEXT = "text"
    JSON = "json"
    HEX = "hex"

    def next(self) -> Format:
        every = list(Format)
        return every[(every.index(self) + 1) % len(every)]


def parse_json(data: bytes) -> Any:
    """Parse the JSON in `data`. Raises ValueError if it is not JSON, or too large."""
    if len(data) > JSON_BYTES_MAX:
        raise ValueError(f"more than {JSON_BYTES_MAX:,} bytes")
    try:
        return json.loads(data)
    except RecursionError:
        raise ValueError("nested too deeply") from None


def is_text(data: bytes) -> bool:
    """Return whether the first bytes of `data` are UTF-8 without control characters."""
    start = data[:ROW_BYTES_MAX]
    try:
        text = start.decode()
    except UnicodeDecodeError as error:
        # The limit may split a character.
        if error.start < len(start) - 3 or len(data) <= ROW_BYTES_MAX:
            return False
        text = start[: error.start].decode()
    return not any(sign < " " and sign not in "\t\n\r" for sign in text)


def line(data: bytes | None, shown: Format = Format.AUTO, limit: int = ROW_BYTES_MAX) -> str:
    """Return one line for a table: at most `limit` bytes, without control characters."""
    if data is None:
        return _NULL
    start = bytes(data[:limit])
    if shown is Format.HEX or (shown is not Format.TEXT and not is_text(data)):
        text = start[: limit // 3].hex(" ")
        return f"{text} ... {count(len(data))} B" if len(data) > limit // 3 else text
    text = clean(start.decode(errors="replace"))
    return f"{text} ... {count(len(data))} B" if len(data) > limit else text


def detail(data: bytes | None, shown: Format = Format.AUTO, columns: int = HEX_COLUMNS) -> str:
    """Return the lines for a view of one record with this number of columns."""
    if data is None:
        return _NULL
    if not data:
        return "(empty)"
    if shown is Format.HEX or (shown is Format.AUTO and not is_text(data)):
        return hex_dump(data, 16 if columns >= HEX_COLUMNS else 8)
    if shown in (Format.AUTO, Format.JSON) and data[:1] in b'{["-0123456789tfn \t\r\n':
        try:
            text = json.dumps(parse_json(data), indent=2, ensure_ascii=False)
        except ValueError as error:
            if shown is Format.JSON:
                return f"not JSON: {clean(str(error))}\n\n{_cut_text(data)}"
        else:
            return _cut(clean_lines(text[:TEXT_BYTES_MAX]), len(text), TEXT_BYTES_MAX, "characters")
    elif shown is Format.JSON:
        return f"not JSON\n\n{_cut_text(data)}"
    return _cut_text(data)


def _cut_text(data: bytes) -> str:
    return _cut(clean_lines(bytes(data[:TEXT_BYTES_MAX]).decode(errors="replace")), len(data), TEXT_BYTES_MAX, "bytes")


def _cut(text: str, whole: int, limit: int, what: str) -> str:
    return text if whole <= limit else f"{text}\n... {count(whole - limit)} more {what} of {count(whole)}"


def hex_dump(data: bytes, width: int = 16) -> str:
    """Return offset, bytes and printable ASCII, in the format of hexdump -C."""
    lines = []
    for at in range(0, min(len(data), HEX_BYTES_MAX), width):
        part = data[at : at + width]
        half = width // 2
        left, right = part[:half].hex(" "), part[half:].hex(" ")
        signs = "".join(chr(byte) if 32 <= byte < 127 else "." for byte in part)
        lines.append(f"{at:08x}  {left:<{half * 3 - 1}}  {right:<{half * 3 - 1}}  |{signs}|")
    return _cut("\n".join(lines), len(data), HEX_BYTES_MAX, "bytes")
