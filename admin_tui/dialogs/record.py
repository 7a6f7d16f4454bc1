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
from broker_cy.client.decoded import Part, Seen
from broker_cy.console.decoding import DecodedRows, caption, look_of, shows_decoded
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

    def __init__(
        self, grid: Grid[Row], topic: str, utc: bool, shown: Format, decoded: DecodedRows | None = None
    ) -> None:
        super().__init__()
        self._decoded = decoded
        # The row that was decoded behind its first picture.
        self._late: tuple[Row, Seen] | None = None
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
        seen = self._late[1] if self._late is not None and self._late[0] is row else look_of(self._decoded)(record)
        is_plain = not shows_decoded(self.shown)
        text.append("" if not record.headers else "\n")
        self._add_part(text, "key", seen.key, record.key if is_plain else seen.key.data, columns)
        text.append("\n\n")
        self._add_part(text, "value", seen.value, record.value if is_plain else seen.value.data, columns)
        self.query_one("#text", Static).update(text)

        if not seen.is_final and self._decoded is not None:
            self.run_worker(self._load(self._decoded, row), exclusive=True, exit_on_error=False)

    def _add_part(self, text: Text, name: str, part: Part, data: bytes | None, columns: int) -> None:
        text.append(name, "bold")
        about = caption(part)
        if about:
            text.append(f"  {clean(about)}", "yellow" if part.problem else "bright_black")
        text.append("\n" + detail(data, self.shown, columns))

    async def _load(self, decoded: DecodedRows, row: Row) -> None:
        """Decode a record, and show it again if it is still the one that is shown."""
        seen = await decoded.seen(row.record)
        if seen.is_final and self._grid.selected is row:
            self._late = row, seen
            self._show()

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
