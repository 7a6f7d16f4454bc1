"""One member of a streams group, which is a thread of an application: an immutable value, from its records."""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from typing import Final

from broker_cy.coordinator.assignors.streams_spec import TaskAssignment, Tasks
from broker_cy.coordinator.modern.member import JOIN_EPOCH
from broker_cy.core.classes import NamedTuple

# Subtopology -> partition -> the member epoch at which the task was assigned. No empty inner mapping.
ActiveTasks = Mapping[str, Mapping[int, int]]

STATIC_LEAVE_EPOCH: Final = -2
NO_REBALANCE_TIMEOUT_MS: Final = -1
NO_TOPOLOGY_EPOCH: Final = -1


class MemberState(IntEnum):
    """The states of Kafka's records."""

    STABLE = 1
    """It has its part of an assignment; this may not be the newest one."""
    UNREVOKED_TASKS = 2
    """It still has to give up tasks."""
    UNRELEASED_TASKS = 3
    """It waits for tasks that others have to give up."""
    UNKNOWN = 127
    """A state of a newer Kafka."""

    @classmethod
    def of(cls, value: int) -> MemberState:
        return cls(value) if value in _STATES else cls.UNKNOWN


_STATES = frozenset(map(int, MemberState))


class HeldTasks(NamedTuple):
    """Tasks of a member, by their roles. No mapping has an empty value."""

    active: ActiveTasks
    standby: Tasks
    warmup: Tasks

    @property
    def is_empty(self) -> bool:
        return not (self.active or self.standby or self.warmup)

    def has_any(self, reported: TaskAssignment) -> bool:
        """Whether a task is also among these, in the same role."""
        return any(
            partition in own.get(subtopology, ())
            for own, theirs in zip(self, reported, strict=True)
            for subtopology, partitions in theirs.items()
            for partition in partitions
        )

    def has_all(self, reported: TaskAssignment) -> bool:
        """Whether these tasks are all that is reported."""
        return all(
            partition in own.get(subtopology, ())
            for own, theirs in zip(self, reported, strict=True)
            for subtopology, partitions in theirs.items()
            for partition in partitions
        )

    def is_within(self, reported: TaskAssignment) -> bool:
        """Whether each of these tasks is reported."""
        return all(
            partition in theirs.get(subtopology, ())
            for own, theirs in zip(self, reported, strict=True)
            for subtopology, partitions in own.items()
            for partition in partitions
        )


NOTHING_HELD: Final = HeldTasks({}, {}, {})


class Endpoint(NamedTuple):
    """The address at which the application of a member answers queries about its state."""

    host: str
    port: int


class StreamsMember(NamedTuple):
    """`assigned` and `revoking` are disjoint; the member has both until it has given the latter up. `previous_epoch` is
    accepted too, because the answer with `epoch` may be lost. `process_id` names its process: members of one process
    share a disk, so only one of them can have a task. `tags` are sorted.
    """

    member_id: str
    epoch: int = JOIN_EPOCH
    previous_epoch: int = 0
    state: MemberState = MemberState.STABLE
    instance_id: str | None = None
    rack_id: str | None = None
    rebalance_timeout_ms: int = NO_REBALANCE_TIMEOUT_MS
    client_id: str = ""
    client_host: str = ""
    topology_epoch: int = NO_TOPOLOGY_EPOCH
    process_id: str = ""
    endpoint: Endpoint | None = None
    tags: tuple[tuple[str, str], ...] = ()
    assigned: HeldTasks = NOTHING_HELD
    revoking: HeldTasks = NOTHING_HELD

    def is_reconciled_to(self, assignment_epoch: int) -> bool:
        return self.state is MemberState.STABLE and self.epoch == assignment_epoch

    def active_since(self, subtopology: str, partition: int) -> int | None:
        """The epoch since which the task is active here, also if the member has to give it up; None if it is not."""
        for held in (self.assigned, self.revoking):
            epoch = held.active.get(subtopology, {}).get(partition)
            if epoch is not None:
                return epoch
        return None
