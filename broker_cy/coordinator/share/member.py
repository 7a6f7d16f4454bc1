"""One member of a share group: an immutable value, from its records."""

from __future__ import annotations

from broker_cy.coordinator.assignors.spec import Assignment
from broker_cy.coordinator.modern.group import NO_PARTITIONS
from broker_cy.coordinator.modern.member import JOIN_EPOCH, MemberState
from broker_cy.core.classes import NamedTuple


class ShareMember(NamedTuple):
    """`assigned` may have partitions that other members have, too. `previous_epoch` is accepted beside `epoch`, because
    the answer with the latter may be lost.
    """

    member_id: str
    epoch: int = JOIN_EPOCH
    previous_epoch: int = -1
    state: MemberState = MemberState.STABLE
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    topics: frozenset[str] = frozenset()
    assigned: Assignment = NO_PARTITIONS

    def is_reconciled_to(self, assignment_epoch: int) -> bool:
        return self.state is MemberState.STABLE and self.epoch == assignment_epoch
