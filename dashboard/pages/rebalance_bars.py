"""Bars of the timelines of rebalances: cause, join, sync, and the stall of each partition. The state of a timeline is
described in collector/charts.py.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from broker_cy.console.columns.rebalances import STALL_NOTED_MS, cause_of, cause_tone
from broker_cy.metrics.events import Rebalance
from broker_cy.reporting.numbers import duration
from broker_cy.reporting.tone import Tone
from dashboard.collector.patches import State
from dashboard.pages.rebalance_rows import labels, move_text, text_of

# Rows of the timeline for partitions or groups: those with the longest bars.
ROWS_MAX: Final = 25
BARS_MAX: Final = 2_000
# A bar is at least this part of the range: four pixels of a usual screen, which a pointer can hit.
_LEAST_PARTS: Final = 250
ROW_HEIGHT: Final = 24
AXIS_HEIGHT: Final = 90
_CAUSE, _JOIN, _SYNC = "rebalance", "join", "sync"
# Lines 1 to 8 of assets/style.css are the colours 0 to 7; red and brown are left to tones.
_JOIN_COLOUR, _SYNC_COLOUR, _STALL_COLOUR = 0, 5, 3
_CAUSE_COLOURS: Final = {"join": 2, "rejoin": 6, "leave": 7, "metadata": 1}
PHASE_ROWS: Final = (_CAUSE, _JOIN, _SYNC)


@dataclass(frozen=True, slots=True)
class Bar:
    """A bar of a timeline: see collector/charts.py."""

    row: str
    name: str
    from_ms: int
    to_ms: int
    text: str
    tone: Tone | None = None
    colour: int = 0
    href: str = ""

    def encoded(self) -> dict[str, Any]:
        found: dict[str, Any] = {
            "row": self.row,
            "name": self.name,
            "from": self.from_ms,
            "to": self.to_ms,
            "text": self.text,
        }
        if self.tone is None:
            found["colour"] = self.colour
        else:
            found["tone"] = self.tone.name
        if self.href:
            found["href"] = self.href
        return found


def timeline(bars: Sequence[Bar], rows: Sequence[str], from_ms: int, to_ms: int, note: str = "") -> State:
    """Return the state of a timeline with the newest BARS_MAX bars."""
    least_ms = max(1, (to_ms - from_ms) // _LEAST_PARTS)
    if any(bar.to_ms - bar.from_ms < least_ms for bar in bars):
        note = f"{note}{'; ' if note else ''}bars of less than {duration(least_ms)} are drawn that long"
    newest = sorted(bars, key=lambda bar: bar.from_ms)[-BARS_MAX:]
    # By row, so that the legend always has the same order.
    places = {row: at for at, row in enumerate(rows)}
    newest.sort(key=lambda bar: places[bar.row])
    return {
        "order": list(rows),
        "bars": [bar.encoded() for bar in newest],
        "from_ms": from_ms,
        "to_ms": to_ms,
        "least_ms": least_ms,
        "height": ROW_HEIGHT * max(3, len(rows)) + AXIS_HEIGHT,
        "note": note,
    }


def phase_bars(event: Rebalance, href: str = "") -> list[Bar]:
    """Return the bars of cause, join and sync of one rebalance."""
    text, cause, started_ms = text_of(event), cause_of(event), event.started_ms
    joined_ms = started_ms + event.join_ms
    tone = Tone.WARN if cause_tone(cause) is Tone.WARN else None
    name = f"cause: {cause}"
    return [
        Bar(_CAUSE, name, started_ms, started_ms + event.total_ms, text, tone, _CAUSE_COLOURS.get(cause, 6), href),
        Bar(_JOIN, _JOIN, started_ms, joined_ms, text, None, _JOIN_COLOUR, href),
        Bar(_SYNC, _SYNC, joined_ms, joined_ms + event.sync_ms, text, None, _SYNC_COLOUR, href),
    ]


def stall_bars(event: Rebalance, rows: Mapping[str, str], href: str = "") -> list[Bar]:
    """Return the stall of each partition in `rows` (label by partition): it ended with the rebalance."""
    end_ms = event.started_ms + event.total_ms
    found = []
    for move in event.moves:
        row = rows.get(f"{move.topic}-{move.partition}")
        if row is not None and move.stall_ms > 0:
            is_long = move.stall_ms > STALL_NOTED_MS
            name = f"stall over {duration(STALL_NOTED_MS)}" if is_long else "stall"
            found.append(
                Bar(
                    row,
                    name,
                    end_ms - move.stall_ms,
                    end_ms,
                    move_text(move),
                    Tone.BAD if is_long else None,
                    _STALL_COLOUR,
                    href,
                )
            )
    return found


def stalled_partitions(events: Iterable[Rebalance]) -> tuple[dict[str, str], int]:
    """Return labels of the ROWS_MAX partitions that stalled for longest, the longest first, and how many stalled."""
    stalls: Counter[str] = Counter()
    for event in events:
        for move in event.moves:
            if move.stall_ms > 0:
                stalls[f"{move.topic}-{move.partition}"] += move.stall_ms
    return labels([name for name, _ in stalls.most_common(ROWS_MAX)]), len(stalls)
