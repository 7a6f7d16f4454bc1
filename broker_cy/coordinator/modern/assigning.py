"""The target assignment of a group of a newer type: at once, or for a large group computed in the background, and
appended in parts.

As in Kafka, a heartbeat of any member makes it. The topics of a group that reads very many are looked up in parts
before. While a large group is being assigned, its members keep their epoch and what they have; they learn the result
from their next heartbeats. Between two parts, members have their former targets: new and old ones together may give a
partition to two members.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from typing import Any, Final, Protocol, TypeVar

from broker_cy.coordinator.group import GroupTable
from broker_cy.coordinator.modern.group import EpochGroup
from broker_cy.coordinator.modern.replay import append_target
from broker_cy.coordinator.modern.target import is_assignment_due
from broker_cy.coordinator.step import GroupStep, Record
from broker_cy.core.classes import NamedTuple
from broker_cy.core.step import Now, WorkFailed
from broker_cy.metadata.topics import TopicImage

R = TypeVar("R")

# Topics that one turn of the loop looks up, in about 1 ms.
TOPICS_PER_TURN: Final = 2_500
# Records of targets that are appended in one turn of the loop, and the bytes of their values, which takes about 3 ms.
TARGETS_PER_TURN: Final = 250
TARGET_BYTES_PER_TURN: Final = 16 << 10

# The record of an assigned epoch, from the group id, the epoch and the wall clock (ms).
EpochRecord = Callable[[str, int, int], Record]


# Begins an assignment with these topics.
Begin = Callable[[GroupTable, GroupStep, Any, Sequence[TopicImage], Now], None]


class Changed(NamedTuple):
    """The record of a member whose target changes, and the target as that record has it: one may have 10,000 topics,
    and the loop does not read it again. `names` are those of the topics that the member reads, for members that
    subscribe to topics.
    """

    member_id: str
    record: Record
    target: Any
    names: Set[str] = frozenset()


class Interval(Protocol):
    """The settings of a group that this module reads."""

    @property
    def assignment_interval_ms(self) -> int: ...


class Inputs(Protocol):
    """All that the assignment of a group follows from, as values."""

    @property
    def target(self) -> Mapping[str, Any]:
        """A copy of the targets that is not changed any more."""


class Assigning(NamedTuple):
    """A running assignment: the epoch, the targets that the result is made from, the partitions that it may have (see
    `EpochGroup.assignable`), and how often records had been undone.
    """

    epoch: int
    target: Mapping[str, Any]
    assignable: Any
    undoings: int
    epoch_record: EpochRecord


def assign(
    machine: GroupTable,
    step: GroupStep,
    group: EpochGroup[Any, Any],
    compute: Callable[..., Sequence[Changed]],
    inputs: Inputs,
    epoch_record: EpochRecord,
    now: Now,
    *,
    is_large: bool,
) -> None:
    """Assign the epoch of the group by `compute(inputs)`: at once, or for a large group in the background. Raises what
    `compute` raises at once.
    """
    if is_large:
        about = Assigning(group.epoch, inputs.target, group.assignable, machine.undoings, epoch_record)
        machine.begin_work(step, group, compute, (inputs,), assigned, about)
    else:
        _append(machine, step, group, compute(inputs))
        _end(machine, step, group, group.epoch, epoch_record, now)


def is_under_way(machine: GroupTable, group: EpochGroup[Any, Any]) -> bool:
    """Whether an assignment of the group is made in the background."""
    return machine.has_work(group, assigned) or machine.has_work(group, looked_up)


def update_target(
    machine: GroupTable,
    step: GroupStep,
    group: EpochGroup[Any, Any],
    config_of: Callable[[str], Interval],
    begin: Begin,
    now: Now,
) -> None:
    """Assign the epoch of the group, unless that is done, under way, or not due yet. `config_of` returns the settings
    of a group id; `begin` is a function of a module. Raises what `begin` raises.
    """
    if group.assignment_epoch >= group.epoch or is_under_way(machine, group):
        return
    if is_assignment_due(group.assigned_at_ms, config_of(group.group_id).assignment_interval_ms, now.wall_ms):
        look_up(machine, step, group, begin, now)


def look_up(machine: GroupTable, step: GroupStep, group: EpochGroup[Any, Any], begin: Begin, now: Now) -> None:
    """Begin the assignment with the topics that the group reads: at once, or with very many in a later turn. `begin` is
    a function of a module.
    """
    names = group.subscribed_topics()
    group.look_up_begins()
    if len(names) > TOPICS_PER_TURN:
        machine.begin_work(step, group, list, (names,), looked_up, begin, ())
    else:
        begin(machine, step, group, machine.image.topics.named(names), now)


def looked_up(
    machine: GroupTable,
    step: GroupStep,
    group_id: str,
    number: int,
    begin: Begin,
    topics: Sequence[TopicImage],
    result: list[str] | WorkFailed,
    now: Now,
) -> None:
    """The turn of the next topics has come. Some may change meanwhile, which is what the next epoch is for."""
    machine.end_work(number, looked_up)
    group = machine.groups.get(group_id)
    if not isinstance(group, EpochGroup) or group.number != number or isinstance(result, WorkFailed):
        return
    if group.assignment_epoch >= group.epoch:
        return
    found = [*topics, *machine.image.topics.named(result[:TOPICS_PER_TURN])]
    if rest := result[TOPICS_PER_TURN:]:
        machine.begin_work(step, group, unchanged, (rest,), looked_up, begin, found)
    else:
        begin(machine, step, group, found, now)


def assigned(
    machine: GroupTable,
    step: GroupStep,
    group_id: str,
    number: int,
    assigning: Assigning,
    result: Sequence[Changed] | WorkFailed,
    now: Now,
) -> None:
    """Take the result of the background."""
    machine.end_work(number, assigned)
    group = machine.groups.get(group_id)
    if isinstance(group, EpochGroup) and take(machine, step, group, number, assigning, result):
        _end(machine, step, group, assigning.epoch, assigning.epoch_record, now)


def _end(
    machine: GroupTable, step: GroupStep, group: EpochGroup[Any, Any], epoch: int, epoch_record: EpochRecord, now: Now
) -> None:
    """All targets of the epoch are appended."""
    machine.append(step, [epoch_record(group.group_id, epoch, now.wall_ms)])
    if epoch == group.epoch:
        group.journal.assigned(group, now)


def take(
    machine: GroupTable,
    step: GroupStep,
    group: EpochGroup[Any, Any],
    number: int,
    assigning: Assigning,
    result: Sequence[Changed] | WorkFailed,
) -> bool:
    """Append records of the result, and return whether they were the last ones. Members may have come and gone since,
    which is what the next epoch is for.

    The result is dropped if the targets are not those any more that it was made from: then it may give a partition to
    two members. It is also dropped if it may have partitions that are not assignable any more, and after failed writes:
    the epoch may be another one with this number. The next heartbeat begins again.
    """
    if group.number != number or isinstance(result, WorkFailed):
        return False
    if assigning.undoings != machine.undoings or group.assignment_epoch >= assigning.epoch:
        return False
    if not has_targets(group, assigning.target) or not group.may_assign(assigning.assignable):
        return False
    # The records of a large group may be larger than one batch. If only some are written, the next assignment begins
    # with them.
    step.atomic = False
    count = _part(result)
    part, rest = result[:count], result[count:]
    if rest and group.shown is None:
        group.shown = {**dict.fromkeys(group.members, group.no_target), **group.target}
    _append(machine, step, group, [each for each in part if each.member_id in group.members])
    if not rest:
        return True
    more = assigning._replace(target=dict(group.target))
    machine.begin_work(step, group, unchanged, (rest,), assigned, more)
    return False


def _append(machine: GroupTable, step: GroupStep, group: EpochGroup[Any, Any], part: Sequence[Changed]) -> None:
    for each in part:
        append_target(machine, step, group, each.member_id, each.target, each.record)
        group.note_read(each.member_id, each.names, each.target)


def _part(result: Sequence[Changed]) -> int:
    """How many targets are appended in one turn."""
    size_bytes = 0
    for count, each in enumerate(result[:TARGETS_PER_TURN]):
        size_bytes += len(each.record.value or b"")
        if size_bytes > TARGET_BYTES_PER_TURN and count:
            return count
    return min(len(result), TARGETS_PER_TURN)


def has_targets(group: EpochGroup[Any, Any], target: Mapping[str, Any]) -> bool:
    """Whether the members' targets are these, but for members that have left. A static member that came back has the
    target of the member id that it replaced. Each turn looks at all members, which takes 0.5 ms for 10,000.
    """
    return group.target.items() <= target.items()


def unchanged(rest: R) -> R:
    """Work that leaves the loop to others before the next part."""
    return rest
