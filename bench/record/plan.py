"""`bench/record/tables.toml`: the measurements, most important first, and the tables built from them."""

import re
import shlex
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from broker_cy.client import toml_values
from broker_cy.client.toml_file import Table as TomlTable
from broker_cy.client.toml_file import read

FILE = Path(__file__).with_name("tables.toml")
# These write {figure: number}, or {figure: [number of each repeat]}, as JSON.
PROGRAMS = (
    "bench.studies.analytics", "bench.studies.assignors", "bench.studies.console", "bench.studies.dashboard",
    "bench.studies.disks", "bench.studies.heartbeats", "bench.studies.lag", "bench.studies.load",
    "bench.studies.many_partitions", "bench.studies.mirror", "bench.studies.mirror_link", "bench.studies.registry",
    "bench.studies.scrape", "bench.studies.security", "bench.studies.share_consumers",
    "bench.studies.streams", "bench.studies.streams_spark", "bench.studies.streams_state",
)  # fmt: skip
KINDS = ("value", "ratio", "sides")
SECONDS_MAX = 24 * 3600.0
_REACH = re.compile(r"(>=|<=) ([0-9.]+)")


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
    kind: str  # one of KINDS
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
    """Read the plan. Raises SpecError."""
    top = read(path)
    measurements, names = [], set[str]()
    for entry in _tables(top, "measurement"):
        measurement = _measurement(entry)
        if measurement.name in names:
            raise entry.error("name", f"{measurement.name!r} is the name of an earlier measurement")
        names.add(measurement.name)
        measurements.append(measurement)
    found = Plan(measurements, [_table(entry, names) for entry in _tables(top, "table")])
    top.finish()
    return found


def _tables(table: TomlTable, key: str) -> list[TomlTable]:
    """Return the tables of a required array."""
    if key not in table.values:
        raise table.error(key, "is missing")
    return table.tables(key)


def _measurement(entry: TomlTable) -> Measurement:
    found = Measurement(
        name=entry.take("name", toml_values.text),
        command=entry.take("command", _command),
        seconds=entry.take("seconds", toml_values.number(0, SECONDS_MAX)),
        group=entry.take("group", toml_values.text, ""),
    )
    entry.finish()
    return found


def _command(value: Any) -> tuple[str, ...]:
    return tuple(shlex.split(toml_values.text(value)))


def _table(entry: TomlTable, measurements: Collection[str]) -> Table:
    columns = tuple(_column(each) for each in _tables(entry, "columns"))
    titles = tuple(column.title for column in columns)
    rows = tuple(_row(each, titles, measurements) for each in _tables(entry, "rows"))
    found = Table(entry.take("name", toml_values.text), columns, rows)
    entry.finish()
    return found


def _row(entry: TomlTable, titles: Sequence[str], measurements: Collection[str]) -> Row:
    text = entry.take("text", toml_values.text, "")
    reach = entry.table("reach")
    found = Row(
        title=entry.take("title", toml_values.text),
        measurement="" if text else entry.take("measurement", toml_values.one_of(*measurements)),
        label=entry.take("label", toml_values.text, ""),
        reach={title: bound for title in titles if (bound := reach.take(title, _reach, None)) is not None},
        metric=entry.take("metric", toml_values.text, ""),
        text=text,
    )
    reach.finish()
    entry.finish()
    return found


def _column(entry: TomlTable) -> Column:
    title = entry.take("title", toml_values.text)
    kinds = [kind for kind in KINDS if kind in entry.values]
    if len(kinds) != 1:
        raise entry.error("", f"exactly one of {', '.join(KINDS)} is required")
    (kind,) = kinds
    who, _, metric = entry.take(kind, toml_values.text).partition(" ")
    a, _, b = who.partition("/")
    if (kind == "value") == bool(b):
        raise entry.error(kind, f"{entry.values[kind]!r} (a value is of one target, a ratio of two)")
    entry.finish()
    return Column(title, kind, metric, a, b)


def _reach(value: Any) -> Reach:
    if (found := _REACH.fullmatch(toml_values.text(value))) is None:
        raise ValueError(f"{value!r} is not a reach (such as '>= 2' or '<= 0.5')")
    return Reach(found[1] == ">=", float(found[2]))
