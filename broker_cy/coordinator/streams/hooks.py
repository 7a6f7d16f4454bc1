"""A streams group with its hooks: what uses records and deadlines, which are above the group itself."""

from __future__ import annotations

from collections.abc import Iterable

from broker_cy.coordinator.group import GroupTable
from broker_cy.coordinator.step import GroupStep, Record
from broker_cy.coordinator.streams import deadlines, fencing, records
from broker_cy.coordinator.streams.group import StreamsGroup
from broker_cy.coordinator.streams.member import MemberState
from broker_cy.coordinator.streams.target import update_target
from broker_cy.coordinator.timers import TimerKey, TimerKind
from broker_cy.core.errors import ErrorCode
from broker_cy.core.step import Now


class HookedStreamsGroup(StreamsGroup):
    """The class of all streams groups in a `GroupTable`."""

    __slots__ = ()

    def tombstones(self) -> list[Record]:
        return records.group_tombstones(self)

    def start_deadlines(self, machine: GroupTable, member_ids: Iterable[str], now: Now) -> None:
        deadlines.start_timers(machine, self, member_ids, now)

    def on_timer(self, machine: GroupTable, step: GroupStep, key: TimerKey, now: Now) -> None:
        if key.kind is TimerKind.INITIAL_DELAY:
            # Without a member that has been heard of, the next heartbeat assigns the tasks.
            if self.members and self.configured is not None:
                update_target(machine, step, self, now)
            return
        member = self.members.get(key.member_id)
        if member is None or (key.kind is TimerKind.REBALANCE and member.state is not MemberState.UNREVOKED_TASKS):
            # The step that set the deadline was undone.
            return
        reason = "rebalance_timeout" if key.kind is TimerKind.REBALANCE else "session_timeout"
        fencing.fence(machine, step, self, key.member_id, reason, now)

    def discard(self, machine: GroupTable, step: GroupStep, code: ErrorCode) -> None:
        """No request waits in it."""
        for member_id in self.members:
            deadlines.cancel_timers(machine, self.group_id, member_id)
        deadlines.cancel_delay(machine, self.group_id)
        machine.remove_group(self)
