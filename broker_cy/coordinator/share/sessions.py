"""The sessions of the members of share groups, and the end of memberships."""

from __future__ import annotations

from collections.abc import Iterable

from broker_cy.coordinator.group import GroupTable
from broker_cy.coordinator.modern.epochs import begin_epoch, newest_hash
from broker_cy.coordinator.modern.journal import trigger_of
from broker_cy.coordinator.modern.removal import MembersRemoved
from broker_cy.coordinator.share import records
from broker_cy.coordinator.share.group import ShareGroup
from broker_cy.coordinator.step import GroupStep
from broker_cy.coordinator.timers import TimerKey, TimerKind
from broker_cy.core.step import Now


def set_session(machine: GroupTable, group_id: str, member_id: str, now: Now) -> None:
    """Restart the session of a member."""
    timeout_ms = machine.share_config(group_id).session_timeout_ms
    machine.timers.set(TimerKey(TimerKind.SESSION, group_id, member_id), now.mono_ms + timeout_ms)


def start_sessions(machine: GroupTable, group: ShareGroup, member_ids: Iterable[str], now: Now) -> None:
    """The coordinator was loaded, or the removal of these members was undone."""
    for member_id in member_ids:
        if member_id in group.members:
            set_session(machine, group.group_id, member_id, now)


def cancel_session(machine: GroupTable, group_id: str, member_id: str) -> None:
    machine.timers.cancel(TimerKey(TimerKind.SESSION, group_id, member_id))


def remove_member(
    machine: GroupTable, step: GroupStep, group: ShareGroup, member_id: str, reason: str, now: Now
) -> None:
    """Remove a member that leaves, or whose session is over. The others share the partitions again."""
    trigger = trigger_of(reason, group.members[member_id])
    machine.append(step, records.member_tombstones(group.group_id, member_id))
    metadata_hash = newest_hash(machine, step, group)
    begin_epoch(machine, step, group, now, records.epoch_record, metadata_hash, trigger, left=1)
    if not group.members:
        group.journal.settle(machine, step, group, None, 0, now)
    cancel_session(machine, group.group_id, member_id)
    step.then(MembersRemoved(group.group_id, (member_id,)))
