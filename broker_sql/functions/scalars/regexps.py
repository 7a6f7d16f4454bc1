"""Functions of regular expressions, which are Java's."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Final

from broker_cy.security.java_pattern import compiled
from broker_sql.functions.definitions import Category

REGEXP = Category("REGULAR EXPRESSION")
_ARGUMENTS = {
    "pattern": "the regular expression",
    "text": "the text",
    "group": "the number of the group; without it, the whole match",
}
_extract = REGEXP.scalar(
    "regexp_extract", "The first match in a text; NULL if there is no match or no such group.", **_ARGUMENTS
)
_extract_all = REGEXP.scalar(
    "regexp_extract_all", "All matches in a text; NULL if there is no such group.", **_ARGUMENTS
)
_replace = REGEXP.scalar(
    "regexp_replace",
    "The text with another in place of all matches.",
    text="the text",
    pattern="the regular expression",
    replacement="the other text, in which $1 is the first group and \\ takes the meaning from the next character",
)
_split = REGEXP.scalar(
    "regexp_split_to_array",
    "The parts of a text between matches. An empty regular expression divides it into characters.",
    text="the text",
    pattern="the regular expression",
)
_CACHED: Final = 256  # expressions that stay compiled
_REFERENCE: Final = re.compile(r"\\(.)|\$(?:(\d+)|\{([A-Za-z][A-Za-z0-9]*)\})|(\$|\\)", re.DOTALL)

pattern_of = lru_cache(maxsize=_CACHED)(compiled)


def matches(pattern: str, text: str) -> Iterator[re.Match[str]]:
    """Yield the matches as Java's Matcher.find: behind an empty match the search goes on one character further.

    Python's finditer would look for a match that is not empty at the same place."""
    search, at = pattern_of(pattern).search, 0
    while at <= len(text):
        found = search(text, at)
        if found is None:
            return
        yield found
        at = found.end() + (found.start() == found.end())


@_extract("(pattern STRING, text STRING) STRING", strict=True)
def _(pattern: str, text: str) -> str | None:
    found = pattern_of(pattern).search(text)
    return found[0] if found else None


@_extract("(pattern STRING, text STRING, group INT) STRING", strict=True)
def _(pattern: str, text: str, group: int) -> str | None:
    expression = pattern_of(pattern)
    if not 0 <= group <= expression.groups:
        return None
    found = expression.search(text)
    return found[group] if found else None


@_extract_all("(pattern STRING, text STRING) ARRAY<STRING>", strict=True)
def _(pattern: str, text: str) -> list[str]:
    return [each[0] for each in matches(pattern, text)]


@_extract_all("(pattern STRING, text STRING, group INT) ARRAY<STRING>", strict=True)
def _(pattern: str, text: str, group: int) -> list[str | None] | None:
    if not 0 <= group <= pattern_of(pattern).groups:
        return None
    return [each[group] for each in matches(pattern, text)]


@lru_cache(maxsize=_CACHED)
def _template(replacement: str, groups: int) -> tuple[str | int, ...]:
    """Return texts, and numbers or names of groups as Java's Matcher.appendReplacement reads them."""
    found: list[str | int] = []
    at = 0
    for each in _REFERENCE.finditer(replacement):
        if each.start() < at:
            continue
        found.append(replacement[at : each.start()])
        at = each.end()
        escaped, number, name, bad = each.groups()
        if escaped is not None:
            found.append(escaped)
        elif name is not None:
            raise ValueError(f"replacement {replacement!r}: groups by name are not supported; use the number")
        elif bad is not None:
            raise ValueError(f"replacement {replacement!r}: {bad!r} is expected before a number or a character")
        else:
            digits = 1
            if int(number[0]) > groups:
                raise ValueError(f"replacement {replacement!r}: no group {number[0]}")
            while digits < len(number) and int(number[: digits + 1]) <= groups:
                digits += 1
            found.append(int(number[:digits]))
            at -= len(number) - digits
    found.append(replacement[at:])
    return tuple(each for each in found if each != "")


@_replace("(text STRING, pattern STRING, replacement STRING) STRING", strict=True)
def _(text: str, pattern: str, replacement: str) -> str:
    found: list[str] = []
    at = 0
    for each in matches(pattern, text):
        found.append(text[at : each.start()])
        at = each.end()
        if "$" in replacement or "\\" in replacement:
            template = _template(replacement, each.re.groups)
            found += [part if isinstance(part, str) else each[part] or "" for part in template]
        else:
            found.append(replacement)
    return "".join(found) + text[at:]


@_split("(text STRING, pattern STRING) ARRAY<STRING>", strict=True)
def _(text: str, pattern: str) -> list[str]:
    if not pattern:
        return list(text) or [""]
    found, at = [], 0
    for each in matches(pattern, text):
        if each.start() == each.end() and each.start() in (0, len(text)):
            continue
        found.append(text[at : each.start()])
        at = each.end()
    return [*found, text[at:]]
