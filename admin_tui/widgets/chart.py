"""A chart of columns made of block characters, which work over ssh, with 16 colours and with any font."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar

from rich.segment import Segment
from rich.style import Style
from rich.text import Text
from textual.strip import Strip
from textual.widget import Widget

from broker_cy.reporting.numbers import duration

_BLOCKS = " ▁▂▃▄▅▆▇█"
# The width of an axis label: 123.45 ms.
_AXIS_WIDTH = 10


class Chart(Widget):
    """One series over time, the newest value last. The axis shows the maximum and 0, the foot the time span.

    `values` may have None if there is no sample. A column is the largest of the values that share it.
    """

    COMPONENT_CLASSES: ClassVar[set[str]] = {"chart--axis", "chart--bar"}
    DEFAULT_CSS = """
    Chart {
        width: 1fr; height: 1fr; border: round $panel-lighten-2;
        border-title-color: $text-accent; border-subtitle-color: $text-muted;
        min-height: 4;
        & > .chart--axis { color: $text-muted; }
        & > .chart--bar { color: ansi_green; }
    }
    """

    def __init__(
        self, title: str, show: Callable[[float | None], str], unit: str = "", *, id: str | None = None
    ) -> None:
        """`show` formats a value; `unit` follows it if there is room."""
        super().__init__(id=id)
        self._unit = unit
        self._title = title
        self._show = show
        self._values: Sequence[float | None] = ()
        self._interval_ms = 1_000
        self._columns: list[float | None] = []
        self.notice = ""
        self.border_title = Text(title)

    def set_values(self, values: Sequence[float | None], interval_ms: int = 1_000) -> None:
        """Show these values, one per interval."""
        self._values = values
        self._interval_ms = max(1, interval_ms)
        last = values[-1] if values else None
        self.border_title = Text(f"{self._title}: {self._show(last)}{self._unit}" if values else self._title)
        self.refresh()

    def set_notice(self, text: str) -> None:
        """Set the text that is shown while there are no values."""
        self.notice = text
        if not self._values:
            self.refresh()

    @staticmethod
    def columns_of(values: Sequence[float | None], width: int) -> tuple[list[float | None], int]:
        """Return at most `width` columns, and the number of values that each stands for."""
        if not values or width <= 0:
            return [], 1
        share = -(-len(values) // width)
        columns = []
        # Backwards from the newest value, so that a full column keeps its values as new ones arrive.
        for end in range(len(values), 0, -share):
            known = [value for value in values[max(0, end - share) : end] if value is not None]
            columns.append(max(known) if known else None)
        columns.reverse()
        return columns, share

    def render_line(self, y: int) -> Strip:
        width, height = self.size
        base = self.rich_style
        axis = base + self.get_component_rich_style("chart--axis", partial=True)
        if not self._values:
            text = self.notice if y == 0 else ""
            return Strip([Segment(text, axis)]).adjust_cell_length(width, base)
        plot = width - _AXIS_WIDTH
        if y == height - 1:
            # The time of the left edge. A short history starts right of it, under its first column.
            back = f"-{duration(plot * self._share(plot) * self._interval_ms)}"
            foot = f"{back:<{max(1, plot - 3)}}now"
            return Strip([Segment(" " * _AXIS_WIDTH + foot, axis)]).adjust_cell_length(width, base)
        columns, _ = self.columns_of(self._values, plot)
        top = max((value for value in columns if value is not None), default=0.0)
        rows = height - 1
        label = self._show(top) if y == 0 else self._show(0) if y == rows - 1 else ""
        bar = base + self.get_component_rich_style("chart--bar", partial=True)
        signs = "".join(_block(value, top, rows, rows - 1 - y) for value in columns)
        return Strip(
            [Segment(f"{label[: _AXIS_WIDTH - 1]:>{_AXIS_WIDTH - 1}}▕", axis), Segment(signs.rjust(plot), bar)]
        ).adjust_cell_length(width, base)

    def _share(self, plot: int) -> int:
        return -(-len(self._values) // plot) if plot > 0 else 1


def _block(value: float | None, top: float, rows: int, row: int) -> str:
    """The character of a column in a row, 0 at the bottom. A value above 0 is always visible."""
    if value is None or top <= 0 or value <= 0:
        return " "
    eighths = max(1, round(value / top * rows * 8)) - row * 8
    return _BLOCKS[max(0, min(8, eighths))]


def spark(values: Sequence[float | None], width: int) -> Text:
    """A chart of one line."""
    columns, _ = Chart.columns_of(values, width)
    top = max((value for value in columns if value is not None), default=0.0)
    return Text("".join(_block(value, top, 1, 0) for value in columns).rjust(width), Style(color="green"))
