"""The journal of a group of a newer type: the cause of each epoch, and the rebalance that follows: how long it took
until the assignment was computed and until each member had its part, which partitions moved, and for how long no member
read them.

It observes the group and decides nothing. A rebalance lasts from the record of an epoch until every member has its part
of the newest assignment; epochs that begin meanwhile belong to it. The events are those of written records: the journal
forgets a rebalance whose records could not be written. The partitions of share groups have several readers, and those
of streams groups are in tasks: their rebalances have no moves.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import islice
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final, Protocol
from uuid import UUID

from broker_cy.coordinator.modern.topic_values import added_to, other_values
from broker_cy.core.classes import NamedTuple
from broker_cy.core.errors import ErrorCode
from broker_cy.core.step import Now, Work, WorkFailed
from broker_cy.metrics.events import PARTITIONS_REPORTED_MAX, Event, GroupEpoch, Move, Rebalance, Trigger

if TYPE_CHECKING:
    from broker_cy.coordinator.group import GroupTable, GroupType
    from broker_cy.coordinator.step import GroupStep

# As in the journal of classic groups: a group may never settle.
TRIGGERS_MAX: Final = 100
# Moves that are ordered within a turn of the loop, in about 1 ms.
MOVES_PER_TURN: Final = 1_000

Place = tuple[UUID, int]
Held = Mapping[UUID, Collection[int]]
NOTHING_HELD: Final[Held] = {}
_NONE: Final[Collection[int]] = ()


class Reconciled(Protocol):
    """The part of a member that the journal reads."""

    def is_reconciled_to(self, assignment_epoch: int) -> bool: ...


class Observed(Protocol):
    """The parts of a group that the journal reads."""

    @property
    def group_id(self) -> str: ...
    @property
    def group_type(self) -> GroupType: ...
    @property
    def epoch(self) -> int: ...
    @property
    def assignment_epoch(self) -> int: ...
    @property
    def members(self) -> Mapping[str, Reconciled]: ...


class _Gained(NamedTuple):
    """The last owner before the rebalance, the owner now, and the longest time without one; -1 if `source` is None."""

    source: str | None
    target: str
    stall_ms: int


class _Lost(NamedTuple):
    """The last owner before the rebalance, since when the partition has none (monotonic), and an earlier stall."""

    source: str | None
    since_ms: int
    stall_ms: int

    def gained_by(self, member_id: str, at_ms: int) -> _Gained:
        stall_ms = -1 if self.source is None else max(0, at_ms - self.since_ms, self.stall_ms)
        return _Gained(self.source, member_id, stall_ms)


class _Dropped(NamedTuple):
    """Partitions that `source` has lost at once; None if they had no owner before the rebalance."""

    source: str | None
    held: Held
    since_ms: int


class Journal:
    """Invariants: `_began` is None if and only if no rebalance is in progress; then all other parts are empty. A
    partition in `_lost` has no holder, one in `_gained` has another one than before the rebalance, or was without one
    for a while. Both say more about it than `_dropped` and `_first`.

    A member may gain or lose those of 10,000 topics at once: they are noted as one value, and each of its own only when
    it goes on to another member.
    """

    __slots__ = (
        "_assigned_ms",
        "_before",
        "_began",
        "_dropped",
        "_first",
        "_first_total",
        "_gained",
        "_lost",
        "_pending",
        "_triggers",
    )

    def __init__(self) -> None:
        self._forget()

    def _forget(self) -> None:
        self._began: Now | None = None
        self._assigned_ms: int | None = None
        self._before = 0
        self._triggers: list[Trigger] = []
        # Members that do not have their part of the newest assignment; None before there is one.
        self._pending: set[str] | None = None
        self._lost: dict[Place, _Lost] = {}
        self._gained: dict[Place, _Gained] = {}
        self._dropped: list[_Dropped] = []
        # Partitions without an owner before the rebalance, by the member that got them, and how many of them it has.
        self._first: dict[str, dict[UUID, Collection[int]]] = {}
        self._first_total = 0

    @property
    def is_open(self) -> bool:
        """Whether a rebalance is in progress."""
        return self._began is not None

    @property
    def began(self) -> Now | None:
        """When the rebalance in progress began."""
        return self._began

    def epoch_began(self, step: GroupStep, group: Observed, trigger: Trigger, left: int, now: Now) -> None:
        """The record of an epoch was appended; `left` members were removed before."""
        if self._began is None:
            # A member that joins is one already.
            self._began, self._before = now, len(group.members) + left - (trigger.reason == "join")
        if len(self._triggers) < TRIGGERS_MAX:
            self._triggers.append(trigger)
        self._pending = None
        event = GroupEpoch(group.group_id, group.group_type.value, group.epoch, trigger, len(group.members))
        step.then(Noted(group.group_id, (event,)))

    def assigned(self, group: Observed, now: Now) -> None:
        """The target of the newest epoch was computed."""
        if self._began is not None:
            self._assigned_ms = now.mono_ms
            # No member is in its epoch yet.
            self._pending = set(group.members)

    def held(self, member_id: str, before: Held, after: Held, at_ms: int) -> None:
        """A member holds other partitions, or (nothing after) is gone: it read until `at_ms`, monotonic."""
        if self._began is None:
            return
        # Those of a member that gets them in pages stand at the end.
        added = added_to(before, after) if before else None
        if added is not None:
            came: Held = dict(added)
        else:
            came = _without(after, before)
            if gone := _without(before, after):
                self._lose(member_id, gone, at_ms)
        if came:
            self._gain(member_id, came, at_ms)

    def _lose(self, member_id: str, gone: Held, at_ms: int) -> None:
        first = self._first.get(member_id, {})
        if not self._gained:
            if first.keys().isdisjoint(gone.keys()):
                self._dropped.append(_Dropped(member_id, gone, at_ms))
                return
            if not _without(gone, first):
                self._first[member_id] = dict(_without(first, gone))
                self._first_total -= _count(gone)
                self._dropped.append(_Dropped(None, gone, at_ms))
                return
        for topic_id, partitions in gone.items():
            for partition in partitions:
                place = topic_id, partition
                earlier = self._gained.pop(place, None)
                if earlier is not None:
                    self._lost[place] = _Lost(earlier.source, at_ms, earlier.stall_ms)
                elif partition in first.get(topic_id, _NONE):
                    self._lost[place] = _Lost(None, at_ms, -1)
                    self._first_total -= 1
                else:
                    self._lost[place] = _Lost(member_id, at_ms, -1)

    def _gain(self, member_id: str, came: Held, at_ms: int) -> None:
        if not self._lost and not self._dropped:
            known = self._first.setdefault(member_id, {})
            both = [(topic_id, {*known[topic_id], *came[topic_id]}) for topic_id in known.keys() & came.keys()]
            known.update(came)
            known.update(both)
            self._first_total += _count(came)
            return
        # Most partitions of a first rebalance had no owner before: they share one value.
        first = _Gained(None, member_id, -1)
        for topic_id, partitions in came.items():
            dropped = [each for each in self._dropped if topic_id in each.held]
            for partition in partitions:
                found = self._lost.pop((topic_id, partition), None)
                if found is None:
                    found = next(
                        (_Lost(each.source, each.since_ms, -1) for each in dropped if partition in each.held[topic_id]),
                        None,
                    )
                self._gained[topic_id, partition] = first if found is None else found.gained_by(member_id, at_ms)

    def replaced(self, old: str, new: str) -> None:
        """A static member came back with another id: it holds what the old one did."""
        found = self._first.pop(old, None)
        if found is not None:
            self._first[new] = found

    def reconciled(self, group: Observed, member_id: str) -> None:
        """A member has moved towards its target, or is gone."""
        if self._pending is not None:
            member = group.members.get(member_id)
            if member is None or member.is_reconciled_to(group.assignment_epoch):
                self._pending.discard(member_id)
            else:
                self._pending.add(member_id)

    def settle(
        self, machine: GroupTable, step: GroupStep, group: Observed, assignor: str | None, held_total: int, now: Now
    ) -> None:
        """Append the event of the rebalance if each member has its part; that of very many moves in a later turn, after
        they were ordered in the background. `held_total` is the number of partitions that members hold.
        """
        began = self._began
        if began is None or (group.members and (self._pending is None or self._pending)):
            return
        assigned_ms = now.mono_ms if self._assigned_ms is None else self._assigned_ms
        gained = len(self._gained) + self._first_total
        event = Rebalance(
            group=group.group_id,
            generation=group.epoch,
            protocol=assignor,
            result="stable" if group.members else "empty",
            started_ms=began.wall_ms,
            join_ms=max(0, assigned_ms - began.mono_ms),
            sync_ms=max(0, now.mono_ms - assigned_ms),
            total_ms=now.mono_ms - began.mono_ms,
            members_before=self._before,
            members_after=len(group.members),
            triggers=self._triggers,
            moves=[],
            moves_total=0,
            kept=max(0, held_total - gained),
            stall_max_ms=0,
            group_type=group.group_type.value,
        )
        found = (self._first, self._gained, self._lost, self._dropped, now.mono_ms)
        is_large = gained + len(self._lost) + sum(_count(each.held) for each in self._dropped) > MOVES_PER_TURN
        self._forget()
        if is_large:
            step.work.append(Work(_ordered, found, moves_ordered, (event, machine.undoings)))
        else:
            moves_ordered(machine, step, event, machine.undoings, _ordered(*found), now)

    def failed(self) -> None:
        """Records were undone: the group is what it was before them."""
        self._forget()


class _Moves(NamedTuple):
    """The moves of a rebalance, those with the longest stalls first, as (stall, partition, source, target), and the
    number of partitions without a target by topic.
    """

    ordered: list[tuple[int, Place, str | None, str | None]]
    lost: Mapping[UUID, int]


def _ordered(
    first: Mapping[str, Held],
    gained: Mapping[Place, _Gained],
    lost: Mapping[Place, _Lost],
    dropped: Iterable[_Dropped],
    mono_ms: int,
) -> _Moves:
    found: list[tuple[int, Place, str | None, str | None]] = [
        (-1, place, None, member_id)
        for member_id, held in first.items()
        for place in _places(held)
        if place not in gained and place not in lost
    ]
    found += [(each.stall_ms, place, each.source, each.target) for place, each in gained.items()]
    left = [(mono_ms - each.since_ms, place, each.source, None) for place, each in lost.items()]
    left += [
        (mono_ms - each.since_ms, place, each.source, None)
        for each in dropped
        for place in _places(each.held)
        if place not in gained and place not in lost
    ]
    found += left
    found.sort(key=itemgetter(0), reverse=True)
    return _Moves(found, Counter(topic_id for _, (topic_id, _), _, _ in left))


def _places(held: Held) -> Iterator[Place]:
    return ((topic_id, partition) for topic_id, partitions in held.items() for partition in partitions)


def _count(held: Held) -> int:
    return sum(map(len, held.values()))


def _without(held: Held, others: Held) -> Held:
    """The partitions that are not among the others. Most topics of a member have the same value in both, or are in one
    of them.
    """
    if not others:
        return held
    found, both = other_values(held, others)
    for topic_id in both:
        left = [partition for partition in found[topic_id] if partition not in others[topic_id]]
        if left:
            found[topic_id] = left
        else:
            del found[topic_id]
    return found


def moves_ordered(
    machine: GroupTable, step: GroupStep, event: Rebalance, undoings: int, result: _Moves | WorkFailed, now: Now
) -> None:
    """Append the event, with the moves with the longest stalls, at most PARTITIONS_REPORTED_MAX, and the number of all.
    A topic that was deleted has no name any more, and no moves: its partitions are lost. Only those that are reported
    are looked up, and ordered by name: a group may have moved 50,000 partitions. If records were undone meanwhile, they
    may be those of the rebalance.
    """
    if machine.undoings != undoings:
        return
    if not isinstance(result, WorkFailed):
        topics = machine.image.topics
        named = (
            Move(topic.name, partition, source, target, stall_ms)
            for stall_ms, (topic_id, partition), source, target in result.ordered
            if (topic := topics.by_id(topic_id)) is not None
        )
        moves = sorted(
            islice(named, PARTITIONS_REPORTED_MAX), key=lambda move: (-move.stall_ms, move.topic, move.partition)
        )
        gone = sum(map(result.lost.__getitem__, topics.missing(result.lost)))
        event = replace(
            event,
            moves=moves,
            moves_total=len(result.ordered) - gone,
            stall_max_ms=max(0, moves[0].stall_ms) if moves else 0,
        )
    step.then(Noted(event.group, (event,)))


def abandoned(machine: GroupTable, step: GroupStep, group_id: str) -> None:
    """The operation fails after records that its step is about to undo."""
    journal: Any = getattr(machine.groups.get(group_id), "journal", None)
    if step.records and isinstance(journal, Journal):
        journal.failed()


class Named(Protocol):
    """The part of a member that names it in events."""

    @property
    def member_id(self) -> str: ...
    @property
    def client_id(self) -> str: ...
    @property
    def client_host(self) -> str: ...


def trigger_of(reason: str, member: Named, instance_id: str | None = None) -> Trigger:
    return Trigger(reason, member.member_id, instance_id, member.client_id, member.client_host.removeprefix("/"))


class Noted(NamedTuple):
    """Events that tell of the records of their step."""

    group_id: str
    events: tuple[Event, ...]

    def written(self, machine: GroupTable, out: GroupStep, now: Now) -> None:
        out.events += self.events

    def failed(self, machine: GroupTable, out: GroupStep, now: Now, code: ErrorCode) -> None:
        journal: Any = getattr(machine.groups.get(self.group_id), "journal", None)
        if isinstance(journal, Journal):
            journal.failed()
