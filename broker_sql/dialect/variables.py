"""Statements of a text one by one, with the values of variables in them.

`${name}` becomes the value of the variable, whatever the case of the name is; `$${name}` stays as `${name}`. In a
string the quotes of a value are doubled, so a value does not end the string. A variable that is not defined stays as
it is: in a string that is its text, and elsewhere the tokenizer refuses it. A text in `$$` stays as it is.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from broker_sql.errors import Location

# Texts in $$, strings, names and comments as wholes (also those that do not end); everything else by characters.
_PIECES = re.compile(r"\$\$(?!\{).*?(?:\$\$|\Z)|'(?:[^']|'')*'?|`[^`]*`?|\"[^\"]*\"?|--[^\n]*|/\*.*?(?:\*/|\Z)|;", re.S)
_VARIABLE = re.compile(r"(\$?)\$\{([A-Za-z_]\w*)\}")


@dataclass(frozen=True)
class Part:
    """One statement of a text, without its semicolon: `text` from offset `start`."""

    text: str
    start: int
    ended: bool  # by a semicolon


def split(text: str) -> Iterator[Part]:
    """Yield the statements of a text. The last one may lack its semicolon; comments alone are no statement."""
    start, content = 0, 0
    for each in _PIECES.finditer(text):
        piece = each.group()
        if piece == ";":
            yield Part(text[start : each.start()], start, True)
            start = content = each.end()
        elif piece.startswith(("--", "/*")) and not text[content : each.start()].strip():
            content = each.end()
    if text[content:].strip():
        yield Part(text[start:], start, False)


def substitute(
    part: Part, variables: Mapping[str, str], whole: Callable[[int], Location]
) -> tuple[str, Callable[[int], Location]]:
    """Return the statement with the values of variables, and the places of its offsets in the whole text.

    `variables` has names in upper case."""
    pieces: list[str] = []
    froms, tos = [0], [part.start]  # an offset in the result, and where it comes from
    length = last = 0
    for each in _VARIABLE.finditer(part.text):
        value = variables.get(each.group(2).upper())
        if _quoted_by(part.text, each.start(), "$$"):
            continue
        if each.group(1):
            value = each.group()[1:]
        elif value is None:
            continue
        elif _quoted_by(part.text, each.start(), "'"):
            value = value.replace("'", "''")
        before = part.text[last : each.start()]
        pieces += [before, value]
        froms.append(length + len(before))
        tos.append(part.start + each.start())
        length += len(before) + len(value)
        froms.append(length)
        tos.append(part.start + each.end())
        last = each.end()
    pieces.append(part.text[last:])

    def place(offset: int) -> Location:
        index = bisect_right(froms, offset) - 1
        inside = 0 if index % 2 else offset - froms[index]  # odd ones are values: their place is that of the variable
        return whole(tos[index] + inside)

    return "".join(pieces), place


def _quoted_by(text: str, offset: int, quote: str) -> bool:
    return any(
        each.group().startswith(quote) and each.start() < offset < each.end() for each in _PIECES.finditer(text, 0)
    )
