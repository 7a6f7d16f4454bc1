"""Columns of delegation tokens."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from broker_cy.admin.tokens import DelegationToken
from broker_cy.console.acts.tokens import is_for_ever, token_time
from broker_cy.console.session import now_ms
from broker_cy.reporting.column import Column, Kind
from broker_cy.reporting.tone import Tone


def _time(key: str, title: str, ms: Callable[[DelegationToken], int]) -> Column[DelegationToken]:
    """A time; `never` for the largest times."""
    return Column(
        key,
        title,
        lambda row: None if is_for_ever(ms(row)) else ms(row),
        Kind.TIME,
        text=lambda row: token_time(ms(row)),
        sort=ms,
        width=19,
    )


TOKEN_ID: Final = Column[DelegationToken]("id", "Id", lambda row: row.token_id, width=22)
OWNER: Final = Column[DelegationToken]("owner", "Owner", lambda row: row.owner, width=14)
REQUESTER: Final = Column[DelegationToken]("requester", "Requester", lambda row: row.requester, width=14)
RENEWERS: Final = Column[DelegationToken](
    "renewers", "Renewers", lambda row: ", ".join(row.renewers) or None, sort=lambda row: row.renewers, width=16
)
ISSUED: Final = _time("issued", "Issued", lambda row: row.issued_ms)
EXPIRES: Final = Column[DelegationToken](
    "expires",
    "Expires",
    lambda row: None if is_for_ever(row.expires_ms) else row.expires_ms,
    Kind.TIME,
    text=lambda row: token_time(row.expires_ms),
    tone=lambda row: Tone.BAD if row.expires_ms <= now_ms() else Tone.PLAIN,
    sort=lambda row: row.expires_ms,
    width=19,
)
END_OF_LIFE: Final = _time("max", "End of life", lambda row: row.max_ms)
