"""The subjects of the cluster's schema registry. A cluster without a known registry has a page that says so."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

from dash import html
from dash.development.base_component import Component

from broker_cy.console.listeners import Source
from broker_registry.console import columns
from broker_registry.console.views import Subject
from dashboard.collector.channel import TableChannel, channel, linked
from dashboard.collector.columns import table_column
from dashboard.collector.holdings import require_all_subjects, sees_all_subjects
from dashboard.components.panel import act_button, page_path, table
from dashboard.components.shell import shell
from dashboard.context import Context, Page
from dashboard.pages.schema_acts import HIDDEN, NOT_CONFIGURED, DeleteSubject, RegisterSchema, schemas_of
from dashboard.security.roles import Role

NAME: Final = "schemas"
TITLE: Final = "Schemas"
SUBJECT_PAGE: Final = "schema"


@channel("subjects")
class Subjects(TableChannel[Subject]):
    """All subjects, with their newest versions."""

    SORT = "subject"
    COLUMNS = (
        table_column(columns.SUBJECT, 200, is_flex=True),
        table_column(columns.SUBJECT_TYPE, 100),
        table_column(columns.VERSIONS, 90),
        table_column(columns.NEWEST, 85),
        table_column(columns.NEWEST_ID, 100),
        table_column(columns.LEVEL, 200),
        table_column(columns.MODE, 120),
        table_column(columns.DELETED, 85, hint="versions that were deleted and can be restored"),
    )

    def sources(self) -> Sequence[Source]:
        return [schemas_of(self.hub).subjects()]

    def rows(self) -> Iterable[Subject] | None:
        require_all_subjects(self.scope, HIDDEN)
        found = schemas_of(self.hub).subjects().value
        return None if found is None else found.rows

    def remark(self) -> str:
        found = schemas_of(self.hub).subjects().value
        return "" if found is None else found.remark

    def row_id(self, row: Subject) -> str:
        return row.name

    def row_text(self, row: Subject) -> str:
        return f"{row.name} {row.kind} {row.level or ''}"

    def _cells(self, row: Subject) -> list[Any]:
        first, *rest = super()._cells(row)
        return [linked(first, page_path(self.hub.name, SUBJECT_PAGE, subject=row.name)), *rest]


def layout(context: Context, cluster: str, **_: str) -> Component:
    if not sees_all_subjects(context.identity().scope):
        return shell(context, cluster, NAME, TITLE, [html.P(HIDDEN, className="panel")])
    if context.hub(cluster).schemas is None:
        return shell(context, cluster, NAME, TITLE, [html.P(NOT_CONFIGURED, className="panel", role="status")])
    return shell(
        context,
        cluster,
        NAME,
        TITLE,
        [
            table(
                "Subjects",
                Subjects.name,
                Subjects.COLUMNS,
                cluster=cluster,
                noun="subject",
                can_mark=True,
                note="Level: the compatibility level that applies. Mode: whether the subject may be changed.",
                empty="The registry has no subjects.",
                actions=[
                    act_button("Register", RegisterSchema.name, role=Role.OPERATOR),
                    act_button("Delete marked", DeleteSubject.name, role=Role.ADMIN, destructive=True, rows="marked"),
                ],
            )
        ],
    )


PAGE = Page(NAME, TITLE, layout, old_names=("subjects",))
