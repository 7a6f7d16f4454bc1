"""The reconciliation of one member: from what it holds towards its target, one step per heartbeat.

A member first gives up what it should no longer have, then it moves to the epoch of the target and gets the
partitions that no member holds any more. So a partition never has two holders. Values in, a new value out.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from itertools import islice
from typing import Any, Final, Protocol, TypeVar
from uuid import UUID

from broker_cy.coordinator.assignors.spec import Assignment
from broker_cy.coordinator.consumer.member import NOTHING_ASSIGNED, AssignedEpochs, ConsumerMember
from broker_cy.coordinator.modern.member import MemberState
from broker_cy.coordinator.modern.topic_values import in_order, incomplete, kept_of
from broker_cy.core.classes import NamedTuple, dataclass
from broker_cy.core.errors import ErrorCode, KafkaError

# The topics that one answer adds to what a member has. Their turn of the loop takes 3 ms if the member has 10,000.
TOPICS_PER_ANSWER: Final = 500
_NOTHING: Final[Mapping[int, int]] = {}
# A topic, and the partitions of it that are in a member's target.
Wanting = tuple[UUID, frozenset[int]]
# The partitions of one topic.
V = TypeVar("V")


class Reported(Protocol):
    """Partitions by topic id, as a member reports them. A topic may occur twice."""

    def __len__(self) -> int: ...
    def __iter__(self) -> Iterator[UUID]: ...
    def items(self) -> Iterable[tuple[UUID, Iterable[int]]]: ...


# None if the request has none.
Owned = Reported | None


class Topics(Protocol):
    """The topics that a member reads."""

    def part_of(self, held: Mapping[UUID, V]) -> Mapping[UUID, V]:
        """Those of these topics that it reads; the same object if it reads all of them."""


class Wanted(NamedTuple):
    """The target of a member. `topics` are those that it reads; partitions of other topics are not wanted. `owners` has
    the partitions that any member holds, by topic; no topic without partitions.
    """

    epoch: int
    target: Assignment
    topics: Topics
    owners: Mapping[UUID, Mapping[int, Any]]


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
        if not owns_any(owned, member.revoking):
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


def needs_pages(assigned: AssignedEpochs) -> bool:
    """Whether a member gets so many topics in several answers."""
    return len(assigned) > TOPICS_PER_ANSWER


@dataclass(frozen=True, slots=True)
class Gains:
    """Topics that a member is to get, each with its partitions in the target, in the order in which they are tried:
    those of two lists, from `begin` on. The lists are not changed, and pages have them in common.
    """

    topic_ids: list[UUID]
    partitions: list[frozenset[int]]
    begin: int = 0

    @classmethod
    def of(cls, target: Assignment, assigned: AssignedEpochs) -> Gains:
        """The topics of the target that the member does not have, or has in part."""
        return cls(*incomplete(target, assigned))

    def __len__(self) -> int:
        return len(self.topic_ids) - self.begin

    def items(self) -> Iterator[Wanting]:
        return islice(zip(self.topic_ids, self.partitions, strict=True), self.begin, None)

    def split(self, count: int) -> tuple[Assignment, Gains]:
        """The first topics, and the rest."""
        end = self.begin + count
        first = dict(zip(self.topic_ids[self.begin : end], self.partitions[self.begin : end], strict=True))
        return first, Gains(self.topic_ids, self.partitions, min(end, len(self.topic_ids)))

    def followed_by(self, others: Gains) -> Gains:
        topic_ids, partitions = (
            [*before[self.begin :], *after[others.begin :]]
            for before, after in ((self.topic_ids, others.topic_ids), (self.partitions, others.partitions))
        )
        return Gains(topic_ids, partitions) if others else self


NO_GAINS: Final = Gains([], [])


class Page(NamedTuple):
    """The next state of a member, and the topics of its target that it may still get. `added` are those that its last
    answer did not have, if it has all others as before; else None.
    """

    member: ConsumerMember
    left: Gains
    added: AssignedEpochs | None


def reconciled_in_pages(
    member: ConsumerMember,
    wanted: Wanted,
    owned: Owned,
    left: Gains,
    *,
    is_subscription_changed: bool = False,
) -> Page:
    """As `reconciled`, but one step adds at most TOPICS_PER_ANSWER topics: each turn of the loop stays short. Until the
    member has all, it waits for them as for partitions that others have to release, which KIP-848 allows for: it
    acknowledges what it got with a heartbeat, and the answer to this has more. Kafka gives all at once.

    `left` is that of the member's last page if it still has the partitions and the target of then, else empty.
    """
    if not left:
        left = _to_gain(member, wanted)
    if left and not is_subscription_changed:
        page = next_page(member, wanted, owned, left)
        if page is not None:
            return page
    found = reconciled(member, wanted, owned, is_subscription_changed=is_subscription_changed)
    if len(found.assigned) <= TOPICS_PER_ANSWER or found.state is MemberState.UNREVOKED_PARTITIONS:
        return Page(found, NO_GAINS, None)
    later = in_order(set(found.assigned).difference(member.assigned))[TOPICS_PER_ANSWER:]
    if not later:
        return Page(found, NO_GAINS, None)
    cut = set(later)
    assigned = {topic_id: held for topic_id, held in found.assigned.items() if topic_id not in cut}
    found = found._replace(state=MemberState.UNRELEASED_PARTITIONS, assigned=assigned)
    return Page(found, Gains.of(wanted.topics.part_of(wanted.target), assigned), None)


def _to_gain(member: ConsumerMember, wanted: Wanted) -> Gains:
    """The topics that a member is to get, if one answer does not give so many, and it has to give up nothing."""
    target, assigned = wanted.target, member.assigned
    if len(target) - len(assigned) <= TOPICS_PER_ANSWER or member.revoking:
        return NO_GAINS
    if member.state is MemberState.STABLE:
        if member.epoch == wanted.epoch:
            return NO_GAINS
    elif member.state is not MemberState.UNRELEASED_PARTITIONS:
        return NO_GAINS
    if assigned:
        if not assigned.keys() <= target.keys():
            return NO_GAINS
        pairs = zip(assigned.values(), map(target.__getitem__, assigned), strict=True)
        if not all(current.keys() <= partitions for current, partitions in pairs):
            return NO_GAINS
        # Whether all of the target is read is often known.
        if wanted.topics.part_of(target) is not target and wanted.topics.part_of(assigned) is not assigned:
            return NO_GAINS
    ordered = in_order(target)
    if ordered != list(target):
        target = dict(zip(ordered, map(target.__getitem__, ordered), strict=True))
    return Gains.of(target, assigned)


def next_page(member: ConsumerMember, wanted: Wanted, owned: Owned, left: Gains) -> Page | None:
    """The member with the first topics of `left`; None if it has to give up partitions of them. A topic with partitions
    that others hold is tried again after the rest.
    """
    target, rest = left.split(TOPICS_PER_ANSWER)
    # Partitions of a topic that is tried again: the others were not free.
    missing = set(target).difference(member.assigned)
    held = {topic_id: member.assigned[topic_id] for topic_id in set(target).difference(missing)}
    part = _next(member._replace(assigned=held), wanted.epoch, wanted._replace(target=target), owned)
    if not held.keys() <= part.assigned.keys():
        return None
    if part.state is MemberState.UNRELEASED_PARTITIONS:
        rest = rest.followed_by(Gains.of(wanted.topics.part_of(target), part.assigned))
    assigned = member.assigned
    if part.assigned != held:
        assigned = dict(assigned)
        assigned.update(part.assigned)
    state = MemberState.UNRELEASED_PARTITIONS if rest else MemberState.STABLE
    return Page(part._replace(state=state, assigned=assigned), rest, None if held else part.assigned)


def _next(member: ConsumerMember, epoch: int, wanted: Wanted, owned: Owned) -> ConsumerMember:
    target = wanted.topics.part_of(wanted.target)
    kept, revoking = kept_of(member.assigned, target)
    if revoking and owns_any(owned, revoking):
        return member._replace(
            epoch=epoch,
            previous_epoch=member.epoch,
            state=MemberState.UNREVOKED_PARTITIONS,
            assigned=kept,
            revoking=revoking,
        )
    added: dict[UUID, Mapping[int, int]] = {}
    # Most topics get one of few values, if they have few partitions.
    known: dict[frozenset[int], Mapping[int, int]] = {}
    has_unreleased = False
    is_free = not kept and len(set(target).difference(wanted.owners)) == len(target)
    # Most topics of a member with very many stay as they are.
    parts: Iterable[Wanting] = target.items() if is_free else zip(*incomplete(target, kept), strict=True)
    for topic_id, partitions in parts:
        comes = partitions
        if not is_free:
            stays = kept.get(topic_id)
            if stays is not None:
                comes = partitions.difference(stays)
            held = wanted.owners.get(topic_id) if comes else None
            if held and not held.keys().isdisjoint(comes):
                missing = comes
                comes = _free(missing, held, member.revoking.get(topic_id, _NOTHING))
                has_unreleased = has_unreleased or len(comes) < len(missing)
        if comes:
            new = known.get(comes)
            if new is None:
                new = known[comes] = dict.fromkeys(sorted(comes), wanted.epoch)
            added[topic_id] = new
    if kept:
        for topic_id, new in added.items():
            kept[topic_id] = {**kept[topic_id], **new} if topic_id in kept else new
    return member._replace(
        epoch=wanted.epoch,
        previous_epoch=member.epoch,
        state=MemberState.UNRELEASED_PARTITIONS if has_unreleased else MemberState.STABLE,
        assigned=kept or added,
        revoking=NOTHING_ASSIGNED,
    )


def _free(partitions: frozenset[int], held: Collection[int], own: Collection[int]) -> frozenset[int]:
    """Those of the partitions that a member can have. One that it still has to give up itself is free for it."""
    return frozenset([partition for partition in partitions if partition in own or partition not in held])


def _without_unsubscribed(member: ConsumerMember, wanted: Wanted, owned: Owned) -> ConsumerMember:
    """The member without partitions of topics that it no longer reads, in the same epoch."""
    kept = wanted.topics.part_of(member.assigned)
    if len(kept) == len(member.assigned):
        return member
    gone = {topic_id: held for topic_id, held in member.assigned.items() if topic_id not in kept}
    revoking: dict[UUID, Mapping[int, int]] = dict(member.revoking)
    for topic_id, held in gone.items():
        # Most topics share one value.
        known = revoking.get(topic_id)
        revoking[topic_id] = {**known, **held} if known else held
    if owns_any(owned, revoking):
        return member._replace(
            previous_epoch=member.epoch, state=MemberState.UNREVOKED_PARTITIONS, assigned=kept, revoking=revoking
        )
    return member._replace(previous_epoch=member.epoch, assigned=kept)


def owns_any(owned: Owned, revoking: AssignedEpochs) -> bool:
    """Whether the member may still own one of these partitions: it reports it, or it does not say what it owns."""
    if owned is None:
        return True
    if revoking.keys().isdisjoint(owned):
        return False
    return any(
        partition in revoking.get(topic_id, ()) for topic_id, partitions in owned.items() for partition in partitions
    )
