"""One flow of a mirror: its partitions, and its problems, loops and restarts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

from dash import html
from dash.development.base_component import Component

from broker_cy.client.errors import ClientError, Failure
from broker_cy.console.columns import mirrors as columns
from broker_cy.console.figures import Fact
from broker_cy.console.listeners import Source
from broker_cy.console.mirrors import LINK, FlowPartition, MirrorFlow, Note, facts_of
from broker_cy.reporting.foreign_text import clean
from dashboard.collector.channel import Channel, FactsChannel, TableChannel, channel, linked
from dashboard.collector.columns import table_column
from dashboard.collector.holdings import require_all_subjects, sees_all_subjects
from dashboard.components.panel import act_button, listing, page_path, panel, table
from dashboard.components.shell import shell
from dashboard.context import Context, Page
from dashboard.pages.mirror_acts import PauseMirrors, PromoteMirrors, ResumeMirrors
from dashboard.pages.mirrors import FLOW_PAGE, HIDDEN, TITLE
from dashboard.pages.mirrors import NAME as LIST
from dashboard.security.roles import Role

_NOTES_SHOWN: Final = 50
_SUBJECT: Final = frozenset({"flow"})


class OfFlow(Channel):
    """Channels of one flow."""

    def sources(self) -> Sequence[Source]:
        return [self.session.mirrors()]

    @property
    def flow(self) -> MirrorFlow | None:
        """Return the flow; None while nothing is known. Raises ClientError if the cluster has no such flow."""
        require_all_subjects(self.scope, HIDDEN)
        found = self.session.mirrors().value
        if found is None:
            return None
        flow = found.flow(self.params["flow"])
        if flow is None:
            raise ClientError(Failure.INVALID, "the cluster has no such flow", what=self.params["flow"])
        return flow


@channel("mirror-facts")
class FlowFacts(OfFlow, FactsChannel):
    PARAMS = _SUBJECT
    REQUIRED = _SUBJECT

    def facts(self) -> Sequence[Fact] | None:
        flow = self.flow
        return None if flow is None else facts_of(flow)


@channel("mirror-partitions")
class Partitions(OfFlow, TableChannel[FlowPartition]):
    SUBJECT = _SUBJECT
    REQUIRED = _SUBJECT
    SORT = "partition"
    COLUMNS = (
        table_column(columns.TOPIC, 160, is_flex=True),
        table_column(columns.PARTITION, 100),
        table_column(columns.REMOTE_TOPIC, 160, is_flex=True),
        table_column(columns.POSITION, 120),
        table_column(columns.END, 120),
        table_column(columns.PARTITION_LAG, 100),
        table_column(columns.PARTITION_LAG_TIME, 105),
        table_column(columns.PARTITION_STATE, 100),
        table_column(columns.PROBLEM, 220, is_flex=True),
    )

    def rows(self) -> Iterable[FlowPartition] | None:
        flow = self.flow
        return None if flow is None else flow.partitions

    def row_id(self, row: FlowPartition) -> str:
        return row.id

    def row_text(self, row: FlowPartition) -> str:
        return f"{row.id} {row.topic} {row.state} {row.problem or ''}"

    def _cells(self, row: FlowPartition) -> list[Any]:
        first, partition, remote, *rest = super()._cells(row)
        return [first, partition, linked(remote, page_path(self.hub.name, "topic", topic=row.remote_topic)), *rest]


@channel("mirror-notes")
class Notes(OfFlow, TableChannel[Note]):
    """Problems, loops and restarts."""

    SUBJECT = _SUBJECT
    REQUIRED = _SUBJECT
    COLUMNS = (
        table_column(columns.NOTE_KIND, 90),
        table_column(columns.NOTE_TIME, 190),
        table_column(columns.NOTE_SUBJECT, 220),
        table_column(columns.NOTE_TEXT, 300, is_flex=True),
    )

    def rows(self) -> Iterable[Note] | None:
        flow = self.flow
        return None if flow is None else flow.notes

    def row_id(self, row: Note) -> str:
        return f"{row.kind} {row.subject} {row.text} {row.time_ms}"


def layout(context: Context, cluster: str, flow: str = "", **_: str) -> Component:
    title = f"Mirror {clean(flow)}" if flow else "Mirror"
    crumbs = [(TITLE, page_path(cluster, LIST))]
    if not sees_all_subjects(context.identity().scope):
        return shell(context, cluster, FLOW_PAGE, title, [html.P(HIDDEN, className="panel")], crumbs=crumbs)
    if not flow:
        raise ClientError(Failure.INVALID, "the address names no flow")
    params = {"flow": flow}
    return shell(
        context,
        cluster,
        FLOW_PAGE,
        title,
        [
            panel("Flow", FlowFacts.name, "facts", cluster=cluster, params=params),
            listing(
                "Problems, loops and restarts",
                Notes.name,
                Notes.COLUMNS,
                cluster=cluster,
                params=params,
                rows=_NOTES_SHOWN,
                empty="The flow has no problem and no loop, and was not started again.",
            ),
            _partitions(cluster, flow),
        ],
        crumbs=crumbs,
    )


def _partitions(cluster: str, flow: str) -> Component:
    # Names of copying flows have an arrow, which names of links cannot have.
    is_link = "->" not in flow
    acts = [
        act_button("Pause", PauseMirrors.name, role=Role.OPERATOR, rows="marked"),
        act_button("Resume", ResumeMirrors.name, role=Role.OPERATOR, rows="marked"),
        act_button("Promote", PromoteMirrors.name, role=Role.ADMIN, destructive=True, rows="marked"),
    ]
    return table(
        "Partitions",
        Partitions.name,
        Partitions.COLUMNS,
        cluster=cluster,
        params={"flow": flow},
        noun="partition",
        can_mark=is_link,
        note="The acts are for the topics of the marked partitions. A promotion ends the mirror: producers may write "
        f"into the topic, and it follows the {LINK} no longer."
        if is_link
        else "Copied to: the next offset of the source to copy. Target: the topic of this cluster.",
        actions=acts if is_link else [],
    )


PAGE = Page(FLOW_PAGE, "Mirror", layout, in_navigation=False, parent=LIST)
