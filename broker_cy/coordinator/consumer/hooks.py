"""A consumer group with its hooks: what uses records and deadlines, which are above the group itself."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from broker_cy.coordinator.consumer import deadlines, fencing, records
from broker_cy.coordinator.consumer.group import ConsumerGroup
from broker_cy.coordinator.group import GroupTable
from broker_cy.coordinator.modern.member import MemberState
from broker_cy.coordinator.step import GroupStep, Record
from broker_cy.coordinator.timers import TimerKey, TimerKind
from broker_cy.core.errors import ErrorCode
from broker_cy.core.step import Now

# Why a member is removed when its deadline has passed.
_REASONS: Final = {
    TimerKind.SESSION: "session_timeout",
    TimerKind.REBALANCE: "rebalance_timeout",
    TimerKind.JOIN: "join_timeout",
    TimerKind.SYNC: "sync_timeout",
}


class HookedConsumerGroup(ConsumerGroup):
    """The class of all consumer groups in a `GroupTable`."""

    __slots__ = ()

    def tombstones(self) -> list[Record]:
        return records.group_tombstones(self)

    def start_deadlines(self, machine: GroupTable, member_ids: Iterable[str], now: Now) -> None:
        deadlines.start_timers(machine, self, member_ids, now)

    def on_timer(self, machine: GroupTable, step: GroupStep, key: TimerKey, now: Now) -> None:
        member = self.members.get(key.member_id)
        if member is None:
            return
        if key.kind is TimerKind.REBALANCE and member.state is not MemberState.UNREVOKED_PARTITIONS:
            # The step that set the deadline was undone.
            return
        fencing.fence(machine, step, self, [key.member_id], _REASONS[key.kind], now)

    def discard(self, machine: GroupTable, step: GroupStep, code: ErrorCode) -> None:
        """No request waits in it."""
        for member_id in self.members:
            deadlines.cancel_timers(machine, self.group_id, member_id)
        machine.remove_group(self)
