"""The target assignment of a consumer or share group: the input of the assignor, and the records of its result."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple, TypeVar
from uuid import UUID

from broker_cy.coordinator.assignors.spec import Assignment, AssignorError, GroupSpec, MemberSpec
from broker_cy.coordinator.modern.group import NO_PARTITIONS, partition_counts, topic_ids
from broker_cy.coordinator.step import Record
from broker_cy.core.errors import ErrorCode, KafkaError
from broker_cy.metadata.image import MetadataImage

# The target assignment of one member.
T = TypeVar("T")


class Subscriber(NamedTuple):
    """A member as the assignor needs it."""

    member_id: str
    instance_id: str | None
    rack_id: str | None
    topics: frozenset[str]


def is_assignment_due(assigned_at_ms: int, interval_ms: int, wall_ms: int) -> bool:
    """Whether the next assignment may be computed: several joins in an interval share one. An interval of 0 helps if
    the wall clock was set back.
    """
    return not assigned_at_ms or not interval_ms or wall_ms >= assigned_at_ms + interval_ms


def group_spec(
    subscribers: Iterable[Subscriber],
    target: dict[str, Assignment],
    image: MetadataImage,
    *,
    is_homogeneous: bool,
) -> GroupSpec:
    """The input of the assignor. Members are in the order of their ids: so any coordinator gets the same result."""
    ids_of: dict[frozenset[str], frozenset[UUID]] = {}
    members: dict[str, MemberSpec] = {}
    for each in sorted(subscribers):
        ids = ids_of.get(each.topics)
        if ids is None:
            ids = ids_of[each.topics] = topic_ids(each.topics, image)
        assigned = target.get(each.member_id, NO_PARTITIONS)
        members[each.member_id] = MemberSpec(each.instance_id, each.rack_id, ids, assigned)
    all_ids = frozenset[UUID]().union(*ids_of.values())
    return GroupSpec(members, partition_counts(all_ids, image), is_homogeneous)


def target_records(
    assign: Callable[[GroupSpec], dict[str, Assignment]],
    spec: GroupSpec,
    target: dict[str, Assignment],
    record: Callable[[str, Assignment], Record],
) -> list[Record]:
    """Run the assignor, and return the records of the members whose target changes. Raises
    KafkaError(UNKNOWN_SERVER_ERROR) if it fails.
    """
    try:
        found = assign(spec)
    except AssignorError as error:
        raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, f"cannot assign partitions: {error}") from error
    return changed_targets({member_id: found[member_id] for member_id in spec.members}, target, record)


def changed_targets(
    found: Mapping[str, T], target: Mapping[str, T], record: Callable[[str, T], Record]
) -> list[Record]:
    """The records of the members whose target changes."""
    return [
        record(member_id, new)
        for member_id, new in found.items()
        if member_id not in target or new != target[member_id]
    ]
