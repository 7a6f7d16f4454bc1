"""A picture of the screen as SVG that loads nothing from other hosts, and the directory in which it is saved."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from html import escape
from itertools import count
from pathlib import Path

from rich.color import Color
from rich.style import Style
from rich.terminal_theme import DIMMED_MONOKAI
from textual.strip import Strip

# The height of a line of the usual monospace fonts at this size: higher cells leave gaps in frames and bars.
_FONT_SIZE = 13
_CELL_WIDTH, _CELL_HEIGHT, _BASELINE = 8, 15, 12
_DEFAULT = Style.parse("#e0e0e0 on #121212")


def _hex(color: Color | None, *, foreground: bool) -> str:
    chosen = color or (_DEFAULT.color if foreground else _DEFAULT.bgcolor)
    assert chosen is not None
    return chosen.get_truecolor(DIMMED_MONOKAI, foreground=foreground).hex


def _escaped(text: str) -> str:
    # A browser collapses consecutive spaces.
    return escape(text).replace(" ", "\N{NO-BREAK SPACE}")


def svg_of(strips: Sequence[Strip], width: int) -> str:
    """A picture of the screen: one text for each run of a style, and a rectangle where the background differs.

    Textual's own picture draws a window around the screen, loads a font from another host, and has random names.
    """
    height = len(strips)
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width * _CELL_WIDTH} {height * _CELL_HEIGHT}" '
        f'font-family="monospace" font-size="{_FONT_SIZE}">',
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
                look = f'{span} fill="{ink}"{weight}{line}'
                lines.append(f'<text x="{x}" y="{y + _BASELINE}" {look}>{_escaped(segment.text)}</text>')
            column += cells
    return "\n".join([*lines, "</svg>", ""])


def pictures_directory() -> Path:
    """Return the user's pictures directory: $XDG_PICTURES_DIR, otherwise that of user-dirs.dirs (xdg-user-dirs); the
    home directory if neither is set, or the directory does not exist.
    """
    home = Path.home()
    named = os.environ.get("XDG_PICTURES_DIR") or _in_user_dirs(home)
    if named:
        path = Path(named.replace("$HOME", str(home), 1))
        if path.is_absolute() and path.is_dir():
            return path
    return home


def _in_user_dirs(home: Path) -> str:
    config = Path(os.environ.get("XDG_CONFIG_HOME") or home / ".config")
    try:
        text = (config / "user-dirs.dirs").read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return ""
    found = re.search(r'^XDG_PICTURES_DIR="(.*)"$', text, re.MULTILINE)
    return found[1] if found else ""


def save(svg: str, directory: Path, stamp: str) -> Path:
    """Write a picture to a new file and return its path. Raises OSError."""
    for number in count(1):
        path = directory / f"broker-tui-{stamp}{'' if number == 1 else f'-{number}'}.svg"
        try:
            with path.open("x", encoding="utf-8") as file:
                file.write(svg)
        except FileExistsError:
            continue
        return path
    raise AssertionError("count ends")
