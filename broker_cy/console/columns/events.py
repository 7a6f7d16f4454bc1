"""Columns of the cluster's events."""

from __future__ import annotations

from typing import Final

from broker_cy.client.event_text import by_of, kind_of, line_of, subject_of
from broker_cy.console.event_text import tone_of
from broker_cy.metrics.events import Stamped
from broker_cy.reporting.column import Column, Kind

TIME: Final = Column[Stamped]("time", "Time", lambda row: row.time_ms, Kind.TIME, sorts=False, width=23)
SUMMARY: Final = Column[Stamped](
    "event",
    "Event",
    lambda row: f"{kind_of(row.event)} {subject_of(row)}: {line_of(row.event)}",
    tone=lambda row: tone_of(row.event),
    sorts=False,
    width=20,
)
EVENT: Final = Column[Stamped](
    "event", "Event", lambda row: kind_of(row.event), tone=lambda row: tone_of(row.event), sorts=False, width=17
)
ABOUT: Final = Column[Stamped]("about", "Subject", subject_of, sort=lambda row: row.key, width=16)
HOW: Final = Column[Stamped]("how", "Details", lambda row: line_of(row.event), sorts=False, width=20)
BY: Final = Column[Stamped]("by", "By", lambda row: by_of(row.event) or None, sorts=False, width=20)
BROKER: Final = Column[Stamped]("broker", "Broker", lambda row: row.broker, Kind.NUMBER, sorts=False, width=6)
