"""A form whose answer is a page: assets/explain.js creates it, and puts the input into the URL."""

from __future__ import annotations

import json
from collections.abc import Mapping

from dash import html
from dash.development.base_component import Component

from broker_cy.console.fields import Form
from dashboard.components.attributes import attributes


def explain_box(title: str, form: Form, texts: Mapping[str, str], problems: Mapping[str, str]) -> Component:
    """Return the form with the input of the user; `problems` are by field name."""
    spec = {
        "fields": [
            {"name": field.name, "label": field.label, "value": texts[field.name], "hint": field.hint}
            for field in form.fields
        ],
        "problems": dict(problems),
        "verb": form.verb,
    }
    return html.Section(
        [html.H2(title), html.P(form.note, className="panel-note")],
        className="panel explain",
        **attributes({"data-explain": json.dumps(spec, ensure_ascii=False)}),
    )
