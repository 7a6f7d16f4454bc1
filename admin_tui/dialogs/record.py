"""One record in full: its position, headers, key and value as text, JSON or bytes."""

from __future__ import annotations

from typing import ClassVar

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical, VerticalScroll
from textual.screen import ModalScreen
from textual.widgets import Static

from admin_tui.widgets.grid import Grid
from broker_cy.console.payload import Format, detail, line
from broker_cy.console.scan import Row
from broker_cy.reporting.foreign_text import clean
from broker_cy.reporting.numbers import count, size, when


class RecordDialog(ModalScreen[None]):
    """Shows the selected record of a table; n and p show the next and the previous one."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q,d,enter", "close", "Close", id="record.close"),
        Binding("v", "format", "Format", id="record.format"),
        Binding("n", "step(1)", "Next", id="record.next"),
        Binding("p", "step(-1)", "Previous", id="record.before"),
        Binding("u", "utc", "UTC", id="record.utc"),
        Binding("j,down", "scroll(1)", "Down", show=False, id="record.down"),
        Binding("k,up", "scroll(-1)", "Up", show=False, id="record.up"),
    ]
    DEFAULT_CSS = """
    RecordDialog { align: center middle; }
    RecordDialog > Vertical { width: 96%; height: 94%; border: round $primary; background: $surface; padding: 0 1; }
    RecordDialog Static { height: auto; }
    RecordDialog VerticalScroll { height: 1fr; background: $background; }
    """

    def __init__(self, grid: Grid[Row], topic: str, utc: bool, shown: Format) -> None:
        super().__init__()
        self._grid = grid
        self._topic = topic
        self._utc = utc
        self.shown = shown

    def compose(self) -> ComposeResult:
        with Vertical():
            yield Static("", id="head")
            with VerticalScroll():
                yield Static("", id="text")

    def on_mount(self) -> None:
        self._show()
        self.query_one(VerticalScroll).focus()

    def on_resize(self) -> None:
        # The lines of a hex dump fit the width.
        self.call_after_refresh(self._show)

    def _show(self) -> None:
        row = self._grid.selected
        box = self.query_one(Vertical)
        if row is None:
            return
        record = row.record
        box.border_title = Text(f"{clean(self._topic)} · partition {row.partition} · offset {count(record.offset)}")
        box.border_subtitle = Text(f"v format: {self.shown.value} · n/p next, previous · u UTC · esc closes")
        head = Text()
        head.append("time ", "bright_black")
        head.append(f"{when(record.timestamp, utc=self._utc)}  ({record.timestamp})")
        head.append("   key ", "bright_black")
        head.append("null" if record.key is None else size(len(record.key)))
        head.append("   value ", "bright_black")
        head.append("null" if record.value is None else size(len(record.value)))
        self.query_one("#head", Static).update(head)
        columns = self.query_one(VerticalScroll).scrollable_content_region.width
        text = Text()
        for name, value in record.headers:
            text.append(f"{clean(name)}: ", "cyan")
            text.append(f"{line(value, self.shown)}\n")
        text.append("key\n" if not record.headers else "\nkey\n", "bold")
        text.append(detail(record.key, self.shown, columns) + "\n")
        text.append("\nvalue\n", "bold")
        text.append(detail(record.value, self.shown, columns))
        self.query_one("#text", Static).update(text)

    def action_close(self) -> None:
        self.dismiss(None)

    def action_format(self) -> None:
        self.shown = self.shown.next()
        self._show()

    def action_utc(self) -> None:
        self._utc = not self._utc
        self._show()

    def action_step(self, step: int) -> None:
        self._grid.move_to(self._grid.cursor + step)
        self.query_one(VerticalScroll).scroll_home(animate=False)
        self._show()

    def action_scroll(self, step: int) -> None:
        self.query_one(VerticalScroll).scroll_relative(y=step, animate=False)
