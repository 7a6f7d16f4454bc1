"""The reconciliation of one member: from the tasks that it has towards its target, one step per heartbeat.

A member first gives up what it should no longer have, then it moves to the epoch of the target and gets what is free.
An active task is free if no member has it as active, and its own process has no copy of its state; a copy is free for a
process that has nothing of the task. So a task never has two active owners, and a process opens its state once. Values
in, a new value out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from broker_cy.coordinator.assignors.streams_spec import TaskAssignment, Tasks
from broker_cy.coordinator.streams.member import NOTHING_HELD, ActiveTasks, HeldTasks, MemberState, StreamsMember
from broker_cy.core.classes import NamedTuple
from broker_cy.core.errors import ErrorCode, KafkaError

# The tasks that a member reports; None if its request has none.
Owned = TaskAssignment | None
_NONE: frozenset[int] = frozenset()


class Wanted(NamedTuple):
    """The target of a member. `active_process` is the process in which a task is active, None if in none; `has_copy`
    tells whether a process has a standby or warm-up task.
    """

    epoch: int
    target: TaskAssignment
    active_process: Callable[[str, int], str | None]
    has_copy: Callable[[str, int, str], bool]


def reconciled(member: StreamsMember, wanted: Wanted, owned: Owned) -> StreamsMember:
    """The next state of the member, or the member itself. Raises KafkaError(FENCED_MEMBER_EPOCH) for a member whose
    state is not known.
    """
    if member.state is MemberState.STABLE:
        return member if member.epoch == wanted.epoch else _next(member, member.epoch, wanted, owned)
    if member.state is MemberState.UNREVOKED_TASKS:
        if owned is None or member.revoking.has_any(owned):
            return member
        # As in Kafka, a further revocation is another epoch.
        return _next(member, member.epoch + 1, wanted, owned)
    if member.state is MemberState.UNRELEASED_TASKS:
        return _next(member, member.epoch, wanted, owned)
    if owned is None or any(owned):
        raise KafkaError(
            ErrorCode.FENCED_MEMBER_EPOCH,
            "the state of the member is one of a newer Kafka; the member has to join again without tasks",
        )
    return _next(member, wanted.epoch, wanted, owned)


class _Difference(NamedTuple):
    """The tasks of one role that stay, go and come, with the epochs of active ones; and whether more is to come that is
    not free yet.
    """

    stays: dict[str, dict[int, int]]
    goes: dict[str, dict[int, int]]
    comes: dict[str, list[int]]
    has_unreleased: bool


def _next(member: StreamsMember, epoch: int, wanted: Wanted, owned: Owned) -> StreamsMember:
    process = member.process_id

    def active_is_free(subtopology: str, partition: int) -> bool:
        return wanted.active_process(subtopology, partition) is None and not wanted.has_copy(
            subtopology, partition, process
        )

    def copy_is_free(subtopology: str, partition: int) -> bool:
        return wanted.active_process(subtopology, partition) != process and not wanted.has_copy(
            subtopology, partition, process
        )

    active = _difference(member.assigned.active, wanted.target.active, active_is_free)
    standby = _difference(_numbered(member.assigned.standby), wanted.target.standby, copy_is_free)
    warmup = _difference(_numbered(member.assigned.warmup), wanted.target.warmup, copy_is_free)
    revoking = HeldTasks(active.goes, _tasks(standby.goes), _tasks(warmup.goes))
    if not revoking.is_empty and (owned is None or revoking.has_any(owned)):
        return member._replace(
            epoch=epoch,
            previous_epoch=member.epoch,
            state=MemberState.UNREVOKED_TASKS,
            assigned=HeldTasks(active.stays, _tasks(standby.stays), _tasks(warmup.stays)),
            revoking=revoking,
        )
    has_unreleased = active.has_unreleased or standby.has_unreleased or warmup.has_unreleased
    return member._replace(
        epoch=wanted.epoch,
        previous_epoch=member.epoch,
        state=MemberState.UNRELEASED_TASKS if has_unreleased else MemberState.STABLE,
        assigned=HeldTasks(
            _with(active, wanted.epoch), _tasks(_with(standby, wanted.epoch)), _tasks(_with(warmup, wanted.epoch))
        ),
        revoking=NOTHING_HELD,
    )


def _difference(current: ActiveTasks, target: Tasks, is_free: Callable[[str, int], bool]) -> _Difference:
    found = _Difference({}, {}, {}, False)
    has_unreleased = False
    for subtopology in dict.fromkeys((*target, *current)):
        has, wants = current.get(subtopology, {}), target.get(subtopology, _NONE)
        new = [partition for partition in sorted(wants) if partition not in has]
        free = [partition for partition in new if is_free(subtopology, partition)]
        has_unreleased = has_unreleased or len(free) < len(new)
        if stays := {partition: since for partition, since in has.items() if partition in wants}:
            found.stays[subtopology] = stays
        if goes := {partition: since for partition, since in has.items() if partition not in wants}:
            found.goes[subtopology] = goes
        if free:
            found.comes[subtopology] = free
    return found._replace(has_unreleased=has_unreleased)


def _with(difference: _Difference, epoch: int) -> dict[str, dict[int, int]]:
    """Return the tasks that stay, and those that come in the epoch."""
    found = difference.stays
    for subtopology, partitions in difference.comes.items():
        found.setdefault(subtopology, {}).update(dict.fromkeys(partitions, epoch))
    return found


def _numbered(tasks: Tasks) -> ActiveTasks:
    """Tasks that are not active have no epochs."""
    return {subtopology: dict.fromkeys(partitions, 0) for subtopology, partitions in tasks.items()}


def _tasks(tasks: Mapping[str, Iterable[int]]) -> Tasks:
    return {subtopology: frozenset(partitions) for subtopology, partitions in tasks.items()}
