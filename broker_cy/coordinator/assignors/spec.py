"""The input and the result of the assignors of consumer and share groups (KIP-848, KIP-932).

An assignor is a pure function from the members of a group, with their current target assignments, to their next target
assignments. It has no clock and no randomness: equal specs give equal results.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from uuid import UUID

from broker_cy.core.classes import NamedTuple

Assignment = Mapping[UUID, frozenset[int]]
"""The partitions of each topic id; no set is empty."""


class MemberSpec(NamedTuple):
    """The facts that an assignor knows about one member."""

    instance_id: str | None
    rack_id: str | None
    topics: frozenset[UUID]
    """Subscribed topics that exist. Members with equal subscriptions share one object."""
    assigned: Assignment
    """The current target assignment of the member, which an assignor keeps as far as it can."""


class GroupSpec(NamedTuple):
    """The members by id, and the number of partitions of each topic that a member subscribes to.

    Ties are broken by the order of `members`. If `is_homogeneous`, all members have the same topics.
    """

    members: Mapping[str, MemberSpec]
    topics: Mapping[UUID, int]
    is_homogeneous: bool


class AssignorError(Exception):
    """The assignor cannot assign the group's partitions. Clients get UNKNOWN_SERVER_ERROR."""


Assignor = Callable[[GroupSpec], dict[str, Assignment]]
"""The result has each member id. A member that keeps its partitions gets its own `assigned` object back."""


class Held(NamedTuple):
    """The partitions that members keep at first: each exists, its holder subscribes to it, and it has one holder."""

    members: dict[str, Assignment]
    partitions: dict[UUID, set[int]]
    """The held partitions of each subscribed topic."""


_SIGN = 1 << 63


def in_kafka_order(topic_ids: Iterable[UUID]) -> list[UUID]:
    """Sort topic ids as Kafka's Uuid does, which compares two signed 64-bit numbers."""
    return sorted(topic_ids, key=lambda topic_id: topic_id.int ^ (_SIGN << 64 | _SIGN))


def subscribers(subscriptions: Iterable[frozenset[UUID]]) -> dict[UUID, Sequence[int]]:
    """Return the positions of the members that subscribe to each topic, in ascending order.

    Members with equal subscriptions are handled together, and topics with the same subscribers share one list.
    """
    members: dict[frozenset[UUID], list[int]] = {}
    for position, topic_ids in enumerate(subscriptions):
        members.setdefault(topic_ids, []).append(position)
    subscribed: dict[UUID, list[int]] = {}
    lists = list(members.values())
    for index, topic_ids in enumerate(members):
        for topic_id in topic_ids:
            subscribed.setdefault(topic_id, []).append(index)
    shared: dict[tuple[int, ...], Sequence[int]] = {}
    for indexes in subscribed.values():
        if tuple(indexes) not in shared:
            shared[tuple(indexes)] = sorted(position for index in indexes for position in lists[index])
    return {topic_id: shared[tuple(indexes)] for topic_id, indexes in subscribed.items()}


def partition_count(spec: GroupSpec, topic_id: UUID) -> int:
    """The number of partitions of a subscribed topic. Raises AssignorError if the topic does not exist."""
    count = spec.topics.get(topic_id)
    if count is None:
        raise AssignorError(f"members subscribe to topic {topic_id}, which does not exist")
    return count


def held(spec: GroupSpec, topic_ids: Iterable[UUID]) -> Held:
    """Return what members may keep of their current assignments.

    A group that was converted has the target assignment that a client computed. It may name a partition twice, or one
    that does not exist; the first holder keeps the former, and the latter is dropped.
    """
    partitions: dict[UUID, set[int]] = {topic_id: set() for topic_id in topic_ids}
    members: dict[str, Assignment] = {}
    named = 0
    for member_id, member in spec.members.items():
        subscribed = 0
        for topic_id, numbers in member.assigned.items():
            if topic_id in member.topics:
                partitions[topic_id].update(numbers)
                named += len(numbers)
                subscribed += 1
        members[member_id] = member.assigned if subscribed == len(member.assigned) else _subscribed(member)
    if named > sum(map(len, partitions.values())) or any(
        numbers and max(numbers) >= spec.topics[topic_id] for topic_id, numbers in partitions.items()
    ):
        return _first_holders(spec, members, list(partitions))
    return Held(members, partitions)


def _subscribed(member: MemberSpec) -> Assignment:
    return {topic_id: numbers for topic_id, numbers in member.assigned.items() if topic_id in member.topics}


def _first_holders(spec: GroupSpec, members: dict[str, Assignment], topic_ids: list[UUID]) -> Held:
    free = {topic_id: set(range(spec.topics[topic_id])) for topic_id in topic_ids}
    kept: dict[str, Assignment] = {}
    for member_id, assignment in members.items():
        own: dict[UUID, frozenset[int]] = {}
        for topic_id, numbers in assignment.items():
            valid = numbers & free[topic_id]
            free[topic_id] -= valid
            if valid:
                own[topic_id] = valid
        kept[member_id] = assignment if own == assignment else own
    return Held(kept, {topic_id: set(range(spec.topics[topic_id])) - free[topic_id] for topic_id in topic_ids})
