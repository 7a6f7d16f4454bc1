"""Java's replacements of regular expressions, as settings of Kafka have them, for Python's `re`."""

from __future__ import annotations

import re
from typing import Final

_REFERENCE: Final = re.compile(r"\\(.)|\$(?:(\d+)|\{([A-Za-z][A-Za-z0-9]*)\}|(.?))", re.DOTALL | re.ASCII)


def numbers(replacement: str) -> list[int]:
    """The groups that it names by number."""
    return [int(found.group(2)) for found in _REFERENCE.finditer(replacement) if found.group(2)]


def wrong_with(replacement: str, pattern: re.Pattern[str]) -> str | None:
    """Why Java's Matcher does not expand it: a group that the pattern lacks, or a `$` or backslash alone."""
    if _REFERENCE.sub("", replacement).endswith("\\"):
        return "it ends with a backslash"
    for _, number, name, other in _REFERENCE.findall(replacement):
        # Java takes as many digits as form the number of a group, and at least one.
        if number and int(number[0]) > pattern.groups:
            return f"its pattern has no group {number[0]}"
        if name and name not in pattern.groupindex:
            return f"its pattern has no group {name}"
        if other:
            return "a $ is followed by neither a number nor a name"
    if re.search(r"(?<!\\)(?:\\\\)*\$$", replacement):
        return "it ends with a $"
    return None


def expanded(replacement: str, match: re.Match[str]) -> str:
    """The replacement as Java's Matcher expands it. A number of no group is a text."""

    def piece(found: re.Match[str]) -> str:
        escaped, number, name, other = found.groups()
        if escaped is not None:
            return str(escaped)
        if name is not None:
            return match.group(name) or ""
        if number is None:
            return "$" + str(other)
        # As many digits as make the number of a group.
        for end in range(len(number), 0, -1):
            if int(number[:end]) <= match.re.groups:
                return (match.group(int(number[:end])) or "") + str(number[end:])
        return f"${number}"

    return _REFERENCE.sub(piece, replacement)
