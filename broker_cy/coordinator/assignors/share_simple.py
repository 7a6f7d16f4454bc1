"""Kafka's simple assignor for share groups, in which several members may have the same partition.

If P partitions have M members, each partition is shared by ceil(M / P) of them, and members have equal numbers of
partitions. Members keep their partitions as far as that allows. If all members subscribe to the same topics, the
partitions of all topics are shared out together, otherwise those of each topic by itself.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Final
from uuid import UUID

from broker_cy.coordinator.assignors.spec import Assignment, GroupSpec, in_kafka_order, partition_count, subscribers

ShareAssignor = Callable[[GroupSpec, Mapping[UUID, frozenset[int]]], dict[str, Assignment]]

Place = tuple[UUID, int]  # a partition
_NO_PARTITIONS: Final[frozenset[int]] = frozenset()


def assign(spec: GroupSpec, assignable: Mapping[UUID, frozenset[int]]) -> dict[str, Assignment]:
    """Return the target assignment of each member. `assignable` has the initialized partitions of each topic."""
    members = list(spec.members.values())
    owned: list[dict[UUID, set[int]]] = [{} for _ in members]
    for topic_ids, positions in _pools(spec):
        places = [place for topic_id in topic_ids for place in _places(spec, assignable, topic_id)]
        held = _held([members[position].assigned for position in positions], topic_ids, places)
        _share_out(len(places), held)
        for position, numbers in zip(positions, held, strict=True):
            for number in numbers:
                topic_id, partition = places[number]
                owned[position].setdefault(topic_id, set()).add(partition)
    return {
        member_id: _same_or_new(member.assigned, own)
        for (member_id, member), own in zip(spec.members.items(), owned, strict=True)
    }


SHARE_ASSIGNORS: Final[Mapping[str, ShareAssignor]] = {"simple": assign}


def _pools(spec: GroupSpec) -> Iterator[tuple[list[UUID], Sequence[int]]]:
    """Yield the topics whose partitions are shared out together, with the positions of their subscribers."""
    subscribed = subscribers(member.topics for member in spec.members.values())
    topic_ids = in_kafka_order(subscribed)
    if not spec.is_homogeneous:
        for topic_id in topic_ids:
            yield [topic_id], subscribed[topic_id]
    elif topic_ids:
        yield topic_ids, range(len(spec.members))


def _places(spec: GroupSpec, assignable: Mapping[UUID, frozenset[int]], topic_id: UUID) -> Iterator[Place]:
    count = partition_count(spec, topic_id)
    return ((topic_id, number) for number in sorted(assignable.get(topic_id, _NO_PARTITIONS)) if number < count)


def _held(assignments: Sequence[Assignment], topic_ids: Sequence[UUID], places: Sequence[Place]) -> list[set[int]]:
    """Return which places each member has, as indexes of `places`."""
    index_of: dict[UUID, dict[int, int]] = {topic_id: {} for topic_id in topic_ids}
    for index, (topic_id, number) in enumerate(places):
        index_of[topic_id][number] = index
    return [
        {
            indexes[number]
            for topic_id, numbers in assignment.items()
            if (indexes := index_of.get(topic_id)) is not None
            for number in numbers & indexes.keys()
        }
        for assignment in assignments
    ]


def _share_out(places: int, held: list[set[int]]) -> None:
    """Change what the members of a pool hold so that it is balanced."""
    if not places:
        return
    sharing = -(-len(held) // places)
    wanted = _wanted(sharing * places, len(held))
    for member, count in zip(held, wanted, strict=True):
        if len(member) > count:
            member.difference_update(sorted(member)[: len(member) - count])
    holders: list[list[int]] = [[] for _ in range(places)]
    for position, member in enumerate(held):
        for place in member:
            holders[place].append(position)
    for place, positions in enumerate(holders):
        excess = max(0, len(positions) - sharing)
        for position in positions[:excess]:
            held[position].remove(place)
        del positions[:excess]
    _fill(held, wanted, holders, sharing)


def _wanted(total: int, members: int) -> list[int]:
    """Split `total` into equal counts. Kafka computes them with floating-point numbers, and so must this function."""
    each = total / members
    return [after - before for before, after in pairwise(math.ceil(each * member) for member in range(members + 1))]


def _fill(held: list[set[int]], wanted: list[int], holders: list[list[int]], sharing: int) -> None:
    """Give each place to the members that want more, in turn, until `sharing` members have it.

    As in Kafka, the search ends if a whole round of these members gave nothing. Places may then have fewer members.
    This bounds the work: each place is offered to few members that hold it already.
    """
    waiting = [position for position, member in enumerate(held) if len(member) < wanted[position]]
    next_round: list[int] = []
    turn = 0
    has_given = False
    for place, positions in enumerate(holders):
        missing = sharing - len(positions)
        before = frozenset(positions)
        while missing > 0:
            if turn == len(waiting):
                if not has_given:
                    return
                waiting, next_round, turn, has_given = next_round, [], 0, False
                continue
            position = waiting[turn]
            turn += 1
            if position not in before:
                held[position].add(place)
                missing -= 1
                has_given = True
                if len(held[position]) == wanted[position]:
                    continue
            next_round.append(position)


def _same_or_new(assigned: Assignment, owned: Mapping[UUID, set[int]]) -> Assignment:
    return assigned if owned == assigned else {topic_id: frozenset(numbers) for topic_id, numbers in owned.items()}
