"""Rebalances as both of their pages show them, reduced to the part that a viewer may see."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from broker_cy.client.event_text import origin_of
from broker_cy.console.columns.rebalances import STALL_NOTED_MS, UNKNOWN_CAUSE
from broker_cy.metrics.events import Move, Rebalance, Stamped
from broker_cy.reporting.foreign_text import clean
from broker_cy.reporting.numbers import UNKNOWN, duration, plural
from broker_cy.reporting.tone import Tone
from dashboard.collector.channel import Cell
from dashboard.collector.seen_events import shown_to
from dashboard.security.roles import Scope

# Characters of a name beside a timeline; the middle of longer ones is left out.
LABEL_CHARACTERS_MAX: Final = 30
# Triggers that the text of a bar lists.
_TRIGGERS_LISTED: Final = 4


def seen_rebalances(found: Iterable[Stamped], scope: Scope) -> list[Stamped]:
    """Return the events of groups that are visible, each as shown_to returns it."""
    return [shown_to(each, scope) for each in found if scope.sees_group(each.event.key)]


def stall_cell(stall_ms: int) -> Cell:
    """A stall; the partition of a negative one had no owner before."""
    if stall_ms < 0:
        return Cell("no owner before", Tone.MUTED)
    return Cell(duration(stall_ms), Tone.BAD if stall_ms > STALL_NOTED_MS else Tone.PLAIN)


def text_of(event: Rebalance) -> str:
    """Return the text of a bar, in lines."""
    triggers = [
        f"{trigger.reason.replace('_', ' ')}: {origin_of(trigger) or UNKNOWN} {trigger.host.lstrip('/')}".rstrip()
        for trigger in event.triggers[:_TRIGGERS_LISTED]
    ]
    if len(event.triggers) > _TRIGGERS_LISTED:
        triggers.append(f"and {plural(len(event.triggers) - _TRIGGERS_LISTED, 'trigger')} more")
    lines = [
        f"{event.group}, generation {event.generation}",
        *(triggers or [UNKNOWN_CAUSE]),
        f"{event.members_before} -> {plural(event.members_after, 'member')}",
        f"{duration(event.total_ms)}: join {duration(event.join_ms)}, sync {duration(event.sync_ms)}",
    ]
    if event.has_moves:
        lines.append(f"{plural(event.moves_total, 'partition')} moved, longest stall {duration(event.stall_max_ms)}")
    return "\n".join(map(clean, lines))


def move_text(move: Move) -> str:
    return "\n".join(
        map(
            clean,
            (
                f"{move.topic}-{move.partition}: stall {duration(move.stall_ms)}",
                f"from {move.source or 'no member'}",
                f"to {move.target or 'no member'}",
            ),
        )
    )


def labels(names: Sequence[str]) -> dict[str, str]:
    """Return a short label for each name; no two are the same."""
    found: dict[str, str] = {}
    used: set[str] = set()
    for name in names:
        text = clean(name)
        if len(text) > LABEL_CHARACTERS_MAX:
            half = LABEL_CHARACTERS_MAX // 2
            text = f"{text[:half]}…{text[-half:]}"
        label = clean(name) if text in used else text
        used.add(label)
        found[name] = label
    return found
