"""The reconciliation of one member: from what it holds towards its target, one step per heartbeat.

A member first gives up what it should no longer have, then it moves to the epoch of the target and gets what nobody
holds any more. So a partition never has two holders. Values in, a new value out.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping
from typing import NamedTuple
from uuid import UUID

from broker_cy.coordinator.assignors.spec import Assignment
from broker_cy.coordinator.consumer.member import NOTHING_ASSIGNED, AssignedEpochs, ConsumerMember
from broker_cy.coordinator.modern.member import MemberState
from broker_cy.core.errors import ErrorCode, KafkaError

# Partitions by topic id, as a member reports them; None if its request has none.
Owned = Mapping[UUID, Iterable[int]] | None
_NONE: frozenset[int] = frozenset()


class Wanted(NamedTuple):
    """The target of a member. `topics` are the ids of those that it reads; partitions of other topics are not wanted.
    `is_held` tells whether any member holds a partition.
    """

    epoch: int
    target: Assignment
    topics: Container[UUID]
    is_held: Callable[[UUID, int], bool]


def reconciled(
    member: ConsumerMember, wanted: Wanted, owned: Owned, *, is_subscription_changed: bool = False
) -> ConsumerMember:
    """The next state of the member, or the member itself. Raises KafkaError(FENCED_MEMBER_EPOCH) for a member whose
    state is not known.
    """
    if member.state is MemberState.STABLE:
        if member.epoch != wanted.epoch:
            return _next(member, member.epoch, wanted, owned)
        return _without_unsubscribed(member, wanted, owned) if is_subscription_changed else member
    if member.state is MemberState.UNREVOKED_PARTITIONS:
        if not _owns_any(owned, member.revoking):
            return _next(member, member.epoch, wanted, owned)
        return _without_unsubscribed(member, wanted, owned) if is_subscription_changed else member
    if member.state is MemberState.UNRELEASED_PARTITIONS:
        return _next(member, member.epoch, wanted, owned)
    if owned is None or owned:
        raise KafkaError(
            ErrorCode.FENCED_MEMBER_EPOCH,
            "the state of the member is one of a newer Kafka; the member has to join again without partitions",
        )
    return _next(member, wanted.epoch, wanted, owned)


def _next(member: ConsumerMember, epoch: int, wanted: Wanted, owned: Owned) -> ConsumerMember:
    kept: dict[UUID, dict[int, int]] = {}
    revoking: dict[UUID, dict[int, int]] = {}
    added: dict[UUID, list[int]] = {}
    has_unreleased = False
    for topic_id in dict.fromkeys((*wanted.target, *member.assigned)):
        target = wanted.target.get(topic_id, _NONE) if topic_id in wanted.topics else _NONE
        current = member.assigned.get(topic_id, {})
        stays = {partition: at for partition, at in current.items() if partition in target}
        goes = {partition: at for partition, at in current.items() if partition not in target}
        # A partition that the member itself still has to give up is free for it.
        own = member.revoking.get(topic_id, ())
        comes = [
            partition
            for partition in sorted(target)
            if partition not in current and (partition in own or not wanted.is_held(topic_id, partition))
        ]
        has_unreleased = has_unreleased or len(stays) + len(comes) < len(target)
        for into, part in ((kept, stays), (revoking, goes)):
            if part:
                into[topic_id] = part
        if comes:
            added[topic_id] = comes
    if revoking and _owns_any(owned, revoking):
        return member._replace(
            epoch=epoch,
            previous_epoch=member.epoch,
            state=MemberState.UNREVOKED_PARTITIONS,
            assigned=kept,
            revoking=revoking,
        )
    for topic_id, partitions in added.items():
        kept.setdefault(topic_id, {}).update(dict.fromkeys(partitions, wanted.epoch))
    return member._replace(
        epoch=wanted.epoch,
        previous_epoch=member.epoch,
        state=MemberState.UNRELEASED_PARTITIONS if has_unreleased else MemberState.STABLE,
        assigned=kept,
        revoking=NOTHING_ASSIGNED,
    )


def _without_unsubscribed(member: ConsumerMember, wanted: Wanted, owned: Owned) -> ConsumerMember:
    """The member without partitions of topics that it no longer reads, in the same epoch."""
    gone = {topic_id: held for topic_id, held in member.assigned.items() if topic_id not in wanted.topics}
    if not gone:
        return member
    kept = {topic_id: held for topic_id, held in member.assigned.items() if topic_id in wanted.topics}
    revoking: dict[UUID, Mapping[int, int]] = dict(member.revoking)
    for topic_id, held in gone.items():
        revoking[topic_id] = {**revoking.get(topic_id, {}), **held}
    if _owns_any(owned, revoking):
        return member._replace(
            previous_epoch=member.epoch, state=MemberState.UNREVOKED_PARTITIONS, assigned=kept, revoking=revoking
        )
    return member._replace(previous_epoch=member.epoch, assigned=kept)


def _owns_any(owned: Owned, revoking: AssignedEpochs) -> bool:
    """Whether the member may still own one of these partitions: it reports it, or it does not say what it owns."""
    if owned is None:
        return True
    return any(
        partition in revoking.get(topic_id, ()) for topic_id, partitions in owned.items() for partition in partitions
    )
