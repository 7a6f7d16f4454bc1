"""The page: its head with the failures, the charts, the tables, and everything that they need, in one file."""

from collections.abc import Sequence
from html import escape
from pathlib import Path

from plotly.offline import get_plotlyjs

from bench.report.html import charts, profiles, tables
from bench.report.html.entities import Entity, entities, labels
from bench.report.html.parts import Chart, card, resource, script_json
from bench.report.result import Document, read

# The page contains everything that it needs, and may load nothing.
POLICY = (
    "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data: blob:; font-src data:"
)
Named = Sequence[tuple[str, Document]]


def write_report(paths: Sequence[Path], out: Path) -> None:
    """Write one page of all these documents, next to each other. Raises ResultError if one cannot be read, OSError."""
    if not paths:
        raise ValueError("no document to report on")
    documents = list(zip(names(paths), [read(path) for path in paths], strict=True))
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(render(documents), encoding="utf-8")


def names(paths: Sequence[Path]) -> list[str]:
    """Return a short name for each path: the file's, with a number if several files have the same name."""
    stems = [path.stem for path in paths]
    return [stem if stems.count(stem) == 1 else f"{stem} ({number})" for number, stem in enumerate(stems, 1)]


def render(documents: Named) -> str:
    """Return the page as text; the names distinguish the documents."""
    found = entities(documents)
    drawn: list[Chart] = []
    body = [_head(documents), *_compared(documents, drawn), *_charts(found, drawn), *_tables(documents, found)]
    heading = " · ".join(dict.fromkeys(_title(document) for _, document in documents))
    return "\n".join([
        "<!DOCTYPE html>",
        '<html lang="en"><head><meta charset="utf-8">',
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f'<link rel="icon" href="data:,"><title>{escape(heading)}</title>',
        f"<style>{resource('page.css')}</style></head><body><main>",
        *body,
        "</main>",
        f"<script>{get_plotlyjs()}</script>",
        f"<script>const FIGURES = {script_json([chart.figure() for chart in drawn])};</script>",
        f"<script>{resource('page.js')}</script>",
        "</body></html>\n",
    ])  # fmt: skip


def _title(document: Document) -> str:
    return f"broker-bench {document.mode}: {document.workload.name}"


def _head(documents: Named) -> str:
    titles = dict.fromkeys(_title(document) for _, document in documents)
    return "\n".join([
        f"<header><h1>{escape(' · '.join(titles))}</h1>",
        tables.state(documents),
        tables.verdicts(documents),
        tables.provenance(documents),
        tables.warm_ups(documents),
        "</header>",
    ])  # fmt: skip


def _compared(documents: Named, drawn: list[Chart]) -> list[str]:
    chart = charts.ratios(documents)
    if not any(document.pairs for _, document in documents):
        return []
    parts = ["<section><h2>Compared</h2>"]
    if chart is not None:
        drawn.append(chart)
        parts.append(f'<div class="charts">{card(chart)}</div>')
    return [*parts, tables.pairs(documents), "</section>"]


def _charts(found: Sequence[Entity], drawn: list[Chart]) -> list[str]:
    """Return the charts that share the buttons for hiding a target, and the choice of a label."""
    known = profiles.profiled(found)
    curves = [
        charts.percentiles(found, "latency", "Latency by percentile (ms, logarithmic)"),
        charts.percentiles(found, "end_to_end", "End-to-end latency by percentile (ms, logarithmic)"),
        charts.percentiles(found, "commit", "End of transaction by percentile (ms, logarithmic)"),
    ]
    sections = [
        ("By setting", charts.by_label(found)),
        ("Latency", [chart for chart in curves if chart is not None]),
        ("Over time", charts.over_time(found)),
        ("Where the time goes", profiles.bars(known)),
    ]
    if not any(shown for _, shown in sections):
        return []
    parts = [_controls(found)]
    for heading, shown in sections:
        if shown:
            drawn.extend(shown)
            cards = "".join(card(chart) for chart in shown)
            parts.append(f'<section><h2>{heading}</h2><div class="charts">{cards}</div></section>')
    if known:  # its section is the last one
        parts += [profiles.about(known), profiles.table(known)]
    return parts


def _controls(found: Sequence[Entity]) -> str:
    buttons = "".join(
        f'<button type="button" data-entity="{entity.index}" aria-pressed="true">'
        f'<span class="swatch" data-entity="{entity.index}"></span>{escape(entity.name)}</button>'
        for entity in found
        if entity.runs
    )
    choices = ""
    if len(known := labels(found)) > 1:
        options = "".join(f'<option value="{escape(name)}">{escape(name or "(none)")}</option>' for name in known)
        choices = f'<label>Latency and series of <select id="label">{options}</select></label>'
    return f'<div class="controls" role="group" aria-label="What the charts show">{buttons}{choices}</div>'


def _tables(documents: Named, found: Sequence[Entity]) -> list[str]:
    return [
        f"<section><h2>Figures</h2>{tables.figures(found)}</section>",
        f"<section><h2>Configuration</h2>{tables.settings(documents)}</section>",
    ]
