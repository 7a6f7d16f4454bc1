"""The page of ACLs, with an explanation of the decision on a request.

ACLs name topics, groups, users and hosts: a viewer who may see only some topics sees none of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from dash import html
from dash.development.base_component import Component

from broker_cy.client.errors import ClientError, Failure
from broker_cy.console.acts.acls import asked_of, explain_form, verdict_lines
from broker_cy.console.columns import access
from broker_cy.console.listeners import Source
from broker_cy.core.errors import ErrorCode
from broker_cy.reporting.foreign_text import clean
from broker_cy.reporting.tone import Tone
from broker_cy.security.acl_words import shown
from broker_cy.security.acls import Binding
from broker_cy.security.explain import authorizer_of, explain
from dashboard.collector.channel import Cell, Channel, Column, Params, TableChannel, channel
from dashboard.collector.columns import table_column
from dashboard.collector.frames import Health
from dashboard.collector.holdings import require_all_subjects, sees_all_subjects
from dashboard.components.explain import explain_box
from dashboard.components.panel import act_button, link, listing, page_path, table
from dashboard.components.shell import shell
from dashboard.context import Context, Page
from dashboard.pages.access_acts import CreateAcl, DeleteAcls
from dashboard.security.roles import Role

NAME: Final = "acls"
TITLE: Final = "ACLs"
NO_AUTHORIZER: Final = (
    "The brokers have no authorizer: every client may perform every operation, and there are no ACLs."
)
HIDDEN: Final = "ACLs are those of all topics and groups; your account may see only some of them."
ASKED: Final = ("principal", "operation", "resource", "host")
_LINES_MAX: Final = 10


class _OfAcls(Channel):
    """Channels of the ACLs. A cluster without an authorizer has none, which is not a failure."""

    def sources(self) -> Sequence[Source]:
        return [self.session.acls()]

    def health(self) -> Health:
        failure = self.session.acls().failure
        if failure is not None and failure.code is ErrorCode.SECURITY_DISABLED:
            return Health(0, NO_AUTHORIZER, True)
        return super().health()


@channel("acls")
class Acls(_OfAcls, TableChannel[Binding]):
    """All ACLs."""

    SORT = "resource"
    COLUMNS = (
        table_column(access.RESOURCE, 220, is_flex=True),
        table_column(access.PERMISSION, 110),
        table_column(access.PRINCIPAL, 200),
        table_column(access.OPERATION, 160),
        table_column(access.HOST, 140),
    )

    def rows(self) -> Iterable[Binding] | None:
        require_all_subjects(self.scope, HIDDEN)
        return self.session.acls().value

    def row_id(self, row: Binding) -> str:
        return shown(row)


@channel("acl-explanation")
class Explanation(_OfAcls, TableChannel[tuple[int, str]]):
    """The decision on the four parameters by the current ACLs: a line each."""

    SUBJECT = REQUIRED = frozenset(ASKED)
    COLUMNS = (Column("line", "Explanation", lambda row: _line(row[1]), is_flex=True),)

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        values = explain_form().checked({name: self.params[name] for name in ASKED}).values
        self._asked = asked_of(values)

    @classmethod
    def check(cls, params: Params) -> dict[str, str]:
        found = super().check(params)
        for name, problem in explain_form().checked({name: found[name] for name in ASKED}).problems.items():
            raise ClientError(Failure.INVALID, f"{cls.name}: {name}: {problem}")
        return found

    def rows(self) -> Iterable[tuple[int, str]] | None:
        require_all_subjects(self.scope, HIDDEN)
        bindings = self.session.acls().value
        if bindings is None:
            return None
        verdict = explain(authorizer_of(bindings), bindings, self._asked)
        return list(enumerate(verdict_lines(self._asked, verdict)))

    def row_id(self, row: tuple[int, str]) -> str:
        return str(row[0])


def _line(text: str) -> str | Cell:
    for word, tone in (("ALLOWED", Tone.GOOD), ("DENIED", Tone.BAD)):
        if text.startswith(word):
            return Cell(clean(text), tone)
    return clean(text)


def layout(context: Context, cluster: str, **query: str) -> Component:
    if not sees_all_subjects(context.identity().scope):
        return shell(context, cluster, NAME, TITLE, [html.P(HIDDEN, className="panel")])
    texts = {name: query.get(name, "") for name in ASKED}
    is_asked = any(texts.values())
    texts["host"] = texts["host"] or "*"
    problems = explain_form().checked(texts).problems if is_asked else {}
    return shell(
        context,
        cluster,
        NAME,
        TITLE,
        [
            explain_box("Explain a decision", explain_form(texts), texts, problems),
            *([_explanation(cluster, texts)] if is_asked and not problems else []),
            _table(cluster),
        ],
        actions=[link("Denied requests", page_path(cluster, "denied-requests"))],
    )


def _explanation(cluster: str, texts: Mapping[str, str]) -> Component:
    return listing(
        "Explanation",
        "acl-explanation",
        Explanation.COLUMNS,
        cluster=cluster,
        params=texts,
        rows=_LINES_MAX,
        class_name="explanation",
    )


def _table(cluster: str) -> Component:
    return table(
        TITLE,
        "acls",
        Acls.COLUMNS,
        cluster=cluster,
        noun="ACL",
        can_mark=True,
        note="A trailing * matches every name with that prefix. A DENY ACL overrides every ALLOW.",
        actions=[
            act_button("Create", CreateAcl.name, role=Role.ADMIN, needs=TITLE),
            act_button("Delete marked", DeleteAcls.name, role=Role.ADMIN, destructive=True, rows="marked"),
        ],
    )


PAGE = Page(NAME, TITLE, layout, old_names=("rights",))
