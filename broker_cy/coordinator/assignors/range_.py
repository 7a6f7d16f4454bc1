"""Kafka's range assignor: each subscriber of a topic gets one contiguous range of its partitions.

Topics with equal partition counts and subscribers are co-partitioned: a member has the same numbers of each. The
current assignment has no influence; only the order of the members has. Static members come first, by instance id,
because they keep their place through a restart.
"""

from __future__ import annotations

from uuid import UUID

from broker_cy.coordinator.assignors.spec import Assignment, GroupSpec, MemberSpec, partition_count, subscribers


def assign(spec: GroupSpec) -> dict[str, Assignment]:
    """Return the target assignment of each member."""
    members = sorted(spec.members.items(), key=_place)
    target: dict[str, dict[UUID, frozenset[int]]] = {member_id: {} for member_id in spec.members}
    for topic_id, positions in subscribers(member.topics for _, member in members).items():
        count = partition_count(spec, topic_id)
        quota, extras = divmod(count, len(positions))
        start = 0
        for index, position in enumerate(positions[:count]):
            end = start + quota + (index < extras)
            target[members[position][0]][topic_id] = frozenset(range(start, end))
            start = end
    return {
        member_id: member.assigned if target[member_id] == member.assigned else target[member_id]
        for member_id, member in spec.members.items()
    }


def _place(entry: tuple[str, MemberSpec]) -> tuple[bool, bytes]:
    member_id, member = entry
    is_dynamic = member.instance_id is None
    name = member_id if member.instance_id is None else member.instance_id
    return is_dynamic, name.encode("utf-16-be", "surrogatepass")  # Java compares UTF-16 code units
