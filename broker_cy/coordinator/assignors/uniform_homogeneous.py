"""Kafka's uniform assignor for members that all subscribe to the same topics.

Of P partitions each of M members gets P // M, and P % M members get one more. A member keeps as many of its partitions
as its quota allows. The work is linear in members and partitions.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from uuid import UUID

from broker_cy.coordinator.assignors.spec import (
    Assignment,
    AssignorError,
    GroupSpec,
    held,
    in_kafka_order,
    partition_count,
)
from broker_cy.core.classes import NamedTuple

Chunk = tuple[UUID, Sequence[int]]  # partitions of one topic


class _Unfilled(NamedTuple):
    member_id: str
    missing: int


def assign(spec: GroupSpec) -> dict[str, Assignment]:
    """Return the target assignment of each member. All members have the topics of the first."""
    topic_ids = in_kafka_order(next(iter(spec.members.values())).topics)
    counts = [partition_count(spec, topic_id) for topic_id in topic_ids]
    kept = held(spec, topic_ids)
    free: list[Chunk] = [
        (topic_id, sorted(set(range(count)) - numbers) if numbers else range(count))
        for (topic_id, numbers), count in zip(kept.partitions.items(), counts, strict=True)
        if len(numbers) < count
    ]
    target = kept.members
    unfilled = _cut_to_quota(target, sum(counts), free)
    pool = _Pool(free)
    for member_id, missing in unfilled:
        target[member_id] = _joined(target[member_id], pool.take(missing))
    if pool.left:
        raise AssignorError(f"{pool.left} partitions are left without a member")
    return target


def _cut_to_quota(target: dict[str, Assignment], partitions: int, free: list[Chunk]) -> list[_Unfilled]:
    """Take from each member what exceeds its quota, add that to `free`, and return the members below their quota."""
    unfilled: list[_Unfilled] = []
    quota, extras = divmod(partitions, len(target))
    members_left = len(target)
    for member_id, assignment in target.items():
        count = sum(map(len, assignment.values()))
        takes_extra = _takes_extra(count > quota, members_left, extras)
        missing = quota + takes_extra - count
        if missing < 0:
            target[member_id] = _cut(assignment, quota + takes_extra, free)
        elif missing > 0:
            unfilled.append(_Unfilled(member_id, missing))
        extras -= takes_extra
        members_left -= 1
    return unfilled


def _takes_extra(has_it: bool, members_left: int, extras: int) -> bool:
    """Return whether a member gets one of the extra partitions.

    A member without one leaves it to a member that has one. Otherwise the extras wander at each rebalance
    (KAFKA-18688). The last members of the order must take what is left.
    """
    return extras > 0 and (has_it or members_left <= extras)


def _cut(assignment: Assignment, keep: int, free: list[Chunk]) -> Assignment:
    """Return the first `keep` partitions of the assignment; add the others to `free`."""
    rest: dict[UUID, frozenset[int]] = {}
    for topic_id, partitions in assignment.items():
        if len(partitions) <= keep:
            rest[topic_id] = partitions
            keep -= len(partitions)
            continue
        numbers = sorted(partitions)
        if keep:
            rest[topic_id] = frozenset(numbers[:keep])
        free.append((topic_id, numbers[keep:]))
        keep = 0
    return rest


def _joined(assignment: Assignment, added: Iterator[Chunk]) -> Assignment:
    joined = dict(assignment)
    for topic_id, numbers in added:
        joined[topic_id] = joined.get(topic_id, frozenset()).union(numbers)
    return joined


class _Pool:
    """Partitions without a member, in the order in which they are given out."""

    __slots__ = ("_chunks", "_next", "left")

    def __init__(self, chunks: list[Chunk]) -> None:
        self._chunks = chunks[::-1]
        self._next = 0  # in the last chunk
        self.left = sum(len(numbers) for _, numbers in chunks)

    def take(self, count: int) -> Iterator[Chunk]:
        """Yield `count` partitions, or all that are left if these are fewer."""
        count = min(count, self.left)
        self.left -= count
        while count:
            topic_id, numbers = self._chunks[-1]
            taken = numbers[self._next : self._next + count]
            yield topic_id, taken
            count -= len(taken)
            self._next += len(taken)
            if self._next == len(numbers):
                self._chunks.pop()
                self._next = 0
