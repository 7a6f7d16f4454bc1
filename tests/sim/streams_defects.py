"""Defects of streams groups, which their simulation must find. Each is planted by replacing one function; those that
another implementation had name its issue.
"""

from __future__ import annotations

from typing import Any

from broker_cy.coordinator.modern import target as modern_target
from broker_cy.coordinator.modern.replay import ModernReplay
from broker_cy.coordinator.streams import (
    configure,
    deadlines,
    fencing,
    heartbeat,
    internal_topics,
    reconcile,
    records,
    target,
)
from broker_cy.coordinator.streams.group import StreamsGroup
from broker_cy.coordinator.streams.hooks import HookedStreamsGroup
from broker_cy.coordinator.streams.member import NOTHING_HELD, HeldTasks, MemberState, StreamsMember
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


def revoked_tasks_are_free(patch: Patch) -> None:
    """A task that its member still has to give up is given to another one (KAFKA-16147)."""
    right = StreamsGroup.put_member

    def put_member(self: StreamsGroup, member_id: str, new: StreamsMember | None) -> StreamsMember | None:
        if new is None:
            return right(self, member_id, None)
        old = right(self, member_id, new._replace(revoking=NOTHING_HELD))
        self.members[member_id] = new
        return old

    patch.setattr(StreamsGroup, "put_member", put_member)
    patch.setattr("tests.sim.streams_checks.check_owners", lambda group: None)


def copies_do_not_count(patch: Patch) -> None:
    """A process opens the state of a task twice: as a standby of one member, and active in another."""
    patch.setattr(StreamsGroup, "has_copy", lambda *_: False)


def offsets_decide_the_type_of_a_group(patch: Patch) -> None:
    """After an offset that stands before the first record of its group, the group is a classic one (KAFKA-20254)."""
    right = ModernReplay.group

    def group(self: Any, machine: Any, group_id: str, value: bytes | None) -> Any:
        known = machine.groups.get(group_id)
        if known is not None and not isinstance(known, StreamsGroup):
            return None, None
        return right(self, machine, group_id, value)

    patch.setattr(ModernReplay, "group", group)


def members_that_join_again_are_refused(patch: Patch) -> None:
    """A member that missed the answer to its join cannot join again (KAFKA-19233)."""
    right = heartbeat._member

    def member(machine: Any, group: StreamsGroup, request: Any, owned: Any, is_join: bool) -> StreamsMember:
        known = group.members.get(request.member_id)
        if is_join and known is not None and known.epoch != 0:
            raise KafkaError(ErrorCode.FENCED_MEMBER_EPOCH)
        return right(machine, group, request, owned, is_join)

    patch.setattr(heartbeat, "_member", member)


def full_groups_refuse_their_members(patch: Patch) -> None:
    """A member of a full group cannot join again, as in Kafka 4.3."""
    right = heartbeat._member

    def member(machine: Any, group: StreamsGroup, request: Any, owned: Any, is_join: bool) -> StreamsMember:
        if is_join and len(group.members) >= machine.settings.streams.max_size:
            raise KafkaError(ErrorCode.GROUP_MAX_SIZE_REACHED)
        return right(machine, group, request, owned, is_join)

    patch.setattr(heartbeat, "_member", member)


def loaded_members_have_no_session(patch: Patch) -> None:
    """After a start, members that are gone stay."""
    patch.setattr(HookedStreamsGroup, "loaded", lambda *_: None)


def undone_handovers_have_no_deadline(patch: Patch) -> None:
    """A member need not give its tasks up if the record that it has done so could not be written."""
    patch.setattr(deadlines.RebalanceTimerSet, "failed", lambda *_: None)


def leaving_begins_no_epoch(patch: Patch) -> None:
    """No member processes the tasks of a member that leaves."""
    fence, right = fencing.fence, records.epoch_record

    def fence_quietly(*args: Any) -> None:
        patch.setattr(records, "epoch_record", lambda group_id, epoch, *of: right(group_id, epoch - 1, *of))
        try:
            fence(*args)
        finally:
            patch.setattr(records, "epoch_record", right)

    patch.setattr(fencing, "fence", fence_quietly)


def topologies_are_configured_once(patch: Patch) -> None:
    """A group keeps the numbers of partitions that its topics had once."""
    right = configure.configure
    known: dict[Any, Any] = {}

    def configured_once(topology: Any, metadata_hash: int, count: Any) -> Any:
        found = right(topology, metadata_hash, count)
        if not found.is_ready:
            return found
        return known.setdefault(topology, found)._replace(topology=topology, metadata_hash=metadata_hash)

    patch.setattr(heartbeat, "configure", configured_once)


def unreleased_members_wait(patch: Patch) -> None:
    """A member that waits for tasks does not get them when they are free."""
    right = reconcile.reconciled

    def reconciled(member: StreamsMember, wanted: Any, owned: Any) -> StreamsMember:
        if member.state is MemberState.UNRELEASED_TASKS and member.epoch == wanted.epoch:
            return member
        return right(member, wanted, owned)

    patch.setattr(heartbeat, "reconciled", reconciled)


def tasks_are_taken_at_once(patch: Patch) -> None:
    """A member loses tasks without having given them up."""
    right = reconcile.reconciled

    def reconciled(member: StreamsMember, wanted: Any, owned: Any) -> StreamsMember:
        patch.setattr(HeldTasks, "has_any", lambda self, reported: False)
        return right(member, wanted, owned)

    patch.setattr(heartbeat, "reconciled", reconciled)


def assignments_are_not_persisted(patch: Patch) -> None:
    """After a start, members have other targets."""
    right = modern_target.changed_targets
    patch.setattr(target, "changed_targets", lambda *args: right(*args)[1:])


def failed_creations_are_final(patch: Patch) -> None:
    """Internal topics are never created after the records of the heartbeat that asked for them were lost."""
    patch.setattr(internal_topics.CreationBegun, "failed", lambda *_: None)


def lost_creations_are_final(patch: Patch) -> None:
    """Internal topics are never created after one request to the controller failed."""
    patch.setattr(StreamsGroup, "failed_creations", lambda self, mono_ms: dict.fromkeys(self.creation_errors, "no"))


DEFECTS: list[Planter] = [
    reads_show_what_is_not_written,
    revoked_tasks_are_free,
    copies_do_not_count,
    tombstones_need_their_group,
    offsets_decide_the_type_of_a_group,
    members_that_join_again_are_refused,
    full_groups_refuse_their_members,
    commits_need_the_newest_epoch,
    stale_members_commit,
    silent_members_stay,
    slow_members_stay,
    loaded_members_have_no_session,
    members_whose_removal_failed_have_no_session,
    undone_handovers_have_no_deadline,
    leaving_begins_no_epoch,
    changed_topics_are_not_noticed,
    topologies_are_configured_once,
    unreleased_members_wait,
    tasks_are_taken_at_once,
    assignments_are_not_persisted,
    answers_are_sent_before_the_write,
    failed_creations_are_final,
    lost_creations_are_final,
    later_parts_of_targets_are_lost,
]
