"""One HTML page of a result that needs no network: the verdict, the charts, and a table for everything that they show.

The charts are drawn by the script of `bench.report.html`, in its colours; the page contains plotly.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from pathlib import Path

from plotly.offline import get_plotlyjs

from bench.report.files import replace_file
from bench.report.html.page import POLICY
from bench.report.html.parts import Chart, card, resource, script_json, section
from loadgen.report import charts, tables
from loadgen.report.result import (
    DATA_WRONG,
    GENERATOR_LIMIT,
    GOOD,
    THRESHOLD_MISSED,
    Result,
)

MEANING = {
    GOOD: "",
    THRESHOLD_MISSED: "The cluster did not do what the scenario expects.",
    GENERATOR_LIMIT: "The figures do not describe the cluster.",
    DATA_WRONG: "The records that were read are not those that the cluster acknowledged.",
}
STATES = {GOOD: "good", THRESHOLD_MISSED: "bad", GENERATOR_LIMIT: "warn", DATA_WRONG: "bad"}


def write(result: Result, path: Path) -> None:
    """Write the page of a result. Raises OSError."""
    replace_file(path, render(result))


def render(result: Result) -> str:
    """Return the page as text."""
    title = f"broker-load: {result.scenario.get('name', '')}"
    timelines = charts.over_time(result)
    curve, delays = charts.by_percentile(result), charts.delays(result)
    drawn = [*timelines, *filter(None, (curve, delays))]
    body = [
        _head(title, result),
        section("Search", _search(result)) if result.steps else "",
        section("Figures", tables.figures(result) + tables.errors(result)),
        _controls(result) if drawn else "",
        _over_time(result, timelines),
        _by_percentile(result, curve),
        section("Events", tables.events(result)) if result.events else "",
        section("Verification", _verification(result)),
        section("Generator", _generator(result, delays)),
        section(
            "Where these figures came from",
            tables.users(result)
            + tables.settings(result.provenance, "Provenance")
            + "<details><summary>All settings of the scenario</summary>"
            + tables.settings(result.scenario, "Scenario")
            + "</details>",
        ),
    ]
    return "\n".join([
        "<!DOCTYPE html>",
        '<html lang="en"><head><meta charset="utf-8">',
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f'<link rel="icon" href="data:,"><title>{escape(title)}: {escape(result.headline)}</title>',
        f"<style>{resource('page.css')}{resource('parts.css')}</style>",
        "</head><body><main>",
        *filter(None, body),
        "</main>",
        f"<script>{get_plotlyjs()}</script>",
        f"<script>const FIGURES = {script_json([chart.figure() for chart in drawn])};</script>",
        f"<script>{resource('page.js')}{resource('parts.js')}</script>",
        "</body></html>\n",
    ])  # fmt: skip


def _head(title: str, result: Result) -> str:
    findings = "".join(f"<li>{escape(each[:1].upper() + each[1:])}.</li>" for each in result.findings)
    is_checked = result.verification is None or result.verification.why_unchecked is None
    meaning = MEANING[result.exit_code] if is_checked else ""
    ended = ""
    if result.ended is not None:
        text = f"{result.ended[:1].upper()}{result.ended[1:]}"
        ended = f'<div class="state warn"><strong>{escape(text)}.</strong> These are the figures so far.</div>'
    return "\n".join([
        f"<header><h1>{escape(title)}</h1>",
        f'<p class="muted">{escape(str(result.scenario.get("description", "")))}</p>',
        f'<div class="state {STATES[result.exit_code]}"{" role=alert" if result.exit_code else ""}>',
        f'<strong class="verdict">{escape(result.headline)}.</strong> {escape(meaning)}',
        f"<ul>{findings}</ul>" if findings else f"<p>{escape(_praise(result))}</p>",
        "</div>",
        ended,
        _notes(result),
        _facts(result),
        tables.thresholds(result),
        "</header>",
    ])  # fmt: skip


def _praise(result: Result) -> str:
    """Return a text that says what was checked, so that a good verdict promises no more than that."""
    words = []
    if result.thresholds:
        words.append("all thresholds are met" if len(result.thresholds) > 1 else "the threshold is met")
    words.append("the generator was not the limit")
    words.append("the data was not checked" if result.verification is None else result.verification.text)
    text = "; ".join(words)
    return f"{text[:1].upper()}{text[1:]}."


def _notes(result: Result) -> str:
    if not result.notes:
        return ""
    items = "".join(f"<li>{escape(each)}</li>" for each in result.notes)
    return f'<div class="state warn"><strong>Notes</strong><ul>{items}</ul></div>'


def _search(result: Result) -> str:
    best = result.best
    found = "No rate met the bound." if best is None else f"The highest rate that met the bound: {best.rate:,.6g}/s."
    which = "The figures below are those of this rate." if best is not None else "The figures are those of the first."
    return f"<p><strong>{found}</strong> {which}</p>{tables.steps(result)}"


def _facts(result: Result) -> str:
    lost = sum(each.lost is not None for each in result.workers)
    known = {
        "Cluster": result.bootstrap,
        "Measured": f"{result.seconds:,.1f} s",
        "Workers": f"{len(result.workers)}" + (f", {lost} of them lost" if lost else ""),
        "Started": str(result.provenance.get("started", "")),
        "Exit code": str(result.exit_code),
        **({"Due, but never sent": f"{result.unsent:,}"} if result.unsent else {}),
        **{name: f"{count:,}" for name, count in result.counts.items()},
    }
    items = "".join(f"<div><dt>{escape(name)}</dt><dd>{escape(text)}</dd></div>" for name, text in known.items())
    return f'<dl class="facts">{items}</dl>'


def _controls(result: Result) -> str:
    buttons = "".join(
        f'<button type="button" data-entity="{entity}" aria-pressed="true">'
        f'<span class="swatch" data-entity="{entity}"></span>{escape(name)}</button>'
        for entity, name in enumerate(result.operations)
    )
    return f'<div class="controls" role="group" aria-label="Operations in the charts">{buttons}</div>'


def _over_time(result: Result, shown: Sequence[Chart]) -> str:
    if not shown:
        return ""
    # For media in which the buttons do not stay in view: paper and telephones.
    operations = _legend(0, list(result.operations), "narrow")
    legends = {"time-errors": _legend(charts.ERRORS_FROM, charts.error_names(result)), "time-queued": ""}
    cards = "".join(card(chart, legends.get(chart.id, operations)) for chart in shown)
    note = '<p class="muted">Numbers above the charts are those of the events below.</p>' if result.events else ""
    details = f"<details><summary>The charts over time as a table</summary>{tables.seconds(result)}</details>"
    return section("Over time", f'{note}<div class="charts">{cards}</div>{details}')


def _by_percentile(result: Result, curve: Chart | None) -> str:
    if curve is None:
        return ""
    options = "".join(f"<option>{escape(name)}</option>" for name in (charts.LATENCY, charts.SERVICE))
    choice = f'<label class="choice">Shown: <select id="label">{options}</select></label>'
    drawn = card(curve, choice + _legend(0, list(result.operations), "narrow"))
    return section("Latency", f'<div class="charts">{drawn}</div>{tables.latencies(result)}')


def _legend(first: int, names: Sequence[str], style: str = "") -> str:
    """Return the colours of a chart: the names have the colours from `first` on."""
    items = "".join(
        f'<li><span class="swatch" data-entity="{first + at}"></span>{escape(name)}</li>'
        for at, name in enumerate(names)
    )
    return f'<ul class="legend {style}">{items}</ul>'


def _verification(result: Result) -> str:
    found = result.verification
    if found is None:
        return tables.verification(result)
    state = "good" if found.is_good else "bad"
    text = f"{found.text[:1].upper()}{found.text[1:]}."
    return f'<div class="state {state}">{escape(text)}</div>{tables.verification(result)}'


def _generator(result: Result, delays: Chart | None) -> str:
    parts = [tables.checks(result), tables.workers(result)]
    if delays is not None:
        legend = _legend(charts.DELAYS_FROM, ["Lateness", "Lag of the event loop"])
        parts += [f'<div class="charts">{card(delays, legend)}</div>', tables.delays(result)]
    return "".join(parts)
