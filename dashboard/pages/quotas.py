"""Quotas: those that are set, those that apply to a client, and how much of them clients use now.

Quotas name users, client ids and addresses of all topics and groups: a viewer who may see only some sees no quotas.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from dash import html
from dash.development.base_component import Component

from broker_cy.client.errors import ClientError, Failure
from broker_cy.console.acts.quotas import effect_form
from broker_cy.console.columns import quotas as columns
from broker_cy.console.listeners import Source
from broker_cy.console.quotas import QuotaRow, QuotaUse, effect_lines, quota_rows, quota_uses
from broker_cy.reporting.foreign_text import clean
from dashboard.collector.channel import Column, Params, TableChannel, channel
from dashboard.collector.columns import table_column
from dashboard.collector.holdings import BrokerChart, recent, require_all_subjects, sees_all_subjects
from dashboard.collector.patches import State
from dashboard.components.explain import explain_box
from dashboard.components.panel import act_button, listing, panel, table
from dashboard.components.ranges import ranges
from dashboard.components.shell import shell
from dashboard.context import Context, Page
from dashboard.pages.quota_acts import ChangeQuota, RemoveQuotas, SetQuota
from dashboard.pages.request_tables import OfSamples
from dashboard.security.roles import Role

NAME: Final = "quotas"
HIDDEN: Final = "Quotas are those of all users and clients; your account may see only some topics or groups."
ASKED: Final = ("user", "client_id", "ip")
_LINES_MAX: Final = 10


@channel("quotas")
class Quotas(TableChannel[QuotaRow]):
    """All quotas, a row for each key of an entity."""

    SORT = "whose"
    COLUMNS = (
        table_column(columns.ENTITY, 280, is_flex=True),
        table_column(columns.QUOTA, 220),
        table_column(columns.VALUE, 140),
    )

    def sources(self) -> Sequence[Source]:
        return [self.session.quotas()]

    def rows(self) -> Iterable[QuotaRow] | None:
        require_all_subjects(self.scope, HIDDEN)
        found = self.session.quotas().value
        return None if found is None else quota_rows(found)

    def row_id(self, row: QuotaRow) -> str:
        return row.id

    def row_text(self, row: QuotaRow) -> str:
        return f"{row.whose} {row.key}"


@channel("quota-use")
class QuotaUses(OfSamples, TableChannel[QuotaUse]):
    """The use of each client's quota at each broker, for clients that use some of it or were throttled."""

    SORT = "waited"
    IS_DESCENDING = True
    SUBJECT = frozenset({"broker"})
    COLUMNS = (
        table_column(columns.USE_ENTITY, 200, is_flex=True),
        table_column(columns.USE_QUOTA, 205),
        table_column(columns.BROKER, 90),
        table_column(columns.RATE, 115),
        table_column(columns.LIMIT, 115),
        table_column(columns.USED, 85),
        table_column(columns.THROTTLED, 100),
        table_column(columns.THROTTLE_TIME, 125),
    )

    def rows(self) -> Iterable[QuotaUse] | None:
        require_all_subjects(self.scope, HIDDEN)
        samples = recent(list(self.session.samples.items), self.broker)
        return quota_uses(samples)[0] if samples else None

    def row_id(self, row: QuotaUse) -> str:
        return json.dumps([row.broker, row.key, row.user, row.client_id], ensure_ascii=False)

    def row_text(self, row: QuotaUse) -> str:
        return f"{row.whose} {row.key}"


@channel("quota-effect")
class QuotaEffect(TableChannel[tuple[int, str]]):
    """The quotas that apply to the three parameters, a line each. Parameters may be empty."""

    SUBJECT = frozenset(ASKED)
    COLUMNS = (Column("line", "Quotas in effect", lambda row: clean(row[1]), is_flex=True),)

    @classmethod
    def check(cls, params: Params) -> dict[str, str]:
        found = super().check(params)
        for name, problem in effect_form().checked(_texts(found)).problems.items():
            raise ClientError(Failure.INVALID, f"{cls.name}: {name}: {problem}")
        return found

    def sources(self) -> Sequence[Source]:
        return [self.session.quotas()]

    async def state(self) -> State | None:
        require_all_subjects(self.scope, HIDDEN)
        return await super().state()

    def rows(self) -> Iterable[tuple[int, str]] | None:
        found = self.session.quotas().value
        if found is None:
            return None
        return list(enumerate(effect_lines(found, **effect_form().checked(_texts(self.params)).values)))

    def row_id(self, row: tuple[int, str]) -> str:
        return str(row[0])


@channel("throttle-time")
class ThrottleTime(BrokerChart):
    """The throttle time of clients, over time."""

    UNIT = "ms/s"
    MEASURES = (("waiting", "throttled_ms_per_s"),)


def _texts(params: Mapping[str, str]) -> dict[str, str]:
    return {name: params.get(name, "") for name in ASKED}


def layout(context: Context, cluster: str, range: str = "", **query: str) -> Component:
    if not sees_all_subjects(context.identity().scope):
        return shell(context, cluster, NAME, "Quotas", [html.P(HIDDEN, className="panel")])
    texts = {name: query.get(name, "") for name in ASKED}
    is_asked = any(texts.values())
    problems = effect_form().checked(texts).problems if is_asked else {}
    chosen = {"range": range} if range else {}
    return shell(
        context,
        cluster,
        NAME,
        "Quotas",
        [
            explain_box("Which quotas apply", effect_form(texts), texts, problems),
            *([_effect(cluster, texts)] if is_asked and not problems else []),
            panel(
                "Throttle time of clients",
                ThrottleTime.name,
                "chart",
                cluster=cluster,
                params=chosen,
                options={"height": 180},
                note="Milliseconds of throttling per second, over all clients.",
            ),
            *_tables(cluster),
        ],
        actions=[ranges(cluster, NAME, range, **(texts if is_asked else {}))],
    )


def _effect(cluster: str, texts: Mapping[str, str]) -> Component:
    return listing(
        "Quotas in effect",
        QuotaEffect.name,
        QuotaEffect.COLUMNS,
        cluster=cluster,
        params={name: text for name, text in texts.items() if text},
        rows=_LINES_MAX,
        class_name="explanation",
    )


def _tables(cluster: str) -> list[Any]:
    return [
        table(
            "Use of quotas",
            QuotaUses.name,
            QuotaUses.COLUMNS,
            cluster=cluster,
            noun="client",
            height_rows=8,
            note="Clients that used a quota in the last ten seconds, by broker, with their throttle time. A sample has "
            "only the most throttled clients, or those nearest to their limit.",
            empty="No client used a quota in the last ten seconds.",
        ),
        table(
            "Quotas",
            Quotas.name,
            Quotas.COLUMNS,
            cluster=cluster,
            noun="quota",
            can_mark=True,
            height_rows=12,
            note="(default): for all names without their own quota. Each broker counts separately.",
            empty="No quota is set.",
            actions=[
                act_button("Set", SetQuota.name, role=Role.ADMIN, needs="Quotas"),
                act_button("Change marked", ChangeQuota.name, role=Role.ADMIN, rows="marked"),
                act_button("Remove marked", RemoveQuotas.name, role=Role.ADMIN, destructive=True, rows="marked"),
            ],
        ),
    ]


PAGE = Page(NAME, "Quotas", layout)
