"""Acts on brokers: cordon, uncordon, drain, decommission, move replicas to a new one, and balance all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from broker_cy.client.errors import ClientError, Failure
from broker_cy.console.acts.brokers import plan_cordon
from broker_cy.console.acts.decommission import plan_decommission
from broker_cy.console.acts.moves import Wish, plan_drain, plan_moves
from broker_cy.console.acts.pace import pace_form, pace_of
from broker_cy.console.acts.plan import Plan
from broker_cy.console.fields import Form
from dashboard.acts import Act, Call, act
from dashboard.collector.holdings import parse_broker
from dashboard.security.roles import Need, Role


def broker_of(call: Call) -> int:
    """Return the parameter `broker`. Raises ClientError."""
    found = parse_broker("broker", call.params)
    if found is None:
        raise ClientError(Failure.INVALID, "parameter 'broker' is missing")
    return found


@act("cordon-broker", Role.ADMIN)
class CordonBroker(Act):
    async def plan(self, call: Call, values: Mapping[str, Any]) -> Plan:
        return await plan_cordon(call.client, call.command, broker_of(call), cordoned=True)


@act("uncordon-broker", Role.ADMIN)
class UncordonBroker(Act):
    async def plan(self, call: Call, values: Mapping[str, Any]) -> Plan:
        return await plan_cordon(call.client, call.command, broker_of(call), cordoned=False)


class _Moving(Act):
    """Acts that move replicas of any topic. Their form has the throttle."""

    def need(self, cluster: str, params: Mapping[str, str], rows: Sequence[str]) -> Need:
        return replace(super().need(cluster, params, rows), every_topic=True)

    def title(self, call: Call) -> str:
        raise NotImplementedError

    async def form(self, call: Call) -> Form | None:
        return pace_form(self.title(call))


@act("drain-broker", Role.ADMIN)
class DrainBroker(_Moving):
    def title(self, call: Call) -> str:
        return f"Drain broker {broker_of(call)}"

    async def plan(self, call: Call, values: Mapping[str, Any]) -> Plan:
        return await plan_drain(call.client, call.command, [broker_of(call)], pace_of(values))


@act("decommission-broker", Role.ADMIN)
class DecommissionBroker(_Moving):
    def title(self, call: Call) -> str:
        return f"Decommission broker {broker_of(call)}"

    async def plan(self, call: Call, values: Mapping[str, Any]) -> Plan:
        return await plan_decommission(call.client, call.command, broker_of(call), pace_of(values))


@act("fill-broker", Role.ADMIN)
class FillBroker(_Moving):
    def title(self, call: Call) -> str:
        return f"Give broker {broker_of(call)} its share"

    async def plan(self, call: Call, values: Mapping[str, Any]) -> Plan:
        return await plan_moves(call.client, call.command, Wish(add=(broker_of(call),)), pace_of(values))


@act("balance-brokers", Role.ADMIN)
class BalanceBrokers(_Moving):
    def title(self, call: Call) -> str:
        return "Balance replicas and bytes of all brokers"

    async def plan(self, call: Call, values: Mapping[str, Any]) -> Plan:
        return await plan_moves(call.client, call.command, Wish(is_balance=True), pace_of(values))
