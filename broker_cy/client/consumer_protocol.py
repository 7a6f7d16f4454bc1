"""The consumer protocol of classic groups: the subscription of a member, its assignment, and the leader's assignors.

A partition is a pair (topic, number). A subscription lists the partitions that its member still owns, so that a
cooperative assignor leaves them in place (KIP-429).
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeVar

from broker_cy.core.classes import NamedTuple
from broker_cy.core.errors import WireError
from broker_cy.wire import codec, messages
from broker_cy.wire.codec import Message

Partition = tuple[str, int]
M = TypeVar("M", bound=Message)

PROTOCOL_TYPE = "consumer"
RANGE, ROUND_ROBIN, COOPERATIVE_STICKY = "range", "roundrobin", "cooperative-sticky"
# Version 1 of subscriptions adds the owned partitions. Every version of an assignment has the same fields.
SUBSCRIPTION_VERSION, ASSIGNMENT_VERSION = 1, 0
_VERSION = struct.Struct(">h")


class Subscription(NamedTuple):
    """The topics of a member, and the partitions that it owns."""

    topics: tuple[str, ...]
    owned: frozenset[Partition] = frozenset()


class Subscriber(NamedTuple):
    """A member as the leader sees it. `instance_id` is that of a static member (KIP-345)."""

    member_id: str
    instance_id: str | None
    subscription: Subscription

    @property
    def rank(self) -> tuple[str, str]:
        """Members are sorted by the id that a static member keeps, so that it gets the same partitions again."""
        return self.instance_id or self.member_id, self.member_id


Parts = dict[str, list[Partition]]
Assignor = Callable[[Sequence[Subscriber], Mapping[str, int]], Parts]


# ------------------------------------------------------------------------------------------------ bytes


def subscription_bytes(subscription: Subscription) -> bytes:
    """Return the metadata of a member in JoinGroup."""
    owned = messages.ConsumerProtocolSubscription.TopicPartition
    body = messages.ConsumerProtocolSubscription(
        topics=list(subscription.topics),
        owned_partitions=[owned(topic=topic, partitions=numbers) for topic, numbers in by_topic(subscription.owned)],
    )
    return _VERSION.pack(SUBSCRIPTION_VERSION) + codec.encode(body, SUBSCRIPTION_VERSION)


def subscription_of(data: bytes) -> Subscription:
    """Decode the metadata of a member. Raises WireError."""
    found = _decoded(messages.ConsumerProtocolSubscription, data)
    owned = ((each.topic, number) for each in found.owned_partitions for number in each.partitions)
    return Subscription(tuple(found.topics), frozenset(owned))


def assignment_bytes(partitions: Iterable[Partition]) -> bytes:
    """Return the assignment of a member in SyncGroup."""
    part = messages.ConsumerProtocolAssignment.TopicPartition
    assigned = [part(topic=topic, partitions=numbers) for topic, numbers in by_topic(partitions)]
    body = messages.ConsumerProtocolAssignment(assigned_partitions=assigned)
    return _VERSION.pack(ASSIGNMENT_VERSION) + codec.encode(body, ASSIGNMENT_VERSION)


def assignment_of(data: bytes) -> frozenset[Partition]:
    """Decode an assignment; that of a member without partitions may be empty. Raises WireError."""
    if not data:
        return frozenset()
    found = _decoded(messages.ConsumerProtocolAssignment, data)
    return frozenset((each.topic, number) for each in found.assigned_partitions for number in each.partitions)


def by_topic(partitions: Iterable[Partition]) -> list[tuple[str, list[int]]]:
    """Return topics with their partitions, both sorted."""
    found: dict[str, list[int]] = {}
    for topic, number in sorted(partitions):
        found.setdefault(topic, []).append(number)
    return list(found.items())


def _decoded(kind: type[M], data: bytes) -> M:
    """Decode a message that begins with its version. A newer version begins with the fields of the newest known one."""
    if len(data) < _VERSION.size:
        raise WireError(f"{kind.__name__} of {len(data)} bytes has no version")
    (version,) = _VERSION.unpack_from(data)
    if version < 0:
        raise WireError(f"{kind.__name__} has version {version}; must be 0 or more")
    found, _ = codec.decode_prefix(kind, min(version, kind.VERSIONS[1]), memoryview(data)[_VERSION.size :])
    return found


# ------------------------------------------------------------------------------------------------ assignors


def _topics(members: Sequence[Subscriber]) -> list[str]:
    return sorted({topic for each in members for topic in each.subscription.topics})


def assign_range(members: Sequence[Subscriber], partitions: Mapping[str, int]) -> Parts:
    """Give each subscriber consecutive partitions of each topic; the first subscribers get one more if the division
    has a remainder (RangeAssignor).
    """
    found: Parts = {each.member_id: [] for each in members}
    for topic in _topics(members):
        theirs = [each for each in sorted(members, key=_rank) if topic in each.subscription.topics]
        least, more = divmod(partitions.get(topic, 0), len(theirs))
        at = 0
        for place, member in enumerate(theirs):
            count = least + (place < more)
            found[member.member_id] += [(topic, number) for number in range(at, at + count)]
            at += count
    return found


def assign_in_turn(members: Sequence[Subscriber], partitions: Mapping[str, int]) -> Parts:
    """Give the partitions of all topics to their subscribers in turn (RoundRobinAssignor)."""
    found: Parts = {each.member_id: [] for each in members}
    ranked = sorted(members, key=_rank)
    at = 0
    for topic in _topics(members):
        for number in range(partitions.get(topic, 0)):
            while topic not in ranked[at % len(ranked)].subscription.topics:
                at += 1
            found[ranked[at % len(ranked)].member_id].append((topic, number))
            at += 1
    return found


def assign_sticky(members: Sequence[Subscriber], partitions: Mapping[str, int]) -> Parts:
    """Balance the partitions, and leave as many as possible with their owners (CooperativeStickyAssignor).

    A partition that changes its owner is assigned to no member: the owner revokes it and joins again, and the next
    assignment gives it away.
    """
    balanced = _balance(members, partitions)
    owners: dict[Partition, str] = {}
    for each in members:
        for partition in each.subscription.owned:
            # If two members claim a partition, one of them is late: neither is its owner.
            owners[partition] = "" if partition in owners else each.member_id
    return {
        member_id: [each for each in theirs if owners.get(each, member_id) in (member_id, "")]
        for member_id, theirs in balanced.items()
    }


def _balance(members: Sequence[Subscriber], partitions: Mapping[str, int]) -> Parts:
    """Return the intended assignment: owned partitions first, the rest to the member with the fewest."""
    ranked = sorted(members, key=_rank)
    wants = {each.member_id: frozenset(each.subscription.topics) for each in ranked}
    whole = [(topic, number) for topic in _topics(members) for number in range(partitions.get(topic, 0))]
    found: Parts = {each.member_id: [] for each in ranked}
    taken: set[Partition] = set()
    claims: dict[Partition, int] = {}
    for each in ranked:
        for partition in each.subscription.owned:
            claims[partition] = claims.get(partition, 0) + 1
    known = frozenset(whole)
    for each in ranked:
        for partition in sorted(each.subscription.owned):
            if claims[partition] == 1 and partition in known and partition[0] in wants[each.member_id]:
                found[each.member_id].append(partition)
                taken.add(partition)

    def least(topic: str) -> str:
        return min((each for each in found if topic in wants[each]), key=lambda each: len(found[each]))

    for partition in whole:
        if partition not in taken:
            found[least(partition[0])].append(partition)
    # Each move brings two members with a difference of at least two closer together, so that this ends.
    moved = True
    while moved:
        moved = False
        for giver in sorted(found, key=lambda each: -len(found[each])):
            for partition in reversed(found[giver]):
                taker = least(partition[0])
                if len(found[giver]) - len(found[taker]) >= 2:
                    found[giver].remove(partition)
                    found[taker].append(partition)
                    moved = True
                    break
            if moved:
                break
    return {each: sorted(theirs) for each, theirs in found.items()}


def _rank(member: Subscriber) -> tuple[str, str]:
    return member.rank


ASSIGNORS: dict[str, Assignor] = {
    RANGE: assign_range,
    ROUND_ROBIN: assign_in_turn,
    COOPERATIVE_STICKY: assign_sticky,
}
