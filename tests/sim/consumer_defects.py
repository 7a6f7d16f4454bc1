"""Defects of consumer groups, which their simulation must find. Each is planted by replacing one function; those that
another implementation had name its issue.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from uuid import UUID

from broker_cy.coordinator import commit
from broker_cy.coordinator.base import StateMachine
from broker_cy.coordinator.classic.group import ClassicGroup
from broker_cy.coordinator.consumer import assign, deadlines, downgrade, fencing, heartbeat, pages, reconcile, records
from broker_cy.coordinator.consumer.group import ConsumerGroup
from broker_cy.coordinator.consumer.hooks import HookedConsumerGroup
from broker_cy.coordinator.consumer.member import ConsumerMember
from broker_cy.coordinator.modern import assigning, target
from broker_cy.coordinator.modern.group import ModernGroup
from broker_cy.coordinator.modern.member import MemberState
from broker_cy.coordinator.modern.replay import ModernReplay
from broker_cy.core.errors import ErrorCode, KafkaError
from tests.sim.defects import Patch, Planter
from tests.sim.group_defects import reads_show_what_is_not_written
from tests.sim.modern_defects import (
    answers_are_sent_before_the_write,
    changed_topics_are_not_noticed,
    commits_need_the_newest_epoch,
    later_parts_of_targets_are_lost,
    members_whose_removal_failed_have_no_session,
    silent_members_stay,
    slow_members_stay,
    stale_members_commit,
    tombstones_need_their_group,
)

Held = Mapping[UUID, Mapping[int, int]]


def revoked_partitions_are_free(patch: Patch) -> None:
    """A partition that its member still has to give up is given to another one (KAFKA-16147)."""
    right = ConsumerGroup._move

    def move(self: ConsumerGroup, member_id: str, old: ConsumerMember | None, new: ConsumerMember | None) -> None:
        right(self, member_id, old, None if new is None else new._replace(revoking={}))

    patch.setattr(ConsumerGroup, "_move", move)
    patch.setattr("tests.sim.consumer_checks.check_owners", lambda group: None)


def owners_of_a_compacted_log_conflict(patch: Patch) -> None:
    """A log cannot be loaded that is compacted meanwhile: two members have one partition (KAFKA-19862)."""
    right = ConsumerGroup._hold

    def hold(self: ConsumerGroup, member_id: str, held: Held, before: Held) -> None:
        for topic_id, partitions in held.items():
            if any(self.owners.get(topic_id, {}).get(each, member_id) != member_id for each in partitions):
                raise ValueError("two members have one partition")
        right(self, member_id, held, before)

    patch.setattr(ConsumerGroup, "_hold", hold)


def records_of_a_former_group_stop_the_load(patch: Patch) -> None:
    """A log cannot be loaded in which a classic group follows a consumer group, and whose tombstones between the two
    were compacted away (KAFKA-21117).
    """
    right = ModernReplay.group

    def group(self: Any, machine: Any, group_id: str, value: bytes | None) -> Any:
        known = machine.groups.get(group_id)
        if value is not None and isinstance(known, ClassicGroup):
            raise ValueError(f"{group_id} is a classic group")
        return right(self, machine, group_id, value)

    patch.setattr(ModernReplay, "group", group)


def emptied_groups_are_another_after_a_start(patch: Patch) -> None:
    """The last member leaves, and the group begins an epoch that is not in the log (KAFKA-20442)."""
    right = fencing.fence

    def fence(machine: Any, step: Any, group: ConsumerGroup, *more: Any) -> None:
        right(machine, step, group, *more)
        live = machine.groups.get(group.group_id)
        if isinstance(live, ConsumerGroup) and not live.members:
            live.epoch += 1

    patch.setattr(fencing, "fence", fence)


def offsets_decide_the_type_of_a_group(patch: Patch) -> None:
    """After an offset that stands before the first record of its group, the group is a classic one (KAFKA-20254)."""
    right = ModernReplay.group

    def group(self: Any, machine: Any, group_id: str, value: bytes | None) -> Any:
        known = machine.groups.get(group_id)
        if known is not None and not isinstance(known, ConsumerGroup):
            return None, None
        return right(self, machine, group_id, value)

    patch.setattr(ModernReplay, "group", group)


def members_that_join_again_are_fenced(patch: Patch) -> None:
    """A member that missed the answer to its join cannot join again (KAFKA-19233)."""

    def check(member: ConsumerMember, epoch: int, owned: Any) -> None:
        if epoch != member.epoch:
            raise KafkaError(ErrorCode.FENCED_MEMBER_EPOCH)

    patch.setattr(heartbeat, "_check_epoch", check)


def static_members_are_fenced_by_themselves(patch: Patch) -> None:
    """A static member that missed the answer to its join cannot join again: its instance id is in use (KAFKA PR
    23542).
    """
    right = heartbeat._member

    def member(machine: Any, step: Any, group: ConsumerGroup, request: Any, member_id: str, *more: Any) -> Any:
        holder = group.static_member(request.instance_id)
        if holder is not None and request.member_epoch == 0 and holder.epoch != -2:
            raise KafkaError(ErrorCode.UNRELEASED_INSTANCE_ID)
        return right(machine, step, group, request, member_id, *more)

    patch.setattr(heartbeat, "_member", member)


def fenced_members_commit(patch: Patch) -> None:
    """A member that was removed can still commit."""
    patch.setattr(commit, "_validate", lambda machine, request, version, now: None)


def loaded_members_have_no_session(patch: Patch) -> None:
    """After a start, members that are gone stay."""
    patch.setattr(HookedConsumerGroup, "loaded", lambda *_: None)


def leaving_begins_no_epoch(patch: Patch) -> None:
    """No member reads the partitions of a member that leaves."""
    fence, right = fencing.fence, records.epoch_record

    def fence_quietly(*args: Any) -> None:
        patch.setattr(records, "epoch_record", lambda group_id, epoch, of: right(group_id, epoch - 1, of))
        try:
            fence(*args)
        finally:
            patch.setattr(records, "epoch_record", right)

    patch.setattr(fencing, "fence", fence_quietly)


def topic_hashes_are_kept(patch: Patch) -> None:
    """The metadata hash has the topics as they were once."""
    hashes: dict[str, int] = {}
    right = ModernGroup.compute_metadata_hash
    patch.setattr(ModernGroup, "compute_metadata_hash", lambda self, image, known: right(self, image, hashes))
    patch.setattr(ModernGroup, "known_metadata_hash", lambda self, known: None)


def unreleased_members_wait(patch: Patch) -> None:
    """A member that waits for partitions does not get them when they are free."""
    right = reconcile.reconciled

    def reconciled(member: ConsumerMember, wanted: Any, *more: Any, **how: Any) -> ConsumerMember:
        if member.state is MemberState.UNRELEASED_PARTITIONS and member.epoch == wanted.epoch:
            return member
        return right(member, wanted, *more, **how)

    for module in (reconcile, pages):
        patch.setattr(module, "reconciled", reconciled)


def partitions_are_taken_at_once(patch: Patch) -> None:
    """A member loses partitions without having given them up."""
    for module in (reconcile, pages):
        patch.setattr(module, "owns_any", lambda owned, revoking: False)


def returning_static_members_get_nothing(patch: Patch) -> None:
    """A static member that comes back has no partitions until the next rebalance."""
    right = records.target_record

    def replace(machine: Any, step: Any, group: Any, old: Any, member_id: str, now: Any) -> ConsumerMember:
        patch.setattr(records, "target_record", lambda group_id, member_id, target: right(group_id, member_id, {}))
        try:
            new = replaced(machine, step, group, old, member_id, now)
        finally:
            patch.setattr(records, "target_record", right)
        group.put_target(member_id, {})
        return new

    replaced = heartbeat.replace_static
    patch.setattr(heartbeat, "replace_static", replace)


def assignments_are_not_persisted(patch: Patch) -> None:
    """After a start, members have other targets."""
    right = target.target_records

    def target_records(*args: Any) -> Any:
        return right(*args)[1:]

    patch.setattr(assign, "target_records", target_records)


def undone_epochs_are_assigned(patch: Patch) -> None:
    """An assignment from the background is taken for another epoch with the number of one that was undone."""
    patch.setattr(StateMachine, "undoings", property(lambda _: 0, lambda *_: None), raising=False)
    patch.setattr("tests.sim.consumer_world.assigned_at_once_max", lambda _: 0)


def replaced_targets_are_assigned_again(patch: Patch) -> None:
    """An assignment from the background is taken although a static member came back meanwhile: its partitions have two
    members.
    """
    patch.setattr(assigning, "has_targets", lambda *_: True)
    patch.setattr("tests.sim.consumer_world.assigned_at_once_max", lambda _: 0)


def undone_handovers_have_no_deadline(patch: Patch) -> None:
    """A member need not give its partitions up if the record that it has done so could not be written."""
    patch.setattr(deadlines.RebalanceTimerSet, "failed", lambda *_: None)


def replaced_static_members_keep_the_protocol(patch: Patch) -> None:
    """A group stays a consumer group although its last consumer was replaced by a classic member (KAFKA-17317)."""
    right = downgrade.downgrade

    def keep(machine: Any, step: Any, group: Any, leaving: Any, now: Any, *, rebalances: bool) -> None:
        if leaving:
            right(machine, step, group, leaving, now, rebalances=rebalances)

    patch.setattr(downgrade, "downgrade", keep)


DEFECTS: list[Planter] = [
    reads_show_what_is_not_written,
    revoked_partitions_are_free,
    tombstones_need_their_group,
    owners_of_a_compacted_log_conflict,
    records_of_a_former_group_stop_the_load,
    emptied_groups_are_another_after_a_start,
    offsets_decide_the_type_of_a_group,
    members_that_join_again_are_fenced,
    static_members_are_fenced_by_themselves,
    commits_need_the_newest_epoch,
    stale_members_commit,
    fenced_members_commit,
    silent_members_stay,
    slow_members_stay,
    loaded_members_have_no_session,
    members_whose_removal_failed_have_no_session,
    leaving_begins_no_epoch,
    changed_topics_are_not_noticed,
    topic_hashes_are_kept,
    unreleased_members_wait,
    partitions_are_taken_at_once,
    returning_static_members_get_nothing,
    assignments_are_not_persisted,
    answers_are_sent_before_the_write,
    undone_epochs_are_assigned,
    replaced_targets_are_assigned_again,
    undone_handovers_have_no_deadline,
    replaced_static_members_keep_the_protocol,
    later_parts_of_targets_are_lost,
]
