"""`bench/record/tables.toml`: the measurements, most important first, and the tables built from them."""

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from broker_cy.client.toml_file import SpecError, read

FILE = Path(__file__).with_name("tables.toml")
# These write {figure: number}, or {figure: [number of each repeat]}, as JSON.
PROGRAMS = (
    "bench.studies.analytics", "bench.studies.console", "bench.studies.dashboard", "bench.studies.lag",
    "bench.studies.load", "bench.studies.many_partitions", "bench.studies.scrape", "bench.studies.security",
)  # fmt: skip
_REACH = re.compile(r"(>=|<=) ([0-9.]+)")


class PlanError(Exception):
    """The plan is invalid; the text says where."""


@dataclass(frozen=True)
class Measurement:
    """One command, whose JSON is kept as `name`.json."""

    name: str
    command: tuple[str, ...]  # `broker-bench MODE ...` or `python -m MODULE ...`
    seconds: float  # approximate duration on two cores
    group: str = ""  # to select several together

    @property
    def text(self) -> str:
        """The command as typed in a shell."""
        return shlex.join(self.command)


@dataclass(frozen=True)
class Reach:
    """The goal of a figure."""

    at_least: bool
    bound: float

    def met(self, value: float) -> bool:
        """Return whether `value` reaches the bound."""
        return value >= self.bound if self.at_least else value <= self.bound

    def __str__(self) -> str:
        return f"{'≥' if self.at_least else '≤'} {self.bound:,g}"


@dataclass(frozen=True)
class Column:
    """A figure of one target (`b` is empty), the ratio of two, or both absolute values of a ratio."""

    title: str
    kind: str  # value, ratio or sides
    metric: str
    a: str
    b: str = ""


@dataclass(frozen=True)
class Row:
    """One line: the figures of a measurement's runs with one label."""

    title: str
    measurement: str
    label: str = ""
    reach: Mapping[str, Reach] = field(default_factory=dict)  # by the column's title
    metric: str = ""  # replaces that of the columns
    text: str = ""  # replaces the figures if no measurement has them: why, or where they are shown


@dataclass(frozen=True)
class Table:
    """One table of the document."""

    name: str
    columns: Sequence[Column]
    rows: Sequence[Row]


@dataclass(frozen=True)
class Plan:
    """The contents of the file."""

    measurements: Sequence[Measurement]
    tables: Sequence[Table]


def load(path: Path = FILE) -> Plan:
    """Read the plan. Raises PlanError."""
    try:
        found = read(path).values
        plan = Plan(
            tuple(_measurement(each) for each in found["measurement"]),
            tuple(_table(each) for each in found["table"]),
        )
    except SpecError as error:
        raise PlanError(str(error)) from None
    except (KeyError, ValueError, TypeError) as error:
        raise PlanError(f"{path}: {type(error).__name__}: {error}") from None
    names = [each.name for each in plan.measurements]
    wrong = [each for table in plan.tables for each in table.rows if each.measurement not in names and not each.text]
    if wrong or len(set(names)) < len(names):
        raise PlanError(f"{path}: {wrong[0].measurement if wrong else names}: no such measurement, or two of a name")
    return plan


def _measurement(found: Mapping[str, Any]) -> Measurement:
    command = tuple(shlex.split(found["command"]))
    return Measurement(found["name"], command, float(found["seconds"]), found.get("group", ""))


def _table(found: Mapping[str, Any]) -> Table:
    columns = tuple(_column(each) for each in found["columns"])
    titles = {column.title for column in columns}
    rows = tuple(
        Row(
            each["title"],
            "" if "text" in each else each["measurement"],
            each.get("label", ""),
            {title: _reach(text) for title, text in each.get("reach", {}).items()},
            each.get("metric", ""),
            each.get("text", ""),
        )
        for each in found["rows"]
    )
    for row in rows:
        if unknown := row.reach.keys() - titles:
            raise ValueError(f"table {found['name']}, row {row.title}: no column {unknown}")
    return Table(found["name"], columns, rows)


def _column(found: Mapping[str, str]) -> Column:
    (kind,) = found.keys() - {"title"}
    if kind not in ("value", "ratio", "sides"):
        raise ValueError(f"column {found['title']}: {kind!r} (allowed: value, ratio, sides)")
    who, _, metric = found[kind].partition(" ")
    a, _, b = who.partition("/")
    if (kind == "value") == bool(b):
        raise ValueError(f"column {found['title']}: {found[kind]!r} (a value is of one target, a ratio of two)")
    return Column(found["title"], kind, metric, a, b)


def _reach(text: str) -> Reach:
    if (found := _REACH.fullmatch(text)) is None:
        raise ValueError(f"{text!r} is not a reach (such as '>= 2' or '<= 0.5')")
    return Reach(found[1] == ">=", float(found[2]))
