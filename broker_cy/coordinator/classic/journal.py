"""The journal of one group's rebalances: why each started, how long its phases took, which partitions moved, and for
how long no member read them.

It observes the group and decides nothing. It reads the owners of partitions from the assignments of the consumer
protocol (ConsumerProtocolAssignment); other protocols have no moves. A partition is stalled from the time its owner
gives it up: the owner joins without listing it among its partitions (an eager consumer lists none, a cooperative one,
KIP-429, all that it keeps), it leaves, or its session ends, which counts from its last request.
"""

from __future__ import annotations

from typing import Protocol

from broker_cy.coordinator.classic import subscription
from broker_cy.coordinator.classic.member import ClassicMember
from broker_cy.core.step import Now
from broker_cy.metrics.events import PARTITIONS_REPORTED_MAX, Move, Rebalance, Trigger

TopicPartition = tuple[str, int]

# Further triggers of a rebalance in progress; bounded, because a group may never settle.
TRIGGERS_MAX = 100


class Observed(Protocol):
    """The parts of a group that the journal reads."""

    group_id: str
    generation: int
    protocol_name: str | None
    members: dict[str, ClassicMember]

    @property
    def uses_consumer_protocol(self) -> bool: ...


class Journal:
    """Invariant: no member reads a partition in `_stopped`; the value is since when (monotonic ms)."""

    __slots__ = ("_began", "_joined_ms", "_members", "_owners", "_stopped", "_triggers")

    def __init__(self) -> None:
        # None until the assignments of the group are first decoded.
        self._owners: dict[TopicPartition, str] | None = None
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
        self._learn(group)

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

    def settled(self, group: Observed, now: Now) -> Rebalance:
        """The group is stable or empty: return the event of the rebalance."""
        before = self._learn(group)
        after = assigned(group)
        began, triggers = self._began or now, self._triggers
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
            triggers=triggers,
        )
        for place in {**before, **after}:
            self._tell(event, place, before.get(place), after.get(place), now)
        event.moves.sort(key=lambda move: (-move.stall_ms, move.topic, move.partition))
        event.moves_total = len(event.moves)
        event.stall_max_ms = max((move.stall_ms for move in event.moves), default=0)
        event.stall_max_ms = max(0, event.stall_max_ms)
        del event.moves[PARTITIONS_REPORTED_MAX:]
        self._owners = after
        self._members = len(group.members)
        self._began, self._triggers, self._joined_ms = None, [], 0
        return event

    def _tell(self, event: Rebalance, place: TopicPartition, source: str | None, target: str | None, now: Now) -> None:
        stopped_ms = self._stopped.get(place)
        if source == target and stopped_ms is None:
            event.kept += 1
            return
        if target is None:
            if source is not None:
                # It was taken from a member that may not know yet; a cooperative member gives it up when it learns of
                # it.
                self._stopped.setdefault(place, now.mono_ms)
        else:
            self._stopped.pop(place, None)
        stall_ms = -1 if stopped_ms is None else now.mono_ms - stopped_ms
        if stopped_ms is None and source is not None:
            stall_ms = 0
        event.moves.append(Move(place[0], place[1], source, target, stall_ms))

    def _learn(self, group: Observed) -> dict[TopicPartition, str]:
        if self._owners is None:
            self._owners = assigned(group)
        return self._owners


def assigned(group: Observed) -> dict[TopicPartition, str]:
    """Return the owners by the assignments of the members; empty if they are not of the consumer protocol."""
    owners: dict[TopicPartition, str] = {}
    if group.uses_consumer_protocol:
        for member in group.members.values():
            for place in subscription.assigned_partitions(member.assignment):
                owners[place] = member.member_id
    return owners


def trigger_of(reason: str, member: ClassicMember | None = None) -> Trigger:
    if member is None:
        return Trigger(reason)
    return Trigger(reason, member.member_id, member.instance_id, member.client_id, member.client_host.removeprefix("/"))
