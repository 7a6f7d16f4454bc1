"""The end of memberships: members that leave, and those whose time is over."""

from __future__ import annotations

from collections.abc import Sequence

from broker_cy.coordinator.consumer import deadlines, downgrade, records
from broker_cy.coordinator.consumer.group import ConsumerGroup
from broker_cy.coordinator.group import GroupTable
from broker_cy.coordinator.modern.epochs import begin_epoch, newest_hash
from broker_cy.coordinator.modern.journal import NOTHING_HELD, trigger_of
from broker_cy.coordinator.modern.removal import MembersRemoved
from broker_cy.coordinator.step import GroupStep
from broker_cy.core.step import Now


def fence(
    machine: GroupTable, step: GroupStep, group: ConsumerGroup, member_ids: Sequence[str], reason: str, now: Now
) -> None:
    """Remove members for a `reason` (`events.Trigger`). The others share the partitions again, in a classic group if
    none of them uses the consumer protocol.
    """
    if not member_ids:
        return
    group_id = group.group_id
    if downgrade.is_due(machine, group, [group.members[member_id] for member_id in member_ids]):
        downgrade.downgrade(machine, step, group, member_ids, now, rebalances=True)
        return
    gone = [group.members[member_id] for member_id in member_ids]
    regexes = [group.members[member_id].regex for member_id in member_ids]
    for member_id in member_ids:
        machine.append(step, records.member_tombstones(group_id, member_id))
        deadlines.cancel_timers(machine, group_id, member_id)
    for regex in dict.fromkeys(filter(None, regexes)):
        if regex not in group.regex_members:
            machine.append(step, [records.regex_tombstone(group_id, regex)])
    metadata_hash = newest_hash(machine, step, group)
    # The event names one of them. Several leave together only by an administrator's request.
    trigger = trigger_of(reason, gone[0], gone[0].instance_id)
    begin_epoch(machine, step, group, now, records.epoch_record, metadata_hash, trigger, left=len(gone))
    for member in gone:
        group.journal.held(member.member_id, member.held, NOTHING_HELD, now.mono_ms)
    if not group.members:
        group.journal.settle(machine, step, group, None, 0, now)
    step.then(MembersRemoved(group_id, tuple(member_ids)))
