"""Columns of alerts."""

from __future__ import annotations

from typing import Final

from broker_cy.console.alerts.watch import FIRING, OK, PENDING, UNKNOWN, Finding
from broker_cy.reporting.column import Column, Kind
from broker_cy.reporting.tone import Tone

TONES: Final = {FIRING: Tone.BAD, PENDING: Tone.WARN, OK: Tone.GOOD, UNKNOWN: Tone.MUTED}
_ORDER: Final = {FIRING: 0, PENDING: 1, UNKNOWN: 2, OK: 3}

STATE: Final = Column[Finding](
    "state",
    "State",
    lambda row: row.state,
    tone=lambda row: TONES[row.state],
    sort=lambda row: _ORDER[row.state],
    width=8,
)
RULE: Final = Column[Finding]("rule", "Rule", lambda row: row.rule.name, width=27)
KIND: Final = Column[Finding]("kind", "Kind", lambda row: row.rule.kind, width=26)
WHAT: Final = Column[Finding]("what", "Details", lambda row: row.text or None, sorts=False, width=20)
FOR: Final = Column[Finding](
    "for", "For", lambda row: None if row.for_s is None else row.for_s * 1000, Kind.DURATION, width=9
)
