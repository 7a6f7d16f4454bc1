"""A member of a consumer group that gets more topics than one answer adds: page by page, in heartbeats of its own.

Each answer repeats the whole assignment, and so does the record of the member. Their structures are kept from page to
page, so a turn of the loop takes the time of its page, and not of all that the member has.
"""

from __future__ import annotations

from broker_cy.coordinator.consumer import difference, records
from broker_cy.coordinator.consumer.group import ConsumerGroup, Paged
from broker_cy.coordinator.consumer.member import NOTHING_ASSIGNED, ConsumerMember
from broker_cy.coordinator.consumer.reconcile import (
    NO_GAINS,
    Owned,
    Page,
    Wanted,
    needs_pages,
    next_page,
    owns_any,
    reconciled,
    reconciled_in_pages,
)
from broker_cy.coordinator.group import GroupTable
from broker_cy.coordinator.modern.member import MemberState
from broker_cy.coordinator.step import GroupStep, Record
from broker_cy.core.classes import NamedTuple
from broker_cy.wire import codec, messages

Structures = list[messages.ConsumerGroupHeartbeatResponse.TopicPartitions]


class Turn(NamedTuple):
    """The next state of a member, and what is kept of it until its next page; None if it has its last one, and never
    had more.
    """

    member: ConsumerMember
    paged: Paged | None
    revoking: codec.EncodedElements | None = None

    def record(self, group_id: str, member: ConsumerMember) -> Record:
        """The record of the member. The topics of a later page stand behind those of an earlier one."""
        assigned = None if self.paged is None else self.paged.encoded
        return records.current_record(group_id, member, assigned, self.revoking)


def next_turn(
    machine: GroupTable,
    step: GroupStep,
    group: ConsumerGroup,
    member: ConsumerMember,
    wanted: Wanted,
    owned: Owned,
    *,
    is_subscription_changed: bool,
) -> Turn:
    """Move a member one step towards its target. One that uses the classic protocol gets all at once: each of its
    steps is a rebalance of its own. One with very many topics that reads others now gives those up that it does not
    read any more with the next assignment if that is due, instead of now.
    """
    if member.classic is not None:
        return Turn(reconciled(member, wanted, owned, is_subscription_changed=is_subscription_changed), None)
    known = group.pages.get(member.member_id)
    if known is not None and not _is_of(known, member, wanted):
        known = None
    if needs_pages(member.assigned):
        is_subscription_changed = is_subscription_changed and group.assignment_epoch >= group.epoch
        if known is None and not is_subscription_changed:
            turn = _compared_turn(machine, step, group, member, wanted, owned)
            if turn is not None:
                return turn
    left = NO_GAINS if known is None else known.left
    page = reconciled_in_pages(member, wanted, owned, left, is_subscription_changed=is_subscription_changed)
    if not page.left and known is None:
        return Turn(page.member, None)
    return Turn(page.member, _paged(known, member, page, wanted))


def _compared_turn(
    machine: GroupTable, step: GroupStep, group: ConsumerGroup, member: ConsumerMember, wanted: Wanted, owned: Owned
) -> Turn | None:
    """The same for a member that has very many topics, once its difference to its target is known. None if it does not
    depend on that.
    """
    if member.state is MemberState.STABLE:
        if member.epoch == wanted.epoch:
            return None
    elif member.state is MemberState.UNREVOKED_PARTITIONS:
        if owns_any(owned, member.revoking):
            return None
    elif member.state is not MemberState.UNRELEASED_PARTITIONS:
        return None
    found = difference.known(group, member, wanted.target)
    if found is None:
        difference.begin(machine, step, group, member, wanted.target)
        return Turn(member, None)
    known = Paged(found.kept, wanted.target, found.left, found.encoded, found.answered)
    if found.gone and owns_any(owned, found.gone):
        revoking = member._replace(
            previous_epoch=member.epoch,
            state=MemberState.UNREVOKED_PARTITIONS,
            assigned=found.kept,
            revoking=found.gone,
        )
        return Turn(revoking, known._replace(left=NO_GAINS), found.encoded_gone)
    # The structures of the next page will stand behind these.
    del group.differences[member.member_id]
    left = member._replace(assigned=found.kept, revoking=NOTHING_ASSIGNED)
    if not found.left:
        stable = left._replace(epoch=wanted.epoch, previous_epoch=member.epoch, state=MemberState.STABLE)
        return Turn(stable, known)
    page = next_page(left, wanted, owned, found.left)
    return None if page is None else Turn(page.member, _paged(known, left, page, wanted))


def keep(group: ConsumerGroup, member: ConsumerMember, turn: Turn) -> None:
    """The member takes its next state: what is kept until its answer, or until its next page."""
    if turn.member.state is MemberState.STABLE and turn.member is not member:
        group.differences.pop(turn.member.member_id, None)
    if turn.paged is not None and (turn.paged.left or turn.paged.assigned is not member.assigned):
        group.pages[turn.member.member_id] = turn.paged
    else:
        group.pages.pop(turn.member.member_id, None)


def answered(group: ConsumerGroup, member: ConsumerMember) -> Structures:
    """The assignment of a member as its answer has it."""
    known = group.pages.get(member.member_id)
    if known is None or known.assigned is not member.assigned:
        return difference.structures(member.assigned)
    if not known.left:
        del group.pages[member.member_id]
    return known.answered


def _is_of(known: Paged, member: ConsumerMember, wanted: Wanted) -> bool:
    """Whether the member still is in the middle of these pages: nothing has given it another state or target."""
    return (
        known.assigned is member.assigned
        and known.target is wanted.target
        and member.state is MemberState.UNRELEASED_PARTITIONS
        and member.epoch == wanted.epoch
        and not member.revoking
    )


def _paged(known: Paged | None, member: ConsumerMember, page: Page, wanted: Wanted) -> Paged:
    assigned = page.member.assigned
    if page.added is not None and (known is not None or not member.assigned):
        added = page.added
        encoded = records.encoded_partitions() if known is None else known.encoded
        before = [] if known is None else known.answered
    else:
        added, encoded, before = assigned, records.encoded_partitions(), []
    records.encode_more(encoded, added)
    return Paged(assigned, wanted.target, page.left, encoded, [*before, *difference.structures(added)])
