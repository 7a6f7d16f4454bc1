"""Decodes strings of requests in the same way as Kafka."""

from __future__ import annotations

import re
from typing import Final

from broker_cy.core.errors import WireError

# A string on the wire has at most as many bytes as an int16 allows.
STRING_BYTES_MAX: Final = 32767

# Java replaces a surrogate, complete or truncated, by one U+FFFD; Python uses one for each of its bytes.
_SURROGATE = re.compile(rb"\xed[\xa0-\xbf][\x80-\xbf]?")


def java_text(data: bytes) -> str:
    """`data` as Java's decoder reads it: invalid UTF-8 becomes U+FFFD.

    Raises WireError if that makes the string too long to be sent again.
    """
    try:
        return data.decode()
    except UnicodeDecodeError:
        # 0xff is one fault wherever it stands.
        text = _SURROGATE.sub(b"\xff", data).decode("utf-8", "replace")
    size = len(text.encode())
    if size > STRING_BYTES_MAX:
        raise WireError(
            f"invalid UTF-8, and {size} bytes with U+FFFD in its place; at most {STRING_BYTES_MAX} are allowed"
        )
    return text
