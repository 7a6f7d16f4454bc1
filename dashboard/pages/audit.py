"""The audit page, for admins: the user, address, act and result of every entry, and the denied requests.

Entries name topics and groups of all users, so admins whose account is limited to some see none. Entries about other
clusters than those of the account are left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from dash.development.base_component import Component

from broker_cy.client.errors import ClientError, Failure
from broker_cy.console.figures import Fact
from broker_cy.console.listeners import Source
from broker_cy.reporting.foreign_text import clean
from broker_cy.reporting.numbers import count
from broker_cy.reporting.tone import Tone
from dashboard.collector.channel import Cell, Channel, Column, FactsChannel, TableChannel, channel
from dashboard.collector.holdings import sees_all_subjects
from dashboard.collector.patches import State
from dashboard.collector.ticks import Ticks
from dashboard.components.panel import panel, table
from dashboard.components.shell import shell
from dashboard.context import Context, Page
from dashboard.security.audit import RECENT_MAX, Audit, Entry
from dashboard.security.roles import Role

# The log is in memory, so looking often costs little.
LOOK_S = 1.0


class _OfAudit(Channel):
    """Channels of the audit log. They raise ClientError if there is no log, or the account is limited."""

    ROLE = Role.ADMIN

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._ticks = Ticks(LOOK_S)

    def sources(self) -> Sequence[Source]:
        return [self._ticks]

    async def state(self) -> State | None:
        if not sees_all_subjects(self.scope):
            raise ClientError(
                Failure.REFUSED, "the audit log is about all topics and groups; your account sees only some"
            )
        return await super().state()

    @property
    def audit(self) -> Audit:
        if self.hub.audit is None:
            raise ClientError(Failure.INVALID, "this dashboard has no audit log")
        return self.hub.audit


def _result(row: Entry) -> Cell:
    text = clean(row.result) or "-"
    if row.result.startswith("refused"):
        return Cell(text, Tone.WARN)
    return Cell(text, Tone.BAD if row.result.startswith("failed") else Tone.PLAIN)


@channel("audit")
class AuditEntries(_OfAudit, TableChannel[tuple[int, Entry]]):
    """The newest entries, newest first, each with its number."""

    COLUMNS = (
        Column("time", "Time", lambda row: f"@{row[1].time_ms}", width=200, is_time=True),
        Column("user", "User", lambda row: clean(row[1].user) or "-", lambda row: row[1].user, width=120),
        Column("address", "Address", lambda row: clean(row[1].address) or "-", lambda row: row[1].address, width=130),
        Column("cluster", "Cluster", lambda row: clean(row[1].cluster) or "-", lambda row: row[1].cluster, width=130),
        Column("act", "Act", lambda row: clean(row[1].act), lambda row: row[1].act, width=150),
        Column("subject", "Subject", lambda row: clean(row[1].subject) or "-", width=200),
        Column("command", "Command", lambda row: clean(row[1].command) or "-", width=280, is_flex=True),
        Column("result", "Result", lambda row: _result(row[1]), lambda row: row[1].result, width=220),
    )

    def rows(self) -> Iterable[tuple[int, Entry]] | None:
        entries = self.audit.recent(RECENT_MAX)
        return [
            (number, each)
            for number, each in enumerate(entries)
            if not each.cluster or self.scope.sees_cluster(each.cluster)
        ]

    def row_id(self, row: tuple[int, Entry]) -> str:
        return f"{row[1].time_ms} {row[0]:06}"

    def row_text(self, row: tuple[int, Entry]) -> str:
        each = row[1]
        return f"{each.user} {each.address} {each.cluster} {each.act} {each.subject} {each.command} {each.result}"


@channel("audit-state")
class AuditState(_OfAudit, FactsChannel):
    """Whether all entries were written to the file."""

    def facts(self) -> Sequence[Fact] | None:
        audit = self.audit
        facts = [
            Fact("file", clean(str(audit.path))),
            Fact("entries lost", count(audit.lost), Tone.BAD if audit.lost else Tone.GOOD),
        ]
        if audit.problem:
            facts.append(Fact("last problem", clean(audit.problem), Tone.BAD))
        return facts


def layout(context: Context, cluster: str, **_: str) -> Component:
    return shell(
        context,
        cluster,
        "audit",
        "Audit",
        [
            panel("Audit log", "audit-state", "facts", cluster=cluster),
            table(
                "Entries",
                "audit",
                AuditEntries.COLUMNS,
                cluster=cluster,
                noun="record",
                note=f"Newest first, at most {RECENT_MAX:,} of the clusters that you may see; the file has older ones.",
                empty="Nothing was done yet.",
            ),
        ],
    )


PAGE = Page("audit", "Audit", layout, role=Role.ADMIN)
