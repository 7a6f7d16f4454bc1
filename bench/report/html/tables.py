"""The text parts of a report: failures, verdicts, provenance, figures, pairs, configuration."""

import statistics
from collections import Counter
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from bench.report.columns import interval_text
from bench.report.html.charts import pair_text
from bench.report.html.entities import Entity
from bench.report.metrics import METRICS, describe, sides, text
from bench.report.result import Document

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
        items = "".join(f"<li>{escape(reason)}</li>" for reason in failed)
        head = '<div class="state bad" role="alert"><strong>Failed.</strong> Failed runs have no figures.'
        return f"{head}<ul>{items}</ul></div>"
    runs = sum(len(document.runs) for _, document in documents)
    if not runs:
        return '<div class="state bad" role="alert"><strong>Nothing was measured.</strong></div>'
    return f'<div class="state good"><strong>Complete.</strong> {runs} run{"s" if runs > 1 else ""}, none failed.</div>'


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
    items = "".join(
        f"<li>{escape(where)}: {escape(verdict)}{f' ({count} runs)' if count > 1 else ''}</li>"
        for (where, verdict), count in counted.items()
    )
    grave = any(not verdict.startswith("reads were hot") for _, verdict in counted)
    return f'<div class="state {"warn" if grave else "card"}"><strong>Notes</strong><ul>{items}</ul></div>'


def provenance(documents: Named) -> str:
    """Return machine, versions and command, with one column for each document."""
    keys = list(dict.fromkeys(key for _, document in documents for key in document.provenance))
    rows = []
    for key in keys:
        cells = "".join(f"<td>{_value(document.provenance.get(key))}</td>" for _, document in documents)
        rows.append(f"<tr><th>{escape(key)}</th>{cells}</tr>")
    head = "".join(f"<th>{escape(name)}</th>" for name, _ in documents) if len(documents) > 1 else ""
    return (
        '<details open><summary>Where these numbers came from</summary><div class="card scroll"><table>'
        f"{f'<tr><th></th>{head}</tr>' if head else ''}{''.join(rows)}</table></div></details>"
    )


def warm_ups(documents: Named) -> str:
    """Return the warm-up of each target before its first window, by window; empty if none was warmed up."""
    rows = []
    for name, document in documents:
        for warm_up in document.warm_ups:
            shown = describe(warm_up.metric)
            values = "&ensp;".join(text(warm_up.metric, value) for value in warm_up.values)
            end = "steady" if warm_up.steady else f"not steady within {warm_up.bound_s:g} s"
            who = _prefix(documents, name) + f"{warm_up.target} {warm_up.label}".rstrip()
            rows.append(
                f'<tr><th>{escape(who)}</th><td>{end}</td><td class="number">{warm_up.seconds:.1f} s</td>'
                f"<td>{escape(shown.label)} {escape(shown.unit)}</td><td>{values}</td></tr>"
            )
    if not rows:
        return ""
    return (
        '<details><summary>Warm-up, window by window</summary><div class="card scroll"><table>'
        f"{''.join(rows)}</table></div></details>"
    )


def _value(value: Any) -> str:
    if value is None:
        return '<span class="muted">none</span>'
    if isinstance(value, Mapping):
        return "<br>".join(f"{escape(str(key))}: {_value(inner)}" for key, inner in value.items()) or "none"
    if isinstance(value, list | tuple):
        return escape(", ".join(str(inner) for inner in value)) or "none"
    shown = escape(str(value))
    return f"<code>{shown}</code>" if len(shown) > 40 else shown


def pairs(documents: Named) -> str:
    """Return a table of every ratio with its interval and its pairs."""
    rows, notes = [], []
    for name, document in documents:
        for pair in document.pairs:
            each = "&ensp;".join(f"{ratio:.3f}" for ratio in pair.ratios)
            rows.append(
                f"<tr><td>{escape(pair_text(pair, name if len(documents) > 1 else ''))}</td>"
                f'<td class="number"><strong>{pair.median:.3f}</strong></td>'
                f'<td class="number">{escape(interval_text(pair))}</td>'
                f'<td class="number">{escape(sides(pair.metric, pair.a_value, pair.b_value))}</td>'
                f'<td class="number">{each}</td></tr>'
            )
            notes.append(pair.note)
    reported = "".join(f'<p class="muted">{escape(note)}</p>' for note in dict.fromkeys(notes) if note)
    return (
        '<div class="card scroll" style="margin-top:16px"><table><tr><th>Ratio</th><th class="number">Median</th>'
        '<th class="number">Interval</th><th class="number">Absolute (medians)</th><th class="number">Pairs</th></tr>'
        f"{''.join(rows)}</table>{reported}</div>"
    )


def figures(found: Sequence[Entity]) -> str:
    """Return a column for each target and label, a row for each figure: the median of the repeats, and their range."""
    columns = [(entity, label) for entity in found for label in entity.labels]
    if not columns:
        return '<p class="muted">No run succeeded.</p>'
    runs = [entity.labelled(label) for entity, label in columns]
    known = {name for each in runs for run in each for name in run.figures}
    ordered = [name for name in METRICS if name in known] + sorted(known - METRICS.keys())
    heads = dict(zip(_firsts(ordered), (heading for heading, _ in GROUPS), strict=False))
    rows = []
    for name in ordered:
        if name in heads:
            rows.append(f'<tr class="group"><th colspan="{len(columns) + 1}">{heads[name]}</th></tr>')
        shown = describe(name)
        unit = f' <span class="muted">{escape(shown.unit)}</span>' if shown.unit else ""
        cells = "".join(_cell(name, [run.figures[name] for run in each if name in run.figures]) for each in runs)
        rows.append(f"<tr><td>{escape(shown.label)}{unit}</td>{cells}</tr>")
    head = "".join(
        f'<th class="number">{escape(entity.name)}{f"<br>{escape(label)}" if label else ""}</th>'
        for entity, label in columns
    )
    several = any(len(each) > 1 for each in runs)
    note = '<p class="muted">Median of the repeats, and below it their range.</p>' if several else ""
    return f'{note}<div class="card scroll"><table><tr><th></th>{head}</tr>{"".join(rows)}</table></div>'


def _firsts(ordered: Sequence[str]) -> list[str]:
    """Return the first row of each group, also if the figure that identifies the group is missing."""
    places = list(METRICS)
    found = []
    for number, (_, start) in enumerate(GROUPS):
        end = places.index(GROUPS[number + 1][1]) if number + 1 < len(GROUPS) else len(places)
        found.append(next((name for name in ordered if name in places[places.index(start) : end]), ""))
    return found


def _cell(name: str, values: Sequence[float]) -> str:
    if not values:
        return '<td class="number"></td>'
    middle = text(name, statistics.median(values))
    if len(values) == 1:
        return f'<td class="number">{middle}</td>'
    spread = f"{text(name, min(values))} to {text(name, max(values))}"
    return f'<td class="number">{middle}<br><span class="muted">{spread}</span></td>'


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
            rows = "".join(f"<tr><th>{escape(key)}</th><td>{_value(value)}</td></tr>" for key, value in values.items())
            title = escape(_prefix(documents, name) + heading)
            parts.append(f'<div class="card scroll"><h3>{title}</h3><table>{rows}</table></div>')
    return f'<div class="charts">{"".join(parts)}</div>'
