"""The members of a group, and the tasks of a streams group: planned against current. The columns depend on the type."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from dash.development.base_component import Component

from broker_cy.admin.group_values import (
    CLASSIC,
    CONSUMER,
    SHARE,
    STREAMS,
    GroupMember,
    StreamsFacts,
    Subtopology,
)
from broker_cy.console.columns import groups, in_flight
from broker_cy.console.feed_values import GroupView
from broker_cy.console.listeners import Source
from broker_cy.console.members import MemberRow, TaskRow, holder_name, member_rows, task_rows
from dashboard.collector.channel import Channel, TableChannel, channel
from dashboard.collector.columns import table_column
from dashboard.collector.frames import Health
from dashboard.components.panel import table
from dashboard.context import Context
from dashboard.pages.group_records import member_buttons, record_buttons, run_id
from dashboard.pages.groups import seen_view


class GroupChannel(Channel):
    """Base of the channels of one group."""

    REQUIRED = frozenset({"group"})

    def sources(self) -> Sequence[Source]:
        return [self.session.group(self.params["group"])]

    @property
    def view(self) -> GroupView | None:
        """The group as far as the viewer may see it."""
        view = self.session.group(self.params["group"]).value
        return None if view is None else seen_view(view, self.scope)


def _member(row: MemberRow) -> GroupMember:
    return row.member


def _streams(row: MemberRow) -> StreamsFacts | None:
    return row.member.streams


class Members(GroupChannel, TableChannel[MemberRow]):
    """Base of the members of groups of a type."""

    SUBJECT = frozenset({"group"})
    SORT = "client"

    def rows(self) -> Iterable[MemberRow] | None:
        view = self.view
        return None if view is None else member_rows(view.description)

    def row_id(self, row: MemberRow) -> str:
        return row.member.member_id

    def row_text(self, row: MemberRow) -> str:
        member = row.member
        return f"{member.client_id} {member.member_id} {member.instance_id or ''} {member.client_host}"


@channel("group-members")
class ClassicMembers(Members):
    COLUMNS = (
        table_column(groups.CLIENT_ID.of(_member), 150),
        table_column(groups.INSTANCE_ID.of(_member), 90),
        table_column(groups.HOST.of(_member), 110),
        table_column(groups.MEMBER_PARTITIONS.of(_member), 100),
        table_column(groups.ASSIGNED.of(_member), 220, is_flex=True),
        table_column(groups.MEMBER_ID.of(_member), 210),
    )


@channel("group-consumer-members")
class ConsumerMembers(Members):
    COLUMNS = (
        table_column(groups.CLIENT_ID.of(_member), 100),
        table_column(groups.MEMBER_PROTOCOL.of(_member), 88),
        table_column(groups.MEMBER_EPOCH.of(_member), 65),
        table_column(groups.INSTANCE_ID.of(_member), 105),
        table_column(groups.RACK.of(_member), 65),
        table_column(groups.HOST.of(_member), 90),
        table_column(groups.SUBSCRIPTION.of(_member), 105),
        table_column(groups.MEMBER_PARTITIONS.of(_member), 88),
        table_column(groups.ASSIGNED.of(_member), 100, is_flex=True),
        table_column(groups.DIFFERENCE, 245),
        table_column(groups.MEMBER_ID.of(_member), 190),
    )


@channel("group-share-members")
class ShareMembers(Members):
    COLUMNS = (
        table_column(groups.CLIENT_ID.of(_member), 150),
        table_column(groups.MEMBER_EPOCH.of(_member), 70),
        table_column(groups.RACK.of(_member), 80),
        table_column(groups.HOST.of(_member), 110),
        table_column(groups.SUBSCRIPTION.of(_member), 150),
        table_column(groups.MEMBER_PARTITIONS.of(_member), 100),
        table_column(groups.ASSIGNED.of(_member), 220, is_flex=True),
        table_column(groups.MEMBER_ID.of(_member), 210),
    )


@channel("group-streams-members")
class StreamsMembers(Members):
    COLUMNS = (
        table_column(groups.CLIENT_ID.of(_member), 110),
        table_column(groups.MEMBER_EPOCH.of(_member), 65),
        table_column(groups.PROCESS.of(_member), 110),
        table_column(groups.HOST.of(_member), 90),
        table_column(groups.ENDPOINT.of(_streams), 110),
        table_column(groups.TOPOLOGY_EPOCH.of(_streams), 80),
        table_column(groups.ACTIVE_TASKS.of(_streams), 110, is_flex=True),
        table_column(groups.STANDBY_TASKS.of(_streams), 115),
        table_column(groups.DIFFERENCE, 235),
        table_column(groups.MEMBER_ID.of(_member), 150),
    )


@channel("group-tasks")
class Tasks(GroupChannel, TableChannel[TaskRow]):
    """The tasks of a streams group."""

    SUBJECT = frozenset({"group"})
    SORT = "task"
    COLUMNS = (
        table_column(groups.TASK, 80),
        table_column(groups.TASK_STATE, 90),
        table_column(groups.TASK_OWNER, 150, is_flex=True),
        table_column(groups.TASK_PLANNED, 150),
        table_column(groups.TASK_PROCESS, 130),
        table_column(groups.TASK_HOST, 105),
        table_column(groups.TASK_STANDBYS, 150, is_flex=True),
        table_column(groups.TASK_PLANNED_STANDBYS, 160),
    )

    def rows(self) -> Iterable[TaskRow] | None:
        view = self.view
        return None if view is None else task_rows(view.description)

    def row_id(self, row: TaskRow) -> str:
        return str(row.task)

    def row_text(self, row: TaskRow) -> str:
        return f"{row.task} {holder_name(row.owner)} {holder_name(row.planned)}"


@channel("group-topology")
class TopologyTable(GroupChannel, TableChannel[Subtopology]):
    """The subtopologies of a streams group."""

    SUBJECT = frozenset({"group"})
    SORT = "subtopology"
    COLUMNS = (
        table_column(groups.SUBTOPOLOGY, 135),
        table_column(groups.SOURCE_TOPICS, 220, is_flex=True),
        table_column(groups.SINK_TOPICS, 220, is_flex=True),
        table_column(groups.CHANGELOGS, 220, is_flex=True),
    )

    def rows(self) -> Iterable[Subtopology] | None:
        view = self.view
        if view is None:
            return None
        topology = view.description.topology
        return () if topology is None else topology.subtopologies

    def row_id(self, row: Subtopology) -> str:
        return row.subtopology_id

    def row_text(self, row: Subtopology) -> str:
        return f"{row.subtopology_id} {' '.join(row.source_topics)}"


@channel("group-in-flight")
class InFlight(GroupChannel, TableChannel[in_flight.RunRow]):
    """The records of a share group that are delivered and not finished, and archived ones after those."""

    SUBJECT = frozenset({"group"})
    SORT = "partition"
    COLUMNS = (
        table_column(in_flight.PARTITION, 150, is_flex=True),
        table_column(in_flight.FIRST, 110),
        table_column(in_flight.LAST, 110),
        table_column(in_flight.RECORDS, 85),
        table_column(in_flight.STATE, 170),
        table_column(in_flight.DELIVERIES, 95),
        table_column(in_flight.HOLDER, 150),
        table_column(in_flight.LOCK_LEFT, 95),
    )

    def rows(self) -> Iterable[in_flight.RunRow] | None:
        view = self.view
        if view is None:
            return None
        return () if view.in_flight is None else in_flight.run_rows(view.in_flight, view.description)

    def health(self) -> Health:
        health, view = super().health(), self.view
        if health.error or view is None or view.in_flight is not None:
            return health
        return Health(health.age_ms, "No broker reports records in flight (brokercy.metrics.listener).", True)

    def row_id(self, row: in_flight.RunRow) -> str:
        return run_id(row)

    def row_text(self, row: in_flight.RunRow) -> str:
        return f"{row.run.partition} {row.run.state} {row.holder or ''}"


_MEMBERS: Final[Mapping[str, tuple[str, type[Members]]]] = {
    CLASSIC: ("group-members", ClassicMembers),
    CONSUMER: ("group-consumer-members", ConsumerMembers),
    SHARE: ("group-share-members", ShareMembers),
    STREAMS: ("group-streams-members", StreamsMembers),
}


def type_of(context: Context, cluster: str, group: str, given: str) -> str:
    """Return the type of a group, which decides what its page has: that of the newest answer of the cluster, else that
    of the address (`given`); empty if neither is known.
    """
    session = context.hub(cluster).session
    sees = group and context.identity().scope.sees_group(group)
    return next((each for each in (session.group_type(group) if sees else "", given) if each in _MEMBERS), "")


def member_tables(cluster: str, subject: Mapping[str, str], kind: str) -> list[Component]:
    """Return the panels of the members, and of the tasks and the topology of a streams group."""
    name, members = _MEMBERS[kind]
    found = [
        table(
            "Members",
            name,
            members.COLUMNS,
            cluster=cluster,
            params=subject,
            noun="member",
            can_mark=kind == SHARE,
            height_rows=6,
            empty="The group has no members.",
            actions=member_buttons(subject["group"]) if kind == SHARE else (),
        )
    ]
    if kind == SHARE:
        found.append(
            table(
                "Records in flight",
                "group-in-flight",
                InFlight.COLUMNS,
                cluster=cluster,
                params=subject,
                noun="range",
                can_mark=True,
                height_rows=8,
                empty="No records are in flight.",
                note="At the last attempt, records without an acknowledgement are archived when their lock ends. "
                "Throttled records are delivered in smaller parts.",
                actions=record_buttons(subject["group"]),
            )
        )
    if kind == STREAMS:
        found += [
            table(
                "Tasks",
                "group-tasks",
                Tasks.COLUMNS,
                cluster=cluster,
                params=subject,
                noun="task",
                height_rows=8,
                empty="No member has a task.",
                note="A standby on another process has a copy of the state of a task, and can take it over promptly.",
            ),
            table(
                "Topology",
                "group-topology",
                TopologyTable.COLUMNS,
                cluster=cluster,
                params=subject,
                noun="part",
                height_rows=4,
                has_filter=False,
                empty="The group has no topology.",
            ),
        ]
    return found
