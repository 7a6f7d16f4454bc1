"""Defects of share groups, which their simulation must find. Each is planted by replacing one function; those that
another implementation had name its issue.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from broker_cy.coordinator.assignors.share_simple import SHARE_ASSIGNORS
from broker_cy.coordinator.modern import target
from broker_cy.coordinator.share import assign, deletion, heartbeat, initialization, offsets, state_calls
from broker_cy.coordinator.share.group import ShareGroup, SharePartitionsBefore
from broker_cy.coordinator.share.hooks import HookedShareGroup
from broker_cy.coordinator.share.member import ShareMember
from broker_cy.coordinator.share.state_partitions import SharePartitions, united
from broker_cy.coordinator.step import Call, GroupStep
from broker_cy.core.errors import ErrorCode, KafkaError
from broker_cy.core.step import Now
from tests.sim.defects import Patch, Planter
from tests.sim.group_defects import reads_show_what_is_not_written
from tests.sim.modern_defects import (
    answers_are_sent_before_the_write,
    changed_topics_are_not_noticed,
    members_whose_removal_failed_have_no_session,
    silent_members_stay,
    tombstones_need_their_group,
)


def initializations_reset_what_is_there(patch: Patch) -> None:
    """A repeated initialization makes members consume records again (KAFKA-19204)."""
    right = initialization._ask

    def ask(step: GroupStep, group: ShareGroup, requests: Sequence[initialization.Request], now: Now) -> None:
        right(step, group, [each._replace(keeps=False) for each in requests], now)

    patch.setattr(initialization, "_ask", ask)


def lost_answers_are_not_asked_for_again(patch: Patch) -> None:
    """A partition is never initialized if the answer of the share coordinator was not noted (KAFKA-19204)."""
    patch.setattr(initialization, "_is_retry_due", lambda *_: False)
    patch.setattr(initialization, "resume", lambda *_: None)


def requests_overtake_each_other(patch: Patch) -> None:
    """A partition is initialized while its state is still being initialized or deleted."""
    patch.setattr(ShareGroup, "call_begins", lambda self, topic_ids: None)
    patch.setattr(ShareGroup, "call_ends", lambda self, topic_ids: None)


def unwritten_requests_block_their_topic(patch: Patch) -> None:
    """A topic whose first record could not be written is never initialized."""
    patch.setattr(state_calls.Asked, "failed", lambda *_: None)


def requests_do_not_wait_for_their_record(patch: Patch) -> None:
    """The share coordinator is asked for state that the log of the group does not name."""

    def call(self: GroupStep, request: Any, then: Any, *about: Any) -> None:
        self.calls.append(Call(request, then, about))

    patch.setattr(GroupStep, "call_when_written", call)


def altered_offsets_are_not_noted(patch: Patch) -> None:
    """The first member of a group resets the offset that an administrator has set."""
    right = offsets.altered

    def altered(*args: Any) -> None:
        patch.setattr(state_calls, "done_of", lambda group_id, result: {})
        try:
            right(*args)
        finally:
            patch.setattr(state_calls, "done_of", done_of)

    done_of = state_calls.done_of
    patch.setattr(offsets, "altered", altered)


def failed_alterations_forget_earlier_ones(patch: Patch) -> None:
    """The first member of a group resets the offset that an administrator has set, because a later alteration failed
    before the first one was noted.
    """
    right = offsets.altered
    patch.setattr(
        offsets, "altered", lambda machine, step, asked, earlier, *rest: right(machine, step, asked, {}, *rest)
    )
    patch.setattr("tests.sim.share_members_world.assigned_at_once_max", lambda _: 0)


def groups_leave_their_state_behind(patch: Patch) -> None:
    """A group that is deleted keeps its state, and a later group of its id cannot have another one. (State that is left
    behind in any case is found out by `state_calls.delete_fenced`.)
    """
    patch.setattr(deletion, "united", lambda *parts: {})
    patch.setattr(state_calls, "delete_fenced", lambda *_: None)


def deletions_of_state_are_not_ended(patch: Patch) -> None:
    """A topic is initialized and being deleted at once."""

    def began(self: SharePartitions, partitions: Any, names: Any) -> SharePartitions:
        return self._made(united(self.initializing, partitions), self.initialized, self.deleting, names)

    patch.setattr(SharePartitions, "began", began)


def undone_initializations_stay(patch: Patch) -> None:
    """After a full disk, a group has partitions whose records are not in the log."""
    patch.setattr(SharePartitionsBefore, "restore", lambda self, machine: None)


def members_get_partitions_without_state(patch: Patch) -> None:
    """A member reads partitions before they are initialized."""
    right = SHARE_ASSIGNORS["simple"]

    def share_out(spec: Any, assignable: Any) -> Any:
        return right(spec, {topic_id: frozenset(range(count)) for topic_id, count in spec.topics.items()})

    patch.setattr(assign, "SHARE_ASSIGNORS", {"simple": share_out})


def initialized_partitions_are_not_assigned(patch: Patch) -> None:
    """A group does not begin another epoch for partitions that have their state now."""
    patch.setattr(heartbeat, "has_unassigned", lambda group, image: False)


def looks_at_partitions_are_kept(patch: Patch) -> None:
    """A group that has looked once for unassigned partitions does not look again."""

    def put(self: ShareGroup, new: SharePartitions) -> None:
        self.share_partitions = new

    patch.setattr(ShareGroup, "put_share_partitions", put)


def members_that_join_again_are_fenced(patch: Patch) -> None:
    """A member that missed the answer to its join cannot join again (KAFKA-19233)."""
    right = heartbeat._member

    def member(group: ShareGroup, request: Any, is_join: bool) -> ShareMember:
        if is_join and request.member_id in group.members:
            raise KafkaError(ErrorCode.FENCED_MEMBER_EPOCH)
        return right(group, request, is_join)

    patch.setattr(heartbeat, "_member", member)


def removed_members_go_on(patch: Patch) -> None:
    """A member that was removed can still send heartbeats."""
    right = heartbeat._member

    def member(group: ShareGroup, request: Any, is_join: bool) -> ShareMember:
        return right(group, request, is_join or request.member_id not in group.members)

    patch.setattr(heartbeat, "_member", member)


def loaded_members_have_no_session(patch: Patch) -> None:
    """After a start, members that are gone stay."""

    def loaded(self: HookedShareGroup, machine: Any, step: Any, now: Any) -> None:
        deletion.forget_missing(machine, step, self)
        initialization.resume(machine, step, self, now)
        deletion.resume(machine, step, self)

    patch.setattr(HookedShareGroup, "loaded", loaded)


def assignments_are_not_persisted(patch: Patch) -> None:
    """After a start, members have other targets."""
    right = target.target_records
    patch.setattr(assign, "target_records", lambda *args: right(*args)[1:])


def stale_results_are_installed(patch: Patch) -> None:
    """An assignment from the background is taken although the state of its partitions was deleted meanwhile."""
    patch.setattr(ShareGroup, "may_assign", lambda *_: True)
    patch.setattr("tests.sim.share_members_world.assigned_at_once_max", lambda _: 0)


DEFECTS: list[Planter] = [
    reads_show_what_is_not_written,
    initializations_reset_what_is_there,
    lost_answers_are_not_asked_for_again,
    requests_overtake_each_other,
    unwritten_requests_block_their_topic,
    requests_do_not_wait_for_their_record,
    altered_offsets_are_not_noted,
    failed_alterations_forget_earlier_ones,
    groups_leave_their_state_behind,
    deletions_of_state_are_not_ended,
    undone_initializations_stay,
    members_get_partitions_without_state,
    initialized_partitions_are_not_assigned,
    looks_at_partitions_are_kept,
    tombstones_need_their_group,
    members_that_join_again_are_fenced,
    removed_members_go_on,
    silent_members_stay,
    loaded_members_have_no_session,
    members_whose_removal_failed_have_no_session,
    changed_topics_are_not_noticed,
    assignments_are_not_persisted,
    stale_results_are_installed,
    answers_are_sent_before_the_write,
]

# Defects that more seeds have to find: they need several rare events in a row.
SEEDS_OF: dict[Planter, int] = {failed_alterations_forget_earlier_ones: 50, stale_results_are_installed: 20}
