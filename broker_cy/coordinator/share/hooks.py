"""A share group with its hooks: what uses records and deadlines, which are above the group itself."""

from __future__ import annotations

from broker_cy.coordinator.group import GroupTable
from broker_cy.coordinator.share import records
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

    def loaded(self, machine: GroupTable, step: GroupStep, now: Now) -> None:
        """It has no live state."""

    def on_timer(self, machine: GroupTable, step: GroupStep, key: TimerKey, now: Now) -> None:
        """It sets no deadlines."""

    def discard(self, machine: GroupTable, step: GroupStep, code: ErrorCode) -> None:
        machine.remove_group(self)
