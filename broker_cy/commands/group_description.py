"""A described group: its members, and the offsets of a share group or the tasks of a streams group."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Final, TypeVar

import click

from broker_cy.admin.group_values import CLASSIC, STREAMS, GroupDescription, GroupMember, StreamsFacts
from broker_cy.admin.metadata import TopicPartition
from broker_cy.admin.share_offsets import ShareOffset, ShareOffsets
from broker_cy.commands.output import plain
from broker_cy.console.columns import groups as columns
from broker_cy.console.columns import topics as topic_columns
from broker_cy.console.group_status import newest_of, status_facts
from broker_cy.console.members import MemberRow, group_facts, member_rows, task_rows
from broker_cy.metrics.events import Stamped
from broker_cy.reporting.column import Column, Kind
from broker_cy.reporting.numbers import UNKNOWN, plural
from broker_cy.reporting.terminal import print_rows

R = TypeVar("R")


def _member(row: MemberRow) -> GroupMember:
    return row.member


def _streams(row: MemberRow) -> StreamsFacts | None:
    return row.member.streams


_IDENTITY: Final = (
    columns.CLIENT_ID.of(_member),
    columns.MEMBER_PROTOCOL.of(_member),
    columns.MEMBER_EPOCH.of(_member),
    columns.INSTANCE_ID.of(_member),
    columns.RACK.of(_member),
    columns.HOST.of(_member),
    columns.MEMBER_ID.of(_member),
)
# The columns of members by the type of their group. Columns without values are left out.
_MEMBERS: Final[Mapping[str, tuple[Column[MemberRow], ...]]] = {
    CLASSIC: (
        columns.CLIENT_ID.of(_member),
        columns.INSTANCE_ID.of(_member),
        columns.HOST.of(_member),
        columns.MEMBER_ID.of(_member),
        columns.MEMBER_PARTITIONS.of(_member),
        columns.ASSIGNED.of(_member),
    ),
    STREAMS: (
        *_IDENTITY,
        columns.PROCESS.of(_member),
        columns.ENDPOINT.of(_streams),
        columns.ACTIVE_TASKS.of(_streams),
        columns.STANDBY_TASKS.of(_streams),
        columns.WARMUP_TASKS.of(_streams),
        columns.DIFFERENCE,
    ),
}
_MODERN_MEMBERS: Final = (
    *_IDENTITY,
    columns.SUBSCRIPTION.of(_member),
    columns.MEMBER_PARTITIONS.of(_member),
    columns.ASSIGNED.of(_member),
    columns.TO_BE_ASSIGNED.of(_member),
    columns.DIFFERENCE,
)
_SUBTOPOLOGIES: Final = (columns.SUBTOPOLOGY, columns.SOURCE_TOPICS, columns.SINK_TOPICS, columns.CHANGELOGS)
_TASKS: Final = (
    columns.TASK,
    columns.TASK_STATE,
    columns.TASK_OWNER,
    columns.TASK_PLANNED,
    columns.TASK_PROCESS,
    columns.TASK_HOST,
    columns.TASK_STANDBYS,
    columns.TASK_PLANNED_STANDBYS,
)
# A partition of a share group.
ShareRow = tuple[TopicPartition, ShareOffset]
_START: Final = Column[ShareRow]("start", "Start offset", lambda row: row[1].start, Kind.COUNT)
_LAG: Final = Column[ShareRow]("lag", "Lag", lambda row: row[1].lag, Kind.COUNT)
_SHARE_OFFSETS: Final[tuple[Column[ShareRow], ...]] = (
    topic_columns.TOPIC.by(lambda row: row[0].topic),
    topic_columns.PARTITION.by(lambda row: row[0].partition),
    _START,
    Column("leader_epoch", "Leader epoch", lambda row: row[1].leader_epoch, Kind.NUMBER),
    _LAG,
    Column("problem", "", lambda row: "" if row[1].problem is None else row[1].problem.code.name),
)


def group_fields(group: GroupDescription, offsets: Mapping[str, ShareOffsets], events: Sequence[Stamped]) -> object:
    """Return the fields of a group for programs."""
    fields = plain(group)
    assert isinstance(fields, dict)
    if group.group_type == STREAMS:
        newest = newest_of(group, events)
        fields["statuses"] = [asdict(each) for each in newest.statuses]
        fields["epoch_trigger"] = None if newest.epoch is None else asdict(newest.epoch.trigger)
    if group.group_id in offsets:
        fields["offsets"] = [
            {**key._asdict(), "start": each.start, "leader_epoch": each.leader_epoch, "lag": each.lag}
            for key, each in sorted(offsets[group.group_id].items())
        ]
    return fields


def print_group(group: GroupDescription, offsets: ShareOffsets, events: Sequence[Stamped]) -> None:
    """Print a group; `offsets` are those of a share group, `events` those of streams groups."""
    assignor = f", {group.assignor}" if group.assignor else ""
    facts = "".join(f", {fact.name} {fact.value}" for fact in group_facts(group))
    click.echo(
        f"group {group.group_id}: {group.group_type}, {group.state}{assignor}, coordinator {group.coordinator_id}, "
        f"{plural(len(group.members), 'member')}{facts}"
    )
    for fact in status_facts(group, events):
        click.echo(f"{fact.name}: {fact.value}")
    if group.topology is not None and group.topology.subtopologies:
        print_rows(_used(_SUBTOPOLOGIES, group.topology.subtopologies), group.topology.subtopologies)
    if group.members:
        rows = member_rows(group)
        of_type = _MEMBERS.get(group.group_type, _MODERN_MEMBERS)
        print_rows(of_type if group.group_type == CLASSIC else _used(of_type, rows), rows)
    tasks = task_rows(group)
    if tasks:
        print_rows(_used(_TASKS, tasks), tasks)
    of_partitions = sorted(offsets.items())
    if of_partitions:
        # A group that has read nothing has neither: they are unknown, not missing.
        print_rows(_used(_SHARE_OFFSETS, of_partitions, always=(_START, _LAG)), of_partitions)


def _used(of_rows: Sequence[Column[R]], rows: Sequence[R], *, always: Sequence[Column[R]] = ()) -> list[Column[R]]:
    """Return the columns that have a value in any row, and those that are shown `always`."""
    return [
        column for column in of_rows if column in always or any(column.shown(row) not in ("", UNKNOWN) for row in rows)
    ]
