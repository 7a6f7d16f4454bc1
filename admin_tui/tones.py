"""The terminal colours of tones. They are among the 16 standard colours, so that they are readable with every theme."""

from __future__ import annotations

from broker_cy.reporting.tone import Tone

STYLES = {
    Tone.MUTED: "bright_black",
    Tone.PLAIN: "",
    Tone.NOTED: "cyan",
    Tone.GOOD: "green",
    Tone.WARN: "yellow",
    Tone.BAD: "bold red",
}
