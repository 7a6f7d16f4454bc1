"""The terminal colours of tones. They are among the 16 standard colours, so that they are readable with every theme."""

from __future__ import annotations

from rich.terminal_theme import MONOKAI, TerminalTheme

from broker_cy.reporting.tone import Tone

STYLES = {
    Tone.MUTED: "bright_black",
    Tone.PLAIN: "",
    Tone.NOTED: "cyan",
    Tone.GOOD: "green",
    Tone.WARN: "yellow",
    Tone.BAD: "bold red",
}

_Colour = tuple[int, int, int]
_NORMAL: list[_Colour] = [MONOKAI.ansi_colors[number] for number in range(8)]
_BRIGHT: list[_Colour] = [MONOKAI.ansi_colors[number] for number in range(9, 16)]
# The 16 colours in dark themes that do not use the terminal's own: textual's, with a bright black that can be read.
DARK = TerminalTheme(MONOKAI.background_color, MONOKAI.foreground_color, _NORMAL, [(154, 154, 154), *_BRIGHT])
