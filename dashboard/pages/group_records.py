"""Acts on the records that a share group has in flight: release, reject and redrive them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from dash.development.base_component import Component

from broker_cy.admin.metadata import TopicPartition
from broker_cy.admin.share_records import EVERY_OFFSET, by_partition
from broker_cy.client.errors import ClientError, Failure
from broker_cy.console.acts.plan import Plan
from broker_cy.console.acts.share_records import Wanted, plan_redrive, plan_share_records, redrive_form
from broker_cy.console.columns.in_flight import RunRow
from broker_cy.console.fields import Form
from broker_cy.wire.share_operations import OperatorAction
from dashboard.acts import Act, Call, act
from dashboard.components.panel import act_button
from dashboard.pages.groups import refuse_hidden_topics
from dashboard.security.roles import Need, Role

_RUN: Final = re.compile(r"(.+)-([0-9]{1,9}) ([0-9]{1,19})-([0-9]{1,19})", re.DOTALL)


def run_id(row: RunRow) -> str:
    """Return the id of a row of records in flight: a range that has changed is no longer marked."""
    return f"{row.run.partition} {row.run.first_offset}-{row.run.last_offset}"


def wanted_of(rows: Sequence[str]) -> Wanted:
    """Return the records of marked rows. Raises ClientError."""
    found = []
    for row in rows:
        match = _RUN.fullmatch(row)
        if match is None:
            reason = f"{row[:100]!r}: a topic, - and a partition, and two offsets are expected"
            raise ClientError(Failure.INVALID, reason)
        found.append((TopicPartition(match[1], int(match[2])), int(match[3]), int(match[4])))
    return by_partition(found)


class RecordsAct(Act):
    """Base of acts on marked ranges of records in flight."""

    action: OperatorAction

    def need(self, cluster: str, params: Mapping[str, str], rows: Sequence[str]) -> Need:
        topics = tuple(sorted({key.topic for key in wanted_of(rows)}))
        return replace(super().need(cluster, params, rows), topics=topics)

    async def plan(self, call: Call, values: Mapping[str, Any]) -> Plan:
        wanted = wanted_of(call.rows)
        return await plan_share_records(call.client, call.command, call.param("group"), self.action, wanted)


@act("release-share-records", Role.OPERATOR)
class ReleaseRecords(RecordsAct):
    action = OperatorAction.RELEASE


@act("reject-share-records", Role.OPERATOR)
class RejectRecords(RecordsAct):
    action = OperatorAction.REJECT


@act("redrive-share-records", Role.OPERATOR)
class RedriveRecords(RecordsAct):
    """The form begins with the marked ranges. The user may name others, and a topic for copies."""

    action = OperatorAction.REDRIVE

    async def form(self, call: Call) -> Form:
        return redrive_form(call.param("group"), wanted_of(call.rows))

    def values_need(self, cluster: str, params: Mapping[str, str], values: Mapping[str, Any]) -> Need:
        topics = {key.topic for key in values["records"]} | ({values["topic"]} if values["topic"] else set())
        return Need(self.role, cluster, tuple(sorted(topics)))

    async def plan(self, call: Call, values: Mapping[str, Any]) -> Plan:
        return await plan_redrive(call.client, call.command, call.param("group"), values)


@act("release-member-records", Role.OPERATOR)
class ReleaseMember(Act):
    """`rows` are the id of one member."""

    async def plan(self, call: Call, values: Mapping[str, Any]) -> Plan:
        group_id = call.param("group")
        if len(call.rows) != 1:
            raise ClientError(Failure.INVALID, f"{len(call.rows)} members are marked; mark one")
        await refuse_hidden_topics(call, [group_id], "")
        offsets = (await call.client.share_offsets.describe([group_id])).whole()[group_id]
        wanted = dict.fromkeys(sorted(offsets), EVERY_OFFSET)
        return await plan_share_records(
            call.client, call.command, group_id, OperatorAction.RELEASE, wanted, call.rows[0]
        )


def record_buttons(group: str) -> list[Component]:
    """Return the buttons of the table of records in flight."""
    return [
        act_button("Release marked", "release-share-records", role=Role.OPERATOR, rows="marked", group=group),
        act_button(
            "Reject marked", "reject-share-records", role=Role.OPERATOR, destructive=True, rows="marked", group=group
        ),
        act_button("Redrive marked", "redrive-share-records", role=Role.OPERATOR, rows="marked", group=group),
        act_button("Redrive by offset", "redrive-share-records", role=Role.OPERATOR, group=group),
    ]


def member_buttons(group: str) -> list[Component]:
    """Return the buttons of the table of the members of a share group."""
    return [
        act_button(
            "Release records of marked", "release-member-records", role=Role.OPERATOR, rows="marked", group=group
        )
    ]
