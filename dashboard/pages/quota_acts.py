"""Acts on quotas."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from broker_cy.client.errors import ClientError, Failure
from broker_cy.console.acts.plan import Plan
from broker_cy.console.acts.quotas import (
    change_quota_form,
    new_quota_form,
    new_row_of,
    plan_remove_quotas,
    plan_set_quota,
)
from broker_cy.console.fields import Form
from broker_cy.console.quotas import QuotaRow, quota_rows
from dashboard.acts import Call, act
from dashboard.pages.access_acts import AGE_S, OnAccess
from dashboard.security.roles import Role


@act("set-quota", Role.ADMIN)
class SetQuota(OnAccess):
    async def form(self, call: Call) -> Form | None:
        return new_quota_form()

    async def plan(self, call: Call, values: Mapping[str, Any]) -> Plan:
        return await plan_set_quota(call.client, call.command, new_row_of(values))


@act("change-quota", Role.ADMIN)
class ChangeQuota(OnAccess):
    """The quota whose id is in `rows`."""

    async def form(self, call: Call) -> Form | None:
        return change_quota_form(await _quota(call))

    async def plan(self, call: Call, values: Mapping[str, Any]) -> Plan:
        row = await _quota(call)
        return await plan_set_quota(call.client, call.command, QuotaRow(row.entity, row.key, values["value"]))


@act("remove-quotas", Role.ADMIN)
class RemoveQuotas(OnAccess):
    """The quotas whose ids are in `rows`."""

    async def plan(self, call: Call, values: Mapping[str, Any]) -> Plan:
        chosen = await _marked(call)
        if not chosen:
            reason = "no quota is marked" if not call.rows else "the marked quotas do not exist any longer"
            raise ClientError(Failure.INVALID, reason)
        return await plan_remove_quotas(call.command, chosen)


async def _marked(call: Call) -> list[QuotaRow]:
    wanted = set(call.rows)
    return [each for each in quota_rows(await call.hub.session.quotas().fresh(AGE_S)) if each.id in wanted]


async def _quota(call: Call) -> QuotaRow:
    """The one that is marked. Raises ClientError."""
    if len(call.rows) != 1:
        raise ClientError(Failure.INVALID, f"{len(call.rows)} quotas are marked: mark one")
    found = await _marked(call)
    if not found:
        raise ClientError(Failure.INVALID, "the marked quota does not exist any longer")
    return found[0]
