"""One HTML page that needs no network: its text, its charts, and the script, library and styles that draw them.

Only the page's own scripts run: its policy names their hashes. A program that serves a page of another one reads the
policy from its head (dashboard/report_file.py).
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any, Final

from broker_cy.reporting.charts import Chart
from broker_cy.reporting.foreign_text import clean, label

_ASSETS: Final = Path(__file__).with_name("assets")
# The dashboard serves the same file to its pages.
PLOTLY: Final = _ASSETS / "vendor" / "plotly-cartesian.min.js"
POLICY: Final = (
    "default-src 'none'; script-src {scripts}; style-src 'unsafe-inline'; img-src data: blob:; base-uri 'none'"
)


def page(title: str, body: Iterable[str], charts: Sequence[Chart] = (), *, style: str = "") -> str:
    """Return the page as text. `body` is HTML with the cards of `charts`; `style` is CSS of this program."""
    scripts = [
        PLOTLY.read_text(encoding="utf-8"),
        f"const FIGURES = {script_json([chart.figure() for chart in charts])};",
        (_ASSETS / "document.js").read_text(encoding="utf-8"),
    ]
    policy = POLICY.format(scripts=" ".join(f"'{_hash(each)}'" for each in scripts))
    return "\n".join([
        "<!DOCTYPE html>",
        '<html lang="en"><head><meta charset="utf-8">',
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f'<link rel="icon" href="data:,"><title>{escape(title)}</title>',
        f"<style>{(_ASSETS / 'document.css').read_text(encoding='utf-8')}{style}</style>",
        "</head><body><main>",
        *filter(None, body),
        "</main>",
        *(f"<script>{each}</script>" for each in scripts),
        "</body></html>\n",
    ])  # fmt: skip


def _hash(script: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()


def script_json(value: Any) -> str:
    """Return JSON that cannot end the script element that contains it."""
    text = json.dumps(value, allow_nan=False, separators=(",", ":"))
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")


def section(heading: str, inner: str, level: int = 2) -> str:
    """Return a section under its heading; `inner` is HTML."""
    return f"<section><h{level}>{escape(heading)}</h{level}>{inner}</section>"


def details(summary: str, inner: str, *, is_open: bool = False) -> str:
    """Return a part that the reader opens; `inner` is HTML."""
    return f"<details{' open' if is_open else ''}><summary>{escape(summary)}</summary>{inner}</details>"


def state(kind: str, lead: str, rest: str = "", items: Iterable[str] = (), *, is_alert: bool = False) -> str:
    """Return a coloured box; `kind` is good, warn, bad or card. All texts are HTML; `items` are a list below."""
    listed = "".join(f"<li>{each}</li>" for each in items)
    alert = ' role="alert"' if is_alert else ""
    text = f"<strong>{lead}</strong> {rest}".rstrip() if lead else rest
    return f'<div class="state {kind}"{alert}>{text}{f"<ul>{listed}</ul>" if listed else ""}</div>'


def facts(known: Mapping[str, str]) -> str:
    """Return names and values beside each other; the values are HTML."""
    items = "".join(f"<div><dt>{escape(name)}</dt><dd>{value}</dd></div>" for name, value in known.items())
    return f'<dl class="facts">{items}</dl>'


def cards(charts: Sequence[Chart], legends: Mapping[str, str] | None = None) -> str:
    """Return the places of charts, with titles and notes, and the legends (HTML) of some by id; empty without any."""
    shown = "".join(_card(chart, (legends or {}).get(chart.id, "")) for chart in charts)
    return f'<div class="charts">{shown}</div>' if shown else ""


def _card(chart: Chart, legend: str) -> str:
    height = chart.layout.get("height")
    style = f' style="height:{height}px"' if height else ""
    return (
        f'<figure class="card{" wide" if chart.wide else ""}"><figcaption><h3>{escape(chart.title)}</h3>'
        f'<p class="muted">{escape(chart.note)}</p>{legend}</figcaption>'
        f'<div class="plot" id="{chart.id}" role="img" aria-label="{escape(chart.title)}"{style}></div></figure>'
    )


def swatch(entity: int, style: str = "") -> str:
    """Return the colour of an entity, which the script of the page fills."""
    return f'<span class="swatch{f" {style}" if style else ""}" data-entity="{entity}"></span>'


def controls(what: str, entities: Mapping[int, str], more: str = "", *, style: str = "controls") -> str:
    """Return the colours of entities as buttons that hide them in the charts; `what` is read aloud, `more` is HTML."""
    buttons = "".join(
        f'<button type="button" data-entity="{entity}" aria-pressed="true" title="{escape(clean(name))}">'
        f"{swatch(entity)}{escape(label(name))}</button>"
        for entity, name in entities.items()
    )
    return f'<div class="{style}" role="group" aria-label="{escape(what)}">{buttons}{more}</div>'


def legend(entities: Mapping[int, str], style: str = "") -> str:
    """Return the colours of entities as a list."""
    items = "".join(f"<li>{swatch(entity)}{escape(name)}</li>" for entity, name in entities.items())
    return f'<ul class="legend{f" {style}" if style else ""}">{items}</ul>'
