"""Tables of rows by their columns: HTML for documents, Markdown for texts. broker_cy/reporting/rich_tables.py has those
of terminals.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from html import escape
from typing import Any, Final, TypeVar

from broker_cy.reporting.column import Column, Kind
from broker_cy.reporting.foreign_text import LABEL_MAX, clean
from broker_cy.reporting.tone import Tone

R = TypeVar("R")
Cells = Mapping[str, Callable[[R], str]]

_TONES: Final = {
    Tone.MUTED: '<span class="muted">{}</span>',
    Tone.PLAIN: "{}",
    Tone.NOTED: "<strong>{}</strong>",
    Tone.GOOD: '<span class="good-text">{}</span>',
    Tone.WARN: '<strong class="warn-text">{}</strong>',
    Tone.BAD: '<strong class="bad-text">{}</strong>',
}
# Longer values of settings are paths, commands and hashes.
_WORDS_MAX: Final = 40


def html(
    caption: str,
    columns: Sequence[Column[R]],
    rows: Iterable[R],
    cells: Cells[R] | None = None,
    groups: Mapping[int, str] | None = None,
) -> str:
    """Return a table that scrolls on its own; its caption is only read aloud.

    `cells` returns HTML for some columns, by key, instead of their text. `groups` are headings before some rows.
    """
    head = "".join(
        f'<th scope="col"{" class=number" if column.is_right else ""}>{escape(column.title)}</th>' for column in columns
    )
    body = "".join(
        (_group(groups[at], len(columns)) if groups and at in groups else "")
        + "<tr>"
        + "".join(_cell(column, row, (cells or {}).get(column.key), place) for place, column in enumerate(columns))
        + "</tr>"
        for at, row in enumerate(rows)
    )
    return (
        f'<div class="card scroll" tabindex="0" role="region" aria-label="{escape(caption)}"><table>'
        f'<caption class="unseen">{escape(caption)}</caption><thead><tr>{head}</tr></thead><tbody>{body}</tbody>'
        "</table></div>"
    )


def _group(heading: str, width: int) -> str:
    return f'<tr class="group"><th scope="rowgroup" colspan="{width}">{escape(heading)}</th></tr>'


def _cell(column: Column[R], row: R, to_html: Callable[[R], str] | None, place: int) -> str:
    style = " class=number" if column.is_right else ""
    if to_html is not None:
        inner = to_html(row)
    else:
        text = column.shown(row)
        inner = _TONES[column.tone_of(row)].format(escape(clean(text)))
        style = style or (" class=name" if _is_name(column, text) else "")
    return f'<th scope="row"{style}>{inner}</th>' if place == 0 else f"<td{style}>{inner}</td>"


def _is_name(column: Column[R], text: str) -> bool:
    """Return whether a text is not broken at its hyphens: a time, or a short name."""
    return column.kind is Kind.TIME or (len(text) <= LABEL_MAX and " " not in text)


def markdown(columns: Sequence[Column[R]], rows: Iterable[R]) -> list[str]:
    """Return the lines of a table."""
    lines = [_line(column.title for column in columns), "|" + "|".join(map(_rule, columns)) + "|"]
    return lines + [_line(column.shown(row) for column in columns) for row in rows]


def _rule(column: Column[R]) -> str:
    return "---:" if column.is_right else "---"


def _line(cells: Iterable[str]) -> str:
    return "|" + "".join(f" {cell} |" if cell else " |" for cell in (each.replace("|", "\\|") for each in cells))


def settings(caption: str, documents: Sequence[tuple[str, Mapping[str, Any]]]) -> str:
    """Return a row for each setting, and a column for each document; names of nested settings are joined by dots."""
    found = [(name, dict(_flat(values))) for name, values in documents]
    columns = [Column[str]("setting", "Setting", lambda setting: setting)]
    columns += [Column[str](name, name, values.get) for name, values in found]
    cells = {name: _of(values) for name, values in found}
    return html(caption, columns, dict.fromkeys(key for _, values in found for key in values), cells)


def _of(values: Mapping[str, str]) -> Callable[[str], str]:
    return lambda setting: values.get(setting, _NONE)


_NONE: Final = '<span class="muted">none</span>'


def _flat(values: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    for name, value in values.items():
        key = f"{prefix}{name}"
        if isinstance(value, Mapping) and value:
            yield from _flat(value, f"{key}.")
        elif isinstance(value, list | tuple) and any(isinstance(each, Mapping) for each in value):
            for at, each in enumerate(value):
                yield from _flat(each if isinstance(each, Mapping) else {"": each}, f"{key}[{at}].")
        else:
            yield key, _setting(value)


def _setting(value: Any) -> str:
    if value is None or value == "" or value in ({}, [], ()):
        return _NONE
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list | tuple):
        return escape(", ".join(map(str, value)))
    shown = escape(str(value))
    return f"<code>{shown}</code>" if len(shown) > _WORDS_MAX else shown
