"""The simple assignor of share groups: sharing, balance, stickiness."""

from __future__ import annotations

import random
from collections import Counter
from uuid import UUID

import pytest

from broker_cy.coordinator.assignors import share_simple
from broker_cy.coordinator.assignors.spec import Assignment, AssignorError, GroupSpec
from tests.broker_cy.coordinator.assignors import groups

A, B = groups.topic_id(0), groups.topic_id(1)


def all_of(spec: GroupSpec) -> dict[UUID, frozenset[int]]:
    return {topic: frozenset(range(count)) for topic, count in spec.topics.items()}


def sharing(target: dict[str, Assignment]) -> Counter[tuple[UUID, int]]:
    """How many members have each partition."""
    return Counter((topic, number) for each in target.values() for topic, numbers in each.items() for number in numbers)


@pytest.mark.parametrize(
    ("members", "partitions", "counts", "shared_by"),
    [
        (1, 5, [5], 1),
        (3, 6, [2, 2, 2], 1),
        (2, 5, [3, 2], 1),
        (4, 4, [1, 1, 1, 1], 1),
        (6, 3, [1, 1, 1, 1, 1, 1], 2),
        (5, 3, [2, 1, 1, 1, 1], 2),
    ],
)
def test_partitions_are_shared_equally(members: int, partitions: int, counts: list[int], shared_by: int) -> None:
    """If this fails, some members of a share group get no records while others are overloaded."""
    spec = groups.equal_members(members, {A: partitions})
    target = share_simple.assign(spec, all_of(spec))
    assert sorted(groups.sizes(target), reverse=True) == counts
    assert set(sharing(target).values()) == {shared_by}
    again = groups.assigned(spec, target)
    same = share_simple.assign(again, all_of(again))
    assert all(same[name] is each.assigned for name, each in again.members.items())


def test_each_partition_has_a_member_and_each_member_a_partition() -> None:
    """If this fails, records of a share group wait although members are idle."""

    def check(spec: GroupSpec, target: dict[str, Assignment]) -> None:
        shared = sharing(target)
        assert set(shared) == {(topic, number) for topic, count in spec.topics.items() for number in range(count)}
        for name, assignment in target.items():
            assert assignment.keys() <= spec.members[name].topics
            assert all(assignment.values())
        if spec.is_homogeneous:
            counts = groups.sizes(target)
            assert max(counts) - min(counts) <= 1
            assert max(shared.values()) <= -(-len(spec.members) // len(shared))

    for seed in range(100):
        groups.history(random.Random(f"share {seed}"), lambda spec: share_simple.assign(spec, all_of(spec)), check)


def test_only_initialized_partitions_are_assigned() -> None:
    """If this fails, a member fetches from a share partition that has no start offset yet."""
    spec = groups.equal_members(2, {A: 4, B: 2})
    target = share_simple.assign(spec, {A: frozenset({1, 3, 7})})
    assert sharing(target) == {(A, 1): 1, (A, 3): 1}
    assert share_simple.assign(spec, {}) == {"m0": {}, "m1": {}}


def test_partitions_of_a_topic_without_subscribers_are_revoked() -> None:
    """Kafka 4.3.1 keeps them if the members have different subscriptions. If this fails, a member goes on to get
    records of a topic that it left.
    """
    held = {B: frozenset({0})}
    members = {"m0": groups.member(frozenset({A}), held), "m1": groups.member(frozenset({A, groups.topic_id(2)}))}
    spec = groups.group({A: 1, groups.topic_id(2): 1}, members)
    target = share_simple.assign(spec, {**all_of(spec), B: frozenset({0})})
    assert all(B not in each for each in target.values())


def test_topic_that_does_not_exist() -> None:
    """If this fails, a deleted topic ends the coordinator's operation with a KeyError."""
    with pytest.raises(AssignorError, match="does not exist"):
        share_simple.assign(GroupSpec({"m": groups.member(frozenset({A}))}, {}, True), {})
    assert share_simple.assign(GroupSpec({}, {}, True), {}) == {}
