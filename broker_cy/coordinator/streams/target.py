"""The target assignment of a streams group."""

from __future__ import annotations

from broker_cy.coordinator.assignors import streams_sticky
from broker_cy.coordinator.assignors.streams_spec import StreamsGroupSpec, StreamsMemberSpec
from broker_cy.coordinator.group import GroupTable
from broker_cy.coordinator.modern.target import changed_targets, is_assignment_due
from broker_cy.coordinator.step import GroupStep
from broker_cy.coordinator.streams import deadlines, records
from broker_cy.coordinator.streams.group import StreamsGroup
from broker_cy.core.step import Now

STANDBY_REPLICAS = "num.standby.replicas"


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
    assert group.configured is not None
    spec = StreamsGroupSpec(
        {
            member_id: StreamsMemberSpec(group.members[member_id].process_id, group.target_of(member_id))
            for member_id in sorted(group.members)
        },
        group.configured.spec(),
        int(group.assignment_configs.get(STANDBY_REPLICAS, "0")),
    )
    group_id = group.group_id
    changed = changed_targets(
        streams_sticky.assign(spec).assignments,
        group.target,
        lambda member_id, target: records.target_record(group_id, member_id, target),
    )
    machine.append(step, [*changed, records.target_epoch_record(group_id, group.epoch, now.wall_ms)])
    group.journal.assigned(group, now)
    return None
