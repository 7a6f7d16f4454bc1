"""How much attention a shown value deserves. Each console has its own colours for it."""

from __future__ import annotations

from enum import Enum


class Tone(Enum):
    """From unimportant to alarming."""

    MUTED = "muted"
    PLAIN = "plain"
    NOTED = "noted"
    GOOD = "good"
    WARN = "warn"
    BAD = "bad"
