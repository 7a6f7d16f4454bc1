"""The sources of a query, the rows that they bring, and the names of their columns.

The row of a source has its value columns, headers, pseudo columns and key columns. In a query with one source, columns
of rows have the names of the source; in a join, the label of the source is put in front: `L_ID`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from sqlglot import exp

from broker_sql.analysis.trees import column, replaced
from broker_sql.catalog import Catalog, SourceInfo, nearest
from broker_sql.dialect.nodes import CastTo, location
from broker_sql.errors import AnalysisError, Location
from broker_sql.types import BIGINT, INTEGER, SqlType, quoted

PSEUDO_COLUMNS: Final = ("ROWTIME", "ROWPARTITION", "ROWOFFSET")
WINDOW_BOUNDS: Final = ("WINDOWSTART", "WINDOWEND")
RESERVED: Final = frozenset((*PSEUDO_COLUMNS, *WINDOW_BOUNDS))
PSEUDO_TYPES: dict[str, SqlType] = dict(zip(PSEUDO_COLUMNS, (BIGINT, INTEGER, BIGINT), strict=True))


@dataclass(frozen=True)
class Layout:
    """The columns of a row, in their order."""

    columns: tuple[tuple[str, SqlType], ...]

    @cached_property
    def index(self) -> dict[str, int]:
        return {name: at for at, (name, _) in enumerate(self.columns)}

    @cached_property
    def types(self) -> dict[str, SqlType]:
        return dict(self.columns)

    def with_columns(self, added: Iterable[tuple[str, SqlType]]) -> Layout:
        return Layout((*self.columns, *added))

    def renamed(self, prefix: str) -> Layout:
        return Layout(tuple((prefix + name, kind) for name, kind in self.columns))


@dataclass(frozen=True)
class Labelled:
    """A source, under the name that the query gives it."""

    label: str
    info: SourceInfo
    has_places: bool = True

    @cached_property
    def layout(self) -> Layout:
        """The row of the source."""
        schema = self.info.schema
        pseudo = [(name, kind) for name, kind in PSEUDO_TYPES.items() if self.has_places or name == PSEUDO_COLUMNS[0]]
        bounds = [(name, BIGINT) for name in WINDOW_BOUNDS] if self.info.window is not None else []
        return Layout(
            (
                *((each.name, each.type) for each in schema.value),
                *((each.name, each.type) for each in schema.headers),
                *pseudo,
                *bounds,
                *((each.name, each.type) for each in schema.key),
            )
        )


def fresh(prefix: str, number: int, layout: Layout) -> str:
    """A name for a column that a query adds to a row: the prefix and a number, or with _ in front of that."""
    name = f"{prefix}{number}"
    while name in layout.index:
        name = f"{prefix}_{name.removeprefix(prefix)}"
    return name


class Names:
    """Resolves the columns of a query."""

    def __init__(
        self,
        sources: Sequence[Labelled],
        synthetic: str | None = None,
        has_bounds: bool = False,
        catalog: Catalog | None = None,
    ) -> None:
        """`catalog` has the types that users named, for CAST. Raises AnalysisError: columns of a join have one name."""
        self.sources = tuple(sources)
        self._catalog = catalog
        # The query has windows itself: their bounds are columns, too.
        self._has_bounds = has_bounds
        self.is_join = len(self.sources) > 1
        # The key column that a join adds; it has no source.
        self.synthetic = synthetic
        self._by_label = {each.label: each for each in self.sources}
        self._check_distinct()

    def _check_distinct(self) -> None:
        """With labels in front, columns of different sources may get one name: `A_B` and `C`, `A` and `B_C`."""
        seen: dict[str, str] = {}
        for source in self.sources if self.is_join else ():
            for name in source.layout.index:
                other = seen.setdefault(self.internal(source.label, name), f"{source.label}.{name}")
                if other != f"{source.label}.{name}":
                    raise AnalysisError(
                        f"{other} and {source.label}.{name} get the same name in the join: give a source another alias"
                    )

    def internal(self, label: str, name: str) -> str:
        return f"{label}_{name}" if self.is_join else name

    def source(self, label: str, where: Location | None) -> Labelled:
        """Raises AnalysisError: no source has this label."""
        found = self._by_label.get(label)
        if found is None:
            known = ", ".join(self._by_label)
            hint = nearest(label, self._by_label) or f"; the sources are {known}"
            raise AnalysisError(f"{quoted(label)} is no stream, table or alias of this query{hint}", where)
        return found

    def owner(self, node: exp.Column, clause: str) -> tuple[Labelled | None, str]:
        """The source and the name of a column; no source: it is the synthetic key, or a bound of the query's windows.

        Raises AnalysisError: no source has the column, or several have it.
        """
        name, label, where = node.name, node.table, location(node)
        if self._has_bounds and name in WINDOW_BOUNDS and (not label or not self.is_join):
            if label:
                self.source(label, where)
            return None, name
        if label:
            source = self.source(label, where)
            if name not in source.layout.index:
                raise self._unknown(f"{label}.{name}", name, [source], clause, where)
            return source, name
        if name == self.synthetic:
            return None, name
        found = [each for each in self.sources if name in each.layout.index]
        if not found:
            raise self._unknown(name, name, self.sources, clause, where)
        if len(found) > 1:
            could = " or ".join(f"{each.label}.{name}" for each in found)
            raise AnalysisError(f"column {quoted(name)} is ambiguous: {could}", where)
        return found[0], name

    def _unknown(
        self, shown: str, name: str, sources: Sequence[Labelled], clause: str, where: Location | None
    ) -> AnalysisError:
        known = [each for source in sources for each in source.layout.index]
        return AnalysisError(f"{clause}: there is no column {shown}{nearest(name, known)}", where)

    def resolved(self, node: exp.Expr, clause: str) -> exp.Expr:
        """The expression over columns of the row. Raises AnalysisError."""

        def swap(part: exp.Expr) -> exp.Expr | None:
            if isinstance(part, CastTo) and self._catalog is not None:
                # The part is one of a copy, whose operand is still to be seen.
                part.set("to", self._catalog.resolved(part.to, location(part)))
            if not isinstance(part, exp.Column):
                return None
            source, name = self.owner(part, clause)
            return column(name if source is None else self.internal(source.label, name))

        return replaced(node, swap)

    def is_unique(self, name: str) -> bool:
        """Only one source has a column of this name."""
        return sum(name in each.layout.index for each in self.sources) == 1

    @property
    def layout(self) -> Layout:
        """The row of the joined sources, with the synthetic key's column left out."""
        if not self.is_join:
            return self.sources[0].layout
        return Layout(
            tuple(each for source in self.sources for each in source.layout.renamed(f"{source.label}_").columns)
        )


class GeneratedNames:
    """Names for items of SELECT that have none."""

    def __init__(self, sources: Sequence[Labelled]) -> None:
        self._taken = {name for each in sources for name in each.layout.index}
        self._fields: set[str] = set()
        self._next = 0

    def column(self) -> str:
        """KSQL_COL_n."""
        while (name := f"KSQL_COL_{self._next}") in self._taken:
            self._next += 1
        self._next += 1
        return name

    def field(self, name: str) -> str:
        """The name of a field of a struct, with a number if a column or an earlier field has it."""
        found, number = name, 0
        while found in self._taken or found in self._fields:
            number += 1
            found = f"{name}_{number}"
        self._fields.add(found)
        return found
