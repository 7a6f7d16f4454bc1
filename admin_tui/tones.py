"""The colours of tones in the terminal. They are among its 16, so that they can be read with every theme."""

from __future__ import annotations

from broker_cy.console.tone import Tone

STYLES = {
    Tone.MUTED: "bright_black",
    Tone.PLAIN: "",
    Tone.NOTED: "cyan",
    Tone.GOOD: "green",
    Tone.WARN: "yellow",
    Tone.BAD: "bold red",
}
