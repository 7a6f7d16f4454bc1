"""A table whose rows are formatted while they are drawn: 10,000 rows cost as much as the 20 on the screen.

Textual's DataTable keeps an object for each cell and measures all of them; here a column is a function of the row.
Rows have keys, so that cursor, marks and filter survive a refresh. The file is one widget: drawing, cursor, marks and
filter all depend on which rows are shown.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from textwrap import wrap
from typing import Any, ClassVar, Generic, TypeVar

from rich.cells import cell_len, set_cell_size
from rich.segment import Segment
from rich.style import Style
from rich.text import Text
from textual import events
from textual.binding import Binding, BindingType
from textual.geometry import Region, Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip

from admin_tui.widgets.columns import GAP, Column, lay_out
from admin_tui.widgets.edges import set_edge

R = TypeVar("R")
# The cells of a row with their styles; with them, whether the cursor is on the row and whether it is marked.
_Cells = tuple[tuple[str, str | Style], ...]
_Line = tuple[bool, bool, _Cells] | None
_HEADER = 1


class Grid(ScrollView, Generic[R], can_focus=True):
    """The table. `set_rows` replaces its rows; `selected` is the row under the cursor."""

    BINDING_GROUP_TITLE = "Table"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("down,j", "cursor(1)", "Down", show=False, id="grid.down"),
        Binding("up,k", "cursor(-1)", "Up", show=False, id="grid.up"),
        Binding("pagedown,ctrl+f", "page(1)", "Page down", show=False, id="grid.page_down"),
        Binding("pageup,ctrl+b", "page(-1)", "Page up", show=False, id="grid.page_up"),
        Binding("g,home", "edge(0)", "First", show=False, id="grid.first"),
        Binding("G,end", "edge(1)", "Last", show=False, id="grid.last"),
        Binding("n", "match(1)", "Next match", show=False, id="grid.next_match"),
        Binding("N", "match(-1)", "Previous match", show=False, id="grid.previous_match"),
        Binding("space", "mark", "Mark", show=False, id="grid.mark"),
        Binding("enter", "select", "Open", show=False, id="grid.open"),
    ]
    COMPONENT_CLASSES: ClassVar[set[str]] = {"grid--header", "grid--cursor", "grid--blurred"}
    HELP = """A table.

- `j` `k` or the arrows move, `g` and `G` go to the first and the last row, `enter` opens the selected row.
- `/` filters: only rows that contain the text are shown. `n` and `N` find the text again after the filter is removed.
- Shift and the underlined letter of a column sort by it; the same key again reverses the order.
- `space` marks rows for actions that take several."""
    DEFAULT_CSS = """
    Grid {
        height: 1fr; border: round $panel-lighten-2;
        border-title-color: $text-accent; border-subtitle-color: $text-muted;
        background: $background;
        scrollbar-size-vertical: 1; overflow-x: hidden;
        & > .grid--header { text-style: bold; color: $text-accent; }
        & > .grid--cursor { background: $primary; color: $text; text-style: bold; }
        & > .grid--blurred { background: $panel; }
        &:focus { border: round $primary; }
    }
    Grid:ansi > .grid--cursor { text-style: reverse; }
    """

    class Selected(Message):
        """Enter was pressed on a row."""

        def __init__(self, grid: Grid[Any], row: Any) -> None:
            super().__init__()
            self.grid = grid
            self.row = row

        @property
        def control(self) -> Grid[Any]:
            return self.grid

    class Moved(Message):
        """The cursor is on another row, or the row under it changed."""

        def __init__(self, grid: Grid[Any]) -> None:
            super().__init__()
            self.grid = grid

        @property
        def control(self) -> Grid[Any]:
            return self.grid

    def __init__(
        self,
        columns: Sequence[Column[R]],
        *,
        key: Callable[[R], Hashable],
        text: Callable[[R], str] | None = None,
        noun: str = "row",
        title: str = "",
        can_mark: bool = False,
        sort: str = "",
        descending: bool = False,
        stays_first: bool = False,
        id: str | None = None,
    ) -> None:
        super().__init__(id=id)
        self.columns = list(columns)
        self._key = key
        self._text = text or (lambda row: " ".join(str(column.cell(row)) for column in self.columns))
        self.noun = noun
        self.title = title
        self._can_mark = can_mark
        self._rows: list[R] = []
        self.view: list[R] = []
        self.cursor = 0
        self.marks: set[Hashable] = set()
        self.pattern = ""
        self._last_pattern = ""
        self._sort = next((column for column in columns if column.label == sort), None)
        self._descending = descending
        self.notice = ""
        self._layout: list[tuple[Column[R], int]] = []
        self._widest: dict[str, int] = {}
        # The last drawn content of each line: rows that look the same after a refresh are not drawn again.
        self._drawn: dict[int, _Line] = {}
        self._frame: tuple[int, Style] | None = None
        # New rows come first here: a cursor on the first row stays on the first row.
        self._stays_first = stays_first
        self._tell_title()

    # Rows.

    @property
    def rows(self) -> Sequence[R]:
        """All rows, filtered or not."""
        return self._rows

    @property
    def selected(self) -> R | None:
        """The row under the cursor."""
        return self.view[self.cursor] if self.cursor < len(self.view) else None

    @property
    def chosen(self) -> list[R]:
        """Return the marked rows, or the one under the cursor if none is marked."""
        marked = [row for row in self._rows if self._key(row) in self.marks]
        return marked or ([] if self.selected is None else [self.selected])

    def set_rows(self, rows: Iterable[R]) -> None:
        """Replace the rows. The cursor stays on its row as long as there is a row with that key."""
        self._rows = list(rows)
        if self.marks:
            self.marks &= {self._key(row) for row in self._rows}
        self._rebuild()

    def set_columns(self, columns: Sequence[Column[R]]) -> None:
        """Replace the columns. The rows stay sorted by the column of the same label, if there is one."""
        if [column.label for column in columns] != [column.label for column in self.columns]:
            label = "" if self._sort is None else self._sort.label
            self.columns = list(columns)
            self._sort = next((column for column in columns if column.label == label), None)
            self._widest.clear()
            self._lay_out_anew()

    def set_notice(self, text: str) -> None:
        """Set the text that is shown while there are no rows."""
        if self.notice != text:
            self.notice = text
            if not self.view:
                self.refresh()

    def filter(self, pattern: str) -> None:
        """Show only rows that contain `pattern`, case-insensitive; all for an empty one."""
        if pattern:
            self._last_pattern = pattern.lower()
        if pattern.lower() != self.pattern:
            self.pattern = pattern.lower()
            row = self.selected
            if row is not None and self.pattern not in self._text(row).lower():
                self.cursor = 0
            self._rebuild()

    def sort_by(self, column: Column[R]) -> None:
        """Sort by `column`; reverse the order if the rows are sorted by it already."""
        if self._sort is column:
            self._descending = not self._descending
        else:
            self._sort, self._descending = column, column.align == "right"
        self._lay_out_anew()
        self._rebuild()

    def _rebuild(self) -> None:
        before = self.selected
        held = None if before is None or (self._stays_first and self.cursor == 0) else self._key(before)
        rows = self._rows
        if self.pattern:
            rows = [row for row in rows if self.pattern in self._text(row).lower()]
        if self._sort is not None and self._sort.sort is not None:
            order = self._sort.sort
            rows = sorted(rows, key=lambda row: _comparable(order(row)), reverse=self._descending)
        self.view = list(rows) if rows is self._rows else rows
        if held is not None and not (self.cursor < len(self.view) and self._key(self.view[self.cursor]) == held):
            self.cursor = next((at for at, row in enumerate(self.view) if self._key(row) == held), self.cursor)
        self.cursor = max(0, min(self.cursor, len(self.view) - 1))
        self.virtual_size = Size(self.scrollable_content_region.width, len(self.view) + _HEADER)
        self._tell_title()
        if self._scroll_to_cursor():
            self._lay_out_anew()
        else:
            self._refresh_changed()
        if self.is_attached:
            self.post_message(self.Moved(self))

    def _refresh_changed(self) -> None:
        """Draw the lines that show something else than before."""
        width = self.scrollable_content_region.width
        layout = self._lay_out(self._room(width)) if self._drawn else []
        if not layout or layout != self._layout:
            self._lay_out_anew()
            return
        top = int(self.scroll_offset.y) - _HEADER
        for y in range(_HEADER, self.scrollable_content_region.height):
            if self._drawn.get(y) != self._line(y + top):
                self.refresh(Region(0, y, self.size.width, 1))

    def _tell_title(self) -> None:
        number = f"{len(self.view):,} of {len(self._rows):,}" if self.pattern else f"{len(self._rows):,}"
        parts = [self.title, number]
        if self.pattern:
            parts.append(f"/{self.pattern}")
        if self.marks:
            parts.append(f"{len(self.marks):,} marked")
        set_edge(self, "title", Text(" · ".join(filter(None, parts))))

    # Drawing.

    def on_resize(self) -> None:
        self._layout = []
        self.virtual_size = Size(self.scrollable_content_region.width, len(self.view) + _HEADER)
        self._scroll_to_cursor()

    def _lay_out(self, width: int) -> list[tuple[Column[R], int]]:
        """The columns that fit, with their widths."""
        top = int(self.scroll_offset.y)
        self._widen(self.view[top : top + self.size.height])
        return lay_out(self.columns, self._widest, width)

    def _widen(self, rows: Iterable[R]) -> None:
        """Make room for the numbers of these rows."""
        numbers = [column for column in self.columns if column.align == "right"]
        for row in rows:
            for column in numbers:
                cell = column.cell(row)
                length = cell_len(cell.plain if isinstance(cell, Text) else cell)
                if length > max(column.width, self._widest.get(column.label, 0)):
                    self._widest[column.label] = length

    def _room(self, width: int) -> int:
        """Cells for the columns. The column of marks takes two."""
        return width - (2 if self._can_mark else 0)

    def render_lines(self, crop: Region) -> list[Strip]:
        # Textual composes the style from those of all ancestors each time it is asked for: once for all lines.
        self._frame = None
        return super().render_lines(crop)

    def render_line(self, y: int) -> Strip:
        if self._frame is None:
            self._frame = self.scrollable_content_region.width, self.rich_style
        width, base = self._frame
        if not self._layout:
            self._layout = self._lay_out(self._room(width))
        if y == 0:
            return self._header(width, base)
        line = self._line(y - _HEADER + int(self.scroll_offset.y))
        self._drawn[y] = line
        if line is None:
            lines = [] if self.view else wrap(self.notice, max(10, width))
            if 0 <= y - 2 < len(lines):
                return Strip([Segment(lines[y - 2], base)]).adjust_cell_length(width, base)
            return Strip.blank(width, base)
        return self._row(line, width, base)

    def _lay_out_anew(self) -> None:
        self._layout = []
        self._drawn.clear()
        self.refresh()

    def _header(self, width: int, base: Style) -> Strip:
        style = base + self.get_component_rich_style("grid--header", partial=True)
        segments = [Segment("  ", style)] if self._can_mark else []
        for column, size in self._layout:
            arrow = ("▼" if self._descending else "▲") if column is self._sort else ""
            label = column.label + arrow
            label = set_cell_size(label, min(size, cell_len(label)))
            pad = " " * (size - cell_len(label))
            at = label.upper().find(column.letter) if column.letter else -1
            if column.align == "right" and pad:
                segments.append(Segment(pad, style))
            if at >= 0:
                segments += [
                    Segment(label[:at], style),
                    Segment(label[at], style + Style(underline=True)),
                    Segment(label[at + 1 :], style),
                ]
            else:
                segments.append(Segment(label, style))
            segments.append(Segment((pad if column.align == "left" else "") + " " * GAP, style))
        return Strip(segments).adjust_cell_length(width, style)

    def _line(self, at: int) -> _Line:
        """The text of a row's line, before it is cut and coloured; None behind the last row."""
        if at >= len(self.view):
            return None
        row = self.view[at]
        cells = [column.cell(row) for column, _ in self._layout]
        shown = tuple((cell.plain, cell.style) if isinstance(cell, Text) else (cell, "") for cell in cells)
        return at == self.cursor, bool(self.marks) and self._key(row) in self.marks, shown

    def _row(self, line: tuple[bool, bool, _Cells], width: int, base: Style) -> Strip:
        is_cursor, is_marked, cells = line
        name = "grid--cursor" if self.has_focus else "grid--blurred"
        style = base + self.get_component_rich_style(name, partial=True) if is_cursor else base
        segments = []
        # Adjacent cells of one style are one segment: the time to draw a screen grows with the number of segments.
        run = ("* " if is_marked else "  ") if self._can_mark else ""
        for (column, size), (plain, own) in zip(self._layout, cells, strict=True):
            length = cell_len(plain)
            if length > size:
                if column.align == "right" and length > self._widest.get(column.label, 0):
                    # A wider number was scrolled into view.
                    self._widest[column.label] = length
                    self.call_later(self._lay_out_anew)
                text = set_cell_size(plain, size - 1) + "…"
            elif column.align == "right":
                text = " " * (size - length) + plain
            else:
                text = plain + " " * (size - length)
            if own and not is_cursor:
                segments.append(Segment(run, style))
                segments.append(Segment(text, style + (Style.parse(own) if isinstance(own, str) else own)))
                run = " " * GAP
            else:
                run += text + " " * GAP
        segments.append(Segment(run, style))
        return Strip(segments).adjust_cell_length(width, style)

    # Moving.

    def move_to(self, at: int) -> None:
        """Move the cursor to a row."""
        at = max(0, min(at, len(self.view) - 1))
        if at == self.cursor:
            return
        before, self.cursor = self.cursor, at
        if not self._scroll_to_cursor():
            self._refresh_row(before)
            self._refresh_row(at)
        self.post_message(self.Moved(self))

    def _refresh_row(self, at: int) -> None:
        y = at + _HEADER - int(self.scroll_offset.y)
        if 0 < y < self.size.height:
            self.refresh(Region(0, y, self.size.width, 1))

    def _scroll_to_cursor(self) -> bool:
        """Scroll to the cursor and return whether that was necessary."""
        shown = self.scrollable_content_region.height - _HEADER
        if shown <= 0:
            return False
        top = int(self.scroll_offset.y)
        wanted = min(max(top, self.cursor - shown + 1), self.cursor)
        if wanted == top:
            return False
        self.scroll_to(y=wanted, animate=False, force=True, immediate=True)
        self.refresh()
        return True

    def action_cursor(self, step: int) -> None:
        self.move_to(self.cursor + step)

    def action_page(self, step: int) -> None:
        self.move_to(self.cursor + step * max(1, self.scrollable_content_region.height - _HEADER - 1))

    def action_edge(self, which: int) -> None:
        self.move_to(len(self.view) - 1 if which else 0)

    def action_match(self, step: int) -> None:
        """Go to the next row that contains the last text of a filter."""
        if not self._last_pattern:
            return
        at = self.cursor
        for _ in range(len(self.view)):
            at = (at + step) % len(self.view)
            if self._last_pattern in self._text(self.view[at]).lower():
                self.move_to(at)
                return

    def action_mark(self) -> None:
        row = self.selected
        if row is None or not self._can_mark:
            return
        self.marks ^= {self._key(row)}
        self._tell_title()
        self._refresh_row(self.cursor)
        self.action_cursor(1)

    def action_select(self) -> None:
        if self.selected is not None:
            self.post_message(self.Selected(self, self.selected))

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        if action == "mark":
            return self._can_mark
        return True

    def on_key(self, event: events.Key) -> None:
        letter = event.character or ""
        if len(letter) == 1 and letter.isupper():
            for column in self.columns:
                if column.letter == letter and column.sort is not None:
                    self.sort_by(column)
                    event.stop()
                    return

    def on_click(self, event: events.Click) -> None:
        offset = event.get_content_offset(self)
        if offset is not None and offset.y >= _HEADER:
            at = offset.y - _HEADER + int(self.scroll_offset.y)
            if at < len(self.view):
                if at == self.cursor and event.chain > 1:
                    self.action_select()
                self.move_to(at)

    def on_focus(self) -> None:
        self._refresh_row(self.cursor)

    def on_blur(self) -> None:
        self._refresh_row(self.cursor)


def _comparable(value: Any) -> tuple[bool, Any]:
    """Return a sort key that sorts unknown values before all others."""
    return (value is not None, value if value is not None else 0)
