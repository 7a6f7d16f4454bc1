"""The uniform and range assignors: owners, balance, stickiness."""

from __future__ import annotations

import random
from uuid import UUID

import pytest

from broker_cy.coordinator.assignors import range_, uniform
from broker_cy.coordinator.assignors.consumer_assignors import CONSUMER_ASSIGNORS
from broker_cy.coordinator.assignors.spec import Assignment, AssignorError, GroupSpec, in_kafka_order
from tests.broker_cy.coordinator.assignors import groups

A, B = groups.topic_id(0), groups.topic_id(1)
SEEDS = range(100)


@pytest.mark.parametrize("name", CONSUMER_ASSIGNORS)
def test_each_partition_has_one_owner(name: str) -> None:
    """If this fails, no member consumes a partition, or its records are processed twice."""
    for seed in SEEDS:
        groups.history(random.Random(f"owners {seed}"), CONSUMER_ASSIGNORS[name], groups.check_owners)


def test_uniform_is_balanced_and_moves_as_little_as_possible() -> None:
    """If this fails, one consumer works while another is idle, or a rebalance stops consumers that it need not stop."""

    def check(spec: GroupSpec, target: dict[str, Assignment]) -> None:
        if not spec.is_homogeneous:
            return
        counts = groups.sizes(target)
        assert max(counts) - min(counts) <= 1
        # Only what exceeds the quotas moves: the largest holders keep the extra partitions.
        quota, extras = divmod(sum(spec.topics.values()), len(spec.members))
        before = sorted(
            (sum(len(n) for t, n in each.assigned.items() if t in each.topics) for each in spec.members.values()),
            reverse=True,
        )
        kept = sum(min(count, quota + (index < extras)) for index, count in enumerate(before))
        assert groups.moved(spec, target) == sum(before) - kept

    for seed in SEEDS:
        groups.history(random.Random(f"balance {seed}"), uniform.assign, check)


def test_extra_partitions_stay_with_their_members() -> None:
    """KAFKA-18688. If this fails, each rebalance moves partitions between members that are balanced already."""
    spec = groups.equal_members(7, {A: 10, B: 15})
    target = uniform.assign(spec)
    for seed in range(20):
        spec = groups.assigned(spec, target)
        names = random.Random(f"order {seed}").sample(list(spec.members), len(spec.members))
        spec = spec._replace(members={name: spec.members[name] for name in names})
        target = uniform.assign(spec)
        assert groups.moved(spec, target) == 0


def test_unchanged_members_get_their_own_assignment_back() -> None:
    """If this fails, a heartbeat of 5,000 members compares 50,000 partitions to find that nothing has changed."""
    for assign in (uniform.assign, range_.assign):
        spec = groups.equal_members(5, {A: 13, B: 4})
        spec = groups.assigned(spec, assign(spec))
        again = assign(spec)
        assert all(again[name] is each.assigned for name, each in spec.members.items())
        mixed = spec._replace(is_homogeneous=False)
        again = assign(mixed)
        assert all(again[name] is each.assigned for name, each in spec.members.items())


@pytest.mark.parametrize("is_homogeneous", [True, False])
def test_assignment_of_a_converted_group_is_repaired(is_homogeneous: bool) -> None:
    """If this fails, a group whose client-side assignor made a bad assignment never becomes stable after conversion."""
    topics = frozenset({A})
    held = [{A: frozenset({0, 1, 9})}, {A: frozenset({1, 2}), B: frozenset({0})}]
    spec = groups.group({A: 4}, {f"m{number}": groups.member(topics, each) for number, each in enumerate(held)})
    target = uniform.assign(spec._replace(is_homogeneous=is_homogeneous))
    groups.check_owners(spec, target)
    assert target["m0"] == {A: {0, 1}}
    assert target["m1"] == {A: {2, 3}}


def test_mixed_subscriptions_are_balanced_per_topic() -> None:
    """If this fails, the only subscriber of a large topic also gets partitions that others could take."""

    def check(spec: GroupSpec, target: dict[str, Assignment]) -> None:
        counts = dict(zip(target, groups.sizes(target), strict=True))
        for topic in spec.topics:
            subscribers = [name for name, each in spec.members.items() if topic in each.topics]
            most = max(subscribers, key=counts.__getitem__)
            least = min(counts[name] for name in subscribers)
            if topic in target[most]:
                assert counts[most] - least <= 1

    for seed in SEEDS:
        groups.history(random.Random(f"mixed {seed}"), uniform.assign, check)


def test_range_gives_contiguous_ranges_static_members_first() -> None:
    """If this fails, joins of co-partitioned topics break, or a restart of static members moves all partitions."""
    topics = frozenset({A, B})
    names = {"a": None, "z": "1", "b": "2", "c": None}
    spec = groups.group({A: 9, B: 9}, {name: groups.member(topics, None, instance) for name, instance in names.items()})
    target = range_.assign(spec)
    assert {name: sorted(each[A]) for name, each in target.items()} == {
        "z": [0, 1, 2],
        "b": [3, 4],
        "a": [5, 6],
        "c": [7, 8],
    }
    assert all(each[A] == each[B] for each in target.values())


def test_more_members_than_partitions() -> None:
    """If this fails, the members without a partition are missing from the target assignment."""
    spec = groups.equal_members(9, {A: 2, B: 1})
    assert sorted(groups.sizes(uniform.assign(spec))) == [0, 0, 0, 0, 0, 0, 1, 1, 1]
    assert groups.sizes(range_.assign(spec)) == [2, 1, 0, 0, 0, 0, 0, 0, 0]


@pytest.mark.parametrize("name", CONSUMER_ASSIGNORS)
@pytest.mark.parametrize("is_homogeneous", [True, False])
def test_groups_without_topics_or_members(name: str, is_homogeneous: bool) -> None:
    """If this fails, a group whose topics do not exist yet gets an error instead of an empty assignment."""
    assign = CONSUMER_ASSIGNORS[name]
    assert assign(GroupSpec({}, {}, is_homogeneous)) == {}
    nothing = groups.group({}, {"m": groups.member(frozenset(), {A: frozenset({1})})})
    assert assign(nothing._replace(is_homogeneous=is_homogeneous)) == {"m": {}}


@pytest.mark.parametrize("name", CONSUMER_ASSIGNORS)
@pytest.mark.parametrize("is_homogeneous", [True, False])
def test_topic_that_does_not_exist(name: str, is_homogeneous: bool) -> None:
    """If this fails, a deleted topic ends the coordinator's operation with a KeyError."""
    spec = GroupSpec({"m": groups.member(frozenset({A}))}, {}, is_homogeneous)
    with pytest.raises(AssignorError, match="does not exist"):
        CONSUMER_ASSIGNORS[name](spec)


def test_topic_ids_are_in_kafka_order() -> None:
    """If this fails, ties between topics are broken differently from Kafka."""
    negative, small, large = UUID(int=1 << 127), UUID(int=1), UUID(int=(1 << 64) + (1 << 63))
    assert in_kafka_order([large, small, negative]) == [negative, small, large]
    assert in_kafka_order([UUID(int=5), UUID(int=1 << 63)]) == [UUID(int=1 << 63), UUID(int=5)]
