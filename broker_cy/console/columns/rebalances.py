"""Columns of rebalances and static replacements."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from broker_cy.metrics.events import Rebalance, Stamped, StaticReplacement, Trigger
from broker_cy.reporting.column import Column, Kind
from broker_cy.reporting.foreign_text import clean
from broker_cy.reporting.numbers import UNKNOWN
from broker_cy.reporting.tone import Tone

# A longer stall of a partition is marked.
STALL_NOTED_MS: Final = 5_000
UNKNOWN_CAUSE: Final = "unknown cause"


def cause_of(event: Rebalance | StaticReplacement) -> str:
    """Return the reasons, each once: `join, session timeout`."""
    if isinstance(event, StaticReplacement):
        return "static replacement"
    reasons = dict.fromkeys(trigger.reason.replace("_", " ") for trigger in event.triggers)
    return clean(", ".join(reasons)) or UNKNOWN_CAUSE


def cause_tone(cause: str) -> Tone:
    return Tone.WARN if "timeout" in cause or "failed" in cause else Tone.PLAIN


def member_of(trigger: Trigger) -> str:
    return clean(trigger.client_id or trigger.instance_id or trigger.member_id or UNKNOWN)


def who_of(event: Rebalance | StaticReplacement) -> str:
    """Return the client, instance or member that caused it: the first of several."""
    if isinstance(event, StaticReplacement):
        return clean(event.instance_id or event.client_id or event.new_member_id)
    return member_of(event.triggers[0]) if event.triggers else UNKNOWN


def host_of(event: Rebalance | StaticReplacement) -> str:
    host = event.host if isinstance(event, StaticReplacement) else event.triggers[0].host if event.triggers else ""
    return clean(host.lstrip("/") or UNKNOWN)


def _event(row: Stamped) -> Rebalance | StaticReplacement:
    assert isinstance(row.event, Rebalance | StaticReplacement)
    return row.event


def _members(row: Stamped) -> str | None:
    event = row.event
    return f"{event.members_before} → {event.members_after}" if isinstance(event, Rebalance) else None


def _of_moves(name: str) -> Callable[[Stamped], int | None]:
    """Like `_of`, for rebalances whose moves are observed."""
    return lambda row: getattr(row.event, name) if isinstance(row.event, Rebalance) and row.event.has_moves else None


def _kept(row: Stamped) -> int | None:
    kept = _of_moves("kept")(row)
    return None if kept is None or kept < 0 else int(kept)


def _of(name: str) -> Callable[[Stamped], int | None]:
    return lambda row: getattr(row.event, name, None)


def _stall_tone(row: Stamped) -> Tone:
    is_long = isinstance(row.event, Rebalance) and row.event.stall_max_ms > STALL_NOTED_MS
    return Tone.BAD if is_long else Tone.PLAIN


TIME: Final = Column[Stamped]("time", "Time", lambda row: row.time_ms, Kind.TIME, width=23)
GROUP: Final = Column[Stamped]("group", "Group", lambda row: row.event.key, width=12)
GENERATION: Final = Column[Stamped]("generation", "Generation", _of("generation"), Kind.COUNT, sorts=False)
CAUSE: Final = Column[Stamped](
    "cause", "Cause", lambda row: cause_of(_event(row)), tone=lambda row: cause_tone(cause_of(_event(row))), width=15
)
MEMBER: Final = Column[Stamped](
    "member", "Member", lambda row: who_of(_event(row)), hint="The first that caused it", width=12
)
HOST: Final = Column[Stamped]("host", "Host", lambda row: host_of(_event(row)), width=12)
MEMBERS: Final = Column[Stamped](
    "members", "Members", _members, Kind.NUMBER, sorts=False, hint="Before and after", width=7
)
JOIN: Final = Column[Stamped](
    "join", "Join", _of("join_ms"), Kind.DURATION, hint="Time until all members had joined", width=8
)
SYNC: Final = Column[Stamped](
    "sync", "Sync", _of("sync_ms"), Kind.DURATION, hint="Time until the assignment was computed and stored", width=8
)
TOTAL: Final = Column[Stamped]("total", "Total", _of("total_ms"), Kind.DURATION, width=8)
MOVED: Final = Column[Stamped](
    "moved",
    "Moved",
    _of_moves("moves_total"),
    Kind.COUNT,
    hint="Partitions that changed their owner, or were not read for a while",
    width=6,
)
KEPT: Final = Column[Stamped](
    "kept", "Kept", _kept, Kind.COUNT, sorts=False, hint="Partitions that were read without interruption", width=6
)
LONGEST_STALL: Final = Column[Stamped](
    "stall", "Longest stall", _of_moves("stall_max_ms"), Kind.DURATION, tone=_stall_tone, width=13
)
