"""A share group with its hooks: what uses records and deadlines, which are above the group itself."""

from __future__ import annotations

from collections.abc import Iterable

from broker_cy.coordinator.group import GroupTable
from broker_cy.coordinator.share import deletion, initialization, records, sessions
from broker_cy.coordinator.share.group import ShareGroup
from broker_cy.coordinator.step import GroupStep, Record
from broker_cy.coordinator.timers import TimerKey
from broker_cy.core.errors import ErrorCode
from broker_cy.core.step import Now


class HookedShareGroup(ShareGroup):
    """The class of all share groups in a `GroupTable`."""

    __slots__ = ()

    def tombstones(self) -> list[Record]:
        return records.group_tombstones(self)

    def start_deadlines(self, machine: GroupTable, member_ids: Iterable[str], now: Now) -> None:
        sessions.start_sessions(machine, self, member_ids, now)

    def loaded(self, machine: GroupTable, step: GroupStep, now: Now) -> None:
        """All sessions begin again, and so do requests to the share coordinator whose result is not noted."""
        super().loaded(machine, step, now)
        deletion.forget_missing(machine, step, self)
        initialization.resume(machine, step, self, now)
        deletion.resume(machine, step, self)

    def on_timer(self, machine: GroupTable, step: GroupStep, key: TimerKey, now: Now) -> None:
        """The session of a member is over."""
        if key.member_id in self.members:
            sessions.remove_member(machine, step, self, key.member_id, "session_timeout", now)

    def discard(self, machine: GroupTable, step: GroupStep, code: ErrorCode) -> None:
        """Requests that wait for the share coordinator are answered by their calls."""
        for member_id in self.members:
            sessions.cancel_session(machine, self.group_id, member_id)
        machine.remove_group(self)
