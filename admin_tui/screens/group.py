"""One group: members with their assignment, lag of each partition in records and in time; reset, delete; release,
reject and redrive records in flight.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar, Final

from textual.app import ComposeResult
from textual.binding import Binding, BindingType

from admin_tui.screens.groups import STATUS_STYLES
from admin_tui.screens.view import View
from admin_tui.tones import STYLES
from admin_tui.widgets.columns import Column as GridColumn
from admin_tui.widgets.columns import grid_column
from admin_tui.widgets.facts import Facts
from admin_tui.widgets.grid import Grid
from broker_cy.admin.group_values import CLASSIC, CONSUMER, SHARE, STREAMS, GroupMember, StreamsFacts
from broker_cy.admin.share_records import EVERY_OFFSET, by_partition
from broker_cy.console.acts.groups import plan_delete_groups, plan_delete_offsets, plan_reset, reset_form
from broker_cy.console.acts.plan import Plan
from broker_cy.console.acts.share_records import Wanted, plan_redrive, plan_share_records, redrive_form
from broker_cy.console.columns import groups, in_flight
from broker_cy.console.feed_values import GroupView as Answer
from broker_cy.console.group_status import status_facts
from broker_cy.console.members import MemberRow, TaskRow, group_facts, holder_name, member_rows, task_rows
from broker_cy.console.rows import LagRow, catch_up_text, lag_rows
from broker_cy.console.session import now_ms
from broker_cy.metrics.events import Stamped
from broker_cy.reporting.column import Column
from broker_cy.reporting.numbers import count, duration
from broker_cy.wire.share_operations import OperatorAction


def _member(row: MemberRow) -> GroupMember:
    return row.member


def _streams(row: MemberRow) -> StreamsFacts | None:
    return row.member.streams


def _member_text(row: MemberRow) -> str:
    member = row.member
    return f"{member.client_id} {member.member_id} {member.instance_id} {member.client_host}"


_CLIENT: Final = grid_column(groups.CLIENT_ID.of(_member), letter="C")
_EPOCH: Final = grid_column(groups.MEMBER_EPOCH.of(_member), drop=2)
_INSTANCE: Final = grid_column(groups.INSTANCE_ID.of(_member), drop=4)
_RACK: Final = grid_column(groups.RACK.of(_member), drop=6)
_HOST: Final = grid_column(groups.HOST.of(_member), drop=3)
_SUBSCRIPTION: Final = grid_column(groups.SUBSCRIPTION.of(_member), drop=5)
_PARTITIONS: Final = grid_column(groups.MEMBER_PARTITIONS.of(_member), drop=1)
_ASSIGNED: Final = grid_column(groups.ASSIGNED.of(_member), flex=True)
_DIFFERENCE: Final = grid_column(groups.DIFFERENCE, flex=True)
_MEMBER_ID: Final = grid_column(groups.MEMBER_ID.of(_member), drop=7, letter="M")
_MEMBERS: Final = {
    CLASSIC: [
        _CLIENT,
        grid_column(groups.INSTANCE_ID.of(_member), drop=3),
        grid_column(groups.HOST.of(_member), drop=2),
        grid_column(groups.MEMBER_PARTITIONS.of(_member)),
        _ASSIGNED,
        grid_column(groups.MEMBER_ID.of(_member), drop=4, letter="M"),
    ],
    CONSUMER: [
        _CLIENT,
        grid_column(groups.MEMBER_PROTOCOL.of(_member), drop=1),
        _EPOCH,
        _INSTANCE,
        _RACK,
        _HOST,
        _SUBSCRIPTION,
        _PARTITIONS,
        _ASSIGNED,
        _DIFFERENCE,
        _MEMBER_ID,
    ],
    SHARE: [_CLIENT, _EPOCH, _RACK, _HOST, _SUBSCRIPTION, _PARTITIONS, _ASSIGNED, _MEMBER_ID],
    STREAMS: [
        _CLIENT,
        _EPOCH,
        grid_column(groups.PROCESS.of(_member), drop=5),
        _HOST,
        grid_column(groups.ENDPOINT.of(_streams), drop=6),
        grid_column(groups.ACTIVE_TASKS.of(_streams), flex=True),
        grid_column(groups.STANDBY_TASKS.of(_streams), drop=1),
        _DIFFERENCE,
        _MEMBER_ID,
    ],
}


def _lag_columns(position: Column[LagRow]) -> list[GridColumn[LagRow]]:
    return [
        grid_column(groups.PARTITION, flex=True, letter="P"),
        grid_column(position, drop=2),
        grid_column(groups.LOG_END, drop=3),
        grid_column(groups.PARTITION_LAG, letter="L"),
        grid_column(groups.PARTITION_TIME_LAG, letter="T"),
        grid_column(groups.TREND),
        grid_column(groups.CATCH_UP, drop=4),
        grid_column(groups.STATUS, drop=1),
        grid_column(groups.OWNER, drop=5, letter="O"),
        grid_column(groups.LAST_COMMIT, drop=6),
    ]


class GroupView(View):
    """One group."""

    NAME = "group"
    ABOUT = """The upper table has the members with their assignment, and for groups of the newer types the planned
    changes: the partitions or tasks that a member gives up, and those that it waits for, with the members that still
    hold them. A streams group also has a table of its tasks, and a share group one of its records in flight, with their
    holders and the time left of their locks, if brokers report them (`brokercy.metrics.listener`). The lower table has,
    for each partition, the committed offset (the start offset of a share group), the log end, the lag in records and in
    time, and its trend. `tab` switches between the tables.

The time lag is the age of the first record that the group has not read. `=`: the timestamp of that record comes from
the broker's event of the commit (`__cluster_events`). `~`: the timestamp was just read from the log.

The records in flight of a share group can be changed, those that are marked, or the one under the cursor: *release*
ends their locks, so that other members get them; *reject* archives them; *redrive* delivers archived ones again, or
copies them to a topic. In the table of the members, *release* means all that the member holds."""
    CHANGES = frozenset({"reset", "delete", "forget", "release", "reject", "redrive"})
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("m", "messages", "Records", id="group.messages"),
        Binding("b", "rebalances", "Rebalances", id="group.rebalances"),
        Binding("r", "reset", "Reset", id="group.reset"),
        Binding("x", "forget", "Delete offsets", id="group.forget"),
        Binding("u", "release", "Release", id="group.release"),
        Binding("a", "reject", "Reject", id="group.reject"),
        Binding("w", "redrive", "Redrive", id="group.redrive"),
        Binding("ctrl+d", "delete", "Delete", id="group.delete"),
    ]
    DEFAULT_CSS = """
    GroupView Facts { max-height: 6; }
    GroupView Facts.in-flight { max-height: 8; }
    GroupView #members { height: 2fr; }
    GroupView #tasks, GroupView #in-flight { height: 2fr; display: none; }
    GroupView #lag { height: 3fr; }
    """

    def __init__(self, group_id: str) -> None:
        super().__init__()
        self.group_id = group_id

    @property
    def path(self) -> str:
        return f"groups > {self.group_id}"

    def body(self) -> ComposeResult:
        yield Facts("Group", id="facts")
        yield Grid[MemberRow](
            _MEMBERS[CLASSIC],
            key=lambda row: row.member.member_id,
            text=_member_text,
            title="Members",
            id="members",
        )
        yield Grid[TaskRow](
            [
                grid_column(groups.TASK, letter="K"),
                grid_column(groups.TASK_STATE, drop=4),
                grid_column(groups.TASK_OWNER, flex=True),
                grid_column(groups.TASK_PLANNED),
                grid_column(groups.TASK_PROCESS, drop=3),
                grid_column(groups.TASK_HOST, drop=2),
                grid_column(groups.TASK_STANDBYS, flex=True),
                grid_column(groups.TASK_PLANNED_STANDBYS, drop=1),
            ],
            key=lambda row: row.task,
            text=lambda row: f"{row.task} {holder_name(row.owner)} {holder_name(row.planned)}",
            noun="task",
            title="Tasks",
            sort="Task",
            id="tasks",
        )
        yield Grid[in_flight.RunRow](
            [
                grid_column(in_flight.PARTITION, flex=True),
                grid_column(in_flight.FIRST, letter="F"),
                grid_column(in_flight.LAST, drop=4),
                grid_column(in_flight.RECORDS, drop=1),
                grid_column(in_flight.STATE, drop=3),
                grid_column(in_flight.DELIVERIES, letter="D"),
                grid_column(in_flight.HOLDER),
                grid_column(in_flight.LOCK_LEFT, drop=2),
            ],
            key=lambda row: (row.run.partition, row.run.first_offset),
            text=lambda row: f"{row.run.partition} {row.run.state} {row.holder or ''}",
            noun="range",
            title="Records in flight",
            sort="Partition",
            can_mark=True,
            id="in-flight",
        )
        yield Grid[LagRow](
            _lag_columns(groups.COMMITTED),
            key=lambda row: row.part.partition,
            text=lambda row: f"{row.part.partition} {row.owner}",
            title="Lag",
            can_mark=True,
            id="lag",
            sort="Partition",
        )

    @property
    def _lag_grid(self) -> Grid[Any]:
        return self.query_one("#lag", Grid)

    @property
    def _flight_grid(self) -> Grid[Any]:
        return self.query_one("#in-flight", Grid)

    def connect(self) -> None:
        feed = self.session.group(self.group_id)
        self.link(feed, self._lag_grid, self._show)
        self.link(feed, self.query_one("#members"), lambda: None)
        self.link(feed, self.query_one(Facts), lambda: None)
        self._lag_grid.focus()

    def _show(self) -> None:
        view = self.session.group(self.group_id).value
        if view is None:
            return
        group = view.description
        members = self.query_one("#members", Grid)
        members.set_columns(_MEMBERS.get(group.group_type, _MEMBERS[CLASSIC]))
        members.set_rows(member_rows(group))
        tasks = self.query_one("#tasks", Grid)
        tasks.display = group.group_type == STREAMS
        tasks.set_rows(task_rows(group))
        flight = self._flight_grid
        flight.display = view.in_flight is not None
        if view.in_flight is not None:
            flight.set_rows(list(in_flight.run_rows(view.in_flight, group)))
        position = groups.START_OFFSET if group.group_type == SHARE else groups.COMMITTED
        self._lag_grid.set_columns(_lag_columns(position))
        self._lag_grid.set_rows(lag_rows(view, self.session.lag_history))
        facts = self.query_one(Facts)
        facts.set_class(view.in_flight is not None, "in-flight")
        facts.set_facts(_facts(view, self.session.events.items))

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        if action in ("messages", "forget") and (not self.query("#lag") or self._lag_grid.selected is None):
            return False
        if action in ("release", "reject", "redrive") and not (self.query("#in-flight") and self._flight_grid.display):
            return False
        return super().check_action(action, parameters)

    def on_grid_selected(self, event: Grid.Selected) -> None:
        event.stop()
        if event.grid.id == "lag":
            self.action_messages()

    def action_messages(self) -> None:
        row: LagRow | None = self._lag_grid.selected
        if row is not None:
            from admin_tui.screens.messages import MessagesView
            from broker_cy.admin.records import Start

            view = MessagesView(row.part.partition.topic, f"p{row.part.partition.partition}")
            # The record that the group will read next; it may not have begun yet.
            if row.part.committed is not None:
                view.search = view.search._replace(start=Start.offset(row.part.committed))
            self.app.push_screen(view)

    def action_rebalances(self) -> None:
        self.console_app.show_view("rebalances", self.group_id)

    def action_reset(self) -> None:
        topics = sorted({row.part.partition.topic for row in self._lag_grid.rows})
        self.act(
            lambda values: plan_reset(self.client, self.command, self.group_id, values, now_ms()),
            form=reset_form(self.group_id, topics),
        )

    def action_forget(self) -> None:
        keys = [row.part.partition for row in self._lag_grid.chosen]

        async def plan(values: Mapping[str, Any]) -> Plan:
            return await plan_delete_offsets(self.client, self.command, self.group_id, keys)

        self.act(plan, then=self._lag_grid.marks.clear)

    def _change(self, action: OperatorAction, wanted: Wanted, member_id: str = "") -> None:
        async def plan(values: Mapping[str, Any]) -> Plan:
            return await plan_share_records(self.client, self.command, self.group_id, action, wanted, member_id)

        self.act(plan, then=self._flight_grid.marks.clear)

    def _chosen(self) -> Wanted:
        """The records of the ranges that are marked, or of the one under the cursor."""
        runs = [row.run for row in self._flight_grid.chosen]
        return by_partition((run.partition, run.first_offset, run.last_offset) for run in runs)

    def action_release(self) -> None:
        members = self.query_one("#members", Grid)
        if self.focused is members and members.selected is not None:
            partitions = sorted(row.part.partition for row in self._lag_grid.rows)
            member_id = members.selected.member.member_id
            self._change(OperatorAction.RELEASE, dict.fromkeys(partitions, EVERY_OFFSET), member_id)
        else:
            self._change(OperatorAction.RELEASE, self._chosen())

    def action_reject(self) -> None:
        self._change(OperatorAction.REJECT, self._chosen())

    def action_redrive(self) -> None:
        self.act(
            lambda values: plan_redrive(self.client, self.command, self.group_id, values),
            form=redrive_form(self.group_id, self._chosen()),
            then=self._flight_grid.marks.clear,
        )

    def action_delete(self) -> None:
        async def plan(values: Mapping[str, Any]) -> Plan:
            return await plan_delete_groups(self.client, self.command, [self.group_id])

        self.act(plan, then=lambda: self.console_app.show_view("groups", keep=False))


def _facts(view: Answer, events: Iterable[Stamped]) -> list[Any]:
    group, lag = view.description, view.lag
    times = [time for time in view.times_ms.values() if time is not None]
    lost = sum(part.lost for part in lag.partitions)
    facts: list[Any] = [
        ("state", group.state, "bold green" if group.state == "Stable" else "bold"),
        ("status", view.status.name, STATUS_STYLES[view.status]),
        ("lag", groups.lag_text(lag.least, is_complete=lag.is_complete)),
        ("time lag", duration(max(times)) if times else "-"),
        ("trend", groups.trend_text(view.trend)),
        ("catch-up", catch_up_text(view.trend, lag.total)),
        ("members", count(len(group.members))),
        ("type", f"{group.group_type} {group.assignor}".strip()),
        ("coordinator", str(group.coordinator_id)),
    ]
    found = (*group_facts(group), *status_facts(group, events))
    facts += [(fact.name, fact.value, STYLES[fact.tone]) for fact in found]
    if view.in_flight is not None:
        facts += [(fact.name, fact.value, STYLES[fact.tone]) for fact in in_flight.in_flight_facts(view.in_flight)]
    if lost:
        facts.append(("deleted unread", count(lost), "bold red"))
    return facts
