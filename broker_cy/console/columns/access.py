"""Columns of ACLs, denied requests, SCRAM users and delegation tokens."""

from __future__ import annotations

from typing import Final

from broker_cy.admin.scram_users import ScramCredential
from broker_cy.console.denials import Denial
from broker_cy.reporting.column import Column, Kind
from broker_cy.reporting.tone import Tone
from broker_cy.security.acl_words import resource_text, shown_resource, word_of
from broker_cy.security.acls import Binding, Permission

RESOURCE: Final = Column[Binding]("resource", "Resource", shown_resource, width=22)
NAME: Final[Column[Binding]] = RESOURCE.by(lambda row: resource_text(row.resource_type, row.name))
PATTERN: Final = Column[Binding]("pattern", "Pattern", lambda row: word_of(row.pattern_type))
PERMISSION: Final = Column[Binding](
    "permission",
    "Permission",
    lambda row: word_of(row.permission),
    tone=lambda row: Tone.BAD if row.permission is Permission.DENY else Tone.GOOD,
)
PRINCIPAL: Final = Column[Binding]("principal", "Principal", lambda row: row.principal, width=20)
OPERATION: Final = Column[Binding]("operation", "Operation", lambda row: word_of(row.operation), width=17)
HOST: Final = Column[Binding]("host", "Host", lambda row: row.host, width=12)

DENIED_TIME: Final = Column[Denial]("time", "Time", lambda row: row.time_ms, Kind.TIME, sorts=False, width=23)
DENIED_PRINCIPAL: Final = Column[Denial](
    "who", "Principal", lambda row: row.who, hint="Principal, or the name that a login gave", width=16
)
DENIED_HOST: Final[Column[Denial]] = HOST.by(lambda row: row.host)
DENIED_OPERATION: Final = Column[Denial]("what", "Operation", lambda row: row.what, width=22)
DENIED_COUNT: Final = Column[Denial](
    "times", "Count", lambda row: row.times, Kind.COUNT, hint="Equal denials within ten seconds", width=6
)
DENIED_REASON: Final = Column[Denial]("why", "Reason", lambda row: row.why, sorts=False, width=20)

USER: Final = Column[ScramCredential]("user", "User", lambda row: row.user, width=24)
MECHANISM: Final = Column[ScramCredential]("mechanism", "Mechanism", lambda row: row.mechanism, width=16)
ITERATIONS: Final = Column[ScramCredential]("iterations", "Iterations", lambda row: row.iterations, Kind.COUNT)
