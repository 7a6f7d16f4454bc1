"""The page: its head with the failures, the charts, the tables, and everything that they need, in one file."""

from collections.abc import Sequence
from html import escape
from pathlib import Path

from bench.report.html import charts, profiles, tables
from bench.report.html.entities import Entity, entities, labels
from bench.report.result import Document, read
from broker_cy.reporting import document as html
from broker_cy.reporting.charts import Chart
from broker_cy.reporting.files import replace_file

Named = Sequence[tuple[str, Document]]


def write_report(paths: Sequence[Path], out: Path) -> None:
    """Write one page of all these documents, next to each other. Raises ResultError if one cannot be read, OSError."""
    if not paths:
        raise ValueError("no document to report on")
    documents = list(zip(names(paths), [read(path) for path in paths], strict=True))
    replace_file(out, render(documents))


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
    return html.page(heading, body, drawn)


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
    if not any(document.pairs for _, document in documents):
        return []
    chart = charts.ratios(documents)
    shown = [] if chart is None else [chart]
    drawn.extend(shown)
    return [html.section("Compared", html.cards(shown) + tables.pairs(documents))]


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
            parts.append(html.section(heading, html.cards(shown)))
    if known:  # its section is the last one
        parts += [profiles.about(known), profiles.table(known)]
    return parts


def _controls(found: Sequence[Entity]) -> str:
    shown = {entity.index: entity.name for entity in found if entity.runs}
    choices = ""
    if len(known := labels(found)) > 1:
        options = "".join(f'<option value="{escape(name)}">{escape(name or "(none)")}</option>' for name in known)
        choices = f'<label>Latency and series of <select id="label">{options}</select></label>'
    return html.controls("Contents of the charts", shown, choices)


def _tables(documents: Named, found: Sequence[Entity]) -> list[str]:
    return [
        html.section("Figures", tables.figures(found)),
        html.section("Configuration", tables.settings(documents)),
    ]
