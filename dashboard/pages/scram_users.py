"""The page of SCRAM users: their credentials, and the acts on them.

A viewer who may see only some topics or groups sees none of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from dash import html
from dash.development.base_component import Component

from broker_cy.admin.scram_users import ScramCredential
from broker_cy.console.columns import access
from broker_cy.console.listeners import Source
from dashboard.collector.channel import TableChannel, channel
from dashboard.collector.columns import table_column
from dashboard.collector.holdings import require_all_subjects, sees_all_subjects
from dashboard.components.panel import act_button, table
from dashboard.components.shell import shell
from dashboard.context import Context, Page
from dashboard.pages.access_acts import CreateUser, DeleteUser, SetPassword, credential_id
from dashboard.security.roles import Role

NAME: Final = "scram-users"
TITLE: Final = "SCRAM users"
HIDDEN: Final = "SCRAM users are those of the whole cluster; your account may see only some topics or groups."


@channel("scram-users")
class ScramUsers(TableChannel[ScramCredential]):
    """The credentials of users."""

    SORT = "user"
    COLUMNS = (
        table_column(access.USER, 220, is_flex=True),
        table_column(access.MECHANISM, 180),
        table_column(access.ITERATIONS),
    )

    def sources(self) -> Sequence[Source]:
        return [self.session.scram_users()]

    def rows(self) -> Iterable[ScramCredential] | None:
        require_all_subjects(self.scope, HIDDEN)
        return self.session.scram_users().value

    def row_id(self, row: ScramCredential) -> str:
        return credential_id(row)


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
                "scram-users",
                ScramUsers.COLUMNS,
                cluster=cluster,
                noun="user",
                can_mark=True,
                note="A row for each mechanism of a user. Brokers never return passwords or stored credentials.",
                actions=[
                    act_button("Create", CreateUser.name, role=Role.ADMIN, needs=TITLE),
                    act_button("Set password", SetPassword.name, role=Role.ADMIN, rows="marked"),
                    act_button("Delete marked", DeleteUser.name, role=Role.ADMIN, destructive=True, rows="marked"),
                ],
            ),
        ],
    )


PAGE = Page(NAME, TITLE, layout)
