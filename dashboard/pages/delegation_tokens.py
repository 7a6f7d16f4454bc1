"""Delegation tokens: those that the dashboard's user of the cluster may see, and the acts on them. No channel contains
a secret of a token: the HMAC of a new one is only in the answer to the act that created it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from dash import html
from dash.development.base_component import Component

from broker_cy.admin.tokens import DelegationToken
from broker_cy.client.errors import ClientError, Failure
from broker_cy.console.acts.plan import Plan
from broker_cy.console.acts.tokens import (
    expire_form,
    new_token_form,
    plan_create_token,
    plan_expire_token,
    plan_renew_token,
    renew_form,
)
from broker_cy.console.columns import tokens as columns
from broker_cy.console.fields import Form
from broker_cy.console.listeners import Source
from broker_cy.core.errors import ErrorCode
from dashboard.acts import Call, act
from dashboard.collector.channel import TableChannel, channel
from dashboard.collector.columns import table_column
from dashboard.collector.frames import Health
from dashboard.collector.holdings import require_all_subjects, sees_all_subjects
from dashboard.components.panel import act_button, table
from dashboard.components.shell import shell
from dashboard.context import Context, Page
from dashboard.pages.access_acts import AGE_S, OnAccess
from dashboard.security.roles import Role

NAME: Final = "delegation-tokens"
TITLE: Final = "Delegation tokens"
HIDDEN: Final = "Delegation tokens are those of all users; your account may see only some topics or groups."
# The messages for clusters and listeners without tokens; this is not a failure.
WITHOUT: Final = {
    ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED: "The brokers make no tokens: delegation.token.secret.key is not set.",
    ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED: "Tokens are for users that have logged in without one: the "
    "dashboard is connected without a login, or with a token.",
}


@channel("delegation-tokens")
class Tokens(TableChannel[DelegationToken]):
    """All tokens, without secrets."""

    SORT = "expires"
    COLUMNS = (
        table_column(columns.OWNER, 100, is_flex=True),
        table_column(columns.TOKEN_ID, 222),
        table_column(columns.RENEWERS, 112),
        table_column(columns.ISSUED, 190),
        table_column(columns.EXPIRES, 190),
        table_column(columns.END_OF_LIFE, 190),
        table_column(columns.REQUESTER, 100),
    )

    def sources(self) -> Sequence[Source]:
        return [self.session.tokens()]

    def health(self) -> Health:
        failure = self.session.tokens().failure
        if failure is not None and failure.code in WITHOUT:
            return Health(0, WITHOUT[failure.code], True)
        return super().health()

    def rows(self) -> Iterable[DelegationToken] | None:
        require_all_subjects(self.scope, HIDDEN)
        return self.session.tokens().value

    def row_id(self, row: DelegationToken) -> str:
        return row.token_id

    def row_text(self, row: DelegationToken) -> str:
        return f"{row.owner} {row.token_id} {' '.join(row.renewers)} {row.requester}"


@act("create-token", Role.ADMIN)
class CreateToken(OnAccess):
    async def form(self, call: Call) -> Form | None:
        return new_token_form()

    async def plan(self, call: Call, values: Mapping[str, Any]) -> Plan:
        return await plan_create_token(call.command, values)


@act("renew-token", Role.ADMIN)
class RenewToken(OnAccess):
    """The one whose id is in `rows`."""

    async def form(self, call: Call) -> Form | None:
        return renew_form(await _token(call))

    async def plan(self, call: Call, values: Mapping[str, Any]) -> Plan:
        return await plan_renew_token(call.command, await _token(call), values)


@act("expire-token", Role.ADMIN)
class ExpireToken(OnAccess):
    """The one whose id is in `rows`."""

    async def form(self, call: Call) -> Form | None:
        return expire_form(await _token(call))

    async def plan(self, call: Call, values: Mapping[str, Any]) -> Plan:
        return await plan_expire_token(call.command, await _token(call), values)


async def _token(call: Call) -> DelegationToken:
    """The one that is marked. Raises ClientError."""
    if len(call.rows) != 1:
        raise ClientError(Failure.INVALID, f"{len(call.rows)} tokens are marked: mark one")
    for each in await call.hub.session.tokens().fresh(AGE_S):
        if each.token_id == call.rows[0]:
            return each
    raise ClientError(Failure.INVALID, "the marked token does not exist any longer")


def layout(context: Context, cluster: str, **_: str) -> Component:
    if not sees_all_subjects(context.identity().scope):
        return shell(context, cluster, NAME, TITLE, [html.P(HIDDEN, className="panel")])
    return shell(
        context,
        cluster,
        NAME,
        TITLE,
        [
            table(
                TITLE,
                Tokens.name,
                Tokens.COLUMNS,
                cluster=cluster,
                noun="token",
                can_mark=True,
                note="With a token a job logs in as its owner, without a password. The list has those that the "
                "dashboard's user of this cluster may see. The HMAC is shown once, when a token is created.",
                actions=[
                    act_button("Create", CreateToken.name, role=Role.ADMIN, needs=TITLE),
                    act_button("Renew marked", RenewToken.name, role=Role.ADMIN, rows="marked"),
                    act_button("Expire marked", ExpireToken.name, role=Role.ADMIN, destructive=True, rows="marked"),
                ],
            )
        ],
    )


PAGE = Page(NAME, TITLE, layout, old_names=("tokens",))
