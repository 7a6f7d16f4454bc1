"""Defects of brokers with several data directories that the test of one part finds (see single_defects): those of the
table of bugs that Kafka had with JBOD.
"""

from __future__ import annotations

import errno
import os
import shutil
from collections import Counter
from typing import Any

from broker_cy.partitions import lost_logs
from broker_cy.partitions.partition_service import PartitionService
from broker_cy.replica.in_sync import InSync
from broker_cy.storage import directory_failures, directory_loading, duplicates
from broker_cy.storage.atomic import write_atomically
from broker_cy.storage.checkpoints import encode_pairs
from broker_cy.storage.cleaner.log_cleaner import LogCleaner
from broker_cy.storage.data_directory import moved_partition
from broker_cy.storage.directory_failures import DirectoryFailures
from broker_cy.storage.errors import errno_of
from broker_cy.storage.log import Log
from broker_cy.storage.log_manager import LogManager
from broker_cy.storage.lost_files import LostFiles
from broker_cy.storage.moves import replica_moves
from broker_cy.storage.moves.future_replica import FutureReplica, Part
from broker_cy.storage.moves.log_moves import LogMoves
from broker_cy.storage.moves.log_relocation import relocate
from broker_cy.storage.moves.move import Move, State
from broker_cy.storage.moves.replica_moves import ReplicaMoves
from broker_cy.storage.offline_logs import OfflineLogs
from broker_cy.storage.offset_checkpoints import OffsetCheckpoints
from broker_cy.storage.placement import Placement
from broker_cy.storage.syncs import LogSyncs
from tests.sim.defects import Patch, Planter


def cancelled_moves_are_not_reported(patch: Patch) -> None:
    """A move that the controller has accepted is given up, and the metadata still name its target (KAFKA-16297)."""
    right = ReplicaMoves.cancel

    def cancel(self: ReplicaMoves, key: tuple[str, int]) -> None:
        if key in self._moves:
            self._moves[key].state = State.COPYING
        right(self, key)

    patch.setattr(ReplicaMoves, "cancel", cancel)


def accepted_copies_become_logs(patch: Patch) -> None:
    """At a start the copy that the metadata name becomes the log, although it may lack records (KAFKA-16082)."""
    right = LogManager.load

    def load(self: LogManager, *more: Any, **named: Any) -> None:
        for directory in self.data_directories:
            for name in os.listdir(directory.path):
                key = moved_partition(name)
                if key is not None and named["directory_id_of"](*key) == directory.directory_id:
                    for other in self.data_directories:
                        shutil.rmtree(f"{other.path}/{key[0]}-{key[1]}", ignore_errors=True)
                    os.rename(f"{directory.path}/{name}", f"{directory.path}/{key[0]}-{key[1]}")
        right(self, *more, **named)

    patch.setattr(LogManager, "load", load)


def moved_files_condemn_a_disk(patch: Patch) -> None:
    """A file that was renamed or removed in the meantime takes a good disk offline (KAFKA-19571, KAFKA-15572)."""
    right = DirectoryFailures.suspect

    def suspect(self: DirectoryFailures, path: str | None, error: BaseException) -> None:
        if errno_of(error, 0) == errno.ENOENT:
            for each in self._directories:
                if path is not None and path.startswith(f"{each.path}/"):
                    self._failed(each, error)
        right(self, path, error)

    patch.setattr(DirectoryFailures, "suspect", suspect)


def mount_points_count_as_disks(patch: Patch) -> None:
    """A directory that can be written has not failed, although it is only the mount point of an unmounted disk."""

    def check(path: str) -> None:
        write_atomically(f"{path}/{directory_failures.CHECK_FILE}", bytes(1), sync=True)

    patch.setattr(directory_failures, "check", check)


def damaged_logs_lead(patch: Patch) -> None:
    """The place of a log that is offline on a good disk is not reported as lost."""
    patch.setattr(OfflineLogs, "consider", lambda self, path: None)


def unloaded_logs_lead(patch: Patch) -> None:
    """A log that was damaged at the start, or when it was opened, is in no place, and so it is not reported as lost."""
    right = OfflineLogs.take

    def take(self: OfflineLogs, key: tuple[str, int], *more: Any, **named: Any) -> None:
        right(self, key, *more, **named)
        self.unloaded.pop(key, None)

    patch.setattr(OfflineLogs, "take", take)


def removed_files_are_not_looked_for(patch: Patch) -> None:
    """A log whose directory was removed is served: each write fails, or is in a file without a name."""
    patch.setattr(LostFiles, "suspect", lambda self, path, error: None)


def removed_files_count_as_synced(patch: Patch) -> None:
    """A sync does nothing for a file that was removed, as for a segment that was deleted."""
    right = LogSyncs.file
    patch.setattr(LogSyncs, "file", lambda self, path: right(self, path) or True)


def deleted_segments_condemn_a_log(patch: Patch) -> None:
    """A file that was missing for a moment, because the loop gave it another name, takes its log offline."""

    def looked(self: LostFiles, key: Any, log: Log, directory: str, found: Any, error: Any) -> None:
        self._looking.discard(key)
        if found and log.offline is None:
            log.mark_offline(f"{found[0]} was removed")

    patch.setattr(LostFiles, "_looked", looked)


def failed_disks_are_written_to_first(patch: Patch) -> None:
    """The code that takes a directory offline writes to it first, and fails if the disk is read-only (KAFKA-19289)."""
    right = DirectoryFailures._failed

    def failed(self: DirectoryFailures, directory: Any, error: BaseException) -> None:
        directory_failures.check(directory.path)
        right(self, directory, error)

    patch.setattr(DirectoryFailures, "_failed", failed)


def moves_hold_the_cleaner_twice(patch: Patch) -> None:
    """A move that is asked for again pauses the cleaner once more, and its end resumes it once (KAFKA-16709)."""
    start, hold, counts = ReplicaMoves.start, LogCleaner.hold, Counter[tuple[str, int]]()

    def start_again(self: ReplicaMoves, key: tuple[str, int], *more: Any) -> None:
        if key in self._moves:
            self._host.hold(key, is_moving=True)
        start(self, key, *more)

    def count(self: LogCleaner, key: tuple[str, int], *, is_held: bool) -> None:
        counts[key] += 1 if is_held else -1
        hold(self, key, is_held=counts[key] > 0)

    patch.setattr(ReplicaMoves, "start", start_again)
    patch.setattr(LogCleaner, "hold", count)


def cleaned_offsets_stay_behind(patch: Patch) -> None:
    """The entry of the cleaner's checkpoint does not move with its log (KAFKA-8362)."""
    patch.setattr(LogCleaner, "write_checkpoint", lambda self: None)


def active_segments_are_missing(patch: Patch) -> None:
    """A copy has caught up only as far as its last segment begins: some moves never end (KAFKA-8002)."""
    right = FutureReplica.remaining_bytes
    patch.setattr(FutureReplica, "remaining_bytes", lambda self, log: right(self, log) + log.active.size)


def copies_are_swapped_as_they_are(patch: Patch) -> None:
    """Records that are written between the last step of a copy and the swap are lost (KAFKA-9087)."""
    patch.setattr(FutureReplica, "rest", lambda self, log, *, syncs: Part((), ()))


def epochs_stay_behind(patch: Patch) -> None:
    """The leader epochs of a log do not move with it (KAFKA-15608)."""

    def wrong(log: Log, directory: str, synced_end_offset: int) -> None:
        log.epochs.clear()
        relocate(log, directory, synced_end_offset)

    patch.setattr(replica_moves, "relocate", wrong)
    patch.setattr(replica_moves, "encode_pairs", lambda entries: encode_pairs([]))


def elections_fence_copies(patch: Patch) -> None:
    """A copy stands still once its log has another leader epoch than in the beginning (KAFKA-9654)."""
    right, epochs = ReplicaMoves._step, dict[int, int]()

    def step(self: ReplicaMoves, move: Move) -> None:
        if epochs.setdefault(id(move), move.log.epochs.latest_epoch) == move.log.epochs.latest_epoch:
            right(self, move)

    patch.setattr(ReplicaMoves, "_step", step)


def failed_disks_refuse_new_replicas(patch: Patch) -> None:
    """A broker with a failed disk creates no replica on its other disks (KAFKA-10314)."""

    def reason(part: Any, node_id: int, directories: Any, *, is_start: bool) -> str | None:
        failed = [each for each in directories if each.failure is not None]
        return f"its log may be in {failed[0].path}, which is offline: {failed[0].failure}" if failed else None

    patch.setattr(lost_logs, "reason", reason)


def strays_count_as_copies(patch: Patch) -> None:
    """The log of a deleted topic collides with that of a new one with its name on another disk (KAFKA-14616)."""
    patch.setattr(duplicates, "_may_be_of", lambda path, topic_id: True)


def logs_are_placed_by_their_number(patch: Patch) -> None:
    """A disk that is nearly full gets as many new logs as an empty one."""
    patch.setattr(Placement, "_rank", lambda self, paths: self._counts.__getitem__)


def removed_followers_have_kept_up(patch: Patch) -> None:
    """A follower that the controller removed because its disk died is waited for: its session reports late."""

    def kept_up(self: InSync, broker_id: int, until_ms: int) -> None:
        follower = self.followers.get(broker_id)
        if follower is not None:
            follower.caught_up_ms = max(follower.caught_up_ms, until_ms)

    patch.setattr(InSync, "kept_up", kept_up)


def logs_return_to_what_they_left(patch: Patch) -> None:
    """A replica may move back to a disk that still has its former log, and a start takes that one."""
    patch.setattr(LogMoves, "is_free", lambda self, path: True)


def old_logs_are_served(patch: Patch) -> None:
    """The former log of a moved replica is served while its new disk is offline."""
    patch.setattr(directory_loading, "newer_elsewhere", lambda named, directories: None)


def moves_commit_the_ends_of_logs(patch: Patch) -> None:
    """A move checkpoints the ends of all logs on its target disk as their high watermarks."""
    right = OffsetCheckpoints.collect

    def collect(self: OffsetCheckpoints, names: Any, logs: Any, *more: Any) -> Any:
        for key, log in logs.items():
            self.high_watermarks.setdefault(key, log.written_end_offset)
        return right(self, names, logs, *more)

    patch.setattr(OffsetCheckpoints, "collect", collect)


def rounds_of_a_former_disk_count(patch: Patch) -> None:
    """A round of syncs on the disk that a log has left acknowledges the records that the next one was to sync."""
    patch.setattr(PartitionService, "_relocated", lambda self, log, root: None)


# The test that must fail, below tests/broker_cy.
JBOD_DEFECTS: dict[Planter, str] = {
    cancelled_moves_are_not_reported: "storage/moves/test_replica_moves.py::test_cancelled_after_it_was_accepted",
    accepted_copies_become_logs: "storage/moves/test_replica_moves.py::test_killed_at_any_step",
    moved_files_condemn_a_disk: (
        "storage/test_directory_failures.py::test_a_file_that_was_removed_does_not_condemn_a_disk"
    ),
    damaged_logs_lead: "storage/test_directory_failures.py::test_a_damaged_log_on_a_good_disk_is_lost",
    unloaded_logs_lead: "storage/test_damage.py::test_damage_outlives_a_restart",
    removed_files_are_not_looked_for: "storage/test_lost_files.py::test_a_removed_directory_takes_one_log_offline",
    removed_files_count_as_synced: "storage/test_lost_files.py::test_records_in_a_removed_file_are_not_synced",
    deleted_segments_condemn_a_log: "storage/test_lost_files.py::test_an_intact_log_stays",
    mount_points_count_as_disks: "storage/test_directory_failures.py::test_a_directory_that_is_gone_has_failed",
    failed_disks_are_written_to_first: "storage/test_directory_failures.py::test_a_dead_disk_is_noticed_once",
    moves_hold_the_cleaner_twice: ("storage/moves/test_replica_moves.py::test_compacted_log_is_not_cleaned_meanwhile"),
    cleaned_offsets_stay_behind: "storage/moves/test_replica_moves.py::test_compacted_log_is_not_cleaned_meanwhile",
    active_segments_are_missing: "storage/moves/test_replica_moves.py::test_every_record_is_at_the_goal",
    copies_are_swapped_as_they_are: "storage/moves/test_replica_moves.py::test_what_is_written_last_comes_along",
    epochs_stay_behind: "storage/moves/test_replica_moves.py::test_epochs_and_producers_are_at_the_goal",
    elections_fence_copies: "storage/moves/test_replica_moves.py::test_the_leader_changes_while_it_is_copied",
    failed_disks_refuse_new_replicas: "partitions/test_lost_logs.py::test_the_log_that_is_not_replaced",
    strays_count_as_copies: "storage/test_duplicates.py::test_a_copy_of_another_topic_decides_nothing",
    removed_followers_have_kept_up: (
        "replica/test_in_sync.py::test_a_late_report_of_a_removed_member_holds_no_high_watermark"
    ),
    logs_return_to_what_they_left: "storage/moves/test_left_directories.py::test_log_does_not_return_to_what_it_left",
    old_logs_are_served: "storage/test_duplicates.py::test_the_old_log_is_not_served_without_the_new_one",
    moves_commit_the_ends_of_logs: "storage/moves/test_replica_moves.py::test_a_move_commits_nothing",
    logs_are_placed_by_their_number: "storage/test_placement.py::test_the_emptier_disk_gets_the_logs",
}
