"""One member of a consumer group: an immutable value, from its records."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final
from uuid import UUID

from broker_cy.coordinator.assignors.spec import Assignment
from broker_cy.coordinator.modern.member import JOIN_EPOCH, MemberState
from broker_cy.coordinator.modern.topic_values import of_each
from broker_cy.core.classes import NamedTuple

# Topic id -> partition -> the member epoch at which it was assigned (KIP-1251). No empty inner mapping.
AssignedEpochs = Mapping[UUID, Mapping[int, int]]
NOTHING_ASSIGNED: Final[AssignedEpochs] = {}

# A static member that will come back.
STATIC_LEAVE_EPOCH: Final = -2
NO_REBALANCE_TIMEOUT_MS: Final = -1


class ClassicMembership(NamedTuple):
    """The part of a member that uses the classic protocol; `protocols` are names with the metadata of a JoinGroup."""

    session_timeout_ms: int
    protocols: tuple[tuple[str, bytes], ...]


class ConsumerMember(NamedTuple):
    """`assigned` and `revoking` are disjoint; the member holds both until it has given the latter up. `previous_epoch`
    is accepted too, because the answer with `epoch` may be lost.
    """

    member_id: str
    epoch: int = JOIN_EPOCH
    previous_epoch: int = -1
    state: MemberState = MemberState.STABLE
    instance_id: str | None = None
    rack_id: str | None = None
    rebalance_timeout_ms: int = NO_REBALANCE_TIMEOUT_MS
    client_id: str = ""
    client_host: str = ""
    topics: frozenset[str] = frozenset()
    regex: str | None = ""
    assignor: str | None = None
    assigned: AssignedEpochs = NOTHING_ASSIGNED
    revoking: AssignedEpochs = NOTHING_ASSIGNED
    classic: ClassicMembership | None = None

    def is_reconciled_to(self, assignment_epoch: int) -> bool:
        return self.state is MemberState.STABLE and self.epoch == assignment_epoch

    @property
    def held(self) -> AssignedEpochs:
        """The partitions that the member reads, or has to give up."""
        return united((self.assigned, self.revoking)) if self.revoking else self.assigned

    def assigned_at(self, topic_id: UUID, partition: int) -> int | None:
        """The epoch since which the member has the partition, also if it has to give it up; None if it has not."""
        for held in (self.assigned, self.revoking):
            epoch = held.get(topic_id, {}).get(partition)
            if epoch is not None:
                return epoch
        return None


def with_epoch(assignment: Assignment, epoch: int) -> AssignedEpochs:
    """All partitions as assigned at one epoch."""
    values = of_each(assignment.values(), lambda partitions: dict.fromkeys(sorted(partitions), epoch))
    return dict(zip(assignment, values, strict=True))


def without_epochs(assigned: AssignedEpochs) -> Assignment:
    return dict(zip(assigned, of_each(assigned.values(), frozenset[int]), strict=True))


def united(parts: Iterable[AssignedEpochs]) -> AssignedEpochs:
    """The partitions of all parts. A topic that only one of them has keeps its value: there may be 10,000."""
    found: dict[UUID, Mapping[int, int]] = {}
    for part in parts:
        common = [(topic_id, {**found[topic_id], **part[topic_id]}) for topic_id in found.keys() & part.keys()]
        found.update(part)
        found.update(common)
    return found
