"""The journal of one group's rebalances: why each started, how long its phases took, which partitions moved, and for
how long no member read them.

It observes the group and decides nothing. It reads the owners of partitions from the assignments of the consumer
protocol (ConsumerProtocolAssignment); other protocols have no moves. A partition is stalled from the time its owner
gives it up: the owner joins without listing it among its partitions (an eager consumer lists none, a cooperative one,
KIP-429, all that it keeps), it leaves, or its session ends, which counts from its last request.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, Protocol

from broker_cy.coordinator.classic import subscription
from broker_cy.coordinator.classic.member import ClassicMember
from broker_cy.core.classes import NamedTuple
from broker_cy.core.step import Now, Work, WorkFailed
from broker_cy.metrics.events import PARTITIONS_REPORTED_MAX, Move, Rebalance, Trigger

if TYPE_CHECKING:
    from broker_cy.coordinator.group import GroupTable
    from broker_cy.coordinator.step import GroupStep

TopicPartition = tuple[str, int]

# Further triggers of a rebalance in progress; bounded, because a group may never settle.
TRIGGERS_MAX = 100
# Partitions whose moves the loop finds itself, in about 1 ms, and the bytes of assignments with so many.
MOVES_PER_TURN: Final = 500
ASSIGNMENT_BYTES_PER_TURN: Final = 16 << 10


class Observed(Protocol):
    """The parts of a group that the journal reads."""

    group_id: str
    generation: int
    protocol_name: str | None
    members: dict[str, ClassicMember]

    @property
    def uses_consumer_protocol(self) -> bool: ...


Assignments = Sequence[tuple[str, bytes]]
"""Those of members, by member id."""


class Ended(NamedTuple):
    """A rebalance that has ended, as values: its event without moves, the owners before it, or the assignments then, or
    (None) neither, the partitions that no member reads, with the time since when, the members with their assignments,
    and the time (monotonic ms).
    """

    event: Rebalance
    before: Mapping[TopicPartition, str] | None
    assignments_before: Assignments | None
    stopped: Mapping[TopicPartition, int]
    assignments: Assignments
    mono_ms: int

    @property
    def is_large(self) -> bool:
        """Whether its moves are found in the background."""
        size_bytes = sum(len(each) for _, each in (*self.assignments, *(self.assignments_before or ())))
        return size_bytes > ASSIGNMENT_BYTES_PER_TURN or len(self.before or ()) > MOVES_PER_TURN


class Told(NamedTuple):
    """The event of a rebalance with its moves; the owners, and what no member reads, from then on."""

    event: Rebalance
    owners: dict[TopicPartition, str]
    stopped: dict[TopicPartition, int]


class Journal:
    """Invariant: no member reads a partition in `_stopped`; the value is since when (monotonic ms). Both this and
    `_owners` are those of before `_ended`, and not changed, until the moves of that are found.
    """

    __slots__ = (
        "_assignments",
        "_began",
        "_ended",
        "_joined_ms",
        "_members",
        "_owners",
        "_stopped",
        "_triggers",
    )

    def __init__(self) -> None:
        # A rebalance whose moves are being found in the background.
        self._ended: Ended | None = None
        # None until the assignments of the group are first decoded; those to decode, if they are not the newest.
        self._owners: dict[TopicPartition, str] | None = None
        self._assignments: Assignments | None = None
        self._stopped: dict[TopicPartition, int] = {}
        self._began: Now | None = None
        self._joined_ms = 0
        # The members when the group was last stable; None if it has not been since the coordinator was loaded.
        self._members: int | None = None
        self._triggers: list[Trigger] = []

    def began(self, group: Observed, trigger: Trigger, now: Now) -> None:
        """A rebalance starts, or the current one starts over."""
        if self._began is None:
            self._began = now
            if self._members is None:
                # The first rebalance since the group was loaded or created; the joining member is already part of it.
                self._members = len(group.members) - (trigger.reason == "join")
        if len(self._triggers) < TRIGGERS_MAX:
            self._triggers.append(trigger)
        if self._ended is None and self._owners is None and self._assignments is None:
            self._assignments = _assignments(group)

    def joined(self, group: Observed, member: ClassicMember, now: Now) -> None:
        """A JoinGroup of this member arrived: partitions that it no longer lists are stalled."""
        kept = subscription.owned_partitions(member.protocols)
        for place, owner in self._learn(group).items():
            if owner == member.member_id and place not in kept:
                self._stopped.setdefault(place, now.mono_ms)

    def lost(self, group: Observed, member_id: str, last_heard_ms: int) -> None:
        """The member is gone; its last request was at `last_heard_ms` (monotonic)."""
        for place, owner in self._learn(group).items():
            if owner == member_id:
                self._stopped.setdefault(place, last_heard_ms)

    def renamed(self, group: Observed, old_id: str, new_id: str) -> None:
        """A static member continues under another member id."""
        owners = self._learn(group)
        for place, owner in owners.items():
            if owner == old_id:
                owners[place] = new_id

    def join_phase_over(self, now: Now) -> None:
        self._joined_ms = now.mono_ms

    def settle(self, machine: GroupTable, step: GroupStep, group: Observed, now: Now) -> None:
        """The group is stable or empty: report the rebalance. With very many partitions, its event comes later."""
        began = self._began or now
        event = Rebalance(
            group=group.group_id,
            generation=group.generation,
            protocol=group.protocol_name,
            result="stable" if group.members else "empty",
            started_ms=began.wall_ms,
            join_ms=max(0, self._joined_ms - began.mono_ms),
            sync_ms=max(0, now.mono_ms - max(self._joined_ms, began.mono_ms)),
            total_ms=now.mono_ms - began.mono_ms,
            members_before=self._members or 0,
            members_after=len(group.members),
            triggers=self._triggers,
        )
        if self._ended is not None:
            self._learn(group)
        before = self._owners, self._assignments
        ended = Ended(event, *before, self._stopped, _assignments(group), now.mono_ms)
        self._members = len(group.members)
        self._began, self._triggers, self._joined_ms = None, [], 0
        if ended.is_large:
            self._ended = ended
            step.work.append(Work(moves_of, (ended,), moves_found, (ended,)))
        else:
            found = moves_of(ended)
            self.found(found)
            step.events.append(found.event)

    def waits_for(self, ended: Ended) -> bool:
        """Whether nothing has needed the moves of this rebalance yet."""
        return self._ended is ended

    def found(self, found: Told | None) -> None:
        """The moves of the rebalance that has ended last are known; None: the owners are to be learned again."""
        self._ended = self._assignments = None
        self._owners, self._stopped = (None, {}) if found is None else (found.owners, found.stopped)

    def _learn(self, group: Observed) -> dict[TopicPartition, str]:
        if self._ended is not None:
            # Its event comes from the background.
            self.found(moves_of(self._ended))
        if self._owners is None:
            self._owners = owners_of(_assignments(group) if self._assignments is None else self._assignments)
            self._assignments = None
        return self._owners


def _assignments(group: Observed) -> Assignments:
    """Those of the members; none if they are not of the consumer protocol."""
    if not group.uses_consumer_protocol:
        return []
    return [(member.member_id, member.assignment) for member in group.members.values()]


def owners_of(assignments: Iterable[tuple[str, bytes]]) -> dict[TopicPartition, str]:
    """The owners by the assignments of members."""
    owners: dict[TopicPartition, str] = {}
    for member_id, assignment in assignments:
        for place in subscription.assigned_partitions(assignment):
            owners[place] = member_id
    return owners


def moves_of(ended: Ended) -> Told:
    """Which partitions have moved. Runs in the background if they are very many."""
    after = owners_of(ended.assignments)
    before: Mapping[TopicPartition, str] = after
    if ended.before is not None:
        before = ended.before
    elif ended.assignments_before is not None:
        before = owners_of(ended.assignments_before)
    stopped = dict(ended.stopped)
    moves: list[Move] = []
    kept = 0
    for place in {**before, **after}:
        source, target, stopped_ms = before.get(place), after.get(place), stopped.get(place)
        if source == target and stopped_ms is None:
            kept += 1
            continue
        if target is not None:
            stopped.pop(place, None)
        elif source is not None:
            # It was taken from a member that may not know yet; a cooperative member gives it up when it learns of it.
            stopped.setdefault(place, ended.mono_ms)
        stall_ms = -1 if stopped_ms is None else ended.mono_ms - stopped_ms
        if stopped_ms is None and source is not None:
            stall_ms = 0
        moves.append(Move(place[0], place[1], source, target, stall_ms))
    moves.sort(key=lambda move: (-move.stall_ms, move.topic, move.partition))
    event = replace(
        ended.event,
        kept=kept,
        moves=moves[:PARTITIONS_REPORTED_MAX],
        moves_total=len(moves),
        stall_max_ms=max(0, moves[0].stall_ms) if moves else 0,
    )
    return Told(event, after, stopped)


def moves_found(machine: GroupTable, step: GroupStep, ended: Ended, result: Told | WorkFailed, now: Now) -> None:
    """Report the rebalance, and keep the result for the next one, unless the group has needed it meanwhile."""
    found = None if isinstance(result, WorkFailed) else result
    step.events.append(ended.event if found is None else found.event)
    journal: Any = getattr(machine.groups.get(ended.event.group), "journal", None)
    if isinstance(journal, Journal) and journal.waits_for(ended):
        journal.found(found)


def trigger_of(reason: str, member: ClassicMember | None = None) -> Trigger:
    if member is None:
        return Trigger(reason)
    return Trigger(reason, member.member_id, member.instance_id, member.client_id, member.client_host.removeprefix("/"))
