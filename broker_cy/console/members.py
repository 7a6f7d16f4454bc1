"""Members of a group, planned against current: what each has to give up, and whose partitions or tasks it waits for."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, Generic, TypeVar

from broker_cy.admin.group_values import CLASSIC, CONSUMER, GroupDescription, GroupMember, Task
from broker_cy.admin.metadata import TopicPartition
from broker_cy.console.figures import Fact
from broker_cy.console.rows import assignment_text, ranges
from broker_cy.core.classes import NamedTuple, dataclass
from broker_cy.reporting.numbers import count, plural
from broker_cy.reporting.tone import Tone

P = TypeVar("P", TopicPartition, Task)
K = TypeVar("K")

# The epoch of a static member that has left for a while (KIP-848).
AWAY_EPOCH: Final = -2
# Names of holders in the text of one cell.
_HOLDERS_SHOWN: Final = 3


class Awaited(NamedTuple, Generic[P]):
    """A partition or task of the target that the member does not have yet. `holder` still has it; None: it is free, and
    the next heartbeat brings it.
    """

    part: P
    holder: GroupMember | None


@dataclass(frozen=True, slots=True)
class MemberRow:
    """A member with its difference. `releases` and `awaits` are partitions, or the active tasks of a streams group;
    `starts` and `stops` are its standby tasks.
    """

    member: GroupMember
    releases: tuple[TopicPartition | Task, ...] = ()
    awaits: tuple[Awaited[Any], ...] = ()
    starts: tuple[Task, ...] = ()
    stops: tuple[Task, ...] = ()

    @property
    def is_settled(self) -> bool:
        return not (self.releases or self.awaits or self.starts or self.stops)


def member_rows(group: GroupDescription) -> list[MemberRow]:
    """Return a row for each member. Only brokers that report a target show a difference."""
    holders: dict[TopicPartition | Task, GroupMember] = {}
    for member in group.members:
        holders.update(dict.fromkeys(member.assignment, member))
        if member.streams is not None:
            holders.update(dict.fromkeys(member.streams.tasks.active, member))
    return [_row(member, holders) for member in group.members]


def _row(member: GroupMember, holders: Mapping[TopicPartition | Task, GroupMember]) -> MemberRow:
    if member.streams is not None:
        now, then = member.streams.tasks, member.streams.target
        return MemberRow(
            member,
            _without(now.active, then.active),
            tuple(Awaited(task, holders.get(task)) for task in _without(then.active, now.active)),
            _without(then.standby, now.standby),
            _without(now.standby, then.standby),
        )
    if member.target is None:
        return MemberRow(member)
    awaited = _without(member.target, member.assignment)
    return MemberRow(
        member,
        _without(member.assignment, member.target),
        tuple(Awaited(partition, holders.get(partition)) for partition in awaited),
    )


def _without(parts: Iterable[P], others: Iterable[P]) -> tuple[P, ...]:
    left_out = set(others)
    return tuple(sorted(part for part in parts if part not in left_out))


def parts_text(parts: Iterable[TopicPartition | Task]) -> str:
    """Format partitions, `orders 0-3,7`, or tasks, `0_0-3`."""
    tasks: dict[str, list[int]] = {}
    partitions: list[TopicPartition] = []
    for part in parts:
        if isinstance(part, Task):
            tasks.setdefault(part.subtopology, []).append(part.partition)
        else:
            partitions.append(part)
    texts = [assignment_text(partitions)] if partitions else []
    return "  ".join(texts + [f"{name}_{ranges(numbers)}" for name, numbers in tasks.items()])


def difference_text(row: MemberRow) -> str:
    """Format the steps from current to planned: `gives up orders 3; waits for orders 1-2 of worker-1`."""
    texts = []
    if row.releases:
        texts.append(f"gives up {parts_text(row.releases)}")
    held = [each for each in row.awaits if each.holder is not None]
    if held:
        names = list(dict.fromkeys(holder_name(each.holder) for each in held))
        more = f" and {len(names) - _HOLDERS_SHOWN} more" if len(names) > _HOLDERS_SHOWN else ""
        texts.append(f"waits for {parts_text(each.part for each in held)} of {', '.join(names[:_HOLDERS_SHOWN])}{more}")
    free = [each.part for each in row.awaits if each.holder is None]
    if free:
        texts.append(f"takes {parts_text(free)}")
    if row.starts:
        texts.append(f"starts standby {parts_text(row.starts)}")
    if row.stops:
        texts.append(f"stops standby {parts_text(row.stops)}")
    return "; ".join(texts)


def holder_name(member: GroupMember | None) -> str:
    """Return the name by which people know a member."""
    return "" if member is None else member.instance_id or member.client_id or member.member_id


@dataclass(frozen=True, slots=True)
class TaskRow:
    """A task of a streams group. `owner` has it active, `planned` is to have it; the same for standby copies of its
    state, which a stateless task has none of.
    """

    task: Task
    is_stateful: bool
    owner: GroupMember | None
    planned: GroupMember | None
    standbys: tuple[GroupMember, ...]
    planned_standbys: tuple[GroupMember, ...]

    @property
    def is_covered(self) -> bool:
        """Whether another process than the owner's has a copy of its state."""
        own = process_of(self.owner)
        return any(process_of(member) != own for member in self.standbys)

    @property
    def has_planned_standbys(self) -> bool:
        return {each.member_id for each in self.standbys} == {each.member_id for each in self.planned_standbys}


def process_of(member: GroupMember | None) -> str | None:
    return None if member is None or member.streams is None else member.streams.process_id


def task_rows(group: GroupDescription) -> list[TaskRow]:
    """Return a row for each task that a member has or is to have."""
    subtopologies = () if group.topology is None else group.topology.subtopologies
    stateful = {each.subtopology_id for each in subtopologies if each.is_stateful}
    active: dict[Task, GroupMember] = {}
    planned: dict[Task, GroupMember] = {}
    standbys: dict[Task, list[GroupMember]] = {}
    planned_standbys: dict[Task, list[GroupMember]] = {}
    for member in group.members:
        if member.streams is not None:
            now, then = member.streams.tasks, member.streams.target
            active.update(dict.fromkeys(now.active, member))
            planned.update(dict.fromkeys(then.active, member))
            _add(standbys, now.standby, member)
            _add(planned_standbys, then.standby, member)
    return [
        TaskRow(
            task,
            task.subtopology in stateful,
            active.get(task),
            planned.get(task),
            tuple(standbys.get(task, ())),
            tuple(planned_standbys.get(task, ())),
        )
        for task in sorted({*active, *planned, *standbys, *planned_standbys})
    ]


def _add(found: dict[Task, list[GroupMember]], tasks: Iterable[Task], member: GroupMember) -> None:
    for task in tasks:
        found.setdefault(task, []).append(member)


def group_facts(group: GroupDescription) -> Iterator[Fact]:
    """Yield the facts of groups of the newer types, for the head of a page or of a description."""
    if group.group_epoch >= 0:
        is_assigned = group.assignment_epoch == group.group_epoch
        yield Fact("epoch", str(group.group_epoch))
        yield Fact("assignment epoch", str(group.assignment_epoch), Tone.PLAIN if is_assigned else Tone.WARN)
        behind = sum(member.member_epoch not in (group.assignment_epoch, AWAY_EPOCH) for member in group.members)
        unsettled = sum(not row.is_settled for row in member_rows(group))
        if behind or unsettled:
            yield Fact(
                "reconciling", f"{count(max(behind, unsettled))} of {plural(len(group.members), 'member')}", Tone.WARN
            )
    protocols = group.protocols()
    if CLASSIC in protocols and group.group_type == CONSUMER:
        yield Fact("conversion", conversion_text(group), Tone.NOTED)
    if group.topology is not None:
        parts = plural(len(group.topology.subtopologies), "subtopology", "subtopologies")
        yield Fact("topology", f"epoch {group.topology.epoch}, {parts}")
        rows = [row for row in task_rows(group) if row.is_stateful]
        if rows:
            covered = sum(row.is_covered for row in rows)
            yield Fact(
                "standbys",
                f"{count(covered)} of {plural(len(rows), 'task')} with state",
                Tone.GOOD if covered == len(rows) else Tone.PLAIN,
            )


def conversion_text(group: GroupDescription) -> str:
    """Return the progress of a group from the classic to the consumer protocol: the members that have moved."""
    return f"{count(group.protocols().get(CONSUMER, 0))} of {plural(len(group.members), 'member')}"
