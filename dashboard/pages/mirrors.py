"""The flows of mirrors into the cluster."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

from dash import html
from dash.development.base_component import Component

from broker_cy.console.columns import mirrors as columns
from broker_cy.console.listeners import Source
from broker_cy.console.mirrors import MirrorFlow
from dashboard.collector.channel import TableChannel, channel, linked
from dashboard.collector.columns import table_column
from dashboard.collector.holdings import require_all_subjects, sees_all_subjects
from dashboard.components.panel import page_path, table
from dashboard.components.shell import shell
from dashboard.context import Context, Page

NAME: Final = "mirrors"
TITLE: Final = "Mirrors"
FLOW_PAGE: Final = "mirror"
HIDDEN: Final = "Mirrors are about all topics and groups; your account may see only some of them."
EMPTY: Final = (
    "No mirror copies into this cluster. Processes of broker-mirror are those of --mirrors, of mirrors in the cluster "
    "file, or of BROKER_CY_MIRRORS."
)


@channel("mirrors")
class Mirrors(TableChannel[MirrorFlow]):
    """All flows."""

    SORT = "flow"
    COLUMNS = (
        table_column(columns.FLOW, 160, is_flex=True),
        table_column(columns.KIND, 80),
        table_column(columns.STATE, 110),
        table_column(columns.PROBLEMS, 105),
        table_column(columns.LOOPS, 85),
        table_column(columns.LAG, 100),
        table_column(columns.LAG_TIME, 105),
        table_column(columns.RECORDS, 110),
        table_column(columns.BYTES, 100),
        table_column(columns.TOPICS, 85),
        table_column(columns.PARTITIONS, 105),
        table_column(columns.PROCESSES, 105),
        table_column(columns.RESTARTS, 100),
        table_column(columns.CHECKPOINT, 120),
    )

    def sources(self) -> Sequence[Source]:
        return [self.session.mirrors()]

    def rows(self) -> Iterable[MirrorFlow] | None:
        require_all_subjects(self.scope, HIDDEN)
        found = self.session.mirrors().value
        return None if found is None else found.flows

    def remark(self) -> str:
        found = self.session.mirrors().value
        return "" if found is None else found.remark

    def row_id(self, row: MirrorFlow) -> str:
        return row.name

    def row_text(self, row: MirrorFlow) -> str:
        return f"{row.name} {row.kind} {row.state}"

    def _cells(self, row: MirrorFlow) -> list[Any]:
        first, *rest = super()._cells(row)
        return [linked(first, page_path(self.hub.name, FLOW_PAGE, flow=row.name)), *rest]


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
                "Mirrors",
                Mirrors.name,
                Mirrors.COLUMNS,
                cluster=cluster,
                noun="flow",
                note="Kind copy: a flow of broker-mirror; link: topics that the brokers fetch. Lag: records of the "
                "source that were not copied yet. Lag time: age of the last copied record while others wait. Loops: "
                "topics that come from the target, and are not copied back.",
                empty=EMPTY,
            )
        ],
    )


PAGE = Page(NAME, TITLE, layout, old_names=("mirroring",))
