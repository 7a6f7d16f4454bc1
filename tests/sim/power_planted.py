"""Defects that the power cut simulation must find. Each is a patch that restores a wrong behaviour, with a range of
seeds; one of them must fail.
"""

from __future__ import annotations

import os
import random
import struct
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import pytest

from broker_cy.control import controller_service
from broker_cy.control.quorum import metadata_log
from broker_cy.controller.activation import default_bootstrap
from broker_cy.metadata import snapshot
from broker_cy.metadata.snapshot import BOOTSTRAP_NAME, KRaftState
from broker_cy.storage import (
    checkpoints,
    damage,
    directory_loading,
    flusher,
    flushers,
    log_deletion,
    log_manager,
    log_truncation,
    noted_state,
    segment_recovery,
    syncs,
    written_points,
)
from broker_cy.storage.atomic import write_atomically
from broker_cy.storage.checkpoints import TopicPartition
from broker_cy.storage.cleaner.files import DirectoryFiles
from broker_cy.storage.cleaner.job import Cleaning
from broker_cy.storage.cleaner.log_cleaner import LogCleaner
from broker_cy.storage.flush_job import FlushJob
from broker_cy.storage.log import Log
from broker_cy.storage.log_files import NEVER
from broker_cy.storage.log_loading import LogLoading
from broker_cy.storage.log_manager import LogManager
from broker_cy.storage.offset_checkpoints import Content, OffsetCheckpoints
from broker_cy.storage.retention import Retention
from broker_cy.storage.sync_job import SyncJob
from broker_cy.storage.syncs import LogSyncs
from tests.sim import power_run
from tests.sim.power_run import Run
from tests.support.power import Disk


@dataclass(frozen=True)
class Planted:
    """`plant` makes the code wrong; one of `seeds` seeds from `first` on finds it."""

    plant: Callable[[pytest.MonkeyPatch], Any]
    seeds: int
    first: int = 0
    # Takes too long for `make test`.
    is_rare: bool = False
    # Found only if logs are opened after the start.
    is_late: bool = False
    # Needs a topic that is deleted and created again all the time.
    recreates: bool = False
    # May end the process with a signal: runs in one of its own.
    may_crash: bool = False


def _roll_inside_of_an_append(patch: pytest.MonkeyPatch) -> None:
    """The metadata log begins a segment as soon as the last one is full, like any other log."""
    patch.setattr(controller_service, "SEGMENT_BYTES_MAX", 900)
    patch.setattr(
        metadata_log.MetadataLog, "append", lambda self, content, now_ms: self.log.append(content, now_ms) and None
    )


def _trust_every_snapshot(patch: pytest.MonkeyPatch) -> None:
    """Producer state comes from the newest snapshot, even if the transaction indexes before it lack entries."""
    reload = log_truncation.reload_producers
    # The sixth argument is the offset before which the indexes are complete.
    patch.setattr(log_truncation, "reload_producers", lambda *given, **named: reload(*given[:5], **named))


def _by_name(checkpoint: str) -> Callable[[pytest.MonkeyPatch], Any]:
    """The entries of one checkpoint are applied to any topic that has the name now."""

    def plant(patch: pytest.MonkeyPatch) -> None:
        accept = OffsetCheckpoints.accept

        def wrong(self: OffsetCheckpoints, root: str, key: TopicPartition, topic_id: UUID | None) -> None:
            accept(self, root, key, topic_id)
            entries = self._read[root].get(checkpoint)
            if entries is not None and key in entries.offsets:
                self._by_name[checkpoint][key] = entries.offsets[key]

        patch.setattr(OffsetCheckpoints, "accept", wrong)

    return plant


def _cleaned_by_name(patch: pytest.MonkeyPatch) -> None:
    """Cleaning progress of a deleted topic counts for a new topic with its name."""
    patch.setattr(LogCleaner, "accept", lambda self, key, topic_id: None)
    patch.setattr(LogCleaner, "forget", lambda self, key: self.abort(key))


def _drop_staged(patch: pytest.MonkeyPatch) -> None:
    """Segments go while batches are staged: a failed write may have to return to one of them."""
    drop = log_deletion.drop_old_segments

    def wrong(log: Log, segments_max: int) -> list[str]:
        renamed = drop(log, segments_max)
        while log.staged_batches and log_deletion.has_old_segments(log):
            segment = log.segments[0]
            renamed += log_deletion.mark_deleted(log.directory, segment.base_offset)
            segment.close()
            del log.segments[0]
        return renamed

    patch.setattr(log_deletion, "drop_old_segments", wrong)


def _trust_copies(patch: pytest.MonkeyPatch) -> None:
    """Notes of the page cache count if the machine has not started again, even in a copy of the files. Most process
    ends leave a copy.
    """
    patch.setattr(Run, "restored", 0.9)
    patch.setattr(written_points, "_origin", lambda found: written_points.boot_id())
    patch.setattr(noted_state, "_HEADER", _OffsetOnly(">q"))


def _rename_first(patch: pytest.MonkeyPatch) -> None:
    """The files of deleted segments are renamed before the log start offset is checkpointed."""
    save = Retention._save

    def wrong(self: Retention, log: Log) -> None:
        save(self, log)
        self._drop(log)

    patch.setattr(Retention, "_save", wrong)


class _OffsetOnly(struct.Struct):
    """The header of a slot, without the file that it was written to."""

    def pack(self, *values: Any) -> bytes:
        return super().pack(values[0])


def _clean_with_offline(patch: pytest.MonkeyPatch) -> None:
    """A stop is clean although a partition could not be loaded, or went offline."""
    stop = flusher.Flusher.stop

    def wrong(self: flusher.Flusher, broker_epoch: int) -> None:
        offline, self.offline = self.offline, {}
        kept = dict(self.logs)
        for key in [key for key, log in kept.items() if log.offline is not None]:
            del self.logs[key]
        try:
            stop(self, broker_epoch)
        finally:
            self.offline = offline
            self.logs.update(kept)

    patch.setattr(flusher.Flusher, "stop", wrong)


def _jobs_by_path(patch: pytest.MonkeyPatch) -> None:
    """A flush that waited writes epochs and producers into any directory that has the path by then."""

    def opened(self: FlushJob) -> int:
        return os.open(self.log.directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)

    patch.setattr(FlushJob, "_open", opened)


def _forget_truncations(patch: pytest.MonkeyPatch) -> None:
    """An error of truncating a file is ignored."""
    truncate = Disk.truncate

    def wrong(self: Disk, path: Any, length: int) -> None:
        with suppress(OSError):
            truncate(self, path, length)

    patch.setattr(Disk, "truncate", wrong)


def _sync_no_directory(patch: pytest.MonkeyPatch) -> None:
    """The directory of the metadata log is created without a sync, in a data directory that Kafka's StorageTool has
    formatted: otherwise the sync of bootstrap.checkpoint includes it. So would that of the first log start checkpoint.
    """
    write_starts = OffsetCheckpoints._write_starts

    def wrong(self: OffsetCheckpoints, content: Content) -> None:
        if os.path.dirname(content.path) in self._are_saved:
            write_starts(self, content)
        self._are_saved.add(os.path.dirname(content.path))

    def formatted(root: str, draw: random.Random) -> Disk:
        content = b"".join(snapshot.write(iter(default_bootstrap()), KRaftState(), 0, 0, 0))
        write_atomically(f"{root}/{BOOTSTRAP_NAME}", content, sync=False)
        return Disk(root, draw)

    patch.setattr(power_run, "Disk", formatted)
    patch.setattr(log_manager, "sync_directory", lambda path: None)
    patch.setattr(OffsetCheckpoints, "_write_starts", wrong)


def _forget_removals(patch: pytest.MonkeyPatch) -> None:
    """An error of removing the files of a segment that was begun, and is not needed, is ignored."""
    unlink = Disk.unlink

    def wrong(self: Disk, path: Any, *, dir_fd: int | None = None) -> None:
        try:
            unlink(self, path, dir_fd=dir_fd)
        except FileNotFoundError:
            raise
        except OSError:
            # Only Segment.discard removes, by their paths, a snapshot, or a segment that no start has found.
            if dir_fd is not None or not str(path).endswith((".log", ".snapshot")):
                raise

    patch.setattr(Disk, "unlink", wrong)


def _create_in_place(patch: pytest.MonkeyPatch) -> None:
    """A new partition uses the directory, with its content, of a deleted partition that could not be renamed."""
    rename = LogManager.rename_away

    def wrong(self: LogManager, path: str, mark: str, topic_id: UUID, delay_ms: int) -> None:
        # A partition that is being deleted has a topic id.
        if mark != "delete" or topic_id != directory_loading.NO_TOPIC_ID:
            rename(self, path, mark, topic_id, delay_ms)

    patch.setattr(LogManager, "rename_away", wrong)


def _sync_no_bootstrap(patch: pytest.MonkeyPatch) -> None:
    """bootstrap.checkpoint, and no other file of the metadata log, is written without a sync. Only the start of a node
    without any record reads that file, so that power is lost at one of the first syncs.
    """
    one_life = Run.one_life

    def write(path: str, data: bytes, *, sync: bool, **others: bool) -> None:
        write_atomically(path, data, sync=sync and not path.endswith(BOOTSTRAP_NAME), **others)

    patch.setattr(metadata_log, "write_atomically", write)
    patch.setattr(Run, "one_life", lambda self, syncs: one_life(self, self.more.randint(1, 10)))


def _forget_damage(patch: pytest.MonkeyPatch) -> None:
    """A partition that was found damaged is served after the next start."""
    patch.setattr(damage, "write", lambda directory, note, reason, *, sync=False: None)


def _recovery_points_alone(patch: pytest.MonkeyPatch) -> None:
    """Write recovery points although the log start offsets could not be written."""
    real = OffsetCheckpoints.collect

    def wrong(self: OffsetCheckpoints, names: Iterable[str], *arguments: Any) -> Any:
        names = set(names)
        found = real(self, names, *arguments)
        return [each for each in found if os.path.basename(each.path) in names]

    patch.setattr(OffsetCheckpoints, "collect", wrong)


def _drop_unopened(patch: pytest.MonkeyPatch) -> None:
    """Checkpoints that are written after the start lack the logs that are not open yet."""
    collect = OffsetCheckpoints.collect

    def wrong(self: OffsetCheckpoints, *arguments: Any) -> Any:
        unopened, self.unopened = self.unopened, {}
        try:
            return collect(self, *arguments)
        finally:
            self.unopened = unopened

    patch.setattr(OffsetCheckpoints, "collect", wrong)


def _sync_nothing_loaded(patch: pytest.MonkeyPatch) -> None:
    for module in (flusher, flushers):
        patch.setattr(module, "sync_is_due", lambda log: False)


PLANTED: dict[str, Planted] = {
    "checkpoints forget logs that are not open yet": Planted(_drop_unopened, 700, is_late=True, is_rare=True),
    "a stop is clean although logs were not recovered yet": Planted(
        lambda patch: patch.setattr(flusher.Flusher, "_sync_unopened", lambda self: True), 300, is_late=True
    ),
    "logs are opened late after a power cut": Planted(
        lambda patch: patch.setattr(LogManager, "_may_open_late", lambda *_: True), 100, 100, is_late=True
    ),
    "group commit syncs nothing": Planted(lambda patch: patch.setattr(SyncJob, "run", lambda job: job), 50),
    "a start serves what a killed process did not sync": Planted(_sync_nothing_loaded, 100),
    "cleaned segments are not synced": Planted(
        lambda patch: patch.setattr(DirectoryFiles, "sync", lambda self, fd: None), 300
    ),
    "names of cleaned segments are not synced": Planted(
        lambda patch: patch.setattr(DirectoryFiles, "sync_directory", lambda self: None), 1200, is_rare=True
    ),
    "the cleaner drops records for others that are not on the disk": Planted(
        lambda patch: patch.setattr(Cleaning, "_sync_sources", lambda self: None), 4500, is_rare=True
    ),
    "recovery points are written without log start offsets": Planted(_recovery_points_alone, 6300, is_rare=True),
    "notes of the page cache outlive it": Planted(
        lambda patch: patch.setattr(Run, "boot", property(lambda self: 1, lambda self, number: None), raising=False),
        300,
        is_rare=True,
    ),
    "segments behind damage stay": Planted(
        lambda patch: patch.setattr(segment_recovery, "remove_for_good", lambda segments: None), 100
    ),
    "bootstrap.checkpoint is not synced": Planted(_sync_no_bootstrap, 100),
    "the name of the metadata log's directory is not synced": Planted(_sync_no_directory, 300),
    "a segment of the metadata log begins in the middle of an append": Planted(_roll_inside_of_an_append, 300),
    "transaction indexes are not made again after a power cut": Planted(_trust_every_snapshot, 100, 1000),
    "log start offsets are applied by name": Planted(
        _by_name(checkpoints.LOG_START_OFFSETS), 600, 1500, recreates=True
    ),
    "recovery points are applied by name": Planted(_by_name(checkpoints.RECOVERY_POINTS), 300, 1200, recreates=True),
    "what is cleaned counts by name": Planted(_cleaned_by_name, 1500),
    "a replica keeps what is left of a log without its first segments": Planted(
        lambda patch: patch.setattr(LogLoading, "_first_base_max", lambda self, key, root: NEVER), 500
    ),
    "segments are renamed before their deletion is checkpointed": Planted(_rename_first, 1000),
    "unsaved log starts count as saved": Planted(
        lambda patch: patch.setattr(OffsetCheckpoints, "_starts_are_lost", lambda self, root, sequence: None), 3000
    ),
    "segments are dropped under staged batches": Planted(_drop_staged, 3000, is_rare=True, may_crash=True),
    "notes of the page cache are trusted in a copy": Planted(_trust_copies, 400),
    "a stop is clean although a partition is offline": Planted(_clean_with_offline, 400),
    "flushes and notes go by path": Planted(_jobs_by_path, 800, is_rare=True),
    "a topic is created in the directory of a deleted one": Planted(_create_in_place, 5000, is_rare=True),
    "a failed sync is forgotten": Planted(
        lambda patch: patch.setattr(LogSyncs, "_failed", lambda self, error: None), 400, is_rare=True
    ),
    "a start takes what a failed sync dropped for written": Planted(
        lambda patch: patch.setattr(syncs, "has_failed", lambda directory: False), 400, 800
    ),
    "a file that cannot be cut back is left as it is": Planted(_forget_truncations, 300),
    "segments of a refused write that cannot be removed are ignored": Planted(_forget_removals, 1500, is_rare=True),
    "a damaged partition is served again": Planted(_forget_damage, 2500, is_rare=True),
}
