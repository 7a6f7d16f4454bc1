"""Names and values in as many columns as fit."""

from __future__ import annotations

from collections.abc import Sequence

from rich.cells import cell_len
from rich.text import Text
from textual.widget import Widget

from admin_tui.tones import STYLES
from broker_cy.console import figures
from broker_cy.reporting.foreign_text import clean
from broker_cy.reporting.tone import Tone

Fact = tuple[str, str] | tuple[str, str, str]
_GAP = 3


def toned(facts: Sequence[figures.Fact]) -> list[Fact]:
    """Return facts of the console core with the terminal's colours; facts that deserve no attention are bold."""
    return [
        (name, clean(value), "bold" if tone is Tone.PLAIN else f"bold {STYLES[tone].removeprefix('bold ')}")
        for name, value, tone in facts
    ]


class Facts(Widget):
    """Facts: (name, value) or (name, value, style)."""

    DEFAULT_CSS = """
    Facts {
        height: auto; border: round $panel-lighten-2;
        border-title-color: $text-accent; border-subtitle-color: $text-muted;
        min-height: 3;
    }
    """

    def __init__(self, title: str = "", *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._facts: Sequence[Fact] = ()
        self._notice = ""
        if title:
            self.border_title = Text(title)

    def set_facts(self, facts: Sequence[Fact]) -> None:
        """Show these facts."""
        is_same_height = len(facts) == len(self._facts)
        self._facts = facts
        self.refresh(layout=not is_same_height)

    def set_notice(self, text: str) -> None:
        """Set the text that is shown while there are none."""
        if text != self._notice:
            self._notice = text
            if not self._facts:
                self.refresh(layout=True)

    def _columns(self, width: int) -> int:
        widest = max((cell_len(fact[0]) + 1 + cell_len(fact[1]) for fact in self._facts), default=1)
        # A long value is truncated, because it would widen all columns.
        usual = min(widest, 34)
        return max(1, min(len(self._facts) or 1, (width + _GAP) // (usual + _GAP)))

    def get_content_height(self, container: object, viewport: object, width: int) -> int:
        columns = self._columns(width)
        return max(1, -(-len(self._facts) // columns))

    def render(self) -> Text:
        width = self.size.width
        if not self._facts:
            return Text(self._notice)
        columns = self._columns(width)
        rows = -(-len(self._facts) // columns)
        if rows > self.size.height:
            return self._in_turn(width)
        room = (width + _GAP) // columns - _GAP
        text = Text(no_wrap=True, overflow="ellipsis")
        for row in range(rows):
            line = Text()
            for column in range(columns):
                at = column * rows + row
                if at >= len(self._facts):
                    continue
                fact = self._facts[at]
                cell = Text()
                cell.append(fact[0] + " ", "bright_black")
                cell.append(fact[1], fact[2] if len(fact) > 2 else "bold")
                cell.truncate(room, overflow="ellipsis", pad=True)
                line.append_text(cell)
                line.append(" " * _GAP)
            line.truncate(width)
            text.append_text(line)
            if row < rows - 1:
                text.append("\n")
        return text

    def _in_turn(self, width: int) -> Text:
        """Return the facts one after the other. More of them fit than in columns, which are as wide as a long value."""
        lines: list[Text] = []
        for name, value, *style in self._facts:
            cell = Text.assemble((f"{name} ", "bright_black"), (value, style[0] if style else "bold"))
            if lines and lines[-1].cell_len + _GAP + cell.cell_len <= width:
                lines[-1].append(" " * _GAP).append_text(cell)
            else:
                lines.append(cell)
        return Text("\n", no_wrap=True, overflow="ellipsis").join(lines)
