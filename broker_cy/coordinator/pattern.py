"""Regular expressions of clients, matched in a time that is linear in the text.

The syntax is RE2's, as in Kafka, which takes its Java port (re2j); Python's own `re` backtracks, so one pattern could
block the broker for years. A pattern must match the whole text.
"""

from __future__ import annotations

from typing import Any, Final

# The limit for the compiled pattern and for the states that are kept while matching. A larger pattern is refused;
# states beyond the limit are dropped and computed again.
MEMORY_BYTES_MAX: Final = 1 << 20
# RE2 alone also takes this one, which matches a single byte and is no part of re2j.
SINGLE_BYTE: Final = "\\C"


class PatternError(ValueError):
    """The text is not a regular expression in RE2's syntax; the message gives the reason."""


class Pattern:
    """Raises PatternError."""

    __slots__ = ("_compiled",)

    def __init__(self, pattern: str) -> None:
        # Few brokers are ever sent a pattern, and the library takes 4 MB.
        import re2

        options = re2.Options()
        options.max_mem = MEMORY_BYTES_MAX
        options.log_errors = False
        if SINGLE_BYTE in pattern.replace("\\\\", ""):
            raise PatternError(f"{pattern!r} is not a valid regular expression: {SINGLE_BYTE} is not supported")
        try:
            self._compiled: Any = re2.compile(_utf8(pattern), options)
        except re2.error as error:
            (reason,) = error.args
            raise PatternError(f"{pattern!r} is not a valid regular expression: {reason.decode()}") from None
        # The module caches compiled patterns; only this object must own this one.
        re2.purge()

    def matches(self, text: str) -> bool:
        """Whether the whole of `text` is matched."""
        return self._compiled.fullmatch(_utf8(text)) is not None


def _utf8(text: str) -> bytes:
    return text.encode(errors="replace")
