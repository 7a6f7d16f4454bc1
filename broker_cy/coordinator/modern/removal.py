"""The removal of members of consumer, share and streams groups."""

from __future__ import annotations

from broker_cy.coordinator.group import GroupTable
from broker_cy.coordinator.modern.group import EpochGroup
from broker_cy.coordinator.step import GroupStep
from broker_cy.core.classes import NamedTuple
from broker_cy.core.errors import ErrorCode
from broker_cy.core.step import Now


class MembersRemoved(NamedTuple):
    """The records that remove members."""

    group_id: str
    member_ids: tuple[str, ...]

    def written(self, machine: GroupTable, out: GroupStep, now: Now) -> None:
        """Nothing waits for them."""

    def failed(self, machine: GroupTable, out: GroupStep, now: Now, code: ErrorCode) -> None:
        """They are members again, with new deadlines each."""
        group = machine.groups.get(self.group_id)
        if isinstance(group, EpochGroup):
            group.start_deadlines(machine, self.member_ids, now)
