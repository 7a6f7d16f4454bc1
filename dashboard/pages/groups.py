"""Groups: state, members, lag with its trend and in time, a verdict; deleting groups.

Members are requested only for the groups that a browser shows, because a description contains every assignment. A
viewer who may see only some topics sees the lag in those: it is computed from the last samples of their partitions.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from dash.development.base_component import Component

from broker_cy.admin.group_lag import GroupLag
from broker_cy.admin.group_values import WITHOUT_MEMBERS, GroupDescription, GroupListing, InternalTopic, Topology
from broker_cy.admin.metadata import TopicPartition
from broker_cy.admin.share_in_flight import GroupInFlight
from broker_cy.client.errors import ClientError, Failure
from broker_cy.client.turns import Turns
from broker_cy.console.acts.groups import plan_delete_groups
from broker_cy.console.acts.plan import Plan
from broker_cy.console.columns import groups
from broker_cy.console.feed_values import GroupSummary, GroupView
from broker_cy.console.feeds import Feed
from broker_cy.console.listeners import Source
from broker_cy.console.rows import GroupRow
from dashboard.acts import Act, Call, act
from dashboard.collector.channel import TableChannel, channel, linked
from dashboard.collector.columns import table_column
from dashboard.collector.patches import State
from dashboard.components.panel import act_button, page_path, table
from dashboard.components.shell import shell
from dashboard.context import Context, Page
from dashboard.security.roles import EVERYTHING, Need, Role, Scope

# How often the groups that a browser shows are described.
MEMBERS_INTERVAL_S: Final = 5.0


def seen_view(view: GroupView, scope: Scope) -> GroupView:
    """Return a group as far as its topics are visible. Status and trend are not adapted: see group.facts_of."""
    if scope.topics == EVERYTHING:
        return view

    def seen(keys: Iterable[TopicPartition]) -> tuple[TopicPartition, ...]:
        return tuple(key for key in keys if scope.sees_topic(key.topic))

    members = tuple(
        replace(
            member,
            assignment=seen(member.assignment),
            target=None if member.target is None else seen(member.target),
            subscribed=tuple(filter(scope.sees_topic, member.subscribed)),
        )
        for member in view.description.members
    )
    parts = tuple(part for part in view.lag.partitions if scope.sees_topic(part.partition.topic))
    return replace(
        view,
        description=replace(view.description, members=members, topology=_seen_topology(view.description, scope)),
        lag=GroupLag(view.lag.group_id, parts),
        in_flight=None if view.in_flight is None else _seen_in_flight(view.in_flight, scope),
    )


def _seen_in_flight(flight: GroupInFlight, scope: Scope) -> GroupInFlight:
    """Without the causes, which are counted over all topics of the group."""
    return flight._replace(
        runs=tuple(run for run in flight.runs if scope.sees_topic(run.partition.topic)),
        blocked=tuple(key for key in flight.blocked if scope.sees_topic(key.topic)),
        archived={},
        returned={},
    )


def _seen_topology(group: GroupDescription, scope: Scope) -> Topology | None:
    if group.topology is None:
        return None

    def seen(topics: Iterable[InternalTopic]) -> tuple[InternalTopic, ...]:
        return tuple(topic for topic in topics if scope.sees_topic(topic.name))

    return replace(
        group.topology,
        subtopologies=tuple(
            replace(
                each,
                source_topics=tuple(filter(scope.sees_topic, each.source_topics)),
                repartition_sources=seen(each.repartition_sources),
                repartition_sinks=tuple(filter(scope.sees_topic, each.repartition_sinks)),
                changelogs=seen(each.changelogs),
            )
            for each in group.topology.subtopologies
        ),
    )


@dataclass(frozen=True, slots=True)
class Row:
    """A group; `members` is None if the group was not described yet."""

    group: GroupRow
    members: int | None


def _state_order(row: Row) -> tuple[int, str, int]:
    state = row.group.listing.state
    return groups.state_rank(state), state, -(row.group.lag or 0)


def _listing(row: Row) -> GroupListing:
    return row.group.listing


def _members(row: Row) -> int | None:
    return row.members


def _summary(row: Row) -> GroupSummary | None:
    return row.group.summary


@channel("groups")
class Groups(TableChannel[Row]):
    """All groups."""

    SORT = "state"
    COLUMNS = (
        table_column(groups.GROUP.of(_listing), 145, is_flex=True),
        table_column(
            groups.STATE.by(lambda row: row.group.listing.state, sort=_state_order),
            112,
            hint="Sorts by state, then by lag",
        ),
        table_column(groups.KIND.of(_listing), 85),
        table_column(groups.MEMBERS.of(_members), 90),
        table_column(groups.PARTITIONS.of(_summary), 88),
        table_column(groups.LAG.of(_summary), 95),
        table_column(groups.TIME_LAG.of(_summary), 106),
        table_column(groups.TREND.of(_summary), 85),
        table_column(groups.CATCH_UP.of(_summary), 91),
        table_column(groups.STATUS.of(_summary), 90),
    )

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._summaries: Mapping[str, GroupSummary] = {}
        self._summaries_of: Mapping[str, GroupSummary] | None = None
        self._shown: list[str] = []
        self._asked: frozenset[str] = frozenset()
        self._described: Feed[dict[str, int]] = Feed(self._describe, MEMBERS_INTERVAL_S)

    def sources(self) -> Sequence[Source]:
        return [self.session.groups(), self.session.group_lags(), self._described]

    async def _describe(self) -> dict[str, int]:
        """Return the number of members of each group that is shown. A group that was deleted meanwhile has none."""
        self._asked = frozenset(self._shown)
        if not self._asked:
            return {}
        found = (await self.session.client.groups.describe(sorted(self._asked))).found
        return {group_id: len(each.members) for group_id, each in found.items()}

    async def state(self) -> State | None:
        await self._judge()
        self._shown = []
        state = await super().state()
        if not self._asked.issuperset(self._shown):
            self._described.kick()
        return state

    async def _judge(self) -> None:
        """Compute the summaries for a viewer who may see only some topics, once for each answer."""
        lags = self.session.group_lags().value
        if lags is self._summaries_of:
            return
        summaries: Mapping[str, GroupSummary] = lags or {}
        if self.scope.topics != EVERYTHING:
            summaries = {group_id: summary async for group_id, summary in self._seen_summaries(summaries)}
        self._summaries_of, self._summaries = lags, summaries

    async def _seen_summaries(self, groups: Iterable[str]) -> AsyncIterator[tuple[str, GroupSummary]]:
        turns = Turns()
        for group_id in groups:
            if self.scope.sees_group(group_id):
                yield group_id, await self.session.summary_of(group_id, lambda key: self.scope.sees_topic(key.topic))
            await turns.pause()

    def rows(self) -> Iterable[Row] | None:
        listed = self.session.groups().value
        return None if listed is None else self._rows(listed)

    def _rows(self, listed: Iterable[Any]) -> Iterable[Row]:
        described, lags, sees = self._described.value or {}, self._summaries, self.scope.sees_group
        for each in listed:
            if sees(each.group_id):
                members = 0 if each.state in WITHOUT_MEMBERS else described.get(each.group_id)
                yield Row(GroupRow(each, lags.get(each.group_id)), members)

    def row_id(self, row: Row) -> str:
        return row.group.listing.group_id

    def row_text(self, row: Row) -> str:
        verdict = "" if row.group.status is None else row.group.status.name
        listing = row.group.listing
        return f"{listing.group_id} {listing.state} {listing.group_type} {verdict}"

    def _cells(self, row: Row) -> list[Any]:
        listing = row.group.listing
        if listing.state not in WITHOUT_MEMBERS:
            self._shown.append(listing.group_id)
        first, *rest = super()._cells(row)
        return [linked(first, page_path(self.hub.name, "group", group=listing.group_id)), *rest]


async def refuse_hidden_topics(call: Call, group_ids: Sequence[str], remedy: str) -> None:
    """Raise ClientError if a group committed offsets of topics that the user may not see: a plan would name them."""
    scope = call.identity.scope
    if scope.topics == EVERYTHING or not group_ids:
        return
    committed = (await call.client.positions.fetch(group_ids)).whole()
    for group_id, offsets in committed.items():
        if not all(scope.sees_topic(key.topic) for key in offsets):
            raise ClientError(
                Failure.REFUSED,
                f"it has committed offsets of topics that {call.identity.name} may not see{remedy}",
                what=f"group {group_id}",
            )


@act("delete-groups", Role.OPERATOR)
class DeleteGroups(Act):
    """`rows` are the groups, or the parameter `group` is the only one."""

    def need(self, cluster: str, params: Mapping[str, str], rows: Sequence[str]) -> Need:
        return replace(super().need(cluster, params, rows), groups=_groups(params, rows))

    async def plan(self, call: Call, values: Mapping[str, Any]) -> Plan:
        group_ids = _groups(call.params, call.rows)
        await refuse_hidden_topics(call, group_ids, "")
        return await plan_delete_groups(call.client, call.command, group_ids)


def _groups(params: Mapping[str, str], rows: Sequence[str]) -> tuple[str, ...]:
    return (params["group"],) if params.get("group") else tuple(rows)


def layout(context: Context, cluster: str, **_: str) -> Component:
    return shell(
        context,
        cluster,
        "groups",
        "Groups",
        [
            table(
                "All groups",
                "groups",
                Groups.COLUMNS,
                cluster=cluster,
                noun="group",
                can_mark=True,
                note="Verdicts: OK keeps up, WARN consumes while its lag grows, STALLED has members and does not "
                "consume, STOPPED no longer commits, REWOUND went back and has not caught up, UNKNOWN was not observed "
                "for long enough.",
                actions=[
                    act_button("Delete marked", "delete-groups", role=Role.OPERATOR, destructive=True, rows="marked")
                ],
            )
        ],
    )


PAGE = Page("groups", "Groups", layout)
