"""A streams group: its topology, its members, and which process has which task. All of it follows from records, except
what is named live.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Set
from typing import Final, Self
from uuid import UUID

from broker_cy.coordinator.assignors.streams_spec import NO_TASKS, TaskAssignment
from broker_cy.coordinator.group import GroupType
from broker_cy.coordinator.modern.commits import CommittingGroup
from broker_cy.coordinator.modern.group import INDEXED_MAX
from broker_cy.coordinator.streams.configure import ConfiguredTopology, Status
from broker_cy.coordinator.streams.member import HeldTasks, StreamsMember
from broker_cy.coordinator.streams.topology import Topology
from broker_cy.core.classes import NamedTuple

NO_TOPOLOGY_VALIDATED: Final = -1

Task = tuple[str, int]


class Reported(NamedTuple):
    """The statuses of the last event of a group, and its time (monotonic)."""

    statuses: tuple[tuple[Status, str], ...]
    at_ms: int


class StreamsGroup(CommittingGroup[StreamsMember, TaskAssignment]):
    """Invariants: `active` has each task that is active in a member, with that member's id. `copies` counts, for each
    task, the members of each process that have a standby or warm-up task of it; no count is 0.
    """

    __slots__ = (
        "active",
        "assignment_configs",
        "configured",
        "copies",
        "creating",
        "creation_errors",
        "endpoint_epoch",
        "readers",
        "reported",
        "required",
        "shutdown_by",
        "topology",
        "validated_epoch",
    )

    def __init__(self, group_id: str) -> None:
        super().__init__(group_id)
        self.topology: Topology | None = None
        # The topics whose metadata the tasks depend on.
        self.required: frozenset[str] = frozenset()
        # The subtopology that reads each topic.
        self.readers: Mapping[str, str] = {}
        # The epoch of the topology that the topics fit.
        self.validated_epoch = NO_TOPOLOGY_VALIDATED
        # The settings of the last epoch that the assignor uses.
        self.assignment_configs: Mapping[str, str] = {}
        self.active: dict[Task, str] = {}
        self.copies: dict[Task, dict[str, int]] = {}
        # Live state: the topology against the topics of the cluster, as it was computed last.
        self.configured: ConfiguredTopology | None = None
        # Live state: counts the changes of the tasks of members with an endpoint.
        self.endpoint_epoch = 0
        # Live state: the member that has asked all members to shut down, until the group is empty.
        self.shutdown_by: str | None = None
        # Live state: internal topics that are being created, and why some could not be, until when (monotonic).
        # Bounded by the topology.
        self.creating: frozenset[str] = frozenset()
        self.creation_errors: dict[str, tuple[str, int]] = {}
        # Live state: the statuses of the last event.
        self.reported: Reported | None = None

    def copied(self) -> Self:
        found = super().copied()
        found.topology, found.readers, found.required = self.topology, self.readers, self.required
        found.validated_epoch, found.assignment_configs = self.validated_epoch, self.assignment_configs
        found.active = dict(self.active)
        found.copies = {task: dict(counts) for task, counts in self.copies.items()}
        found.configured = self.configured
        return found

    # ---- what any group has ----

    @property
    def group_type(self) -> GroupType:
        return GroupType.STREAMS

    @property
    def state_name(self) -> str:
        if self.members and (self.topology is None or self.topology.epoch != self.validated_epoch):
            return "NotReady"
        return super().state_name

    @property
    def listed_protocol_type(self) -> str:
        return "streams"

    def subscribed_topics(self) -> set[str]:
        return set(self.required)

    def named_topics(self) -> Collection[str]:
        return () if self.is_wide else self.required

    @property
    def is_wide(self) -> bool:
        return len(self.required) > INDEXED_MAX

    def read_of(self, topics: Set[str]) -> Set[str]:
        return self.required & topics

    def is_subscribed(self, topic: str) -> bool:
        """Whether members read the topic. Without members, all offsets may be deleted."""
        return bool(self.members) and topic in self.readers

    # ---- commits ----

    def assigned_since(self, member: StreamsMember, topic: str, topic_id: UUID, partition: int) -> int | None:
        subtopology = self.readers.get(topic)
        return None if subtopology is None else member.active_since(subtopology, partition)

    # ---- tasks ----

    @property
    def no_target(self) -> TaskAssignment:
        return NO_TASKS

    def active_process(self, subtopology: str, partition: int) -> str | None:
        """The process in which the task is active, also if it has to give it up; None if it is in none."""
        member = self.members.get(self.active.get((subtopology, partition), ""))
        return None if member is None else member.process_id

    def has_copy(self, subtopology: str, partition: int, process_id: str) -> bool:
        """Whether the process has a standby or warm-up task of it, also if it has to give it up."""
        return process_id in self.copies.get((subtopology, partition), ())

    def put_member(self, member_id: str, new: StreamsMember | None) -> StreamsMember | None:
        old = super().put_member(member_id, new)
        if old is not None:
            for held in (old.assigned, old.revoking):
                for task in _tasks(held.active):
                    if self.active.get(task) == member_id:
                        del self.active[task]
                self._count_copies(old.process_id, held, -1)
        if new is not None:
            for held in (new.assigned, new.revoking):
                # A log that is compacted while it is read may show two holders: the newest record is right.
                self.active.update(dict.fromkeys(_tasks(held.active), member_id))
                self._count_copies(new.process_id, held, 1)
        if not self.members:
            self.shutdown_by = None
        return old

    def _count_copies(self, process_id: str, held: HeldTasks, change: int) -> None:
        for task in (*_tasks(held.standby), *_tasks(held.warmup)):
            counts = self.copies.setdefault(task, {})
            count = counts.get(process_id, 0) + change
            if count:
                counts[process_id] = count
            else:
                del counts[process_id]
                if not counts:
                    del self.copies[task]

    # ---- what all members learn ----

    def endpoint_changed(self) -> None:
        """The tasks of a member with an endpoint are others."""
        self.endpoint_epoch += 1
        self.steady.clear()

    def shut_down(self, member_id: str) -> None:
        """Let all members shut down, until the group is empty."""
        if self.shutdown_by is None:
            self.shutdown_by = member_id
            self.steady.clear()

    # ---- topology ----

    def put_topology(self, topology: Topology | None) -> None:
        self.steady.clear()
        self.topology = topology
        self.subscription_changed()
        self.readers = {} if topology is None else topology.readers()
        self.required = frozenset() if topology is None else frozenset(topology.required_topics())

    def failed_creations(self, mono_ms: int) -> dict[str, str]:
        """Why internal topics could not be created in the last time, by topic."""
        self.creation_errors = {
            topic: (why, until_ms) for topic, (why, until_ms) in self.creation_errors.items() if until_ms > mono_ms
        }
        return {topic: why for topic, (why, _) in self.creation_errors.items()}


def _tasks(tasks: Mapping[str, Iterable[int]]) -> list[Task]:
    return [(subtopology, partition) for subtopology, partitions in tasks.items() for partition in partitions]
