"""Tables in Markdown, built from recorded documents, and their places in a text document.

A table is between `<!-- table NAME -->` and `<!-- end of table -->`; everything in between is replaced, so that no
number in it is typed by hand.
"""

import re
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path

from bench.record.plan import Column, Plan, Row, Table
from bench.report import result, stats
from bench.report.metrics import describe, sides, text
from bench.report.result import Document, Pair, Run
from broker_cy.reporting import tables
from broker_cy.reporting.column import Column as Shown

END = "<!-- end of table -->"
_PLACE = re.compile(r"<!-- table (?P<name>[\w-]+) -->\n.*?" + END, re.DOTALL)
NOT_MEASURED = "not measured"


def documents(plan: Plan, directory: Path) -> dict[str, Document]:
    """Return the recorded results by the measurement's name. Raises ResultError for a file that is not a result."""
    paths = {each.name: directory / f"{each.name}.json" for each in plan.measurements}
    return {name: result.read(path) for name, path in paths.items() if path.exists()}


def fill(prose: str, plan: Plan, found: Mapping[str, Document], link: str) -> str:
    """Return `prose` with its tables filled in; `link` is the path from there to the directory of the JSON files.

    Raises KeyError for a place whose table is not in the plan.
    """
    planned = {table.name: table for table in plan.tables}

    def one(place: re.Match[str]) -> str:
        table = planned[place["name"]]
        return f"<!-- table {table.name} -->\n{markdown(table, found, link)}\n{END}"

    return _PLACE.sub(one, prose)


def places(prose: str) -> list[str]:
    """Return the names of the tables that have a place."""
    return [place["name"] for place in _PLACE.finditer(prose)]


def markdown(table: Table, found: Mapping[str, Document], link: str) -> str:
    """Return the table, followed by the origin of its numbers."""
    columns = [Shown[Row]("title", "", lambda row: row.title)]
    columns += [_shown(column, found, is_first=at == 0) for at, column in enumerate(table.columns)]
    lines = tables.markdown(columns, table.rows)
    names = dict.fromkeys(row.measurement for row in table.rows if not row.text)
    origins = [origin(name, found[name], link) for name in names if name in found]
    return "\n".join([*lines, "", *origins]).rstrip() + "\n"


def _shown(column: Column, found: Mapping[str, Document], *, is_first: bool) -> Shown[Row]:
    def value(row: Row) -> str:
        if row.text:
            return row.text if is_first else ""
        document = found.get(row.measurement)
        return NOT_MEASURED if document is None else cell(document, row, column)

    return Shown(column.title, column.title, value)


def origin(name: str, document: Document, link: str) -> str:
    """Return command, date, revision and JSON file of one measurement, as a list item."""
    known = document.provenance
    shown = f"- `{known['command']}`: {str(known['started'])[:10]}, revision {known['revision']}, {known['cpu']}"
    unsteady = [f"{each.target} {each.label}".rstrip() for each in document.warm_ups if not each.steady]
    if unsteady:
        shown += f"; not steady when its warm-up ended: {', '.join(unsteady)}"
    return f"{shown} ([JSON]({link}/{name}.json))"


def cell(document: Document, row: Row, column: Column) -> str:
    """Format one figure with its interval and, if it has a goal, whether it is reached or missed."""
    metric = row.metric or column.metric
    value, shown = (of_pair if column.b else of_target)(document, row, column, metric)
    if value is None:
        return shown
    reach = row.reach.get(column.title)
    if reach is None:
        return shown
    return f"{shown}, reaches {reach}" if reach.met(value) else f"{shown}, **missed** {reach}"


def of_target(document: Document, row: Row, column: Column, metric: str) -> tuple[float | None, str]:
    """Return the median of one target's runs, and its text with the interval or the range."""
    values = [
        run.figures[metric]
        for run in document.runs
        if (run.target, run.label) == (column.a, row.label) and metric in run.figures
    ]
    if not values:
        return None, _why_not(document, column.a, row.label)
    middle = statistics.median(values)
    unit = describe(metric).unit
    return middle, f"{text(metric, middle)} {unit}".rstrip() + _spread(metric, values)


def _spread(metric: str, values: Sequence[float]) -> str:
    if len(values) == 1:
        return ""
    interval = stats.median_interval(values)
    low, high = interval or (min(values), max(values))
    name = "" if interval else "range "
    return f" ({name}{text(metric, low)} to {text(metric, high)})"


def of_pair(document: Document, row: Row, column: Column, metric: str) -> tuple[float | None, str]:
    """Return the median of the ratios and its text with the interval, or the absolute medians of both sides.

    Without a ratio if one side was not steady: it would have become faster, and the ratio smaller or larger.
    """
    found = [pair for pair in document.pairs if _is(pair, row, column, metric)]
    if not found:
        return None, _why_not(document, column.a, row.label)
    (pair,) = found
    changing = [who for who, target in (("peer", column.b), (column.a, column.a)) if _changing(document, target, row)]
    if column.kind == "sides":
        shown = sides(metric, pair.a_value, pair.b_value)
        return None, f"{shown} ({' and '.join(changing)} not steady)" if changing and shown else shown
    if changing:
        return None, f"not comparable: {' and '.join(changing)} not steady when its warm-up ended"
    if pair.interval is None:
        return pair.median, f"{pair.median:.2f} ({len(pair.ratios)} pair{'s' if len(pair.ratios) > 1 else ''})"
    return pair.median, f"{pair.median:.2f} ({pair.interval[0]:.2f} to {pair.interval[1]:.2f})"


def _changing(document: Document, target: str, row: Row) -> bool:
    """Return whether the target was still changing when its windows with the workload of the row began. A warm-up
    without a label applies to all runs of its target.
    """
    return any(
        each.target == target and each.label in ("", row.label) and not each.steady for each in document.warm_ups
    )


def _is(pair: Pair, row: Row, column: Column, metric: str) -> bool:
    return (pair.a, pair.b, pair.label, pair.metric) == (column.a, column.b, row.label, metric)


def _why_not(document: Document, target: str, label: str) -> str:
    """Return the reason of a missing figure: the failure; empty if this workload does not have the figure."""
    failed: list[Run] = [run for run in document.runs if run.failed and (run.target, run.label) == (target, label)]
    return f"failed: {failed[0].failed}" if failed else ""
