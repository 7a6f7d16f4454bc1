"""One group: its members with their assignment, and its lag in records and in time, now and over time; resetting and
deleting its offsets.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar, Final

from dash.development.base_component import Component

from broker_cy.admin.group_lag import GroupLag
from broker_cy.admin.group_values import SHARE, STREAMS
from broker_cy.admin.lag import sum_of, worst
from broker_cy.admin.metadata import TopicPartition
from broker_cy.client.errors import ClientError, Failure
from broker_cy.console.acts.groups import plan_delete_offsets, plan_reset, reset_form, rule_of
from broker_cy.console.acts.plan import Plan
from broker_cy.console.columns import groups
from broker_cy.console.columns.in_flight import in_flight_facts
from broker_cy.console.feed_values import GroupView
from broker_cy.console.fields import Form
from broker_cy.console.figures import Fact
from broker_cy.console.group_status import status_facts
from broker_cy.console.members import group_facts
from broker_cy.console.rows import STATUS_TONES, LagRow, catch_up_text, lag_rows
from broker_cy.console.rows import ranges as number_ranges
from broker_cy.console.session import Session, now_ms
from broker_cy.reporting.foreign_text import clean
from broker_cy.reporting.numbers import count, duration
from broker_cy.reporting.tone import Tone
from dashboard.acts import Act, Call, act
from dashboard.collector.channel import Column, FactsChannel, TableChannel, channel, linked
from dashboard.collector.columns import table_column
from dashboard.collector.patches import State
from dashboard.collector.seen_events import seen_events
from dashboard.components.panel import act_button, link, page_path, panel, table
from dashboard.components.ranges import ranges
from dashboard.components.shell import shell
from dashboard.context import Context, Page
from dashboard.pages.group_charts import LINES_MAX
from dashboard.pages.group_members import GroupChannel, member_tables, type_of
from dashboard.pages.groups import refuse_hidden_topics
from dashboard.security.roles import EVERYTHING, Need, Role, Scope

_PARTITION = re.compile(r"(.+)-([0-9]{1,9})", re.DOTALL)
# Partitions whose rows are built in one turn: about 10 ms.
_ROWS_A_TURN: Final = 500
# Legends of many lines need room.
_CHART: Final = {"height": 260}


def parse_partition(text: str) -> TopicPartition:
    """Parse `orders-3`, the id of a row. Raises ClientError."""
    match = _PARTITION.fullmatch(text)
    if match is None:
        raise ClientError(Failure.INVALID, f"{text[:100]!r}: a topic, - and the number of a partition are expected")
    return TopicPartition(match[1], int(match[2]))


def record_path(cluster: str, key: TopicPartition, offset: int) -> str:
    """Return the path of the record at an offset."""
    return page_path(cluster, "records", topic=key.topic, **{"from": str(offset), "partitions": str(key.partition)})


def rows_of(view: GroupView, session: Session) -> Iterator[LagRow]:
    """Yield the row of each partition, in parts, as a group may have 100,000 of them."""
    parts = view.lag.partitions
    for start in range(0, len(parts), _ROWS_A_TURN):
        some = replace(view, lag=GroupLag(view.lag.group_id, parts[start : start + _ROWS_A_TURN]))
        yield from lag_rows(some, session.lag_history)


def facts_of(view: GroupView, session: Session, scope: Scope) -> list[Fact]:
    """Return the facts of a group, which was reduced to the part that `scope` allows."""
    group, lag = view.description, view.lag
    status, trend = view.status, view.trend
    if scope.topics != EVERYTHING:
        rows = list(rows_of(view, session))
        status, trend = worst(row.status for row in rows), sum_of((row.lag or 0, row.trend) for row in rows)
    times = [time for part in lag.partitions if (time := view.times_ms.get(part.partition)) is not None]
    lost = sum(part.lost for part in lag.partitions)
    facts = [
        Fact("state", clean(group.state), Tone.GOOD if group.state == "Stable" else Tone.PLAIN),
        Fact("status", status.name, STATUS_TONES[status]),
        Fact("lag", groups.lag_text(lag.least, is_complete=lag.is_complete)),
        Fact("time lag", duration(max(times)) if times else "-"),
        Fact("trend", groups.trend_text(trend), groups.trend_tone(trend)),
        Fact("catch-up", catch_up_text(trend, lag.total)),
        Fact("members", count(len(group.members))),
        Fact("partitions", count(len(lag.partitions))),
        Fact("type", clean(f"{group.group_type} {group.assignor}".strip()) or "-"),
        Fact("coordinator", str(group.coordinator_id)),
    ]
    about = seen_events(session.events.items, scope) if group.group_type == STREAMS else []
    found = (*group_facts(group), *status_facts(group, about))
    facts += [Fact(fact.name, clean(fact.value), fact.tone) for fact in found]
    if view.in_flight is not None:
        facts += [Fact(fact.name, clean(fact.value), fact.tone) for fact in in_flight_facts(view.in_flight)]
    if lost:
        facts.append(Fact("deleted unread", count(lost), Tone.BAD))
    return facts


@channel("group-facts")
class GroupFacts(GroupChannel, FactsChannel):
    PARAMS = frozenset({"group"})

    def facts(self) -> Sequence[Fact] | None:
        view = self.view
        return None if view is None else facts_of(view, self.session, self.scope)

    async def state(self) -> State | None:
        """With the query of the page: the browser builds it again if it was built for another type of group."""
        state, view = await super().state(), self.view
        return None if state is None or view is None else {**state, "query": {"type": view.description.group_type}}


@channel("group-lag")
class Lag(GroupChannel, TableChannel[LagRow]):
    """Every partition for which the group has committed an offset."""

    SUBJECT = frozenset({"group"})
    SORT = "partition"
    COLUMNS: ClassVar[Sequence[Column[Any]]] = (
        table_column(groups.PARTITION, 180, is_flex=True),
        table_column(groups.COMMITTED, 105, hint="Opens the record that the group reads next"),
        table_column(groups.LOG_END, 105),
        table_column(groups.PARTITION_LAG, 80),
        table_column(groups.PARTITION_TIME_LAG, 108),
        table_column(groups.TREND, 85),
        table_column(groups.CATCH_UP, 85),
        table_column(groups.STATUS, 90),
        table_column(groups.OWNER, 120),
        table_column(groups.LAST_COMMIT, 180),
    )

    def rows(self) -> Iterable[LagRow] | None:
        view = self.view
        return None if view is None else rows_of(view, self.session)

    def row_id(self, row: LagRow) -> str:
        return str(row.part.partition)

    def row_text(self, row: LagRow) -> str:
        return f"{row.part.partition} {row.owner} {row.status.name}"

    def _cells(self, row: LagRow) -> list[Any]:
        first, committed, *rest = super()._cells(row)
        if row.part.committed is None:
            return [first, committed, *rest]
        path = record_path(self.hub.name, row.part.partition, row.part.committed)
        return [first, linked(committed, path), *rest]


@channel("group-share-lag")
class ShareLag(Lag):
    """Every partition that a share group reads or has read. Its members have no partition to themselves."""

    COLUMNS = tuple(
        replace(column, title=groups.START_OFFSET.title, hint=groups.START_OFFSET.hint)
        if column.key == groups.COMMITTED.key
        else column
        for column in Lag.COLUMNS
        if column.key != groups.LAST_COMMIT.key
    )


class GroupAct(Act):
    """Base of acts on one group, with marked partitions as rows."""

    def need(self, cluster: str, params: Mapping[str, str], rows: Sequence[str]) -> Need:
        topics = tuple(sorted({parse_partition(row).topic for row in rows}))
        return replace(super().need(cluster, params, rows), topics=topics)


@act("reset-group", Role.OPERATOR)
class ResetGroup(GroupAct):
    """`rows` are partitions: the form starts with their latest offsets."""

    async def form(self, call: Call) -> Form:
        group_id = call.param("group")
        committed = (await call.client.positions.fetch([group_id])).whole()[group_id]
        topics = sorted({key.topic for key in committed if call.identity.scope.sees_topic(key.topic)})
        form = replace(reset_form(group_id, topics), note="The group must have no members.")
        if not call.rows:
            return form
        keys = sorted(map(parse_partition, call.rows))
        ends = (await call.client.offsets.latest(keys)).whole()
        by_topic: dict[str, list[int]] = {}
        for key in keys:
            by_topic.setdefault(key.topic, []).append(key.partition)
        values = {
            "rule": "listed",
            "value": ",".join(f"{key.topic}:{key.partition}={ends[key]}" for key in keys),
            "topics": " ".join(f"{topic}:{number_ranges(numbers)}" for topic, numbers in by_topic.items()),
        }
        fields = [replace(field, value=values[field.name]) for field in form.fields]
        note = f"{form.note} The list has the latest offset of each marked partition; for another rule, replace it."
        return replace(form, fields=fields, note=note)

    def values_need(self, cluster: str, params: Mapping[str, str], values: Mapping[str, Any]) -> Need:
        rule = rule_of(values, now_ms())
        topics = {*(values["topics"] or ()), *(key.topic for key in rule.listed)}
        return Need(self.role, cluster, tuple(sorted(topics)), (rule.group_id,) if rule.group_id else ())

    async def plan(self, call: Call, values: Mapping[str, Any]) -> Plan:
        group_id, rule = call.param("group"), rule_of(values, now_ms())
        if values["topics"] is None and not rule.listed:
            await refuse_hidden_topics(call, [rule.group_id or group_id], "; enter the topics")
        return await plan_reset(call.client, call.command, group_id, values, now_ms())


@act("delete-group-offsets", Role.OPERATOR)
class DeleteOffsets(GroupAct):
    """`rows` are the partitions."""

    async def plan(self, call: Call, values: Mapping[str, Any]) -> Plan:
        keys = list(map(parse_partition, call.rows))
        return await plan_delete_offsets(call.client, call.command, call.param("group"), keys)


def _lag_table(cluster: str, group: str, kind: str) -> Component:
    name, columns = ("group-share-lag", ShareLag.COLUMNS) if kind == SHARE else ("group-lag", Lag.COLUMNS)
    return table(
        "Lag by partition",
        name,
        columns,
        cluster=cluster,
        params={"group": group},
        noun="partition",
        can_mark=True,
        height_rows=12,
        empty="The group has no offsets.",
        note="Time lag: = comes from the broker's event of the commit, ~ was just read from the log.",
        actions=[
            act_button("Reset marked", "reset-group", role=Role.OPERATOR, needs="State", rows="marked", group=group),
            act_button(
                "Delete offsets of marked",
                "delete-group-offsets",
                role=Role.OPERATOR,
                destructive=True,
                needs="State",
                rows="marked",
                group=group,
            ),
        ],
    )


def layout(context: Context, cluster: str, group: str = "", range: str = "", type: str = "", **_: str) -> Component:
    subject = {"group": group}
    kind = type_of(context, cluster, group, type)
    chosen = {**subject, **({"range": range} if range else {})}
    if kind == SHARE:
        lag = (
            "Records that were not completed. Live for ten minutes; older points, and other ranges, at the times when "
            "some were completed."
        )
        no_lag = "The group completed no records in this range."
    else:
        lag = (
            "Offsets that were not read. Live for ten minutes; older points, and other ranges, at the group's commits."
        )
        no_lag = "The group committed nothing in this range."
    return shell(
        context,
        cluster,
        "group",
        f"Group {clean(group)}",
        [
            panel("State", "group-facts", "facts", cluster=cluster, params=subject, options={"query": {"type": kind}}),
            panel(
                "Lag over time",
                "group-lag-records",
                "chart",
                cluster=cluster,
                params=chosen,
                options=_CHART,
                note=f"{lag} Marks are rebalances. At most {LINES_MAX} partitions.",
                empty=no_lag,
            ),
            panel(
                "Time lag over time",
                "group-lag-time",
                "chart",
                cluster=cluster,
                params=chosen,
                options=_CHART,
                note="Age of the first record that was not read: exact, from the timestamps of the records.",
                empty=no_lag,
            ),
            # The browser adds the type to the address as soon as the state has it.
            *([_lag_table(cluster, group, kind), *member_tables(cluster, subject, kind)] if kind else []),
        ],
        crumbs=[("Groups", page_path(cluster, "groups"))],
        actions=[
            ranges(cluster, "group", range, **subject),
            link("Rebalances", page_path(cluster, "rebalances", group=group, range=range)),
            link("Settings", page_path(cluster, "group-settings", group=group)),
            act_button("Reset offsets", "reset-group", role=Role.OPERATOR, needs="State", group=group),
            act_button(
                "Delete",
                "delete-groups",
                role=Role.OPERATOR,
                destructive=True,
                needs="State",
                after=page_path(cluster, "groups"),
                group=group,
            ),
        ],
    )


PAGE = Page("group", "Group", layout, in_navigation=False, parent="groups")
