"""Numbers, times and foreign text: as every console shows them."""

from __future__ import annotations

from broker_cy.admin.text import (
    age,
    clean,
    clean_lines,
    count,
    duration,
    micros,
    percent,
    plural,
    short,
    size,
    when,
)

__all__ = [
    "age",
    "clean",
    "clean_lines",
    "count",
    "duration",
    "micros",
    "percent",
    "plural",
    "short",
    "size",
    "when",
]
