"""Topics: sizes, rates, the groups that read them with the worst lag, state; favourites; create and delete.

Only the browser knows the favourites (assets/topics.js) and sends them as a parameter. They are always first.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, NamedTuple

from dash import html
from dash.development.base_component import Component

from broker_cy.admin.metadata import TopicInfo
from broker_cy.client.errors import ClientError, Failure
from broker_cy.console.acts.plan import Plan
from broker_cy.console.acts.topics import create_form, plan_create, plan_delete
from broker_cy.console.columns import topics as columns
from broker_cy.console.fields import Form
from broker_cy.console.listeners import Source
from broker_cy.console.rows import TopicRow, each_topic_row, is_own_topic
from broker_cy.console.values import topic_name
from broker_cy.reporting.foreign_text import clean
from broker_cy.reporting.numbers import count
from dashboard.acts import Act, Call, act
from dashboard.collector.channel import Cell, Column, Params, TableChannel, Window, channel, linked
from dashboard.collector.columns import table_column
from dashboard.components.panel import act_button, page_path, table
from dashboard.components.shell import shell
from dashboard.context import Context, Page
from dashboard.security.roles import Need, Role

# Favourites of one browser; their names are part of each subscription, which may have 16 KiB.
FAVOURITES_MAX: Final = 50


class Readers(NamedTuple):
    """The groups that have committed offsets in a topic: their number, and the one with the largest lag there."""

    groups: int
    worst_lag: int
    worst_group: str


_NOBODY: Final = Readers(0, 0, "")


class Row(NamedTuple):
    """A topic. `readers` is None as long as groups are not known."""

    topic: TopicRow
    readers: Readers | None

    @property
    def info(self) -> TopicInfo:
        return self.topic.info


def _topic(row: Row) -> TopicRow:
    return row.topic


def _groups(row: Row) -> int | None:
    return None if row.readers is None else row.readers.groups


def _worst_lag(row: Row) -> int | None:
    return row.readers.worst_lag if row.readers is not None and row.readers.groups else None


def _worst(row: Row) -> str:
    if row.readers is None or not row.readers.groups:
        return "-"
    return f"{count(row.readers.worst_lag)} · {clean(row.readers.worst_group)}"


@channel("topics")
class Topics(TableChannel[Row]):
    """All topics; `internal` = 1 includes those of the cluster itself. `favourites` are names separated by commas;
    `starred` = 1: only these.
    """

    SUBJECT = frozenset({"internal", "favourites", "starred"})
    SORT = "topic"
    COLUMNS = (
        Column(
            "favourite", "★", lambda row: Cell(row.info.name, kind="favourite"), width=50, hint="Favourites are first"
        ),
        table_column(columns.TOPIC.of(_topic), 170, is_flex=True),
        table_column(columns.PARTITIONS.of(_topic), 94),
        table_column(columns.REPLICAS.of(_topic), 86),
        table_column(columns.SIZE.of(_topic), 92),
        table_column(columns.RECORDS.of(_topic), 94),
        table_column(columns.IN.of(_topic), 92),
        Column(
            "groups",
            "Groups",
            lambda row: count(_groups(row)),
            _groups,
            True,
            78,
            "Groups that have committed offsets in the topic",
        ),
        Column(
            "lag",
            "Worst lag",
            _worst,
            _worst_lag,
            False,
            190,
            "The largest lag of a group in this topic, in offsets, and the group",
        ),
        table_column(columns.STATE.of(_topic), 90),
    )

    @classmethod
    def check(cls, params: Params) -> dict[str, str]:
        found = super().check(params)
        names = [name for name in found.get("favourites", "").split(",") if name]
        if len(names) > FAVOURITES_MAX:
            raise ClientError(Failure.INVALID, f"{len(names)} favourites: {FAVOURITES_MAX} are allowed")
        for name in names:
            try:
                topic_name(name)
            except ValueError as error:
                raise ClientError(Failure.INVALID, f"favourites: {error}") from None
        return found

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._favourites = frozenset(filter(None, self.params.get("favourites", "").split(",")))
        # The groups by topic. `_readers` are computed from them when a row is built.
        self._groups_of: Mapping[str, Mapping[str, int]] | None = None
        self._readers: dict[str, Readers] = {}

    def sources(self) -> Sequence[Source]:
        return [self.session.topics(), self.session.log_dirs(), self.session.samples, self.session.group_lags()]

    def rows(self) -> Iterable[Row] | None:
        topics = self.session.topics().value
        if topics is None:
            return None
        return self._each(topics)

    def _each(self, topics: Iterable[TopicInfo]) -> Iterator[Row]:
        with_internal = self.params.get("internal") == "1"
        names = self._favourites if self.params.get("starred") == "1" else None
        sees = self.scope.sees_topic
        groups = self.session.topic_groups()
        if groups is not self._groups_of:
            self._groups_of, self._readers = groups, {}
        shown = (
            info
            for info in topics
            if (with_internal or not is_own_topic(info)) and (names is None or info.name in names) and sees(info.name)
        )
        for row in each_topic_row(shown, self.session.topic_sizes(), list(self.session.samples.items)):
            name = row.info.name
            readers = None if groups is None else self._readers.get(name) or self._note_readers(name, groups.get(name))
            yield Row(row, readers)

    def _note_readers(self, topic: str, lags: Mapping[str, int] | None) -> Readers:
        seen = [(lag, group_id) for group_id, lag in (lags or {}).items() if self.scope.sees_group(group_id)]
        found = self._readers[topic] = Readers(len(seen), *max(seen)) if seen else _NOBODY
        return found

    async def _window(self, rows: list[Row], window: Window) -> list[Row]:
        if not self._favourites:
            return await super()._window(rows, window)
        first = [row for row in rows if row.info.name in self._favourites]
        rest = [row for row in rows if row.info.name not in self._favourites]
        head = await super()._window(first, replace(window, first=0, count=len(first)))
        shown = head[window.first : window.first + window.count]
        left = window.count - len(shown)
        if left:
            shown += await super()._window(rest, replace(window, first=max(0, window.first - len(first)), count=left))
        return shown

    def row_id(self, row: Row) -> str:
        return row.info.name

    def _cells(self, row: Row) -> list[Any]:
        cells = super()._cells(row)
        cells[1] = linked(cells[1], page_path(self.hub.name, "topic", topic=row.info.name))
        if row.readers is not None and row.readers.groups:
            cells[8] = linked(cells[8], page_path(self.hub.name, "group", group=row.readers.worst_group))
        return cells


@act("create-topic", Role.OPERATOR)
class CreateTopic(Act):
    async def form(self, call: Call) -> Form | None:
        return create_form()

    def values_need(self, cluster: str, params: Mapping[str, str], values: Mapping[str, Any]) -> Need | None:
        return Need(self.role, cluster, (values["name"],), ())

    async def plan(self, call: Call, values: Mapping[str, Any]) -> Plan:
        return await plan_create(call.client, call.command, values)


@act("delete-topics", Role.ADMIN)
class DeleteTopics(Act):
    """`rows` are the topics, or the parameter `topic` is the only one."""

    def need(self, cluster: str, params: Mapping[str, str], rows: Sequence[str]) -> Need:
        return replace(super().need(cluster, params, rows), topics=_topics(params, rows))

    async def plan(self, call: Call, values: Mapping[str, Any]) -> Plan:
        return await plan_delete(call.client, call.command, _topics(call.params, call.rows))


def _topics(params: Mapping[str, str], rows: Sequence[str]) -> tuple[str, ...]:
    return (params["topic"],) if params.get("topic") else tuple(rows)


def layout(context: Context, cluster: str, internal: str = "", starred: str = "", **_: str) -> Component:
    given = {name: "1" for name, value in (("internal", internal), ("starred", starred)) if value == "1"}

    def toggle(name: str, on: str, off: str) -> Component:
        other = {**given, name: ""} if name in given else {**given, name: "1"}
        return html.A(on if name in given else off, href=page_path(cluster, "topics", **other))

    return shell(
        context,
        cluster,
        "topics",
        "Topics",
        [
            table(
                "All topics",
                "topics",
                Topics.COLUMNS,
                cluster=cluster,
                params=given,
                noun="topic",
                can_mark=True,
                note="Rates are over the last ten seconds, from broker-cy only. Double-click or Enter opens a topic.",
                empty="No favourite topic: mark some with their stars." if "starred" in given else "",
                actions=[
                    toggle("starred", "Show all topics", "Only favourites"),
                    toggle("internal", "Hide internal topics", "Show internal topics"),
                    act_button("Delete marked", "delete-topics", role=Role.ADMIN, destructive=True, rows="marked"),
                ],
            )
        ],
        actions=[act_button("Create a topic", "create-topic", role=Role.OPERATOR)],
    )


PAGE = Page("topics", "Topics", layout)
