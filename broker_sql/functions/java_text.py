"""Texts as Java counts them: positions and lengths are of UTF-16 units.

A character above U+FFFF has two units. `units` returns a text with one character for each unit, so that Python's
slices and searches count as Java does; `text` turns such a text back. A half of a character becomes U+FFFD.
"""

from __future__ import annotations

from array import array


def units(text: str) -> str:
    """Return the text with one character for each UTF-16 unit."""
    if text.isascii() or max(text) < "\U00010000":
        return text
    return "".join(map(chr, array("H", text.encode("utf-16-le", "surrogatepass"))))


def text(found: str) -> str:
    """Return the text of UTF-16 units."""
    if found.isascii() or not any("\ud800" <= each <= "\udfff" for each in found):
        return found
    return found.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
