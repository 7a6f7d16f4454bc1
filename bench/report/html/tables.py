"""The text parts of a report: failures, verdicts, provenance, figures, pairs, configuration."""

import statistics
from collections import Counter
from collections.abc import Callable, Sequence
from html import escape

from bench.report.columns import pair_columns
from bench.report.html.entities import Entity
from bench.report.metrics import METRICS, describe, text
from bench.report.result import Document, Run, WarmUp
from broker_cy.reporting.column import Column, Kind
from broker_cy.reporting.document import details
from broker_cy.reporting.document import state as box
from broker_cy.reporting.numbers import UNKNOWN, plural
from broker_cy.reporting.tables import html
from broker_cy.reporting.tables import settings as html_settings

Named = Sequence[tuple[str, Document]]
GROUPS = (  # heading, and the figure of its first row
    ("Throughput", "records_per_s"),
    ("Latency", "p50_ms"),
    ("Resource usage of the broker", "cpu_s_per_gb"),
    ("Load and life cycle", "generator_share"),
)


def _prefix(documents: Named, name: str) -> str:
    return f"{name}: " if len(documents) > 1 else ""


def state(documents: Named) -> str:
    """Return the state: failed, with every reason, or complete."""
    failed = [_prefix(documents, name) + reason for name, document in documents for reason in document.failures]
    if failed:
        return box("bad", "Failed.", "Failed runs have no figures.", map(escape, failed), is_alert=True)
    runs = sum(len(document.runs) for _, document in documents)
    if not runs:
        return box("bad", "Nothing was measured.", is_alert=True)
    return box("good", "Complete.", f"{plural(runs, 'run')}, none failed.")


def verdicts(documents: Named) -> str:
    """Return remarks that a reader needs in addition to the figures; equal verdicts once, with their number of runs."""
    counted: Counter[tuple[str, str]] = Counter()
    for name, document in documents:
        for run in document.runs:
            if not run.failed:
                where = _prefix(documents, name) + run.target + (f" {run.label}" if run.label else "")
                counted.update((where, verdict) for verdict in run.verdicts)
        counted.update((_prefix(documents, name) + document.mode, note) for note in document.notes)
    if not counted:
        return ""
    items = [
        f"{escape(where)}: {escape(verdict)}{f' ({count} runs)' if count > 1 else ''}"
        for (where, verdict), count in counted.items()
    ]
    grave = any(not verdict.startswith("reads were hot") for _, verdict in counted)
    return box("warn" if grave else "card", "Notes", "", items)


def provenance(documents: Named) -> str:
    """Return machine, versions and command, with one column for each document."""
    known = [(name, document.provenance) for name, document in documents]
    if len(known) == 1:
        known = [("Value", known[0][1])]
    heading = "Where these numbers came from"
    return details(heading, html_settings(heading, known), is_open=True)


def warm_ups(documents: Named) -> str:
    """Return the warm-up of each target before its first window, by window; empty if none was warmed up."""
    columns: list[Column[tuple[str, WarmUp]]] = [
        Column("target", "Target", lambda row: f"{row[0]}{row[1].target} {row[1].label}".rstrip()),
        Column("end", "End", lambda row: _end(row[1])),
        Column("took", "Duration", lambda row: row[1].seconds, Kind.COUNT, text=lambda row: f"{row[1].seconds:.1f} s"),
        Column("figure", "Figure", lambda row: "{0.label} {0.unit}".format(describe(row[1].metric)).rstrip()),
        Column("values", "Windows", lambda row: "  ".join(text(row[1].metric, value) for value in row[1].values)),
    ]
    rows = [(_prefix(documents, name), warm_up) for name, document in documents for warm_up in document.warm_ups]
    heading = "Warm-up, window by window"
    return details(heading, html(heading, columns, rows)) if rows else ""


def _end(warm_up: WarmUp) -> str:
    return "steady" if warm_up.steady else f"not steady within {warm_up.bound_s:g} s"


def pairs(documents: Named) -> str:
    """Return a table of every ratio with its interval and its pairs."""
    parts = [
        html("Ratios, pair by pair", pair_columns(name if len(documents) > 1 else ""), document.pairs)
        for name, document in documents
        if document.pairs
    ]
    notes = dict.fromkeys(pair.note for _, document in documents for pair in document.pairs if pair.note)
    return "".join(parts) + "".join(f'<p class="muted">{escape(note)}</p>' for note in notes)


def figures(found: Sequence[Entity]) -> str:
    """Return a column for each target and label, a row for each figure: the median of the repeats, and their range."""
    sets = [(entity, label, entity.labelled(label)) for entity in found for label in entity.labels]
    if not sets:
        return '<p class="muted">No run succeeded.</p>'
    known = {name for _, _, runs in sets for run in runs for name in run.figures}
    ordered = [name for name in METRICS if name in known] + sorted(known - METRICS.keys())
    firsts = dict(zip(_firsts(ordered), (heading for heading, _ in GROUPS), strict=False))
    groups = {at: firsts[name] for at, name in enumerate(ordered) if name in firsts}
    columns = [Column[str]("figure", "Figure", lambda name: describe(name).label)]
    cells: dict[str, Callable[[str], str]] = {"figure": _name}
    for at, (entity, label, runs) in enumerate(sets):
        key = f"set {at}"
        columns.append(Column(key, f"{entity.name} {label}".rstrip(), lambda name: name, Kind.COUNT, text=str))
        cells[key] = _cells_of(runs)
    several = any(len(runs) > 1 for _, _, runs in sets)
    note = '<p class="muted">Median of the repeats, and below it their range.</p>' if several else ""
    return note + html("Figures", columns, ordered, cells, groups)


def _name(name: str) -> str:
    shown = describe(name)
    return escape(shown.label) + (f' <span class="muted">{escape(shown.unit)}</span>' if shown.unit else "")


def _cells_of(runs: Sequence[Run]) -> Callable[[str], str]:
    return lambda name: _cell(name, [run.figures[name] for run in runs if name in run.figures])


def _cell(name: str, values: Sequence[float]) -> str:
    if not values:
        return UNKNOWN
    middle = text(name, statistics.median(values))
    if len(values) == 1:
        return middle
    return f'{middle}<br><span class="muted">{text(name, min(values))} to {text(name, max(values))}</span>'


def _firsts(ordered: Sequence[str]) -> list[str]:
    """Return the first row of each group, also if the figure that identifies the group is missing."""
    places = list(METRICS)
    found = []
    for number, (_, start) in enumerate(GROUPS):
        end = places.index(GROUPS[number + 1][1]) if number + 1 < len(GROUPS) else len(places)
        found.append(next((name for name in ordered if name in places[places.index(start) : end]), ""))
    return found


def settings(documents: Named) -> str:
    """Return workload and targets of each document."""
    parts = []
    for name, document in documents:
        workload = document.workload
        blocks = [("workload " + workload.name, {"file": workload.file, **workload.settings})]
        blocks += [
            (f"target {target}", {"kind": known.kind, "version": known.version, **known.settings})
            for target, known in document.targets.items()
        ]
        for heading, values in blocks:
            title = _prefix(documents, name) + heading
            parts.append(
                f'<div><h3 class="spaced">{escape(title)}</h3>{html_settings(title, [("Value", values)])}</div>'
            )
    return f'<div class="charts">{"".join(parts)}</div>'
