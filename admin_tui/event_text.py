"""Events of the cluster in a line each, and in full."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from admin_tui.text import clean
from broker_cy.admin.event_text import by_of, kind_of, line_of, subject_of
from broker_cy.metrics.events import BrokerStarted, Event, RecordsDeleted, TopicDeleted, TransactionTimedOut

__all__ = ["by_of", "detail_of", "kind_of", "line_of", "style_of", "subject_of"]


def detail_of(event: Event) -> str:
    """Every field."""
    return "\n".join(_lines(asdict(event), 0))


def _lines(value: Any, depth: int) -> list[str]:
    pad = "  " * depth
    lines: list[str] = []
    if isinstance(value, dict):
        for name, each in value.items():
            if isinstance(each, dict | list) and each:
                lines.append(f"{pad}{clean(str(name))}:")
                lines += _lines(each, depth + 1)
            else:
                shown = "-" if each in (None, [], {}) else clean(str(each))
                lines.append(f"{pad}{clean(str(name))}: {shown}")
    else:
        for each in value:
            if isinstance(each, dict):
                parts = ", ".join(f"{name} {'-' if one is None else one}" for name, one in each.items())
                lines.append(clean(f"{pad}- {parts}"))
            else:
                lines.append(clean(f"{pad}- {each}"))
    return lines


def style_of(event: Event) -> str:
    """The colour of what should be looked at."""
    if isinstance(event, TransactionTimedOut | TopicDeleted | RecordsDeleted):
        return "yellow"
    if isinstance(event, BrokerStarted) and (not event.clean or event.truncated_bytes):
        return "bold red"
    return ""
