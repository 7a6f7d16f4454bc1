"""The deadlines of the members of consumer groups."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from broker_cy.coordinator.consumer.group import ConsumerGroup
from broker_cy.coordinator.consumer.member import ConsumerMember
from broker_cy.coordinator.group import GroupTable
from broker_cy.coordinator.modern.member import MemberState
from broker_cy.coordinator.step import GroupStep
from broker_cy.coordinator.timers import TimerKey, TimerKind
from broker_cy.core.classes import NamedTuple
from broker_cy.core.errors import ErrorCode
from broker_cy.core.step import Now

# Attributes of an enumeration are slow to look up.
_SESSION: Final = TimerKind.SESSION
_KINDS: Final = (_SESSION, TimerKind.REBALANCE, TimerKind.JOIN, TimerKind.SYNC)


def session_key(group: ConsumerGroup, member: ConsumerMember) -> TimerKey:
    return TimerKey(_SESSION, group.group_id, member.member_id)


def rebalance_key(group_id: str, member: ConsumerMember) -> TimerKey:
    return TimerKey(TimerKind.REBALANCE, group_id, member.member_id)


def set_session(machine: GroupTable, group: ConsumerGroup, member: ConsumerMember, now: Now) -> None:
    """Restart the session of a member: with its own timeout if it uses the classic protocol, or that of the group."""
    if member.classic is None:
        timeout_ms = machine.consumer_config(group.group_id).session_timeout_ms
    else:
        timeout_ms = member.classic.session_timeout_ms
    machine.timers.set(session_key(group, member), now.mono_ms + timeout_ms)


def set_rebalance_timer(machine: GroupTable, group_id: str, member: ConsumerMember, now: Now) -> None:
    """A member that has to give up partitions gets its own rebalance timeout for it; any other one needs none."""
    key = rebalance_key(group_id, member)
    if member.state is MemberState.UNREVOKED_PARTITIONS and member.epoch >= 0:
        machine.timers.set(key, now.mono_ms + member.rebalance_timeout_ms)
    else:
        machine.timers.cancel(key)


def start_timers(machine: GroupTable, group: ConsumerGroup, member_ids: Iterable[str], now: Now) -> None:
    """The coordinator was loaded, or the removal of these members was undone."""
    for member_id in member_ids:
        member = group.members.get(member_id)
        if member is not None:
            set_session(machine, group, member, now)
            if member.classic is None:
                set_rebalance_timer(machine, group.group_id, member, now)


def cancel_timers(machine: GroupTable, group_id: str, member_id: str) -> None:
    for kind in _KINDS:
        machine.timers.cancel(TimerKey(kind, group_id, member_id))


class RebalanceTimerSet(NamedTuple):
    """The record of a member that has to give up partitions, or has done so."""

    group_id: str
    member_id: str

    def written(self, machine: GroupTable, out: GroupStep, now: Now) -> None:
        """Nothing waits for it."""

    def failed(self, machine: GroupTable, out: GroupStep, now: Now, code: ErrorCode) -> None:
        """The member is as it was before, and gets its rebalance timeout again if it has to give up partitions."""
        group = machine.groups.get(self.group_id)
        if isinstance(group, ConsumerGroup) and self.member_id in group.members:
            set_rebalance_timer(machine, self.group_id, group.members[self.member_id], now)
