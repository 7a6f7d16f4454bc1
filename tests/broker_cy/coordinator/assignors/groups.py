"""Random groups for the assignors, and what each assignment must satisfy."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from uuid import UUID

from broker_cy.coordinator.assignors.spec import Assignment, Assignor, GroupSpec, MemberSpec

TOPICS = tuple(UUID(int=number << 64 | 7) for number in (3, 1, (1 << 63) + 5, 2, 9, 4))


def topic_id(number: int) -> UUID:
    return TOPICS[number]


def member(topics: frozenset[UUID], assigned: Assignment | None = None, instance_id: str | None = None) -> MemberSpec:
    return MemberSpec(instance_id, None, topics, {} if assigned is None else assigned)


def group(partitions: Mapping[UUID, int], members: Mapping[str, MemberSpec]) -> GroupSpec:
    """A group of these members, with the topics that they subscribe to."""
    topics = frozenset().union(*(each.topics for each in members.values()))
    same = len({each.topics for each in members.values()}) <= 1
    return GroupSpec(members, {topic: partitions[topic] for topic in topics}, same)


def equal_members(count: int, partitions: Mapping[UUID, int]) -> GroupSpec:
    """`count` new members, m0 and so on, which subscribe to all topics."""
    topics = frozenset(partitions)
    return group(partitions, {f"m{number}": member(topics) for number in range(count)})


def assigned(spec: GroupSpec, target: Mapping[str, Assignment]) -> GroupSpec:
    """The group after an assignment."""
    return spec._replace(members={name: each._replace(assigned=target[name]) for name, each in spec.members.items()})


def sizes(target: Mapping[str, Assignment]) -> list[int]:
    return [sum(map(len, assignment.values())) for assignment in target.values()]


def moved(spec: GroupSpec, target: Mapping[str, Assignment]) -> int:
    """How many partitions have left the member that had them, although it is still there and still subscribes."""
    return sum(
        len(numbers - target[name].get(topic, frozenset()))
        for name, each in spec.members.items()
        for topic, numbers in each.assigned.items()
        if topic in each.topics
    )


def check_owners(spec: GroupSpec, target: Mapping[str, Assignment]) -> None:
    """Each partition of a subscribed topic has exactly one owner, which subscribes to it."""
    assert target.keys() == spec.members.keys()
    owned: list[tuple[UUID, int]] = []
    for name, assignment in target.items():
        assert assignment.keys() <= spec.members[name].topics
        assert all(assignment.values()), "an empty set"
        owned += [(topic, number) for topic, numbers in assignment.items() for number in numbers]
    assert len(owned) == len(set(owned)), "a partition has two owners"
    assert set(owned) == {(topic, number) for topic, count in spec.topics.items() for number in range(count)}


def history(draw: random.Random, assign: Assignor, after: Callable[[GroupSpec, dict[str, Assignment]], None]) -> None:
    """Let members come, go and change their subscriptions, and topics grow; assign after each change."""
    partitions = {topic: draw.randint(1, 12) for topic in TOPICS}
    members: dict[str, MemberSpec] = {}
    is_mixed = draw.random() < 0.6
    names = iter(range(1_000_000))
    for _ in range(draw.randint(5, 25)):
        change = draw.random()
        if len(members) > 1 and change < 0.3:
            for name in draw.sample(list(members), draw.randint(1, max(1, len(members) // 3))):
                del members[name]
        elif members and change < 0.45:
            partitions[draw.choice(TOPICS)] += draw.randint(1, 5)
        elif members and change < 0.6:
            _subscribe_again(draw, members, is_mixed)
        else:
            common = next(iter(members.values())).topics if members else _some_topics(draw)
            for _ in range(draw.randint(1, 4)):
                topics = _some_topics(draw) if is_mixed else common
                name = f"{draw.choice('abxyz')}{next(names)}"
                members[name] = member(topics, None, f"i{name}" if draw.random() < 0.3 else None)
        spec = group(partitions, members)
        target = assign(spec)
        after(spec, target)
        members = dict(assigned(spec, target).members)


def _some_topics(draw: random.Random) -> frozenset[UUID]:
    return frozenset(draw.sample(TOPICS, draw.randint(1, len(TOPICS))))


def _subscribe_again(draw: random.Random, members: dict[str, MemberSpec], is_mixed: bool) -> None:
    topics = _some_topics(draw)
    for name in draw.sample(list(members), 1) if is_mixed else list(members):
        members[name] = members[name]._replace(topics=topics)
