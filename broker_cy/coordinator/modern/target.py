"""The target assignment of a consumer or share group: the input of the assignor, and the records of its result."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from operator import attrgetter
from typing import TypeVar
from uuid import UUID

from broker_cy.coordinator.assignors.spec import Assignment, AssignorError, GroupSpec, MemberSpec
from broker_cy.coordinator.modern.group import NO_PARTITIONS
from broker_cy.core.classes import NamedTuple
from broker_cy.core.errors import ErrorCode, KafkaError
from broker_cy.metadata.topics import TopicImage

# The target assignment of one member.
T = TypeVar("T")
# The result for a changed target.
R = TypeVar("R")


class Subscriber(NamedTuple):
    """A member as the assignor needs it."""

    member_id: str
    instance_id: str | None
    rack_id: str | None
    topics: frozenset[str]


_member_id = attrgetter("member_id")


def is_assignment_due(assigned_at_ms: int, interval_ms: int, wall_ms: int) -> bool:
    """Whether the next assignment may be computed: several joins in an interval share one. An interval of 0 helps if
    the wall clock was set back.
    """
    return not assigned_at_ms or not interval_ms or wall_ms >= assigned_at_ms + interval_ms


KnownTopic = tuple[UUID, int]
"""The id of a topic that exists, and the number of its partitions. There may be 10,000 of them, which are plain tuples:
named ones take several times as long.
"""


def known_topics(topics: Iterable[TopicImage]) -> dict[str, KnownTopic]:
    """The topics by name."""
    return {name: (topic_id, len(partitions)) for name, topic_id, partitions in topics}


def spec_of(
    subscribers: Iterable[Subscriber],
    target: Mapping[str, Assignment],
    topics: Mapping[str, KnownTopic],
    *,
    is_homogeneous: bool,
) -> GroupSpec:
    """The input of the assignor; `topics` must include all of the subscribers' that exist. Members are in the order of
    their ids: so any coordinator gets the same result.
    """
    ids_of: dict[frozenset[str], frozenset[UUID]] = {}
    members: dict[str, MemberSpec] = {}
    for each in sorted(subscribers, key=_member_id):
        ids = ids_of.get(each.topics)
        if ids is None:
            ids = ids_of[each.topics] = frozenset(topics[name][0] for name in each.topics if name in topics)
        assigned = target.get(each.member_id, NO_PARTITIONS)
        members[each.member_id] = MemberSpec(each.instance_id, each.rack_id, ids, assigned)
    read = frozenset[UUID]().union(*ids_of.values())
    counts = {topic_id: partitions for topic_id, partitions in topics.values() if topic_id in read}
    return GroupSpec(members, counts, is_homogeneous)


def target_records(
    assign: Callable[[GroupSpec], dict[str, Assignment]],
    spec: GroupSpec,
    target: Mapping[str, Assignment],
    record: Callable[[str, Assignment], R],
) -> list[R]:
    """Run the assignor, and return the records that `record` makes of the members whose target changes. Raises
    KafkaError(UNKNOWN_SERVER_ERROR) if it fails.
    """
    try:
        found = assign(spec)
    except AssignorError as error:
        raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, f"cannot assign partitions: {error}") from error
    return changed_targets({member_id: found[member_id] for member_id in spec.members}, target, record)


def changed_targets(found: Mapping[str, T], target: Mapping[str, T], record: Callable[[str, T], R]) -> list[R]:
    """The records of the members whose target changes."""
    return [
        record(member_id, new)
        for member_id, new in found.items()
        if member_id not in target or new != target[member_id]
    ]
