"""One topic: partitions, traffic over time, the groups that read it; add partitions, clone, delete records, delete."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dash import html
from dash.development.base_component import Component

from broker_cy.admin.metadata import TopicInfo
from broker_cy.client.errors import ClientError, Failure
from broker_cy.console.acts.plan import Plan
from broker_cy.console.acts.topics import (
    add_partitions_form,
    clone_form,
    delete_records_form,
    plan_add_partitions,
    plan_clone,
    plan_delete_records,
)
from broker_cy.console.columns import groups
from broker_cy.console.columns import topics as columns
from broker_cy.console.feed_values import GroupSummary, PartitionRow
from broker_cy.console.fields import Form
from broker_cy.console.figures import Fact, busiest, newest_of
from broker_cy.console.listeners import Source
from broker_cy.reporting.foreign_text import clean
from broker_cy.reporting.numbers import count, short, size
from broker_cy.reporting.tone import Tone
from dashboard.acts import Act, Call, act
from dashboard.collector.channel import FactsChannel, TableChannel, channel, linked
from dashboard.collector.columns import table_column
from dashboard.collector.patches import State
from dashboard.components.attributes import attributes
from dashboard.components.panel import act_button, link, page_path, panel, table
from dashboard.components.ranges import ranges
from dashboard.components.shell import shell
from dashboard.context import Context, Page
from dashboard.pages.leader_acts import ElectPreferred
from dashboard.pages.topic_charts import TopicHeat, TopicTraffic
from dashboard.pages.topic_count import ALL, Count
from dashboard.security.roles import Need, Role, decide


@channel("topic-facts")
class TopicFacts(FactsChannel):
    PARAMS = frozenset({"topic"})
    REQUIRED = PARAMS

    def sources(self) -> Sequence[Source]:
        return [self.session.partitions(self.params["topic"]), self.session.topics(), self.session.samples]

    def facts(self) -> Sequence[Fact] | None:
        topic = self.params["topic"]
        rows = self.session.partitions(topic).value
        if rows is None:
            return None
        spans, sizes = [row.span for row in rows], [row.size_bytes for row in rows]
        offline = sum(row.leader_id < 0 for row in rows)
        behind = sum(len(row.in_sync) < len(row.replicas) for row in rows) - offline
        facts = [
            Fact("partitions", count(len(rows))),
            Fact("offsets", f"{'' if None not in spans else '≥ '}{count(sum(each or 0 for each in spans))}"),
            Fact("size", f"{'' if None not in sizes else '≥ '}{size(sum(each or 0 for each in sizes))}"),
        ]
        if offline:
            facts.append(Fact("offline", count(offline), Tone.BAD))
        if behind > 0:
            facts.append(Fact("under-replicated", count(behind), Tone.WARN))
        info = next((each for each in self.session.topics().value or () if each.name == topic), None)
        if info is not None:
            facts += [Fact("replication", str(info.replication_factor)), Fact("id", str(info.topic_id))]
            if info.is_own:
                facts.append(Fact("internal", "yes"))
        samples = newest_of(list(self.session.samples.items))
        if samples:
            busy = next((each for each in busiest(samples) if each.name == topic), None)
            facts += [
                Fact("records in", f"{short(0 if busy is None else busy.records_per_s)}/s"),
                Fact("bytes in", f"{size(0 if busy is None else busy.in_per_s)}/s"),
                Fact("bytes out", f"{size(0 if busy is None else busy.out_per_s)}/s"),
            ]
        return facts


@channel("topic-partitions")
class Partitions(TableChannel[PartitionRow]):
    SUBJECT = frozenset({"topic"})
    REQUIRED = SUBJECT
    SORT = "partition"
    COLUMNS = (
        table_column(columns.PARTITION, 112),
        table_column(columns.LEADER, 80),
        table_column(columns.LEADER_EPOCH, 74),
        table_column(columns.REPLICA_IDS, 90),
        table_column(columns.IN_SYNC, 90),
        table_column(columns.LOG_START, 120),
        table_column(columns.LOG_END, 130),
        table_column(columns.OFFSETS, 120),
        table_column(columns.PARTITION_SIZE, 100),
        table_column(columns.SEGMENTS, 90),
        table_column(columns.PARTITION_STATE, 90),
        table_column(columns.DIRECTORY, 160, is_flex=True),
    )

    def sources(self) -> Sequence[Source]:
        return [self.session.partitions(self.params["topic"])]

    def rows(self) -> Iterable[PartitionRow] | None:
        return self.session.partitions(self.params["topic"]).value

    def row_id(self, row: PartitionRow) -> str:
        return str(row.partition)

    def row_text(self, row: PartitionRow) -> str:
        return f"partition {row.partition} leader {row.leader_id} {columns.PARTITION_STATE.shown(row)}"

    def _cells(self, row: PartitionRow) -> list[Any]:
        first, *rest = super()._cells(row)
        href = page_path(self.hub.name, "records", topic=self.params["topic"], partitions=str(row.partition))
        return [linked(first, href), *rest]


@dataclass(frozen=True, slots=True)
class Consumer:
    """A group, as far as it reads the topic."""

    group_id: str
    summary: GroupSummary


def _summary(row: Consumer) -> GroupSummary:
    return row.summary


@channel("topic-consumers")
class Consumers(TableChannel[Consumer]):
    """The groups that have committed offsets in the topic."""

    SUBJECT = frozenset({"topic"})
    REQUIRED = SUBJECT
    SORT = "lag"
    IS_DESCENDING = True
    COLUMNS = (
        table_column(groups.GROUP.by(lambda row: row.group_id), 200, is_flex=True),
        table_column(groups.PARTITIONS.of(_summary), 100),
        table_column(groups.LAG.of(_summary), 120, hint="Offsets of this topic that the group has not read"),
        table_column(groups.TIME_LAG.of(_summary), 110),
        table_column(groups.TREND.of(_summary), 110),
        table_column(groups.CATCH_UP.of(_summary), 100),
        table_column(groups.STATUS.of(_summary), 110),
    )

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._rows: list[Consumer] | None = None

    def sources(self) -> Sequence[Source]:
        return [self.session.group_lags()]

    async def state(self) -> State | None:
        readers = self.session.topic_groups()
        if readers is None:
            return None
        topic = self.params["topic"]
        self._rows = [
            Consumer(group_id, await self.session.summary_of(group_id, lambda key: key.topic == topic))
            for group_id in readers.get(topic, {})
            if self.scope.sees_group(group_id)
        ]
        return await super().state()

    def rows(self) -> Iterable[Consumer] | None:
        return self._rows

    def row_id(self, row: Consumer) -> str:
        return row.group_id

    def _cells(self, row: Consumer) -> list[Any]:
        first, *rest = super()._cells(row)
        return [linked(first, page_path(self.hub.name, "group", group=row.group_id)), *rest]


async def info_of(call: Call) -> TopicInfo:
    """Return the topic of a call. Raises ClientError if there is none of this name."""
    topic = call.param("topic")
    return (await call.client.topics.describe([topic])).whole()[topic]


@act("add-partitions", Role.OPERATOR)
class AddPartitions(Act):
    async def form(self, call: Call) -> Form | None:
        return add_partitions_form(await info_of(call))

    async def plan(self, call: Call, values: Mapping[str, Any]) -> Plan:
        return await plan_add_partitions(call.client, call.command, await info_of(call), values)


@act("clone-topic", Role.OPERATOR)
class CloneTopic(Act):
    async def form(self, call: Call) -> Form | None:
        return clone_form(await info_of(call))

    def values_need(self, cluster: str, params: Mapping[str, str], values: Mapping[str, Any]) -> Need | None:
        return Need(self.role, cluster, (values["name"],), ())

    async def plan(self, call: Call, values: Mapping[str, Any]) -> Plan:
        return await plan_clone(call.client, call.command, call.param("topic"), values)


@act("delete-records", Role.ADMIN)
class DeleteRecords(Act):
    async def form(self, call: Call) -> Form | None:
        return delete_records_form(call.param("topic"), max(1, len((await info_of(call)).partitions)))

    async def plan(self, call: Call, values: Mapping[str, Any]) -> Plan:
        return await plan_delete_records(call.client, call.command, call.param("topic"), values)


def layout(context: Context, cluster: str, topic: str = "", range: str = "", counted: str = "", **_: str) -> Component:
    if not topic:
        raise ClientError(Failure.INVALID, "the address names no topic: open one from the list of topics")
    reason = decide(context.identity(), Need(Role.VIEWER, cluster, (topic,), ()))
    if reason:
        raise ClientError(Failure.REFUSED, reason)
    subject = {"topic": topic}
    over = {**subject, "range": range} if range else subject
    here = {"topic": topic, "range": range}
    counting = (
        [
            panel(
                "Count of records",
                Count.name,
                "facts",
                cluster=cluster,
                params={**subject, "partitions": counted},
                note=f"Of {'all partitions' if counted == ALL else f'partitions {counted}'}, by reading every record.",
                actions=[link("Close", page_path(cluster, "topic", **here))],
            )
        ]
        if counted
        else []
    )
    known = context.hub(cluster).session.topics().value or ()
    partitions = next((len(info.partitions) for info in known if info.name == topic), 6)
    marked = {"data-marked-link": page_path(cluster, "topic", **here), "data-marked-name": "counted"}
    return shell(
        context,
        cluster,
        "topic",
        clean(topic),
        [
            panel("Facts", "topic-facts", "facts", cluster=cluster, params=subject),
            *counting,
            html.Div(
                [
                    panel("Traffic", TopicTraffic.name, "chart", cluster=cluster, params=over,
                          note="Bytes of record batches per second, from the broker's samples. Marks are events."),
                    panel("Writes by partition", TopicHeat.name, "heat", cluster=cluster, params=over,
                          options={"height": 260}, empty="No records in this range.",
                          note="Offsets per second, by the timestamps of records, as the leaders report them."),
                ],
                className="columns wide",
            ),
            table("Consumers", "topic-consumers", Consumers.COLUMNS, cluster=cluster, params=subject, noun="group",
                  height_rows=4, has_filter=False, empty="No group has committed offsets in this topic."),
            table("Partitions", "topic-partitions", Partitions.COLUMNS, cluster=cluster, params=subject,
                  noun="partition", can_mark=True, height_rows=max(3, min(14, partitions)),
                  note="Double-click or Enter opens the records of a partition.",
                  actions=[
                      link("Count all records", page_path(cluster, "topic", **here, counted=ALL)),
                      html.Button("Count marked", type="button", className="quiet", **attributes(marked)),
                  ]),
        ],
        crumbs=[("Topics", page_path(cluster, "topics"))],
        actions=[
            html.Button(type="button", className="quiet", **attributes({"data-favourite": topic, "data-long": ""})),
            link("Records", page_path(cluster, "records", topic=topic)),
            link("Settings", page_path(cluster, "topic-settings", topic=topic)),
            link("Producers", page_path(cluster, "producers", topic=topic)),
            act_button("Produce", "produce-record", role=Role.OPERATOR, needs="Facts", topic=topic),
            act_button("Add partitions", "add-partitions", role=Role.OPERATOR, needs="Facts", topic=topic),
            act_button("Clone", "clone-topic", role=Role.OPERATOR, needs="Facts", topic=topic),
            act_button("Elect preferred leaders", ElectPreferred.name, role=Role.ADMIN, needs="Facts", topic=topic),
            act_button("Delete records", "delete-records", role=Role.ADMIN, destructive=True, needs="Facts",
                       topic=topic),
            act_button("Delete", "delete-topics", role=Role.ADMIN, destructive=True, needs="Facts", topic=topic,
                       after=page_path(cluster, "topics")),
            ranges(cluster, "topic", range, topic=topic),
        ],
    )  # fmt: skip


PAGE = Page("topic", "Topic", layout, in_navigation=False, parent="topics")
