"""One HTML page of a result that needs no network: the verdict, the charts, and a table for all that they show."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from pathlib import Path

from broker_cy.reporting import document
from broker_cy.reporting.charts import Chart
from broker_cy.reporting.document import cards, details, section, state
from broker_cy.reporting.files import replace_file
from broker_cy.reporting.tables import settings
from loadgen.command import DATA_WRONG, GENERATOR_LIMIT, GOOD, THRESHOLD_MISSED
from loadgen.report import charts, tables
from loadgen.report.result import Result

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
            + settings("Provenance", [("Value", result.provenance)])
            + details("All settings of the scenario", settings("Scenario", [("Value", result.scenario)])),
        ),
    ]
    return document.page(f"{title}: {result.headline}", body, drawn)


def _head(title: str, result: Result) -> str:
    findings = [f"{escape(each[:1].upper() + each[1:])}." for each in result.findings]
    praise = "" if findings else f"<p>{escape(_praise(result))}</p>"
    is_checked = result.verification is None or result.verification.why_unchecked is None
    meaning = MEANING[result.exit_code] if is_checked else ""
    ended = ""
    if result.ended is not None:
        text = f"{result.ended[:1].upper()}{result.ended[1:]}"
        ended = state("warn", f"{escape(text)}.", "These are the figures so far.")
    return "\n".join([
        f"<header><h1>{escape(title)}</h1>",
        f'<p class="muted">{escape(str(result.scenario.get("description", "")))}</p>',
        state(
            STATES[result.exit_code], f'<span class="verdict">{escape(result.headline)}.</span>',
            escape(meaning) + praise, findings, is_alert=bool(result.exit_code),
        ),
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
    return state("warn", "Notes", "", map(escape, result.notes)) if result.notes else ""


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
        **{f"{name[:1].upper()}{name[1:]}": f"{count:,}" for name, count in result.counts.items()},
    }
    return document.facts({name: escape(text) for name, text in known.items()})


def _controls(result: Result) -> str:
    return document.controls("Operations in the charts", dict(enumerate(result.operations)))


def _over_time(result: Result, shown: Sequence[Chart]) -> str:
    if not shown:
        return ""
    # For media in which the buttons do not stay in view: paper and telephones.
    operations = _legend(0, list(result.operations), "narrow")
    legends = {chart.id: operations for chart in shown}
    legends |= {"time-errors": _legend(charts.ERRORS_FROM, charts.error_names(result)), "time-queued": ""}
    note = '<p class="muted">Numbers above the charts are those of the events below.</p>' if result.events else ""
    table = details("The charts over time as a table", tables.seconds(result))
    return section("Over time", note + cards(shown, legends) + table)


def _by_percentile(result: Result, curve: Chart | None) -> str:
    if curve is None:
        return ""
    options = "".join(f"<option>{escape(name)}</option>" for name in (charts.LATENCY, charts.SERVICE))
    choice = f'<label class="choice">Shown: <select id="label">{options}</select></label>'
    drawn = cards([curve], {curve.id: choice + _legend(0, list(result.operations), "narrow")})
    return section("Latency", drawn + tables.latencies(result))


def _legend(first: int, names: Sequence[str], style: str = "") -> str:
    """Return the colours of a chart: the names have the colours from `first` on."""
    return document.legend(dict(enumerate(names, first)), style)


def _verification(result: Result) -> str:
    found = result.verification
    if found is None:
        return tables.verification(result)
    text = f"{found.text[:1].upper()}{found.text[1:]}."
    return state("good" if found.is_good else "bad", "", escape(text)) + tables.verification(result)


def _generator(result: Result, delays: Chart | None) -> str:
    parts = [tables.checks(result), tables.workers(result)]
    if delays is not None:
        legend = _legend(charts.DELAYS_FROM, ["Lateness", "Lag of the event loop"])
        parts += [cards([delays], {delays.id: legend}), tables.delays(result)]
    return "".join(parts)
