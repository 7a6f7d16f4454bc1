"""Acts that elect partition leaders: preferred elections, and unclean ones, for which the user must choose and type the
topic.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from broker_cy.console.acts.leaders import plan_preferred, plan_unclean_of, unclean_form
from broker_cy.console.acts.plan import Plan
from broker_cy.console.fields import Form
from dashboard.acts import Act, Call, act
from dashboard.security.roles import Need, Role


@act("elect-preferred", Role.ADMIN)
class ElectPreferred(Act):
    """Elects for the parameter `topic`, or for all topics."""

    def need(self, cluster: str, params: Mapping[str, str], rows: Sequence[str]) -> Need:
        return replace(super().need(cluster, params, rows), every_topic=not params.get("topic"))

    async def plan(self, call: Call, values: Mapping[str, Any]) -> Plan:
        topic = call.params.get("topic", "")
        words = ("--topic", topic) if topic else ()
        return await plan_preferred(call.client, call.command, lambda key: topic in ("", key.topic), words)


@act("elect-unclean", Role.ADMIN)
class ElectUnclean(Act):
    async def form(self, call: Call) -> Form | None:
        return unclean_form()

    def values_need(self, cluster: str, params: Mapping[str, str], values: Mapping[str, Any]) -> Need | None:
        return Need(self.role, cluster, (values["topic"],), ())

    async def plan(self, call: Call, values: Mapping[str, Any]) -> Plan:
        return await plan_unclean_of(call.client, call.command, values)
