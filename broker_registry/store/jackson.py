"""JSON bytes as Jackson writes them, so that records of one key have one key for the log cleaner too.

Jackson and orjson differ in the case of the digits of escaped control characters only.
"""

from __future__ import annotations

import re
from typing import Any, Final

import orjson

_ESCAPE: Final = re.compile(rb"\\(?:u([0-9a-f]{4})|.)")


def _upper(found: re.Match[bytes]) -> bytes:
    digits = found.group(1)
    return found.group(0) if digits is None else b"\\u" + digits.upper()


def dumps(value: Any) -> bytes:
    """Return the bytes of an object of JSON's types. Raises TypeError for text that is not valid Unicode."""
    found = orjson.dumps(value)
    return _ESCAPE.sub(_upper, found) if b"\\u00" in found else found
