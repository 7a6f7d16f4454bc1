"""Acts on ACLs and on SCRAM users."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from broker_cy.admin.scram_users import ScramCredential
from broker_cy.client.errors import ClientError, Failure
from broker_cy.console.acts.acls import new_acl_form, plan_create_acl, plan_delete_acls
from broker_cy.console.acts.plan import Plan
from broker_cy.console.acts.users import password_form, plan_delete_credential, plan_password
from broker_cy.console.fields import Form
from broker_cy.security.acl_words import shown
from dashboard.acts import Act, Call, act
from dashboard.security.roles import Need, Role

# The age up to which ACLs and users can be used for a plan.
AGE_S: Final = 5.0


class OnAccess(Act):
    """Acts on ACLs, users, tokens and quotas, which apply to all topics and groups, whatever subject an act names."""

    def need(self, cluster: str, params: Mapping[str, str], rows: Sequence[str]) -> Need:
        return replace(super().need(cluster, params, rows), every_topic=True, every_group=True)


def credential_id(row: ScramCredential) -> str:
    """`SCRAM-SHA-512 alice`: the id of a row."""
    return f"{row.mechanism} {row.user}"


@act("create-acl", Role.ADMIN)
class CreateAcl(OnAccess):
    async def form(self, call: Call) -> Form | None:
        return new_acl_form()

    async def plan(self, call: Call, values: Mapping[str, Any]) -> Plan:
        return await plan_create_acl(call.client, call.command, values)


@act("delete-acls", Role.ADMIN)
class DeleteAcls(OnAccess):
    """The ACLs whose ids are in `rows`."""

    async def plan(self, call: Call, values: Mapping[str, Any]) -> Plan:
        wanted = set(call.rows)
        chosen = [each for each in await call.hub.session.acls().fresh(AGE_S) if shown(each) in wanted]
        if not chosen:
            reason = "no ACL is marked" if not wanted else "the marked ACLs do not exist any longer"
            raise ClientError(Failure.INVALID, reason)
        return await plan_delete_acls(call.command, chosen)


@act("create-user", Role.ADMIN)
class CreateUser(OnAccess):
    async def form(self, call: Call) -> Form | None:
        return password_form()

    async def plan(self, call: Call, values: Mapping[str, Any]) -> Plan:
        return await plan_password(call.client, call.command, values, is_new=True)


@act("set-password", Role.ADMIN)
class SetPassword(OnAccess):
    """Acts on the credential whose id is in `rows`."""

    async def form(self, call: Call) -> Form | None:
        return password_form(await _credential(call))

    async def plan(self, call: Call, values: Mapping[str, Any]) -> Plan:
        return await plan_password(call.client, call.command, values, is_new=False)


@act("delete-user", Role.ADMIN)
class DeleteUser(OnAccess):
    async def plan(self, call: Call, values: Mapping[str, Any]) -> Plan:
        return await plan_delete_credential(call.command, await _credential(call))


async def _credential(call: Call) -> ScramCredential:
    """The one that is marked. Raises ClientError."""
    if len(call.rows) != 1:
        raise ClientError(Failure.INVALID, f"{len(call.rows)} credentials are marked: mark one")
    for each in await call.hub.session.scram_users().fresh(AGE_S):
        if credential_id(each) == call.rows[0]:
            return each
    raise ClientError(Failure.INVALID, "the marked credential does not exist any longer")
