"""The input and the result of the task assignor of streams groups (KIP-1071).

A task is a subtopology and a partition number. Its active task processes records; its standby tasks keep copies of its
state in other processes. Members of one process share its disk, so a process has a task once.
"""

from __future__ import annotations

from collections.abc import Mapping

from broker_cy.core.classes import NamedTuple

Tasks = Mapping[str, frozenset[int]]
"""The partitions of each subtopology; no set is empty."""


class TaskAssignment(NamedTuple):
    """The tasks of one member. Kafka 4.3.1 assigns no warm-up tasks."""

    active: Tasks
    standby: Tasks
    warmup: Tasks


NO_TASKS = TaskAssignment({}, {}, {})


class StreamsMemberSpec(NamedTuple):
    """The facts about one member that the assignor needs; `assigned` is its current target assignment."""

    process_id: str
    assigned: TaskAssignment


class Subtopology(NamedTuple):
    """`partitions` is the largest partition count of its input topics. A stateful one has standby tasks."""

    partitions: int
    is_stateful: bool


class StreamsGroupSpec(NamedTuple):
    """The members by id and the subtopologies by id. Without a valid topology there are no subtopologies."""

    members: Mapping[str, StreamsMemberSpec]
    subtopologies: Mapping[str, Subtopology]
    standby_replicas: int


class StreamsResult(NamedTuple):
    """The target assignment of each member, and how many standby tasks found no process without their task."""

    assignments: dict[str, TaskAssignment]
    missing_standbys: int
