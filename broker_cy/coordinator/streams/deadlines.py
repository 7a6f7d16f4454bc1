"""The deadlines of streams groups and of their members."""

from __future__ import annotations

from collections.abc import Iterable

from broker_cy.coordinator.group import GroupTable
from broker_cy.coordinator.step import GroupStep
from broker_cy.coordinator.streams.group import StreamsGroup
from broker_cy.coordinator.streams.member import MemberState, StreamsMember
from broker_cy.coordinator.timers import TimerKey, TimerKind
from broker_cy.core.classes import NamedTuple
from broker_cy.core.errors import ErrorCode
from broker_cy.core.step import Now


def set_session(machine: GroupTable, group_id: str, member_id: str, now: Now) -> None:
    """Restart the session of a member."""
    timeout_ms = machine.streams_config(group_id).session_timeout_ms
    machine.timers.set(TimerKey(TimerKind.SESSION, group_id, member_id), now.mono_ms + timeout_ms)


def set_rebalance_timer(machine: GroupTable, group_id: str, member: StreamsMember, now: Now) -> None:
    """A member that has to give up tasks gets its own rebalance timeout for it; any other one needs none."""
    key = TimerKey(TimerKind.REBALANCE, group_id, member.member_id)
    if member.state is MemberState.UNREVOKED_TASKS:
        machine.timers.set(key, now.mono_ms + member.rebalance_timeout_ms)
    else:
        machine.timers.cancel(key)


def start_timers(machine: GroupTable, group: StreamsGroup, member_ids: Iterable[str], now: Now) -> None:
    """The coordinator was loaded, or the removal of these members was undone."""
    for member_id in member_ids:
        member = group.members.get(member_id)
        if member is not None:
            set_session(machine, group.group_id, member_id, now)
            set_rebalance_timer(machine, group.group_id, member, now)


def cancel_timers(machine: GroupTable, group_id: str, member_id: str) -> None:
    for kind in (TimerKind.SESSION, TimerKind.REBALANCE):
        machine.timers.cancel(TimerKey(kind, group_id, member_id))


def delay_first_assignment(machine: GroupTable, group_id: str, now: Now) -> None:
    """An empty group waits for more members, unless it does already."""
    key, delay_ms = _initial_key(group_id), machine.streams_config(group_id).initial_rebalance_delay_ms
    if delay_ms and machine.timers.get(key) is None:
        machine.timers.set(key, now.mono_ms + delay_ms)


def is_delayed(machine: GroupTable, group_id: str) -> bool:
    """Whether the group waits for more members."""
    return machine.timers.get(_initial_key(group_id)) is not None


def cancel_delay(machine: GroupTable, group_id: str) -> None:
    machine.timers.cancel(_initial_key(group_id))


def _initial_key(group_id: str) -> TimerKey:
    return TimerKey(TimerKind.INITIAL_DELAY, group_id)


class RebalanceTimerSet(NamedTuple):
    """The record of a member that has to give up tasks, or has done so."""

    group_id: str
    member_id: str

    def written(self, machine: GroupTable, out: GroupStep, now: Now) -> None:
        """Nothing waits for it."""

    def failed(self, machine: GroupTable, out: GroupStep, now: Now, code: ErrorCode) -> None:
        """The member is as it was before, and gets its rebalance timeout again if it has to give up tasks."""
        group = machine.groups.get(self.group_id)
        if isinstance(group, StreamsGroup) and self.member_id in group.members:
            set_rebalance_timer(machine, self.group_id, group.members[self.member_id], now)
