"""SELECT: push and pull queries, and the queries inside of CREATE ... AS and INSERT INTO."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

from sqlglot import exp

from broker_sql.errors import Location
from broker_sql.statements.base import Name, Statement

# Milliseconds of each unit of time, by its name in the singular.
UNITS_MS = {"MILLISECOND": 1, "SECOND": 1000, "MINUTE": 60_000, "HOUR": 3_600_000, "DAY": 86_400_000}


@dataclass(frozen=True)
class Duration:
    """A span of time: `count` of `unit`, a key of UNITS_MS."""

    count: int
    unit: str

    @property
    def ms(self) -> int:
        return self.count * UNITS_MS[self.unit]

    def __str__(self) -> str:
        return f"{self.count} {self.unit}S"


@dataclass(frozen=True)
class SelectAll:
    """`*`, or `source.*`."""

    source: Name | None = None
    location: Location | None = field(default=None, compare=False)


@dataclass(frozen=True)
class SelectItem:
    """An expression, with the name that AS gives it.

    `dialect.nodes.StructAll` (`a->*`) stands only here, without a name."""

    expression: exp.Expr
    alias: Name | None = None
    location: Location | None = field(default=None, compare=False)


@dataclass(frozen=True)
class Source:
    """A stream or table in FROM or JOIN."""

    name: Name
    alias: Name | None = None

    @property
    def label(self) -> Name:
        """Return the name that columns are qualified with."""
        return self.alias or self.name


class JoinKind(Enum):
    INNER = "INNER"
    LEFT = "LEFT"
    RIGHT = "RIGHT"
    FULL = "FULL OUTER"


@dataclass(frozen=True)
class Within:
    """The window of a join of streams: records of the right side at most `before` earlier and at most `after` later."""

    before: Duration
    after: Duration
    grace: Duration | None = None


@dataclass(frozen=True)
class Join:
    """A source that is joined to everything on its left. `on` is as written; the analysis takes it apart."""

    kind: JoinKind
    source: Source
    on: exp.Expr
    within: Within | None = None
    location: Location | None = field(default=None, compare=False)


class WindowKind(Enum):
    TUMBLING = "TUMBLING"
    HOPPING = "HOPPING"
    SESSION = "SESSION"


@dataclass(frozen=True)
class Window:
    """`size` is the gap of inactivity for SESSION. `advance` is that of HOPPING, and None for the others."""

    kind: WindowKind
    size: Duration
    advance: Duration | None = None
    retention: Duration | None = None
    grace: Duration | None = None
    location: Location | None = field(default=None, compare=False)


class Emit(Enum):
    CHANGES = "CHANGES"
    FINAL = "FINAL"


@dataclass(frozen=True, kw_only=True)
class Query(Statement):
    """A SELECT. It is a pull query if it stands alone and `emit` is None.

    `group_by` and `partition_by` are None without the clause; `()` for GROUP BY ()."""

    items: tuple[SelectAll | SelectItem, ...]
    source: Source
    joins: tuple[Join, ...] = ()
    window: Window | None = None
    where: exp.Expr | None = None
    partition_by: tuple[exp.Expr, ...] | None = None
    group_by: tuple[exp.Expr, ...] | None = None
    having: exp.Expr | None = None
    emit: Emit | None = None
    limit: int | None = None
