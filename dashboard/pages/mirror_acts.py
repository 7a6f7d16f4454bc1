"""Acts on mirror topics of links: pause, resume, promote."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from broker_cy.client.errors import ClientError, Failure
from broker_cy.console.acts.mirrors import plan_pause, plan_promote
from broker_cy.console.acts.plan import Plan
from dashboard.acts import Act, Call, act
from dashboard.security.roles import Need, Role


class OnMirrors(Act):
    """Acts on the topics of the marked partitions, whose ids are such as orders-3."""

    def need(self, cluster: str, params: Mapping[str, str], rows: Sequence[str]) -> Need:
        return Need(self.role, cluster, tuple(_topics(rows)), ())


def _topics(rows: Sequence[str]) -> list[str]:
    """Return the topics of partitions. Raises ClientError."""
    names = list(dict.fromkeys(row.rpartition("-")[0] for row in rows))
    if not names or not all(names):
        raise ClientError(Failure.INVALID, "no partition is marked")
    return names


@act("pause-mirrors", Role.OPERATOR)
class PauseMirrors(OnMirrors):
    async def plan(self, call: Call, values: Mapping[str, Any]) -> Plan:
        return await plan_pause(call.client, call.command, _topics(call.rows), paused=True)


@act("resume-mirrors", Role.OPERATOR)
class ResumeMirrors(OnMirrors):
    async def plan(self, call: Call, values: Mapping[str, Any]) -> Plan:
        return await plan_pause(call.client, call.command, _topics(call.rows), paused=False)


@act("promote-mirrors", Role.ADMIN)
class PromoteMirrors(OnMirrors):
    async def plan(self, call: Call, values: Mapping[str, Any]) -> Plan:
        return await plan_promote(call.hub.session, call.client, call.command, _topics(call.rows))
