"""Tokens of a .proto text, as Wire reads them: words of letters, digits, `_`, `-` and `.`; quoted strings; single
characters. One compiled expression skips spaces and comments, and finds a token; positions are computed for errors
only.
"""

from __future__ import annotations

import re
from itertools import islice
from typing import Final

from broker_registry.schema_types.base import TEXT_BYTES_MAX, InvalidSchema

TOKENS_MAX: Final = 2_000_000
"""The most tokens of a text: 16 MB of memory for their list. A .proto of 100,000 lines has about 700,000."""
_COUNTED_ABOVE: Final = TOKENS_MAX
"""Texts with fewer characters have fewer tokens, and are not counted first."""
END: Final = ""
"""The token behind the last one."""

_TOKEN: Final = re.compile(
    r"""
    (?: [ \t\r\n]++ | //[^\n]*+ | /\*(?:[^*]++|\*(?!/))*+\*/ )*+
    ( [A-Za-z0-9_.\-]++ | "(?:[^"\\]++|\\.)*+" | '(?:[^'\\]++|\\.)*+' | .  | \Z )
    """,
    re.VERBOSE | re.DOTALL,
)
_ESCAPE: Final = re.compile(r"\\(?:[xX]([0-9A-Fa-f]{1,2})|([0-7]{1,3})|(.))", re.DOTALL)
_ESCAPED: Final = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}


def tokens_of(text: str) -> list[str]:
    """Return the tokens; quoted strings keep their quotes and escapes. The last is END. Raises InvalidSchema for a text
    beyond the bounds.
    """
    if len(text) > TEXT_BYTES_MAX:
        raise InvalidSchema(f"the text has more than {TEXT_BYTES_MAX} characters")
    if len(text) > _COUNTED_ABOVE and sum(1 for _ in islice(_TOKEN.finditer(text), TOKENS_MAX + 1)) > TOKENS_MAX:
        raise InvalidSchema(f"the text has more than {TOKENS_MAX} tokens")
    tokens = _TOKEN.findall(text)
    # Behind the last token, the expression finds one or two ends.
    while tokens and tokens[-1] == END:
        tokens.pop()
    tokens.append(END)
    return tokens


def position(text: str, index: int) -> tuple[int, int]:
    """Return line and column, both from 1, of the token with this index."""
    offset = len(text)
    for match in islice(_TOKEN.finditer(text), index, index + 1):
        offset = match.start(1)
    return text.count("\n", 0, offset) + 1, offset - text.rfind("\n", 0, offset)


def unquoted(token: str) -> str:
    """Return the text of a quoted token. Raises ValueError for an escape without digits."""
    inner = token[1:-1]
    return _ESCAPE.sub(_unescaped, inner) if "\\" in inner else inner


def _unescaped(match: re.Match[str]) -> str:
    hexadecimal, octal, other = match.groups()
    if hexadecimal is not None:
        return chr(int(hexadecimal, 16))
    if octal is not None:
        return chr(int(octal, 8))
    if other in ("x", "X"):
        raise ValueError(f"expected a digit behind \\{other}")
    return _ESCAPED.get(other, other)
