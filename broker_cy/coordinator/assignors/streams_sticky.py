"""Kafka's sticky task assignor for streams groups.

An active task stays with its member, or goes to a member with a standby of it, if that member is below its quota. Other
active tasks go to the process with the lowest load, which is its tasks per member, and there to the member with the
fewest tasks. Standby tasks are assigned in the same way, to processes that do not have the task. The order of the
tasks gives a new group ranges of a subtopology's partitions.
"""

from __future__ import annotations

from collections.abc import Iterator
from operator import itemgetter

from broker_cy.coordinator.assignors.streams_spec import (
    StreamsGroupSpec,
    StreamsResult,
    TaskAssignment,
    Tasks,
)
from broker_cy.coordinator.assignors.task_holders import LeastLoaded, Member, Process, Task

_BY_PARTITION = itemgetter(1, 0)


def assign(spec: StreamsGroupSpec) -> StreamsResult:
    """Return the target assignment of each member."""
    if not spec.members:
        return StreamsResult({}, 0)
    group = _Group(spec)
    group.assign_active()
    missing = group.assign_standbys() if spec.standby_replicas else 0
    return StreamsResult(group.assignments(), missing)


class _Quota:
    """How many tasks each member may have. The last tasks are shared by the members that are not full."""

    def __init__(self, tasks: int, members: int) -> None:
        self._tasks = tasks
        self._members = members
        self.per_member = -(-tasks // members)

    def note(self, count: int) -> None:
        """A member has `count` tasks now; if it is full, compute the quota of the others."""
        if count == self.per_member:
            self._members -= 1
            self._tasks -= count
            self.per_member = -(-self._tasks // self._members) if self._members else 0


class _Group:
    def __init__(self, spec: StreamsGroupSpec) -> None:
        self._spec = spec
        stateful = sum(each.partitions for each in spec.subtopologies.values() if each.is_stateful)
        active = sum(each.partitions for each in spec.subtopologies.values())
        self._active_quota = _Quota(active, len(spec.members))
        self._quota = _Quota(active + stateful * spec.standby_replicas, len(spec.members))
        self._members: dict[str, Member] = {}
        self._was_active: dict[Task, Member] = {}
        self._was_standby: dict[Task, list[Member]] = {}
        process_ids = sorted({member.process_id for member in spec.members.values()})
        processes = {process_id: Process(index) for index, process_id in enumerate(process_ids)}
        self._processes = list(processes.values())
        for member_id, member_spec in sorted(spec.members.items()):
            self._members[member_id] = processes[member_spec.process_id].add_member()
        for member_id, member_spec in spec.members.items():
            member = self._members[member_id]
            for task in _tasks(member_spec.assigned.active):
                self._was_active[task] = member
            for task in _with_state(member_spec.assigned):
                self._was_standby.setdefault(task, []).append(member)

    def assign_active(self) -> None:
        left: list[Task] = []
        for task in sorted(self._tasks(), key=_BY_PARTITION):
            member = self._was_active.get(task)
            if member is not None and self._has_room_for_active(member):
                self._note_active(member.process.add(member, task, is_active=True))
            else:
                left.append(task)
        new: list[Task] = []
        for task in left:
            member = least_loaded_holder(self._was_standby.get(task, []), None)
            if member is not None and self._has_room_for_active(member):
                self._note_active(member.process.add(member, task, is_active=True))
            else:
                new.append(task)
        processes = LeastLoaded(self._processes)
        for task in sorted(new):
            process = processes.pop()
            self._note_active(process.add_to_least_loaded(task, is_active=True))
            processes.push(process)

    def assign_standbys(self) -> int:
        """Return how many standby tasks are missing because each process has their task already."""
        replicas = self._spec.standby_replicas
        left: list[tuple[Task, int]] = []
        stateful = (task for task in self._tasks() if self._spec.subtopologies[task[0]].is_stateful)
        for task in sorted(stateful, key=_BY_PARTITION, reverse=True):
            for replica in range(replicas):
                member = self._previous_holder(task)
                if member is None:
                    left.append((task, replicas - replica))
                    break
                self._quota.note(member.process.add(member, task, is_active=False))
        processes = LeastLoaded(self._processes)
        missing = 0
        for task, count in sorted(left, reverse=True):
            for replica in range(count):
                if not self._give_standby(processes, task):
                    missing += count - replica
                    break
        return missing

    def assignments(self) -> dict[str, TaskAssignment]:
        return {
            member_id: _same_or_new(member_spec.assigned, self._members[member_id])
            for member_id, member_spec in self._spec.members.items()
        }

    def _tasks(self) -> Iterator[Task]:
        for subtopology_id, subtopology in self._spec.subtopologies.items():
            for number in range(subtopology.partitions):
                yield subtopology_id, number

    def _has_room_for_active(self, member: Member) -> bool:
        return member.count < self._active_quota.per_member

    def _note_active(self, count: int) -> None:
        self._active_quota.note(count)
        self._quota.note(count)

    def _previous_holder(self, task: Task) -> Member | None:
        """The member below its quota that had the task, and whose process does not have it now."""
        member = self._was_active.get(task)
        if member is not None and task not in member.process.tasks and member.count < self._quota.per_member:
            return member
        member = least_loaded_holder(self._was_standby.get(task, []), task)
        return member if member is not None and member.count < self._quota.per_member else None

    def _give_standby(self, processes: LeastLoaded[Process], task: Task) -> bool:
        """Give a standby to the process with the lowest load among those without the task. At most 1 + the number of
        replicas have it, so few are tried.
        """
        tried: list[Process] = []
        found = False
        while processes and not found:
            process = processes.pop()
            if task not in process.tasks:
                self._quota.note(process.add_to_least_loaded(task, is_active=False))
                found = True
            tried.append(process)
        for process in reversed(tried):
            processes.push(process)
        return found


def least_loaded_holder(members: list[Member], task: Task | None) -> Member | None:
    """A member with a low load, of itself and of its process, among those whose process does not have the task.

    With None each member is a candidate. Kafka 4.3.1 looks only whether the first one has the task (KAFKA-20899).
    """
    found: Member | None = None
    for member in members:
        if task in member.process.tasks:
            continue
        if found is None or (member.process.load < found.process.load and member.count < found.count):
            found = member
    return found


def _with_state(assigned: TaskAssignment) -> Iterator[Task]:
    """The tasks whose state the member copies. A warm-up counts as a standby, or its work is lost (KAFKA-21001)."""
    yield from _tasks(assigned.standby)
    yield from _tasks(assigned.warmup)


def _tasks(tasks: Tasks) -> Iterator[Task]:
    for subtopology_id, numbers in tasks.items():
        for number in numbers:
            yield subtopology_id, number


def _same_or_new(assigned: TaskAssignment, member: Member) -> TaskAssignment:
    new = TaskAssignment(_by_subtopology(member.active), _by_subtopology(member.standby), {})
    return assigned if new == assigned else new


def _by_subtopology(tasks: list[Task]) -> Tasks:
    numbers: dict[str, list[int]] = {}
    for subtopology_id, number in tasks:
        numbers.setdefault(subtopology_id, []).append(number)
    return {subtopology_id: frozenset(each) for subtopology_id, each in numbers.items()}
