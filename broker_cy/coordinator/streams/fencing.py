"""The end of memberships: members that leave, and those whose time is over."""

from __future__ import annotations

from broker_cy.coordinator.group import GroupTable
from broker_cy.coordinator.modern.journal import trigger_of
from broker_cy.coordinator.modern.removal import MembersRemoved
from broker_cy.coordinator.step import GroupStep
from broker_cy.coordinator.streams import deadlines, records
from broker_cy.coordinator.streams.group import StreamsGroup
from broker_cy.core.step import Now


def fence(machine: GroupTable, step: GroupStep, group: StreamsGroup, member_id: str, reason: str, now: Now) -> None:
    """Remove a member for a `reason` (`events.Trigger`). The others share the tasks again."""
    group_id, member = group.group_id, group.members[member_id]
    machine.append(step, records.member_tombstones(group_id, member_id))
    deadlines.cancel_timers(machine, group_id, member_id)
    machine.append(
        step,
        [
            records.epoch_record(
                group_id, group.epoch + 1, group.metadata_hash, group.validated_epoch, group.assignment_configs
            )
        ],
    )
    group.journal.epoch_began(step, group, trigger_of(reason, member, member.instance_id), 1, now)
    if not group.members:
        group.journal.settle(machine, step, group, None, 0, now)
    step.then(MembersRemoved(group_id, (member_id,)))
