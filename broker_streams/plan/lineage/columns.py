"""The lineage of a topology as data: each column of an output topic, and the columns that it comes from.

A column is the key, the value or the timestamp of a topic's records, or a field of one of them; `records` stands for
the existence of records, which a count uses. The uses have the names of OpenLineage's column facet: DIRECT ones
(IDENTITY, TRANSFORMATION, AGGREGATION) flow into the column. INDIRECT ones decide about it (CONDITIONAL), or about the
records that reach it (FILTER, JOIN, GROUP_BY, WINDOW).
"""

from __future__ import annotations

import enum
import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

KEY, VALUE, TIMESTAMP, RECORDS = "key", "value", "timestamp", "records"
REST: Final = "*"
"""The last part of a path: all fields that have no column of their own."""


class Use(enum.Enum):
    """How a column is used. The order is that of the report."""

    IDENTITY = "IDENTITY"
    TRANSFORMATION = "TRANSFORMATION"
    AGGREGATION = "AGGREGATION"
    CONDITIONAL = "CONDITIONAL"
    FILTER = "FILTER"
    JOIN = "JOIN"
    GROUP_BY = "GROUP_BY"
    WINDOW = "WINDOW"

    @property
    def is_direct(self) -> bool:
        return self in (Use.IDENTITY, Use.TRANSFORMATION, Use.AGGREGATION)


_ORDER: Final = {use: place for place, use in enumerate(Use)}


@dataclass(frozen=True, slots=True)
class Column:
    """`path` are names of fields; empty for the whole key or value. Elements of a list share the column of the list."""

    topic: str
    part: str
    path: tuple[str, ...] = ()

    def __str__(self) -> str:
        return ".".join((self.topic, self.part, *self.path))

    @property
    def order(self) -> tuple[str, str, tuple[str, ...]]:
        return self.topic, self.part, self.path


@dataclass(frozen=True, slots=True)
class Origin:
    """One use of one column."""

    column: Column
    use: Use

    @property
    def order(self) -> tuple[int, tuple[str, str, tuple[str, ...]]]:
        return _ORDER[self.use], self.column.order


@dataclass(frozen=True, slots=True)
class OutputColumn:
    """A column of an output topic. Without an origin it is the constant `constant` (JSON), if that is known.

    `is_opaque`: a function on the way could not be traced. The origins then hold all that it may have read.
    """

    column: Column
    origins: tuple[Origin, ...]
    is_opaque: bool = False
    constant: str | None = None


@dataclass(frozen=True, slots=True)
class Opaque:
    """A function that could not be traced: its place in the plan, its name, and the reason."""

    place: str
    function: str
    reason: str


@dataclass(frozen=True, slots=True)
class Output:
    """An output topic. `decided_by`: columns that decide which records reach it (FILTER, JOIN, GROUP_BY, WINDOW)."""

    topic: str
    columns: tuple[OutputColumn, ...]
    decided_by: tuple[Origin, ...] = ()


@dataclass(frozen=True, slots=True)
class Lineage:
    outputs: tuple[Output, ...]
    opaque: tuple[Opaque, ...] = ()


def in_order(origins: Iterable[Origin]) -> tuple[Origin, ...]:
    return tuple(sorted(set(origins), key=lambda each: each.order))


def to_text(lineage: Lineage) -> str:
    """Return the lineage for people."""
    return "\n".join([*_lines(lineage), ""])


def _lines(lineage: Lineage) -> Iterable[str]:
    for output in lineage.outputs:
        yield output.topic
        rows = [(".".join((each.column.part, *each.column.path)), _sources(each)) for each in output.columns]
        width = max((len(name) for name, _ in (*rows, ("(records)", ""))), default=0)
        for name, sources in rows:
            for at, source in enumerate(sources):
                yield f"  {name if at == 0 else '':{width}}  {'<-' if at == 0 else '  '} {source}"
        for at, line in enumerate(_lines_of(output.decided_by)):
            yield f"  {'(records)' if at == 0 else '':{width}}  {'<-' if at == 0 else '  '} {line}"
    if lineage.opaque:
        yield "not traced (declare it with broker_streams.declared_lineage):"
        for function in lineage.opaque:
            yield f"  {function.place} ({function.function}): {function.reason}"


def _sources(of: OutputColumn) -> list[str]:
    sources = _lines_of(of.origins)
    if not any(each.use.is_direct for each in of.origins):
        sources.insert(0, "a constant" if of.constant is None else of.constant)
    if of.is_opaque:
        sources[0] += "  (not traced)"
    return sources


def _lines_of(origins: Iterable[Origin]) -> list[str]:
    """A line for each use, with the columns that are used so."""
    found: dict[Use, list[str]] = {}
    for each in origins:
        found.setdefault(each.use, []).append(str(each.column))
    return [", ".join(columns) + ("" if use is Use.IDENTITY else f"  {use.value}") for use, columns in found.items()]


def to_json(lineage: Lineage) -> str:
    """Return {"format": 1, "outputs": [{"topic": .., "columns": [..], "decided_by": [..]}], "opaque": [..]}."""
    outputs = [
        {
            "topic": output.topic,
            "columns": [_column(each) for each in output.columns],
            "decided_by": [_origin_data(each) for each in output.decided_by],
        }
        for output in lineage.outputs
    ]
    opaque = [{"place": each.place, "function": each.function, "reason": each.reason} for each in lineage.opaque]
    return json.dumps({"format": 1, "outputs": outputs, "opaque": opaque}, indent=1, ensure_ascii=False)


def _column(of: OutputColumn) -> dict[str, Any]:
    return {
        "part": of.column.part,
        "path": list(of.column.path),
        "origins": [_origin_data(each) for each in of.origins],
        "opaque": of.is_opaque,
        "constant": None if of.constant is None else json.loads(of.constant),
    }


def _origin_data(of: Origin) -> dict[str, Any]:
    column = of.column
    return {"topic": column.topic, "part": column.part, "path": list(column.path), "use": of.use.value}
