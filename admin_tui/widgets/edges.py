"""The texts in the border of a widget, which change every second (ages) while the widget itself does not."""

from __future__ import annotations

from typing import Literal

from rich.text import Text
from textual.content import Content
from textual.geometry import Region
from textual.widget import Widget


def set_edge(widget: Widget, edge: Literal["title", "subtitle"], text: Text) -> None:
    """Show `text` in the upper (title) or lower (subtitle) border.

    Textual's `border_title` draws all of the widget again, with each cell of a table; here it is one line, and nothing
    if the border already shows the text.
    """
    content = Content.from_rich_text(text)
    name = f"_border_{edge}"
    shown = getattr(widget, name, None)
    if shown is not None and shown == content and shown.spans == content.spans:
        return
    setattr(widget, name, content)
    width, height = widget.outer_size
    left, top = widget.content_offset
    # Regions count from the content.
    widget.refresh(Region(-left, (0 if edge == "title" else height - 1) - top, width, 1))
