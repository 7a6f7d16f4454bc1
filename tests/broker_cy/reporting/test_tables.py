"""Tables of the same columns in HTML, in Markdown and on a terminal."""

from __future__ import annotations

import io
from dataclasses import dataclass

from rich.console import Console

from broker_cy.reporting import tables
from broker_cy.reporting.column import Column, Kind
from broker_cy.reporting.rich_tables import rich_table
from broker_cy.reporting.tone import Tone

EVIL = "<b>[red]a|b\x1b[0m"


@dataclass(frozen=True)
class Disk:
    name: str
    used: int | None
    is_full: bool = False


COLUMNS: list[Column[Disk]] = [
    Column("name", "Disk", lambda row: row.name),
    Column("used", "Used", lambda row: row.used, Kind.BYTES, tone=lambda row: Tone.BAD if row.is_full else Tone.PLAIN),
]
ROWS = [Disk("data-1", 2_048, is_full=True), Disk(EVIL, None)]


def on_terminal(width: int, rows: list[Disk]) -> str:
    out = io.StringIO()
    Console(file=out, width=width, color_system=None).print(rich_table("Disks [1]", COLUMNS, rows, notes=[EVIL]))
    return out.getvalue()


def test_html_shows_text_and_tone_and_never_runs_it() -> None:
    """If this fails, the name of a topic is HTML of the report, or a missed goal looks like a reached one."""
    text = tables.html("Disks", COLUMNS, ROWS)
    assert '<th scope="row" class=name>data-1</th>' in text
    assert '<td class=number><strong class="bad-text">2.0 KiB</strong></td>' in text
    assert "&lt;b&gt;[red]a|b␛[0m" in text
    assert "<td class=number>-</td>" in text
    assert "\x1b" not in text


def test_html_of_some_columns_and_headings_of_rows() -> None:
    """If this fails, a bar is shown as text, or figures are under the wrong heading."""
    text = tables.html("Disks", COLUMNS, ROWS, {"used": lambda row: f"<i>{row.used}</i>"}, {1: "Others"})
    assert (
        "<td class=number><i>2048</i></td></tr>"
        + ('<tr class="group"><th scope="rowgroup" colspan="2">Others</th></tr>')
        in text
    )


def test_markdown_keeps_the_cells_apart() -> None:
    """If this fails, a name with a bar adds a column to a table of the documentation."""
    assert tables.markdown(COLUMNS, [Disk("a|b", 1), Disk("", None)]) == [
        "| Disk | Used |", "|---|---:|", "| a\\|b | 1 B |", "| | - |",
    ]  # fmt: skip


def test_settings_of_documents_are_side_by_side() -> None:
    """If this fails, two runs are compared although they had different settings."""
    found = tables.settings("Settings", [("a", {"x": {"y": True}, "z": []}), ("b", {"x": {"y": "<"}})])
    assert "<tr>" + '<th scope="row" class=name>x.y</th><td>yes</td><td>&lt;</td>' + "</tr>" in found
    assert found.count('<span class="muted">none</span>') == 2


def test_a_terminal_shows_whole_numbers_and_no_markup() -> None:
    """If this fails, a number is cut on a narrow terminal, or a name changes the colours of the terminal."""
    text = on_terminal(80, ROWS)
    assert "[red]a|b␛[0m" in text
    assert "Disks [1]" in text
    assert "2.0 KiB" in on_terminal(24, [Disk("a-long-name-of-a-disk", 2_048)])
