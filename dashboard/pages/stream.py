"""One stream processing application: its topology as a picture, its instances, tasks, inputs, stores and batches."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

from dash import html
from dash.development.base_component import Component

from broker_cy.admin.streams_rows import BatchRow, InputRow, InstanceRow, StoreRow, TaskRow
from broker_cy.client.errors import ClientError, Failure
from broker_cy.console.columns import streams as columns
from broker_cy.console.feeds import Feed
from broker_cy.console.figures import Fact
from broker_cy.console.listeners import Source
from broker_cy.console.streams import ApplicationView, Problem, facts_of
from broker_cy.console.streams_picture import BOX_HEIGHT, BOX_WIDTH, Box, picture_of
from broker_cy.reporting.column import Column
from broker_cy.reporting.foreign_text import clean
from dashboard.collector.channel import Channel, FactsChannel, TableChannel, channel, linked
from dashboard.collector.columns import table_column
from dashboard.collector.holdings import require_all_subjects, sees_all_subjects
from dashboard.collector.patches import State
from dashboard.components.panel import link, listing, page_path, panel, table
from dashboard.components.shell import shell
from dashboard.context import Context, Page
from dashboard.pages.streams import APPLICATION_PAGE, HIDDEN, TITLE
from dashboard.pages.streams import NAME as LIST

_SUBJECT: Final = frozenset({"application"})
_ROWS: Final = 50
_PROBLEM: Final = Column[Problem]("problem", "Problem", lambda row: row.text, width=60)


class OfApplication(Channel):
    """Channels of one application."""

    def _feed(self) -> Feed[ApplicationView]:
        return self.session.streams_application(self.params["application"])

    def sources(self) -> Sequence[Source]:
        return [self._feed()]

    @property
    def view(self) -> ApplicationView | None:
        """The application; None while nothing is known. Raises ClientError: the viewer may not see it."""
        require_all_subjects(self.scope, HIDDEN)
        return self._feed().value


@channel("stream-facts")
class Facts(OfApplication, FactsChannel):
    PARAMS = _SUBJECT
    REQUIRED = _SUBJECT

    def facts(self) -> Sequence[Fact] | None:
        view = self.view
        return None if view is None else facts_of(view)


@channel("stream-picture")
class TopologyPicture(OfApplication):
    """{"nodes": [{"id", "kind", "x", "y", "title", "name", "figures", "tone", "href"}], "lines": [[from, to, kind]],
    "bands": [[title, y]], "width", "height", "box": [width, height], "note"}
    """

    PARAMS = _SUBJECT
    REQUIRED = _SUBJECT

    async def state(self) -> State | None:
        view = self.view
        if view is None:
            return None
        found = picture_of(view)
        return {
            "nodes": [self._box(box) for box in found.boxes],
            "lines": [list(line) for line in found.lines],
            "bands": [list(band) for band in found.bands],
            "width": found.width,
            "height": found.height,
            "box": [BOX_WIDTH, BOX_HEIGHT],
            "note": found.note,
        }

    def _box(self, box: Box) -> dict[str, Any]:
        shown: dict[str, Any] = {**box._asdict(), "tone": box.tone.name}
        if box.topic:
            shown["href"] = page_path(self.hub.name, "topic", topic=box.topic)
        del shown["topic"]
        return shown


@channel("stream-problems")
class Problems(OfApplication, TableChannel[Problem]):
    SUBJECT = _SUBJECT
    REQUIRED = _SUBJECT
    COLUMNS = (table_column(_PROBLEM, 400, is_flex=True),)

    def rows(self) -> Iterable[Problem] | None:
        view = self.view
        return None if view is None else view.problems

    def row_id(self, row: Problem) -> str:
        return row.text


@channel("stream-instances")
class Instances(OfApplication, TableChannel[InstanceRow]):
    SUBJECT = _SUBJECT
    REQUIRED = _SUBJECT
    COLUMNS = (
        table_column(columns.ENDPOINT, 160),
        table_column(columns.HOST, 130),
        table_column(columns.INSTANCE_STATE, 120),
        table_column(columns.ACTIVE, 80),
        table_column(columns.STANDBY, 80),
        table_column(columns.WARMUP, 80),
        table_column(columns.INSTANCE_RECORDS, 100),
        table_column(columns.COMMITS, 100),
        table_column(columns.INSTANCE_PROBLEM, 200, is_flex=True),
    )

    def rows(self) -> Iterable[InstanceRow] | None:
        view = self.view
        return None if view is None else view.application.instances

    def row_id(self, row: InstanceRow) -> str:
        return row.member


@channel("stream-stores")
class Stores(OfApplication, TableChannel[StoreRow]):
    SUBJECT = _SUBJECT
    REQUIRED = _SUBJECT
    COLUMNS = (
        table_column(columns.STORE, 220, is_flex=True),
        table_column(columns.STORE_KIND, 160),
        table_column(columns.SUBTOPOLOGY, 110),
        table_column(columns.STORE_PARTITIONS, 80),
        table_column(columns.STORE_ROWS, 100),
        table_column(columns.STORE_RESTORED, 90),
    )

    def rows(self) -> Iterable[StoreRow] | None:
        view = self.view
        return None if view is None else view.application.stores

    def row_id(self, row: StoreRow) -> str:
        return row.store


@channel("stream-batches")
class Batches(OfApplication, TableChannel[BatchRow]):
    SUBJECT = _SUBJECT
    REQUIRED = _SUBJECT
    COLUMNS = (
        table_column(columns.BATCH_PART, 110),
        table_column(columns.BATCH_NUMBER, 80),
        table_column(columns.BATCHES, 90),
        table_column(columns.BATCH_RECORDS, 90),
        table_column(columns.TRIGGER_LAG, 95),
        table_column(columns.BATCH_MS, 85),
        table_column(columns.BATCH_MAX_MS, 85),
        table_column(columns.PLAN_MS, 75),
        table_column(columns.TASKS_MS, 75),
        table_column(columns.READ_MS, 75),
        table_column(columns.PROCESS_MS, 80),
        table_column(columns.WRITE_MS, 75),
        table_column(columns.DECIDE_MS, 75),
        table_column(columns.COMMIT_MS, 75),
        table_column(columns.RUNS, 60),
        table_column(columns.BATCH_TIME, 190),
    )

    def rows(self) -> Iterable[BatchRow] | None:
        view = self.view
        return None if view is None else view.application.batches

    def row_id(self, row: BatchRow) -> str:
        return row.subtopology


@channel("stream-inputs")
class Inputs(OfApplication, TableChannel[InputRow]):
    SUBJECT = _SUBJECT
    REQUIRED = _SUBJECT
    SORT = "partition"
    COLUMNS = (
        table_column(columns.TOPIC, 220, is_flex=True),
        table_column(columns.PARTITION, 90),
        table_column(columns.INPUT_TASK, 80),
        table_column(columns.COMMITTED, 110),
        table_column(columns.END, 110),
        table_column(columns.INPUT_LAG, 100),
    )

    def rows(self) -> Iterable[InputRow] | None:
        view = self.view
        return None if view is None else view.application.inputs

    def row_id(self, row: InputRow) -> str:
        return f"{row.topic}-{row.partition}"

    def _cells(self, row: InputRow) -> list[Any]:
        first, *rest = super()._cells(row)
        return [linked(first, page_path(self.hub.name, "topic", topic=row.topic)), *rest]


@channel("stream-tasks")
class Tasks(OfApplication, TableChannel[TaskRow]):
    SUBJECT = _SUBJECT
    REQUIRED = _SUBJECT
    SORT = "task"
    COLUMNS = (
        table_column(columns.TASK, 80),
        table_column(columns.ROLE, 75),
        table_column(columns.WHERE, 125, is_flex=True),
        table_column(columns.TASK_STATE, 80),
        table_column(columns.TASK_LAG, 65),
        table_column(columns.TASK_RECORDS, 90),
        table_column(columns.TASK_ROWS, 65),
        table_column(columns.STATE_BYTES, 80),
        table_column(columns.DROPPED, 80),
        table_column(columns.STREAM_TIME, 185),
        table_column(columns.TO_RESTORE, 90),
        table_column(columns.RESTORED, 85),
    )

    def rows(self) -> Iterable[TaskRow] | None:
        view = self.view
        return None if view is None else view.application.tasks

    def row_id(self, row: TaskRow) -> str:
        return f"{row.task} {row.role} {row.where}"


def layout(context: Context, cluster: str, application: str = "", **_: str) -> Component:
    title = f"Application {clean(application)}" if application else "Application"
    crumbs = [(TITLE, page_path(cluster, LIST))]
    if not sees_all_subjects(context.identity().scope):
        return shell(context, cluster, APPLICATION_PAGE, title, [html.P(HIDDEN, className="panel")], crumbs=crumbs)
    if not application:
        raise ClientError(Failure.INVALID, "the address names no application")
    params = {"application": application}
    return shell(
        context,
        cluster,
        APPLICATION_PAGE,
        title,
        [
            panel(
                "Application",
                Facts.name,
                "facts",
                cluster=cluster,
                params=params,
                actions=[link("Group", page_path(cluster, "group", group=application))],
            ),
            listing(
                "Problems",
                Problems.name,
                Problems.COLUMNS,
                cluster=cluster,
                params=params,
                empty="Nothing is wrong.",
            ),
            panel(
                "Topology",
                TopologyPicture.name,
                "graph",
                cluster=cluster,
                params=params,
                empty="The group has no topology yet.",
                note="Lag: records that were not processed. Rates are those of the last 10 s, of instances that report "
                "their state.",
            ),
            *(
                listing(each_title, each.name, each.COLUMNS, cluster=cluster, params=params, rows=_ROWS, empty=empty)
                for each_title, each, empty in (
                    ("Instances", Instances, "The application has no instances now."),
                    ("Batches", Batches, "Only applications on Spark have batches; their driver reports them."),
                    ("Stores", Stores, "The application has no store that is known."),
                    ("Inputs", Inputs, "Nothing was committed yet."),
                )
            ),
            table("Tasks", Tasks.name, Tasks.COLUMNS, cluster=cluster, params=params, noun="task", height_rows=12),
        ],
        crumbs=crumbs,
    )


PAGE = Page(APPLICATION_PAGE, "Application", layout, in_navigation=False, parent=LIST)
