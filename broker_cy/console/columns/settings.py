"""Columns of the settings of a topic, a broker or a group."""

from __future__ import annotations

from typing import Final

from broker_cy.admin.configs import ConfigEntry
from broker_cy.console.acts.configs import is_own, shown_value, source_text
from broker_cy.reporting.column import Column
from broker_cy.reporting.tone import Tone


def _tone(row: ConfigEntry) -> Tone:
    return Tone.GOOD if is_own(row) else Tone.MUTED if row.is_read_only else Tone.PLAIN


SETTING: Final = Column[ConfigEntry]("name", "Setting", lambda row: row.name, width=38)
VALUE: Final = Column[ConfigEntry](
    "value", "Value", shown_value, tone=_tone, sort=lambda row: row.value or "", width=20
)
SOURCE: Final = Column[ConfigEntry](
    "source",
    "Source",
    lambda row: source_text(row.source),
    sort=lambda row: row.source,
    hint="Where the value comes from: the topic, the broker, all brokers, the file, or the default",
    width=11,
)
