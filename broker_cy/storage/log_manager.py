"""All logs of a broker: loading and recovery, creation and deletion, the clean stop.

The file is long because it is the only owner of the tables of logs and topic ids, and the one face of the work on them,
which is in directory_loading, log_loading, log_opener, log_creation, log_cutting, offline_logs, flushers, retention,
removal and periodic.
"""

from __future__ import annotations

import logging
import os
import resource
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from uuid import UUID

from broker_cy.core.logs import facts
from broker_cy.core.uuid import LOST_DIRECTORY, UNASSIGNED_DIRECTORY
from broker_cy.storage import checkpoints, directory_failures, log_flush, metadata_check
from broker_cy.storage.atomic import sync_directory
from broker_cy.storage.checkpoints import TopicPartition
from broker_cy.storage.cleaner.log_cleaner import LogCleaner
from broker_cy.storage.data_directory import METADATA_TOPIC, DataDirectory, DataDirectoryError
from broker_cy.storage.directory_failures import DirectoryFailures
from broker_cy.storage.directory_loading import NO_TOPIC_ID, DirectoryLoading
from broker_cy.storage.disk_workers import DiskWorkers, Workers
from broker_cy.storage.errors import StorageError, rights_advice
from broker_cy.storage.flushers import Flushers
from broker_cy.storage.jobs import Jobs, RunAll, run_inline
from broker_cy.storage.last_end import previous_epoch
from broker_cy.storage.log import Log
from broker_cy.storage.log_config import LogConfig
from broker_cy.storage.log_creation import LogCreation
from broker_cy.storage.log_cutting import LogCutting
from broker_cy.storage.log_loader import LoadContext, load_log
from broker_cy.storage.log_loading import LogLoading
from broker_cy.storage.log_opener import LogOpener, Unopened
from broker_cy.storage.log_slice import LogTotals
from broker_cy.storage.lost_files import LostFiles
from broker_cy.storage.moves.log_moves import LogMoves
from broker_cy.storage.moves.replica_moves import ReplicaMoves
from broker_cy.storage.offline_logs import OfflineLogs
from broker_cy.storage.offset_checkpoints import OffsetCheckpoints
from broker_cy.storage.open_directories import usable
from broker_cy.storage.periodic import PeriodicWork
from broker_cy.storage.placement import Placement
from broker_cy.storage.removal import Removal, rename_away
from broker_cy.storage.retention import Retention
from broker_cy.storage.rooms import Rooms
from broker_cy.storage.segment import OpenFiles
from broker_cy.storage.settings import StorageSettings
from broker_cy.storage.start_listing import StartListing
from broker_cy.storage.truncations import Truncations
from broker_cy.storage.written_points import WRITTEN_POINTS, is_same_boot, note_epoch

logger = logging.getLogger(__name__)

OPEN_FILES_MIN = 16


class LogManager:
    """Logs by (topic, partition). All calls are on the loop's thread, except those that `jobs` runs."""

    def __init__(
        self,
        directories: list[DataDirectory],
        settings: StorageSettings,
        jobs: Jobs,
        note_jobs: Jobs | None = None,
        open_jobs: Jobs | None = None,
        check_jobs: Jobs | None = None,
        room_jobs: Jobs | None = None,
        metadata_directory: DataDirectory | None = None,
        disk_workers: DiskWorkers | None = None,
        run_all: RunAll = run_inline,
    ) -> None:
        """`disk_workers` are the workers of each disk, otherwise `jobs` and `note_jobs`, a worker that never waits long
        for the disk, for the notes of the flushers; `open_jobs`: workers that open logs; `check_jobs`: those that look
        whether a disk has failed; `room_jobs`: those that measure its free bytes. `jobs` replaces those that are None.
        `metadata_directory` has the metadata log, None: the first data directory. `run_all` recovers logs of several
        disks at a start.
        """
        # The partitions in the directories; a worker for each begins to list them now.
        self._listing = StartListing(usable(directories), run_all)
        self.data_directories = directories
        self.metadata_directory = metadata_directory or directories[0]
        directory_failures.distrust(self.metadata_directory.path, directories)
        self.settings = settings
        self.jobs = jobs
        self._run_all = run_all
        self.logs: dict[TopicPartition, Log] = {}
        self.topic_ids: dict[TopicPartition, UUID] = {}
        self.checkpoints = OffsetCheckpoints([each.path for each in usable(directories)], self.topic_ids)
        # `on_directory_failed` is called for each data directory whose disk fails, when its logs are offline, and for
        # a separate directory of the metadata log.
        self.failures = DirectoryFailures(
            list(dict.fromkeys([*directories, self.metadata_directory])),
            check_jobs or jobs,
            self._directory_failed,
            self.metadata_directory.path,
        )
        self.on_directory_failed: Callable[[DataDirectory], None] = lambda directory: None
        # Compacts logs, if set; it is notified of logs that are truncated or deleted.
        self.cleaner: LogCleaner | None = None
        # Opens the logs that `load` leaves for later. `on_opened` is called for each of these partitions when its log
        # is in `logs` or the partition is in `offline`.
        self.opener = LogOpener(open_jobs or jobs, self._opened_late, settings.recovery_threads)
        self.checkpoints.unopened = self.opener.unopened
        self.on_opened: Callable[[TopicPartition], None] = lambda key: None
        self.placement = Placement(directories, settings.placement)
        self.rooms = Rooms(
            directories, self.metadata_directory, self.placement, room_jobs or jobs, self.failures.suspect
        )
        workers = disk_workers or DiskWorkers(Workers(jobs, note_jobs or jobs))
        self.offline_logs = OfflineLogs(self, workers)
        # Partitions that cannot be served, with the reason.
        self.offline = self.offline_logs.reasons
        self.removal = Removal(workers)
        moves = self._log_moves = LogMoves(self, workers)
        self.moves = ReplicaMoves(moves, workers, moves.new_uuid)
        self._creation = LogCreation(self, moves.is_free)
        self._cutting = LogCutting(self)
        # Moves that the end of the last process has interrupted: the target directory by partition.
        self.interrupted: dict[TopicPartition, DataDirectory] = {}
        self._fail_unreadable()
        self._ends = {each.path: each.clean_broker_epoch() for each in usable(directories)}
        self.clean = {path: epoch is not None for path, epoch in self._ends.items()}
        self._previous_epoch: int | None = None
        self.same_boot = {path: is_same_boot(f"{path}/{WRITTEN_POINTS}") for path in self.clean}
        # Truncated logs that accept no appends yet. `on_settled` is called for each once that is over.
        self.truncations = Truncations(self.logs, self.offline, self.checkpoints, workers, self.has_failed)
        self.on_settled: Callable[[Log], None] = lambda log: None
        # Called for each log that is created, and for each that changes its data directory.
        self.on_placed: Callable[[str, int], None] = lambda topic, partition: None
        # Called for each log that has moved, with the data directory that it has left.
        self.on_relocated: Callable[[Log, str], None] = lambda log, root: None
        # A segment takes two descriptors; half of the descriptors of the process are left for connections.
        allowed, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        self.open_files = OpenFiles(min(settings.open_files_max, max(OPEN_FILES_MIN, allowed // 4)))
        self.totals = LogTotals()
        self._loading = LogLoading(
            self.checkpoints, self.topic_ids, self.open_files, self.totals, self.clean, self.same_boot
        )
        self.flusher = Flushers(
            directories, self.logs, self.offline, self.checkpoints, self.totals, workers,
            settings.flush_bytes, settings.note_bytes, self.suspect,
        )  # fmt: skip
        self.totals.on_damage = self.offline_logs.damaged
        self._retention = Retention(
            self.logs,
            jobs,
            self.removal,
            self._before_deletion,
            lambda done: self.flusher.write_checkpoints(checkpoints.LOG_START_OFFSETS, then=done),
            self.checkpoints.may_rename,
        )
        # `load` calls this before each directory, with the number of logs loaded so far.
        self.on_progress: Callable[[int], None] | None = None
        self._periodic = PeriodicWork(self)
        self._lost_files = LostFiles(self.logs, workers)

    def _fail_unreadable(self) -> None:
        """Take the data directories offline whose checkpoints cannot be read. Raises DataDirectoryError if the node
        cannot run without them.
        """
        for directory in self.data_directories:
            error = self.checkpoints.unreadable.get(directory.path)
            if error is not None:
                self.failures.fail(directory, error)
        needed = self.metadata_directory
        if needed.failure is None and not usable(self.data_directories):
            needed = self.data_directories[0]
        if needed.failure is not None:
            error = self.checkpoints.unreadable.get(needed.path)
            raise DataDirectoryError(needed.failure + ("" if error is None else rights_advice(error)))

    @property
    def directories(self) -> list[str]:
        """Paths of the data directories, also of those that are offline."""
        return [directory.path for directory in self.data_directories]

    def has_failed(self, root: str) -> bool:
        """Whether the disk of a data directory has failed."""
        return any(each.path == root and each.failure is not None for each in self.data_directories)

    def note_broker_epoch(self, epoch: int) -> None:
        """The broker is registered in this epoch: if it is killed, the next start can prove that nothing was lost."""
        for path in (each.path for each in usable(self.data_directories)):
            try:
                note_epoch(path, epoch)
            except OSError as error:
                # Kafka's rule holds then.
                logger.warning("could not note the broker epoch", extra=facts(path=path, reason=error))

    @property
    def previous_broker_epoch(self) -> int:
        """The broker epoch of the last process, -1 if it may have lost something. Blocks at its first use."""
        if self._previous_epoch is None:
            self._previous_epoch = previous_epoch(
                self.data_directories, self._ends, self._listing.listings, self.checkpoints.flushed_logs
            )
        return self._previous_epoch

    def found_topic_id(self, topic: str, partition: int) -> UUID | None:
        """The id of the topic whose log the start has found for a partition (StartListing). Called before `load`."""
        return self._listing.topic_id_of((topic, partition))

    @property
    def was_clean(self) -> bool:
        """Whether the last stop was a clean one, in every directory."""
        return all(self.clean.values())

    @property
    def high_watermarks(self) -> dict[TopicPartition, int]:
        """High watermarks by partition, as last checkpointed."""
        return self.checkpoints.high_watermarks

    @property
    def unopened(self) -> Mapping[TopicPartition, Unopened]:
        """Partitions whose logs are not open yet."""
        return self.opener.unopened

    @property
    def cuts(self) -> dict[str, int]:
        """Bytes that loading cut off the ends of logs, by topic-partition."""
        return self._loading.cuts

    def left_to_open(self) -> dict[str, tuple[int, int]]:
        """By path of the data directory: the logs that are not open yet, and the segments that are still to be checked
        in those that are being opened.
        """
        found = dict.fromkeys(self.directories, (0, 0))
        for unopened in self.unopened.values():
            logs, segments = found[unopened.root]
            found[unopened.root] = logs + 1, segments
        for path, count in list(self._loading.segments_left.items()):
            logs, segments = found.get(os.path.dirname(path), (0, 0))
            found[os.path.dirname(path)] = logs, segments + count
        return found

    def get(self, topic: str, partition: int) -> Log | None:
        """The log of a partition; None if there is none, it is offline (see `offline`) or not open yet."""
        return self.logs.get((topic, partition))

    def place_of(self, topic: str, partition: int) -> UUID | None:
        """The id of the data directory that has the log of a partition, or whose copy of it waits for the controller;
        LOST_DIRECTORY if the log cannot be served on a disk that works, None if no log is known.
        """
        key = (topic, partition)
        if self.offline_logs.is_lost(key):
            return LOST_DIRECTORY
        if (claim := self.moves.claim(key)) is not None:
            return claim
        if (log := self.logs.get(key)) is not None:
            root = os.path.dirname(log.directory)
        elif (unopened := self.unopened.get(key)) is not None:
            root = unopened.root
        else:
            return None
        return next((each.directory_id for each in self.data_directories if each.path == root), None)

    # --- loading

    def load_metadata_log(self, config: LogConfig, now_ms: int, directory: str | None = None) -> Log:
        """Load or create the log of the metadata quorum, in `directory` (metadata.log.dir; a data directory, the
        first by default). Raises StorageError, OSError, and DataDirectoryError if committed metadata are damaged or
        missing: then nothing was changed.
        """
        root = directory if directory is not None else self.data_directories[0].path
        path = f"{root}/{METADATA_TOPIC}-0"
        committed = self.checkpoints.recovery_points.get((METADATA_TOPIC, 0))
        if not metadata_check.check(path, committed, self.clean.get(root, False), usable(self.data_directories)):
            log = Log.create(path, METADATA_TOPIC, 0, config, now_ms, self.open_files, self.totals)
            # This has to precede the first commit in the log, whose own syncs do not include the parent directory.
            sync_directory(root)
        else:
            # Every write to it is synced before the next one, so only its end may be damaged.
            context = replace(self.context(root, now_ms), power_lost=False)
            log = load_log(path, METADATA_TOPIC, 0, config, 0, 0, context)
        self.logs[METADATA_TOPIC, 0] = log
        return log

    def metadata_committed(self, end_offset: int) -> None:
        """Note that everything in the metadata log below `end_offset` is on disk and committed, so that the next start
        has to find it. `tick` checkpoints this soon.
        """
        self.checkpoints.recovery_points[METADATA_TOPIC, 0] = end_offset
        self._periodic.metadata_committed = True

    def context(self, root: str, now_ms: int) -> LoadContext:
        settings = self.settings
        return self._loading.context(root, now_ms, settings.producer_id_expiration_ms, settings.kept_whole)

    def load(
        self,
        config_of: Callable[[str], LogConfig],
        now_ms: int,
        topic_id_of: Callable[[str, int], UUID | None] | None = None,
        *,
        late: bool = False,
        is_replicated: Callable[[str, int], bool] = lambda topic, partition: False,
        directory_id_of: Callable[[str, int], UUID | None] = lambda topic, partition: None,
        is_spare: Callable[[str, int], bool] = lambda topic, partition: False,
    ) -> None:
        """Load all logs of the data directories, recovering them if the last stop was unclean. A partition that
        cannot be served goes to `offline`; the others are not affected by that. A data directory that cannot be read
        has failed. Raises StorageError if a partition's directory cannot be renamed, and DataDirectoryError for a
        partition in two data directories (see duplicates) unless `directory_id_of` names one of them, or `is_spare`:
        the replica is neither in sync nor an eligible leader.

        `topic_id_of` returns the id of the topic of a partition, None if this broker has no such partition: the
        topic was deleted, or the partition was moved to other brokers meanwhile. A directory with another id, or
        with none, is renamed to `-stray` and kept, as in Kafka. Without `topic_id_of`, the topic id in each directory
        is accepted.

        With `late`, logs that need not be opened now are left to `opener` (see _may_open_late). `is_replicated`
        returns whether a partition has replicas on other brokers (see log_loading).
        """
        self._loading.is_replicated = is_replicated
        # Determined before anything changes.
        self._previous_epoch = self.previous_broker_epoch
        loading = DirectoryLoading(self, self._loading, self._run_all, self._may_open_late)
        loading.load(self._listing.listings, config_of, now_ms, topic_id_of, directory_id_of, is_spare, late=late)
        self._listing.drop()
        if topic_id_of is not None:
            self.checkpoints.accept_missing(topic_id_of)
        self.checkpoints.loaded()
        self.flusher.sync_loaded(self.logs.values())
        # The next start has to know whether the machine was restarted. This is noted before anything is served, because
        # otherwise damage to what is written from now on would be taken for a torn write.
        self.flusher.note_start()
        if any(self._start_moved(key, log) for key, log in self.logs.items()):
            # Deletions that only names of segments show must not be exposed to a power loss for longer than those of a
            # broker that keeps running.
            self.flusher.write_checkpoints(checkpoints.LOG_START_OFFSETS)

    def _start_moved(self, key: TopicPartition, log: Log) -> bool:
        """Whether only the names of segments show that records were deleted."""
        return log.log_start_offset > self.checkpoints.log_starts.get(key, 0)

    def _may_open_late(self, key: TopicPartition, context: LoadContext) -> bool:
        """Whether a log, without a failed sync, may be opened after the start.

        Not after a power loss: the written points that the start writes mean that the machine has not restarted since,
        so every log must be recovered by then. Not the topics that the broker itself needs.
        """
        if context.power_lost and not context.clean:
            return False
        return key[0] not in self.settings.kept_whole

    # --- opening after the start

    def _opened_late(self, partition: Unopened, log: Log | None, error: Exception | None) -> None:
        key = partition.key
        is_again = self.offline_logs.end_reopening(key)
        if log is None:
            self.offline_logs.take_unopened(partition, error, is_again=is_again)
        elif self.has_failed(partition.root):
            # The worker has found it in the page cache, or before the disk failed.
            log_flush.mark_closed(log)
            self.offline[key] = f"the data directory {partition.root} failed while the log was opened"
        else:
            self._loading.adopt(log)
            self._add_late(key, log)
        self.on_opened(key)

    def _add_late(self, key: TopicPartition, log: Log) -> None:
        """Serve a log that was opened after the start."""
        self.add(key, log)
        if self._start_moved(key, log):
            self.flusher.write_checkpoints(checkpoints.LOG_START_OFFSETS)

    def resume_move(self, key: TopicPartition) -> None:
        """Begin again to move the log of a partition, if the end of the last process has interrupted that."""
        target, log = self.interrupted.pop(key, None), self.logs[key]
        if target is not None and target.failure is None and os.path.dirname(log.directory) != target.path:
            self.moves.start(key, log, target)

    def add(self, key: TopicPartition, log: Log) -> None:
        self.logs[key] = log
        self.resume_move(key)
        if self.cleaner is not None:
            # A log that was lost and created again under its topic id ends before its cleaned offset if its cleaner
            # checkpoint could not be written then.
            self.cleaner.truncated(key, log.log_end_offset)

    def _directory_failed(self, directory: DataDirectory) -> None:
        """Take all logs of a data directory offline, in memory alone: nothing can be noted there (KAFKA-19289)."""
        for key, log in self.logs.items():
            if key[0] != METADATA_TOPIC and os.path.dirname(log.directory) == directory.path:
                log.lose_disk(str(directory.failure))
        self.moves.lose_directory(directory.path)
        self.checkpoints.drop(directory.path)
        if self.cleaner is not None:
            self.cleaner.drop(directory.path)
        self.on_directory_failed(directory)
        for key in self.opener.fail(directory.path):
            self.offline[key] = str(directory.failure)
            self.on_opened(key)

    def suspect(self, path: str | None, error: BaseException) -> None:
        """An access to `path` failed, see `failures`. If only a log goes offline, its place has changed."""
        self.failures.suspect(path, error)
        if path is not None:
            self._lost_files.suspect(path, error)
            self.offline_logs.consider(path)

    def reopen(self, key: TopicPartition, config_of: Callable[[str], LogConfig], now_ms: int) -> None:
        """Try again, in a worker, to load a partition that `offline_logs.may_reopen`. `on_opened` is called when it is
        served, or offline again.
        """
        path = self.offline_logs.begin_reopening(key)
        context = replace(self.context(os.path.dirname(path), now_ms), clean=False)
        prepare = partial(self._loading.late, key, path, config_of, context, rereads=True)
        self.opener.add(Unopened(key, os.path.dirname(path), path, False, prepare))
        self.opener.ask(key)

    # --- creating and deleting partitions

    def create(
        self,
        topic: str,
        partition: int,
        topic_id: UUID,
        config: LogConfig,
        now_ms: int,
        directory_id: UUID = UNASSIGNED_DIRECTORY,
    ) -> Log:
        """Create an empty log in the data directory with the id `directory_id`, or if there is none, in that of
        `placement`, or in the next one if that fails (KAFKA-8526). The log begins at offset 0, or at its checkpointed
        start offset if its directory was lost in a power loss. Raises StorageError, or ValueError if it exists.
        """
        key = (topic, partition)
        if key in self.logs or key in self.offline or key in self.unopened:
            raise ValueError(f"partition {topic}-{partition} already exists")
        log = self._creation.create(key, topic_id, config, now_ms, directory_id)
        self.logs[key] = log
        self.topic_ids[key] = topic_id
        if self.cleaner is not None:
            self.cleaner.forget(key)
            self.cleaner.accept(key, topic_id)
        self.on_placed(topic, partition)
        return log

    def delete(self, topic: str, partition: int) -> None:
        """Delete a partition: its directory is renamed now and removed after file.delete.delay.ms. Does nothing for an
        unknown partition. Waits for a worker that is opening it. Raises StorageError.
        """
        key = (topic, partition)
        self.moves.cancel(key)
        self.interrupted.pop(key, None)
        unopened = self.opener.drop(key)
        log = self.logs.pop(key, None)
        reason = self.offline_logs.forget(key)
        topic_id = self.topic_ids.pop(key, NO_TOPIC_ID)
        self.checkpoints.forget(key)
        if self.cleaner is not None:
            self.cleaner.forget(key)
        if log is not None:
            log_flush.mark_closed(log)
            self.placement.remove(os.path.dirname(log.directory))
            self.rename_away(log.directory, "delete", topic_id, log.config.file_delete_delay_ms)
        elif unopened is not None:
            self.placement.remove(os.path.dirname(unopened.path))
            self.rename_away(unopened.path, "delete", topic_id, 0)
        elif reason is not None:
            for each in usable(self.data_directories):
                path = f"{each.path}/{topic}-{partition}"
                if os.path.isdir(path) and self._log_moves.is_free(path):
                    self.placement.remove(each.path)
                    self.rename_away(path, "delete", topic_id, 0)

    def rename_away(self, path: str, mark: str, topic_id: UUID, delay_ms: int) -> None:
        """Rename a partition's directory to `<name>.<uuid>-<mark>`; after a delay of at least 0, remove it. On a disk
        that failed, the directory stays: if the disk comes back, its topic id shows that it is a stray.
        """
        if self.has_failed(os.path.dirname(path)) or not os.path.isdir(path):
            return
        try:
            target = rename_away(path, mark, topic_id)
        except OSError as error:
            raise StorageError(f"cannot rename {path}: {error.strerror}") from error
        if delay_ms >= 0:
            self.removal.directory(target, delay_ms)

    # --- truncation and old records

    def truncate_to(self, log: Log, offset: int, now_ms: int, done: Callable[[], None]) -> bool:
        """Drop everything at or after `offset` (log_truncation.truncate_to). If it returns True, nothing may be
        appended until `done()` is called, on the loop and after this turn: see Truncations. Raises OffsetOutOfRange,
        StorageError.
        """
        return self._cutting.truncate_to(log, offset, now_ms, done)

    def restart_at(self, log: Log, offset: int, now_ms: int, done: Callable[[], None]) -> None:
        """Replace a log by an empty one that begins at `offset` (log_truncation.restart_at). Nothing may be appended
        until `done()` is called, as in `truncate_to`. Raises StorageError.
        """
        self._cutting.restart_at(log, offset, now_ms, done)

    def delete_records_before(self, log: Log, offset: int, now_ms: int | None = None) -> None:
        """Move a log's start offset (KIP-107); segments before it are removed after file.delete.delay.ms. Raises
        OffsetOutOfRange, StorageError.
        """
        self._retention.delete_before(log, offset, now_ms if now_ms is not None else max(log.last_append_ms, 0))

    def apply_retention(
        self, now_ms: int, high_watermark_of: Callable[[str, int], int], *, compacted: bool = False
    ) -> None:
        """Delete segments by retention.ms and retention.bytes: those of the logs that are also compacted if `compacted`
        is true, otherwise those of the other logs.
        """
        self._retention.apply(
            now_ms,
            high_watermark_of,
            compacted=compacted,
            busy=lambda key: self.cleaner is not None and key in self.cleaner.running,
        )

    def _before_deletion(self, key: TopicPartition) -> None:
        if self.cleaner is not None:
            self.cleaner.abort(key)

    # --- periodic work

    def tick(self, now_ms: int, high_watermark_of: Callable[[str, int], int]) -> None:
        """Do the work that is due: flush, checkpoints, producer expiry, retention. Cheap if nothing is due; call it
        about once a second.
        """
        self._periodic.tick(now_ms, high_watermark_of)
        self.rooms.tick(now_ms)

    def flush_old(self, now_ms: int) -> None:
        """Flush the logs whose flush.ms has passed, in a worker. `tick` does this every flush_check_interval_ms; it is
        called separately if that interval is shorter than that of the ticks. Cheap if nothing is due.
        """
        self._periodic.flush_old(now_ms)

    def close(self, high_watermark_of: Callable[[str, int], int], broker_epoch: int = -1) -> None:
        """Stop cleanly: sync everything, write checkpoints and the marks of a clean stop, unlock the directories.
        Blocks; nothing may be staged.
        """
        for key in self.logs:
            self.high_watermarks[key] = high_watermark_of(*key)
        self.flusher.stop(broker_epoch)
        for directory in dict.fromkeys([*self.data_directories, self.metadata_directory]):
            directory.close()
