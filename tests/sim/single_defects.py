"""Defects that the test of one part finds: with the defect planted, that test must fail. They are those for which a
simulation would take too many seeds, or which need what the simulations do not have.
"""

from __future__ import annotations

from typing import Any

import pytest

from broker_cy.control.active.active_controller import ActiveController
from broker_cy.control.active.leadership import Leadership
from broker_cy.control.image.metadata_snapshots import SnapshotKeeper
from broker_cy.coordinator.assignors import streams_sticky, uniform_homogeneous
from broker_cy.coordinator.consumer import downgrade, heartbeat, records, regex
from broker_cy.coordinator.consumer.group import ConsumerGroup
from broker_cy.coordinator.modern import commits
from broker_cy.coordinator.offsets import OffsetsBefore, OffsetStore
from broker_cy.coordinator.streams.member import HeldTasks
from broker_cy.coordinator.written import WrittenOffsets
from broker_cy.core.errors import ErrorCode
from broker_cy.partitions import lost_logs
from broker_cy.quorum import replication, snapshots, wire_log
from broker_cy.quorum.state import QuorumState
from broker_cy.quorum.step import Snapshotted
from broker_cy.replica import following
from broker_cy.replica.in_sync import ANY_BROKER_EPOCH, Altered, InSync, Proposal
from broker_cy.share.share_partitions import SharePartitions
from broker_cy.storage import log_loader
from broker_cy.storage.epochs import LeaderEpochs
from broker_cy.storage.log_manager import LogManager
from tests.sim.defects import Patch, Planter
from tests.sim.jbod_defects import JBOD_DEFECTS

# --- replication


def proposal_names_no_incarnations(patch: Patch) -> None:
    """A proposal has no broker epochs: a broker that lost its records since it fetched joins by it (KAFKA-14617)."""
    patch.setattr(InSync, "_epoch_of", lambda self, broker_id: ANY_BROKER_EPOCH)


def gives_up_a_proposal_that_timed_out(patch: Patch) -> None:
    """A leader forgets the proposed replica when it gets no answer, although the controller may have committed it."""
    right = InSync.answered

    def answered(self: InSync, proposal: Proposal, answer: Altered) -> None:
        if proposal is self.proposal and answer.error == ErrorCode.REQUEST_TIMED_OUT:
            self._commit(self.isr)
        else:
            right(self, proposal, answer)

    patch.setattr(InSync, "answered", answered)
    patch.setattr(InSync, "_is_joining", lambda self, broker_id, end_offset: False)


def quiet_followers_are_late(patch: Patch) -> None:
    """On a partition without new records, fetches of followers are not noted: they are late when a record is
    written.
    """
    patch.setattr(InSync, "kept_up", lambda self, broker_id, until_ms: None)


def appends_records_of_later_epochs(patch: Patch) -> None:
    """A follower appends what a later leader wrote, with which it has not compared its log (KAFKA-18723)."""
    right = following.belongs
    patch.setattr(
        following, "belongs", lambda base, epoch, end, newest, leader_epoch: right(base, epoch, end, newest, epoch)
    )


def empty_log_begins_at_any_offset(patch: Patch) -> None:
    """A follower whose empty log begins within a batch waits for one that begins there."""
    right = following.take

    def take(replica: Any, asked: Any, answer: following.Answer, epochs: Any) -> following.Step:
        step = right(replica, asked, answer, epochs)
        return step if step.restart_at < 0 else following.Step()

    patch.setattr(following, "take", take)


# --- coordinators


def extra_partitions_wander(patch: Patch) -> None:
    """The first members in the order take the extra partitions, whoever has them already (KAFKA-18688)."""
    patch.setattr(uniform_homogeneous, "_takes_extra", lambda has_it, members_left, extras: extras > 0)


def standbys_search_the_first_process(patch: Patch) -> None:
    """A standby task leaves its member if the first one that had it cannot take it (KAFKA-20899)."""
    right = streams_sticky.least_loaded_holder

    def first_only(members: list[Any], task: Any) -> Any:
        return None if members and task in members[0].process.tasks else right(members, task)

    patch.setattr(streams_sticky, "least_loaded_holder", first_only)


def warmups_are_not_sticky(patch: Patch) -> None:
    """The state that a warm-up task has restored does not count when tasks are assigned again (KAFKA-21001)."""
    right = streams_sticky._with_state
    patch.setattr(streams_sticky, "_with_state", lambda assigned: right(assigned._replace(warmup={})))


def classic_members_get_stale_assignments(patch: Patch) -> None:
    """A group that becomes a classic one does not share the partitions again (KAFKA-20273)."""
    right = downgrade.downgrade

    def stay(machine: Any, step: Any, group: Any, leaving: Any, now: Any, *, rebalances: bool) -> None:
        right(machine, step, group, leaving, now, rebalances=False)

    patch.setattr(downgrade, "downgrade", stay)


def woken_share_fetches_wait_on(patch: Patch) -> None:
    """A share fetch that was woken is woken again and again, without a cause (KAFKA-20425)."""
    right = SharePartitions.wake

    def wake(self: SharePartitions, key: Any) -> list[Any]:
        found = right(self, key)
        for waiting in found:
            self.wait(waiting, [key])
        return found

    patch.setattr(SharePartitions, "wake", wake)


def producers_have_to_name_a_member(patch: Patch) -> None:
    """A producer that names no member cannot commit offsets of a consumer group in a transaction (KAFKA-18060)."""
    patch.setattr(commits, "names_member", lambda request: True)


def groups_with_open_transactions_are_deleted(patch: Patch) -> None:
    """A group is deleted that has only offsets of open transactions (KAFKA-19163, KAFKA-19164)."""
    patch.setattr(OffsetStore, "has_pending", lambda self, group_id: False)


def offsets_expire_under_a_transaction(patch: Patch) -> None:
    """The tombstone of an expired offset deletes the one that an open transaction has committed (CORE-16998)."""
    patch.setattr(OffsetStore, "is_pending", lambda self, *place: False)


def older_transactions_win(patch: Patch) -> None:
    """A transaction that ends replaces an offset that was committed after its own (CORE-17000)."""
    right = OffsetStore.replay_marker

    def wrong(self: OffsetStore, producer_id: int, committed: bool) -> OffsetsBefore:
        for place in list(self._pending.get(producer_id, ())):
            self._remove(*place)
        return right(self, producer_id, committed)

    patch.setattr(OffsetStore, "replay_marker", wrong)


def missed_tasks_are_not_sent_again(patch: Patch) -> None:
    """A streams member that missed the answer with its tasks never gets them, as in Kafka 4.3.1."""
    patch.setattr(HeldTasks, "is_within", lambda self, reported: True)


def expressions_end_without_an_epoch(patch: Patch) -> None:
    """The topics of an expression that a member gives up are not shared again (KAFKA-19899)."""
    right = regex.changed

    def changed(machine: Any, step: Any, group: Any, before: Any, member: Any, *more: Any) -> Any:
        found = right(machine, step, group, before, member, *more)
        return regex.RegexChange.UNRESOLVED if found is regex.RegexChange.RESOLVED and not member.regex else found

    patch.setattr(regex, "changed", changed)


def expressions_of_replaced_members_stay(patch: Patch) -> None:
    """A group goes on reading the topics of an expression that no member has (KAFKA-19720)."""
    patch.setattr(records, "regex_tombstone", lambda group_id, regex: records.partition_metadata_tombstone(group_id))


def consumers_join_classic_groups_without_an_epoch(patch: Patch) -> None:
    """An upgrade leaves the partitions unread that the last generation had not assigned."""
    right = heartbeat.update_epoch

    def update(machine: Any, step: Any, group: ConsumerGroup, now: Any, *, trigger: Any) -> None:
        right(machine, step, group, now, trigger=None if group.classic_members else trigger)

    patch.setattr(heartbeat, "update_epoch", update)


def large_groups_become_classic(patch: Patch) -> None:
    """A consumer group becomes a classic one although it has more members than group.max.size (KAFKA-16861)."""
    right = downgrade.is_due

    def is_due(machine: Any, group: ConsumerGroup, leaving: Any) -> bool:
        settings = machine.settings
        machine.settings = settings._replace(group_max_size=1_000)
        try:
            return right(machine, group, leaving)
        finally:
            machine.settings = settings

    patch.setattr(downgrade, "is_due", is_due)


def offsets_that_are_not_written_are_returned(patch: Patch) -> None:
    """OffsetFetch returns offsets of commits that are still being replicated, which the next coordinator may lack."""
    right = WrittenOffsets.__init__
    patch.setattr(
        WrittenOffsets, "__init__", lambda self, machine, group_id, unwritten: right(self, machine, group_id, ())
    )


# --- logs and directories


def damaged_epochs_are_taken_for_none(patch: Patch) -> None:
    """A log whose leader-epoch-checkpoint is damaged after a power loss continues without epochs (KAFKA-16541)."""
    right = log_loader._load_epochs

    def load(directory: str, may_be_lost: bool) -> tuple[LeaderEpochs, bool]:
        return right(directory, may_be_lost)[0], True

    patch.setattr(log_loader, "_load_epochs", load)


def partition_is_made_again_elsewhere(patch: Patch) -> None:
    """A partition whose directory cannot be read is made again in another one (KAFKA-16234)."""
    right = LogManager.create

    def create(self: LogManager, topic: str, partition: int, *more: Any) -> Any:
        self.offline.pop((topic, partition), None)
        return right(self, topic, partition, *more)

    patch.setattr(LogManager, "create", create)


def failed_directory_is_left_out(patch: Patch) -> None:
    """A start without the disk of a partition creates it again, empty, on another one (KAFKA-16234)."""
    patch.setattr(lost_logs, "reason", lambda *_, **__: None)


# --- the metadata quorum


def log_begins_behind_its_newest_snapshot(patch: Patch) -> None:
    """The quorum takes a log that begins behind its newest snapshot (KAFKA-14238)."""
    right = snapshots.taken

    def taken(state: QuorumState, event: Snapshotted) -> None:
        right(state, event._replace(start=min(event.start, event.snapshot_id)))

    patch.setattr(snapshots, "taken", taken)


def metadata_log_is_deleted_by_its_size(patch: Patch) -> None:
    """Segments of the metadata log are deleted, although no snapshot has them (KAFKA-14238)."""

    async def remove(self: SnapshotKeeper) -> None:
        for snapshot_id in self._files.snapshots()[:-1]:
            self._files.delete_snapshot(snapshot_id)
        self._files.delete_log_before(self._files.log.log_end_offset, self._clock.wall_ms())()

    patch.setattr(SnapshotKeeper, "_remove_superfluous", remove)


def snapshot_ends_within_a_transaction(patch: Patch) -> None:
    """A snapshot is written while a metadata transaction is open (KAFKA-17713)."""
    patch.setattr(SnapshotKeeper, "_may_begin", lambda self: True)


def no_state_behind_a_control_record(patch: Patch) -> None:
    """A controller that loses its leadership when the last committed entry is a control record has no state to go back
    to, and ends (KAFKA-17608).
    """
    right = ActiveController.end

    def end(self: ActiveController, reason: str) -> None:
        assert self._committed.end_offset >= self._high_watermark, f"no state at offset {self._high_watermark}"
        right(self, reason)

    patch.setattr(ActiveController, "end", end)


def transaction_is_forgotten_by_a_leader(patch: Patch) -> None:
    """A node that becomes the leader forgets the open metadata transaction before its own record is committed."""
    right = ActiveController.activate

    def activate(self: ActiveController, bootstrap: Any) -> Any:
        found = right(self, bootstrap)
        self._committed.abort_transaction()
        return found

    patch.setattr(ActiveController, "activate", activate)


def commit_before_the_activation_is_forgotten(patch: Patch) -> None:
    """A node that becomes the active controller by a commit waits for the next one before it answers."""
    right = Leadership.activate

    def activate(self: Leadership) -> None:
        with pytest.MonkeyPatch.context() as within:
            within.setattr(ActiveController, "commit", lambda self, high_watermark: None)
            right(self)

    patch.setattr(Leadership, "activate", activate)


def answers_to_fetches_of_a_replaced_log_count(patch: Patch) -> None:
    """A follower takes the answer to a fetch from before a snapshot replaced its log, and leaves the quorum."""
    patch.setattr(snapshots, "forget_fetch", lambda state: None)


def leader_is_announced_in_version_1(patch: Patch) -> None:
    """LeaderChangeMessage has the version that knows directory ids, with which Kafka 4.3.1 ends."""
    right = wire_log.to_control
    patch.setattr(wire_log, "to_control", lambda entry: _in_version_1(right(entry)))


def _in_version_1(message: Any) -> Any:
    return message._replace(version=1) if type(message).__name__ == "LeaderChange" else message


def resigned_leader_is_followed_again(patch: Patch) -> None:
    """A voter treats an answer of a resigned leader, which names itself, as a sign of life."""
    ignored = property(lambda self: False, lambda self, has_ended: None)
    patch.setattr(QuorumState, "has_ended", ignored, raising=False)


def what_a_replica_had_long_ago_counts(patch: Patch) -> None:
    """A replica that had everything at an earlier fetch, however long ago, counts as caught up now."""
    right = replication._acknowledge
    patch.setattr(
        replication,
        "_acknowledge",
        lambda state, progress, end_offset, before_ms: right(state, progress, end_offset, state.now_ms),
    )


def leader_of_another_quorum_is_followed(patch: Patch) -> None:
    """An only voter follows a leader that it has not elected."""
    patch.setattr(QuorumState, "is_only_voter", property(lambda self: False))


# The test that must fail, below tests/broker_cy.
DEFECTS: dict[Planter, str] = {
    proposal_names_no_incarnations: "replica/test_in_sync.py::test_a_proposal_names_the_incarnation_that_fetched",
    gives_up_a_proposal_that_timed_out: (
        "replica/test_in_sync.py::test_a_proposed_replica_counts_until_the_controller_has_answered"
    ),
    quiet_followers_are_late: (
        "replication/test_replication.py::test_who_has_everything_of_a_quiet_partition_stays_when_it_is_written_to"
    ),
    appends_records_of_later_epochs: "replica/test_in_sync.py::test_a_follower_appends_what_belongs_to_its_fetch",
    empty_log_begins_at_any_offset: "replica/test_in_sync.py::test_an_empty_log_begins_within_no_batch",
    extra_partitions_wander: ("coordinator/assignors/test_uniform.py::test_extra_partitions_stay_with_their_members"),
    standbys_search_the_first_process: (
        "coordinator/assignors/test_streams_sticky.py::test_standby_stays_although_another_one_became_active"
    ),
    warmups_are_not_sticky: "coordinator/assignors/test_streams_sticky.py::test_active_task_goes_to_its_warmup",
    classic_members_get_stale_assignments: "coordinator/consumer/test_conversion.py::test_the_last_consumer_leaves",
    missed_tasks_are_not_sent_again: "coordinator/streams/test_heartbeat.py::test_a_lost_answer_can_be_asked_for_again",
    expressions_end_without_an_epoch: "coordinator/consumer/test_regex.py::test_an_expression_ends",
    expressions_of_replaced_members_stay: (
        "coordinator/consumer/test_regex.py::test_a_classic_member_takes_the_place_of_an_expression"
    ),
    consumers_join_classic_groups_without_an_epoch: (
        "coordinator/consumer/test_conversion.py::test_an_upgrade_shares_partitions_again"
    ),
    large_groups_become_classic: "coordinator/consumer/test_conversion.py::test_a_large_group_stays",
    woken_share_fetches_wait_on: ("share/test_share_partitions.py::test_a_fetch_is_woken_once_by_the_first_cause"),
    producers_have_to_name_a_member: (
        "coordinator/consumer/test_offsets_of_consumers.py::"
        "test_transactional_commits_of_a_producer_that_names_no_member"
    ),
    groups_with_open_transactions_are_deleted: "coordinator/test_offsets.py::test_group_with_pending_offsets_is_kept",
    offsets_expire_under_a_transaction: (
        "coordinator/test_offset_deletion.py::test_an_expired_offset_stays_while_a_transaction_replaces_it"
    ),
    older_transactions_win: "coordinator/test_offsets.py::test_younger_commit_beats_an_older_transaction",
    offsets_that_are_not_written_are_returned: (
        "coordinator/test_offsets.py::test_an_offset_is_visible_when_it_is_written"
    ),
    damaged_epochs_are_taken_for_none: "storage/test_log_loader.py::test_a_damaged_epoch_checkpoint_is_found_again",
    partition_is_made_again_elsewhere: "storage/test_failed_directories.py::test_a_partition_stays_in_its_directory",
    failed_directory_is_left_out: "partitions/test_lost_logs.py::test_a_partition_of_a_missing_disk",
    log_begins_behind_its_newest_snapshot: (
        "quorum/test_observers_and_snapshots.py::test_impossible_snapshots_are_refused"
    ),
    metadata_log_is_deleted_by_its_size: (
        "control/test_controller_service.py::test_snapshots_and_what_they_make_superfluous"
    ),
    snapshot_ends_within_a_transaction: (
        "control/test_committed_metadata.py::test_a_snapshot_and_the_log_behind_it_are_the_whole_log"
    ),
    no_state_behind_a_control_record: (
        "control/test_active_controller.py::test_leadership_ends_behind_a_control_record"
    ),
    transaction_is_forgotten_by_a_leader: (
        "control/test_committed_metadata.py::test_a_leader_that_does_not_stay_reads_how_a_transaction_ends"
    ),
    commit_before_the_activation_is_forgotten: (
        "control/test_active_controller.py::"
        "test_a_leader_answers_when_its_epoch_and_what_was_before_it_are_committed_together"
    ),
    answers_to_fetches_of_a_replaced_log_count: (
        "quorum/test_observers_and_snapshots.py::test_the_answer_to_a_fetch_from_a_replaced_log_is_ignored"
    ),
    leader_is_announced_in_version_1: (
        "quorum/test_wire.py::test_a_leader_is_announced_in_the_version_that_kafka_reads"
    ),
    resigned_leader_is_followed_again: (
        "quorum/test_several_voters.py::test_a_leader_that_has_resigned_is_not_followed_again"
    ),
    leader_of_another_quorum_is_followed: (
        "quorum/test_voter_changes.py::test_an_only_voter_follows_no_leader_that_it_did_not_elect"
    ),
    what_a_replica_had_long_ago_counts: ("quorum/test_voter_changes.py::test_what_a_voter_had_long_ago_does_not_count"),
    **JBOD_DEFECTS,
}
