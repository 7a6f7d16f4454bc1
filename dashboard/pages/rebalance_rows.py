"""Rebalances as both of their pages show them, reduced to the part that a viewer may see."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from broker_cy.metrics.events import Move, Rebalance, Stamped, StaticReplacement, Trigger
from broker_cy.reporting.foreign_text import clean
from broker_cy.reporting.numbers import duration, plural
from broker_cy.reporting.tone import Tone
from dashboard.collector.channel import Cell
from dashboard.collector.seen_events import shown_to
from dashboard.security.roles import Scope

# A longer stall of a partition deserves attention.
STALL_NOTED_MS: Final = 5_000
# Characters of a name beside a timeline; the middle of longer ones is left out.
LABEL_CHARACTERS_MAX: Final = 30
UNKNOWN_CAUSE: Final = "unknown cause"
# Triggers that the text of a bar lists.
_TRIGGERS_LISTED: Final = 4


def seen_rebalances(found: Iterable[Stamped], scope: Scope) -> list[Stamped]:
    """Return the events of groups that are visible, each as shown_to returns it."""
    return [shown_to(each, scope) for each in found if scope.sees_group(each.event.key)]


def cause_of(event: Rebalance | StaticReplacement) -> str:
    """Return the reasons, each once: `join, session timeout`."""
    if isinstance(event, StaticReplacement):
        return "static replacement"
    reasons = dict.fromkeys(trigger.reason.replace("_", " ") for trigger in event.triggers)
    return clean(", ".join(reasons)) or UNKNOWN_CAUSE


def cause_tone(cause: str) -> Tone:
    return Tone.WARN if "timeout" in cause or "failed" in cause else Tone.PLAIN


def who_of(event: Rebalance | StaticReplacement) -> str:
    """Return the client, instance or member that caused it: the first of several."""
    if isinstance(event, StaticReplacement):
        return clean(event.instance_id or event.client_id or event.new_member_id)
    return member_of(event.triggers[0]) if event.triggers else "-"


def member_of(trigger: Trigger) -> str:
    return clean(trigger.client_id or trigger.instance_id or trigger.member_id or "-")


def host_of(event: Rebalance | StaticReplacement) -> str:
    host = event.host if isinstance(event, StaticReplacement) else event.triggers[0].host if event.triggers else ""
    return clean(host.lstrip("/") or "-")


def stall_cell(stall_ms: int) -> Cell:
    """A stall; the partition of a negative one had no owner before."""
    if stall_ms < 0:
        return Cell("no owner before", Tone.MUTED)
    return Cell(duration(stall_ms), Tone.BAD if stall_ms > STALL_NOTED_MS else Tone.PLAIN)


def text_of(event: Rebalance) -> str:
    """Return the text of a bar, in lines."""
    triggers = [
        f"{trigger.reason.replace('_', ' ')}: {member_of(trigger)} {trigger.host.lstrip('/')}".rstrip()
        for trigger in event.triggers[:_TRIGGERS_LISTED]
    ]
    if len(event.triggers) > _TRIGGERS_LISTED:
        triggers.append(f"and {plural(len(event.triggers) - _TRIGGERS_LISTED, 'trigger')} more")
    lines = [
        f"{event.group}, generation {event.generation}",
        *(triggers or [UNKNOWN_CAUSE]),
        f"{event.members_before} -> {plural(event.members_after, 'member')}",
        f"{duration(event.total_ms)}: join {duration(event.join_ms)}, sync {duration(event.sync_ms)}",
        f"{plural(event.moves_total, 'partition')} moved, longest stall {duration(event.stall_max_ms)}",
    ]
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
