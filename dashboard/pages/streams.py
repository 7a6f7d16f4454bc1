"""The stream processing applications of the cluster."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

from dash import html
from dash.development.base_component import Component

from broker_cy.admin.streams_applications import StreamsApplication
from broker_cy.console.columns import streams as columns
from broker_cy.console.listeners import Source
from dashboard.collector.channel import TableChannel, channel, linked
from dashboard.collector.columns import table_column
from dashboard.collector.holdings import require_all_subjects, sees_all_subjects
from dashboard.components.panel import page_path, table
from dashboard.components.shell import shell
from dashboard.context import Context, Page

NAME: Final = "streams"
TITLE: Final = "Streams"
APPLICATION_PAGE: Final = "stream"
HIDDEN: Final = "Applications are about several topics and groups; your account may see only some of them."


@channel("streams")
class Streams(TableChannel[StreamsApplication]):
    """All applications."""

    SORT = "application"
    COLUMNS = (
        table_column(columns.APPLICATION, 200, is_flex=True),
        table_column(columns.STATE, 120),
        table_column(columns.INSTANCES, 100),
        table_column(columns.TASKS, 90),
        table_column(columns.LAG, 110),
        table_column(columns.RECORDS, 110),
        table_column(columns.ROWS, 110),
        table_column(columns.REMAINING, 110),
        table_column(columns.PROBLEMS, 100),
    )

    def sources(self) -> Sequence[Source]:
        return [self.session.streams()]

    def rows(self) -> Iterable[StreamsApplication] | None:
        require_all_subjects(self.scope, HIDDEN)
        return self.session.streams().value

    def row_id(self, row: StreamsApplication) -> str:
        return row.name

    def row_text(self, row: StreamsApplication) -> str:
        return f"{row.name} {row.state}"

    def _cells(self, row: StreamsApplication) -> list[Any]:
        first, *rest = super()._cells(row)
        return [linked(first, page_path(self.hub.name, APPLICATION_PAGE, application=row.name)), *rest]


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
                "Applications",
                Streams.name,
                Streams.COLUMNS,
                cluster=cluster,
                noun="application",
                note="Groups of the streams protocol (KIP-1071), and applications that a driver on Spark announced. "
                "The lag counts records of all inputs that were not processed. "
                "Records/s, rows and records to restore are those of instances that report their state "
                "(application.server).",
                empty="The cluster has no streams group, and no application on Spark.",
            )
        ],
    )


PAGE = Page(NAME, TITLE, layout)
