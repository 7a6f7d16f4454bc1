"""The target assignment of a streams group: at once, or in the background for a large group."""

from __future__ import annotations

from collections.abc import Mapping
from operator import attrgetter

from broker_cy.coordinator.assignors import streams_sticky
from broker_cy.coordinator.assignors.streams_spec import (
    NO_TASKS,
    StreamsGroupSpec,
    StreamsMemberSpec,
    Subtopology,
    TaskAssignment,
)
from broker_cy.coordinator.group import GroupTable
from broker_cy.coordinator.modern.assigning import Changed, assign, is_under_way
from broker_cy.coordinator.modern.target import changed_targets, is_assignment_due
from broker_cy.coordinator.step import GroupStep
from broker_cy.coordinator.streams import deadlines, records
from broker_cy.coordinator.streams.group import StreamsGroup
from broker_cy.coordinator.streams.member import StreamsMember
from broker_cy.core.classes import NamedTuple
from broker_cy.core.step import Now

STANDBY_REPLICAS = "num.standby.replicas"
_UNDER_WAY = "Assignment delayed because it is being computed."


_member_id = attrgetter("member_id")


class Inputs(NamedTuple):
    """All that the assignment of a group follows from, as values."""

    group_id: str
    members: tuple[StreamsMember, ...]
    target: Mapping[str, TaskAssignment]
    subtopologies: Mapping[str, Subtopology]
    standby_replicas: int


def assignment_configs(machine: GroupTable, group_id: str) -> dict[str, str]:
    """The settings of a group that the assignor uses; a change of them begins another epoch."""
    return {STANDBY_REPLICAS: str(machine.streams_config(group_id).standby_replicas)}


def update_target(machine: GroupTable, step: GroupStep, group: StreamsGroup, now: Now) -> str | None:
    """Assign the tasks for the epoch of the group, unless that is done. Returns why that waits, if it does. A topology
    that the topics do not fit has no tasks.
    """
    if deadlines.is_delayed(machine, group.group_id):
        return "Assignment delayed due to the configured initial rebalance delay."
    if group.assignment_epoch >= group.epoch:
        return None
    interval_ms = machine.streams_config(group.group_id).assignment_interval_ms
    if not is_assignment_due(group.assigned_at_ms, interval_ms, now.wall_ms):
        return "Assignment delayed due to the configured assignment interval."
    if is_under_way(machine, group):
        return _UNDER_WAY
    assert group.configured is not None
    inputs = Inputs(
        group.group_id,
        tuple(group.members.values()),
        dict(group.target),
        group.configured.spec(),
        int(group.assignment_configs.get(STANDBY_REPLICAS, "0")),
    )
    tasks = sum(each.partitions for each in inputs.subtopologies.values())
    size = len(inputs.members) + tasks * (1 + inputs.standby_replicas)
    is_large = size > machine.settings.streams.assigned_at_once_max
    assign(machine, step, group, compute, inputs, records.target_epoch_record, now, is_large=is_large)
    return _UNDER_WAY if is_large else None


def compute(inputs: Inputs) -> list[Changed]:
    """Run the assignor. For a large group, this runs in the background."""
    spec = StreamsGroupSpec(
        {
            member.member_id: StreamsMemberSpec(member.process_id, inputs.target.get(member.member_id, NO_TASKS))
            for member in sorted(inputs.members, key=_member_id)
        },
        inputs.subtopologies,
        inputs.standby_replicas,
    )

    def changed(member_id: str, target: TaskAssignment) -> Changed:
        record = records.target_record(inputs.group_id, member_id, target)
        return Changed(member_id, record, records.target_of(record.value or b""))

    return changed_targets(streams_sticky.assign(spec).assignments, inputs.target, changed)
