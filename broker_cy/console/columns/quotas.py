"""Columns of quotas and of their use."""

from __future__ import annotations

from typing import Final

from broker_cy.console.quotas import QuotaRow, QuotaUse, shown_quota
from broker_cy.reporting.column import Column, Kind
from broker_cy.reporting.numbers import UNKNOWN, duration, percent
from broker_cy.reporting.tone import Tone

# A share of a limit that deserves attention.
_NEAR: Final = 0.8


def _used_tone(row: QuotaUse) -> Tone:
    share = row.share
    return Tone.PLAIN if share is None or share < _NEAR else Tone.BAD if share >= 1 else Tone.WARN


def _throttled_tone(row: QuotaUse) -> Tone:
    return Tone.BAD if row.waits else Tone.PLAIN


ENTITY: Final = Column[QuotaRow]("whose", "Entity", lambda row: row.whose, width=24)
QUOTA: Final = Column[QuotaRow]("key", "Quota", lambda row: row.key, width=24)
VALUE: Final = Column[QuotaRow](
    "value", "Value", lambda row: row.value, Kind.RATE, text=lambda row: shown_quota(row.key, row.value), width=14
)

USE_ENTITY: Final[Column[QuotaUse]] = ENTITY.by(lambda row: row.whose)
USE_QUOTA: Final[Column[QuotaUse]] = QUOTA.by(lambda row: row.key)
BROKER: Final = Column[QuotaUse]("broker", "Broker", lambda row: row.broker, Kind.NUMBER, width=6)
RATE: Final = Column[QuotaUse](
    "rate",
    "Rate",
    lambda row: row.rate,
    Kind.RATE,
    text=lambda row: UNKNOWN if row.rate is None else shown_quota(row.key, row.rate),
    sort=lambda row: row.rate or 0.0,
    width=11,
)
LIMIT: Final = Column[QuotaUse](
    "limit", "Limit", lambda row: row.limit, Kind.RATE, text=lambda row: shown_quota(row.key, row.limit), width=11
)
USED: Final = Column[QuotaUse](
    "used",
    "Used",
    lambda row: row.share,
    Kind.RATE,
    text=lambda row: UNKNOWN if row.share is None else percent(row.share, 1),
    tone=_used_tone,
    sort=lambda row: row.share or 0.0,
    hint="Share of the limit",
    width=6,
)
THROTTLED: Final = Column[QuotaUse](
    "waits", "Throttled", lambda row: row.waits, Kind.COUNT, hint="Throttled requests", width=9
)
THROTTLE_TIME: Final = Column[QuotaUse](
    "waited",
    "Throttle time",
    lambda row: row.waited_ms,
    Kind.DURATION,
    text=lambda row: duration(row.waited_ms) if row.waits else UNKNOWN,
    tone=_throttled_tone,
    width=14,
)
