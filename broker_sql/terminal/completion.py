"""Words that can follow a text: keywords by the parser, names by the server. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from broker_sql.dialect import Kind, expected, split, tokens
from broker_sql.dialect.generator import name_text
from broker_sql.errors import ParseError


class Candidate(NamedTuple):
    """A word, and what it is: "keyword", "stream", "BIGINT" for a column."""

    text: str
    about: str


@dataclass(frozen=True)
class Source:
    """A stream or table; `columns` are names with the texts of their types."""

    name: str
    kind: str
    columns: tuple[tuple[str, str], ...]


class Names(Protocol):
    """The names that a server knows."""

    def sources(self) -> Sequence[Source]: ...

    def functions(self) -> Sequence[str]: ...

    def topics(self) -> Sequence[str]: ...

    def types(self) -> Sequence[str]: ...

    def queries(self) -> Sequence[str]: ...

    def connectors(self) -> Sequence[str]: ...


# The part of a word before the cursor: a name, or a name in backquotes that does not end.
_PART = re.compile(r"(?:`[^`]*|[\w@]*)\Z")
_SPECIAL = ("ROWTIME", "ROWPARTITION", "ROWOFFSET", "WINDOWSTART", "WINDOWEND")


def complete(before: str, after: str, names: Names) -> tuple[list[Candidate], int]:
    """Return the candidates at a cursor, and how many characters before it they replace."""
    parts = list(split(before))
    text = parts[-1].text if parts and not parts[-1].ended else ""
    found = _PART.search(text)
    part = found.group() if found else ""
    start = text[: len(text) - len(part)]
    whole = text + after.split(";")[0]
    wanted = part.strip("`").upper()
    candidates = []
    seen = set()
    for each in _candidates(start, whole, names):
        if each.text not in seen and each.text.strip("`").upper().startswith(wanted):
            seen.add(each.text)
            candidates.append(each)
    return candidates, len(part)


def _candidates(start: str, whole: str, names: Names) -> Iterator[Candidate]:
    owner = re.search(r"([\w@]+|`[^`]*`)\.\Z", start)
    if owner:
        yield from _columns_of(owner.group(1), whole, names)
        return
    for each in expected(start):
        if each.isupper() and not each.startswith("'"):
            yield Candidate(each, "keyword")
        elif each == "an expression":
            yield from _in_expression(whole, names)
        elif "column" in each or each == "a name":
            yield from _columns(whole, names) if "column" in each else ()
        else:
            yield from _named(each, names)


def _named(wanted: str, names: Names) -> Iterator[Candidate]:
    if wanted in ("the name of a stream or table", "the name of a stream", "the name of a table"):
        kinds = [kind for kind in ("stream", "table") if kind in wanted]
        yield from (Candidate(name_text(each.name), each.kind) for each in names.sources() if each.kind in kinds)
    elif wanted == "the name of a topic":
        yield from (Candidate(each if name_text(each) == each else f"'{each}'", "topic") for each in names.topics())
    elif wanted == "the name of a function":
        yield from (Candidate(each, "function") for each in names.functions())
    elif wanted in ("the name of a type", "a type"):
        yield from (Candidate(name_text(each), "type") for each in names.types())
    elif wanted == "the id of a query":
        yield from (Candidate(name_text(each), "query") for each in names.queries())
    elif wanted == "the name of a connector":
        yield from (Candidate(name_text(each), "connector") for each in names.connectors())


def _in_expression(whole: str, names: Names) -> Iterator[Candidate]:
    yield from _columns(whole, names)
    yield from (Candidate(f"{each}(", "function") for each in names.functions())
    yield from (Candidate(each, "keyword") for each in ("CASE", "CAST(", "NOT", "NULL", "TRUE", "FALSE"))


def _columns(whole: str, names: Names) -> Iterator[Candidate]:
    """Yield the columns of the sources that the statement names, and the pseudo columns.

    A statement without FROM, as it is written from its begin, may mean any source."""
    aliases = _aliases(whole)
    found = [each for each in names.sources() if not aliases or each.name in aliases.values()]
    for source in found:
        yield from (Candidate(name_text(name), kind) for name, kind in source.columns)
    yield from (
        Candidate(name_text(alias), "source") for alias, name in aliases.items() if name in {s.name for s in found}
    )
    if found:
        yield from (Candidate(each, "pseudo column") for each in _SPECIAL)


def _columns_of(owner: str, whole: str, names: Names) -> Iterator[Candidate]:
    label = owner.strip("`") if owner.startswith("`") else owner.upper()
    name = _aliases(whole).get(label, label)
    for source in names.sources():
        if source.name == name:
            yield from (Candidate(name_text(column), kind) for column, kind in source.columns)


def _aliases(whole: str) -> dict[str, str]:
    """Return the sources of a statement by their names and aliases; it may be unfinished."""
    try:
        found = tokens(whole)
    except ParseError as error:
        place = error.location
        lines = whole.split("\n")
        if place is None or place.line > len(lines):
            return {}
        cut = "\n".join([*lines[: place.line - 1], lines[place.line - 1][: place.column - 1]])
        if len(cut) >= len(whole):
            return {}
        return _aliases(cut)
    aliases: dict[str, str] = {}
    for index, token in enumerate(found[:-1]):
        if token.upper not in ("FROM", "JOIN", "INTO", "DESCRIBE"):
            continue
        names = found[index + 1 : index + 4]
        if names[0].kind not in (Kind.WORD, Kind.QUOTED):
            continue
        name = _final(names[0].text, names[0].kind)
        aliases[name] = name
        alias = names[2] if len(names) > 2 and names[1].upper == "AS" else names[1] if len(names) > 1 else None
        if alias and alias.kind in (Kind.WORD, Kind.QUOTED) and not alias.is_keyword:
            aliases[_final(alias.text, alias.kind)] = name
    return aliases


def _final(text: str, kind: Kind) -> str:
    return text if kind is Kind.QUOTED else text.upper()
