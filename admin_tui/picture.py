"""A picture of the screen as SVG that needs no font or style of another host."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from rich.color import Color
from rich.style import Style
from rich.terminal_theme import DIMMED_MONOKAI
from textual.strip import Strip

_CELL_WIDTH, _CELL_HEIGHT = 8, 17
_DEFAULT = Style.parse("#e0e0e0 on #121212")


def _hex(color: Color | None, *, foreground: bool) -> str:
    chosen = color or (_DEFAULT.color if foreground else _DEFAULT.bgcolor)
    assert chosen is not None
    return chosen.get_truecolor(DIMMED_MONOKAI, foreground=foreground).hex


def _escaped(text: str) -> str:
    # Blanks in a row are one to a browser.
    return escape(text).replace(" ", "\N{NO-BREAK SPACE}")


def svg_of(strips: Sequence[Strip], width: int) -> str:
    """A picture of what is on the screen: one text, and one ground where it is not the usual, for each run of a style.

    Textual's own has the style sheet of a window around it, whose font it loads, and names made by chance.
    """
    height = len(strips)
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width * _CELL_WIDTH} {height * _CELL_HEIGHT}" '
        f'font-family="monospace" font-size="13">',
        f'<rect width="100%" height="100%" fill="{_hex(None, foreground=False)}"/>',
    ]
    for row, strip in enumerate(strips):
        column = 0
        for segment in strip.simplify():
            style = segment.style or Style()
            ink, ground = _hex(style.color, foreground=True), _hex(style.bgcolor, foreground=False)
            if style.reverse:
                ink, ground = ground, ink
            x, y = column * _CELL_WIDTH, row * _CELL_HEIGHT
            cells = segment.cell_length
            if ground != _hex(None, foreground=False):
                size = f'width="{cells * _CELL_WIDTH}" height="{_CELL_HEIGHT}"'
                lines.append(f'<rect x="{x}" y="{y}" {size} fill="{ground}"/>')
            if segment.text.strip():
                weight = ' font-weight="bold"' if style.bold else ""
                line = ' text-decoration="underline"' if style.underline else ""
                span = f'textLength="{cells * _CELL_WIDTH}"'
                lines.append(
                    f'<text x="{x}" y="{y + 13}" {span} fill="{ink}"{weight}{line}>{_escaped(segment.text)}</text>'
                )
            column += cells
    return "\n".join([*lines, "</svg>", ""])
