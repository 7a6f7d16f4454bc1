"""Flushing the logs of one data directory to disk: in a worker while the broker runs, and completely when it stops.
Each directory has a flusher and workers of its own (storage.flushers): a disk does not wait for another one.

The amount that a start after a crash has to read is bounded. The page cache outlives the process, so a killed broker
loses no data. After each NOTE_BYTES, a note records the end offsets of the complete parts of the logs; it needs no sync
(storage.written_points). The start after a kill reads about 2 * NOTE_BYTES and NOTE_LOG_BYTES of each log. Notes have a
separate worker: after a flush, which takes as long as the disk does, they would be minutes late. As in Kafka, only a
power loss can lose data that was not flushed. A flush runs with each checkpoint
(log.flush.offset.checkpoint.interval.ms) and once FLUSH_BYTES wait for it; recovery points follow immediately. By then
the kernel has written most of the data by itself: a flush each 256 MiB would cost a tenth of the CPU time of writing,
and stall the writers.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterable
from typing import TypeVar

from broker_cy.core.logs import facts
from broker_cy.storage import disk, log_flush, offset_checkpoints, syncs
from broker_cy.storage.checkpoints import RECOVERY_POINTS, TopicPartition
from broker_cy.storage.data_directory import DataDirectory
from broker_cy.storage.errors import StorageError
from broker_cy.storage.flush_job import FlushJob
from broker_cy.storage.jobs import Jobs
from broker_cy.storage.log import Log
from broker_cy.storage.log_slice import LogTotals
from broker_cy.storage.offset_checkpoints import Content, OffsetCheckpoints
from broker_cy.storage.sync_job import SyncJob
from broker_cy.storage.written_points import WRITTEN_POINTS

logger = logging.getLogger(__name__)

# Bytes that wait for a flush until one starts, and bytes written since the last note. See the module's docstring.
FLUSH_BYTES = 4 << 30
NOTE_BYTES = 256 << 20
# A log with fewer new bytes is not noted: with thousands of partitions, notes would cost more than reading the logs.
NOTE_LOG_BYTES = 64 << 10
# From this many files on, the file system is synced instead of each file.
SYNC_FILES_MAX = 64

J = TypeVar("J", FlushJob, SyncJob)
Pending = list[tuple[Log, FlushJob]]


def _path(log: Log) -> str:
    """Return the sort key of logs, so that their order is the same in every run and a simulation can be repeated."""
    return log.directory


class Flusher:
    """Flushes the logs in `logs` (the log manager's, by partition) that are in `directory`, and writes their
    checkpoints.
    """

    def __init__(
        self,
        directory: DataDirectory,
        logs: dict[TopicPartition, Log],
        offline: dict[TopicPartition, str],
        checkpoints: OffsetCheckpoints,
        totals: LogTotals,
        jobs: Jobs,
        note_jobs: Jobs,
        on_error: Callable[[str | None, BaseException], None],
        owns: Callable[[Log], bool],
    ) -> None:
        """`note_jobs` has the worker for the notes. `on_error` is called with each failure and its path, None if
        unknown. `owns` says whether a log is in the directory.
        """
        self.directory = directory
        self.logs = logs
        self.offline = offline
        self.checkpoints = checkpoints
        self.totals = totals
        self.jobs = jobs
        self.note_jobs = note_jobs
        self._on_error = on_error
        self._owns = owns
        self._running = False
        self._again = False
        self._asked: dict[Log, None] = {}
        self._writing = False
        self._names_due: set[str] = set()
        # Called after the next write. Bounded: see `write_checkpoints`.
        self._then_due: list[Callable[[], None]] = []
        # Whether the last flush failed, because the disk is full or broken.
        self.failed = False
        # The time of the last call of `start` that passed it.
        self._now_ms = -1
        self._noting = False
        # A file could not be written, as a sync of the whole file system has reported.
        self._has_file_errors = False

    def _dirty(self) -> list[Log]:
        return sorted(filter(self._owns, self.totals.dirty), key=_path)

    def _collect(self, names: Iterable[str]) -> list[Content]:
        return self.checkpoints.collect(names, self.logs, self.offline, (self.directory.path,))

    def note(self) -> None:
        """Advance the written points, in a worker, and checkpoint them. Does nothing while a note is under way: writes
        during it trigger the next note.
        """
        if self._noting:
            return
        pending: Pending = []
        for log in self._dirty():
            if log.unnoted_bytes >= NOTE_LOG_BYTES and log.offline is None:
                try:
                    pending.append((log, log_flush.begin_note(log)))
                except StorageError as error:  # a start after a kill reads more, and nothing is lost
                    logger.warning("could not advance the written point", extra=facts(reason=error))
        self._noting = True

        def write() -> None:
            for _, job in pending:
                job.note()

        def done(_: None, error: BaseException | None) -> None:
            for log, job in pending:
                log_flush.complete_note(log, job)
                if job.error is not None and not log.closed:
                    self._on_error(log.directory, job.error)
            wanted = self._collect([WRITTEN_POINTS])
            self.note_jobs.run(lambda: self.checkpoints.write(wanted), noted)

        def noted(_: None, error: BaseException | None) -> None:
            self._noting = False
            if error is not None:
                self._note_failure("could not write checkpoints", error)

        self.note_jobs.run(write, done)

    def write_now(self, names: Iterable[str]) -> None:
        """Write the named checkpoints; blocks."""
        try:
            self.checkpoints.write(self._collect(names))
        except OSError as error:
            self._note_failure("could not write checkpoints", error)

    def start(self, logs: Iterable[Log] | None = None, now_ms: int = -1) -> None:
        """Flush `logs` (all of the directory by default) in a worker; then their recovery points move and are
        checkpointed. At most one flush runs at a time; logs that are requested during it are flushed after it.
        """
        self._now_ms = max(self._now_ms, now_ms)
        if self._running:
            if logs is None:
                self._again = True
            else:
                self._asked.update(dict.fromkeys(logs))
            return
        pending: Pending = []
        self.failed = False
        for log in self._dirty() if logs is None else sorted(logs, key=_path):
            try:
                job = log_flush.begin_flush(log)
            except StorageError as error:
                self._note_failure("could not advance the recovery point", error, log.directory)
                continue
            if job is not None:
                job.begun_ms = self._now_ms
                pending.append((log, job))
        self._running = True

        def done(_: None, error: BaseException | None) -> None:
            self._running = False
            if error is not None:
                self._note_failure("flush failed", error)
                return
            self._complete(pending)
            self.write_checkpoints(RECOVERY_POINTS)
            asked = None if self._again else self._asked
            self._again, self._asked = False, {}
            if asked is None or asked:
                self.start(asked)

        self.jobs.run(lambda: self._sync(pending), done)

    def _note_failure(self, event: str, error: BaseException, path: str | None = None) -> None:
        """Log a failure, once per flush: the other logs most likely fail for the same reason."""
        if not self.failed:
            logger.error(event, extra=facts(reason=error))
        self.failed = True
        self._on_error(error.filename if isinstance(error, OSError) else path, error)

    def _complete(self, pending: Pending) -> bool:
        """Advance the recovery points; return whether all of them could be."""
        is_complete = True
        for log, job in pending:
            try:
                log_flush.complete_flush(log, job)
            except StorageError as error:
                is_complete = False
                self._note_failure("could not advance the recovery point", error, log.directory)
        return is_complete

    def write_checkpoints(self, *names: str, then: Callable[[], None] | None = None) -> None:
        """Write the named checkpoints (all by default) in a worker. At most one write runs at a time, so that a burst
        of deletions needs neither all workers nor a write each; names that are passed during it are written after it.
        `then()` is called on the loop after the write, also if that failed; the caller waits for this call before it
        passes another one.
        """
        self._names_due.update(names or offset_checkpoints.ALL)
        if then is not None:
            self._then_due.append(then)
        if self._writing:
            return
        wanted = self._collect(self._names_due)
        self._names_due.clear()
        waiting, self._then_due = self._then_due, []
        self._writing = True

        def done(_: None, error: BaseException | None) -> None:
            self._writing = False
            if error is not None:
                self._note_failure("could not write checkpoints", error)
            for each in waiting:
                each()
            if self._names_due:
                self.write_checkpoints(*self._names_due)

        self.jobs.run(lambda: self.checkpoints.write(wanted), done)

    def stop(self, broker_epoch: int) -> None:
        """Sync everything, write checkpoints, close the logs and mark the stop as clean, except if any of that failed
        (which is logged). Blocks; nothing may be staged.
        """
        root, has_failed = self.directory.path, self.directory.failure is not None
        # The content of logs that are offline is not known: the next start, also one of Kafka, has to check it.
        is_clean = has_failed or not any(os.path.isdir(f"{root}/{topic}-{index}") for topic, index in self.offline)
        is_clean = (has_failed or self._sync_unopened()) and is_clean
        pending: Pending = []
        self.failed = False
        logs = list(filter(self._owns, self.logs.values()))
        for log in logs:
            if log.offline is not None:
                is_clean = False
                if log.sync_failed and not has_failed:
                    # The disk may have refused the note of that, too, and have room for it by now.
                    syncs.mark_failed(log.directory)
                continue
            try:
                log_flush.complete_active(log)
                job = log_flush.begin_flush(log)
            except (StorageError, OSError) as error:
                is_clean = False
                logger.error("could not complete a log", extra=facts(path=log.directory, reason=error))
                continue
            if job is not None:
                pending.append((log, job))
        self._sync(pending)
        is_clean = self._complete(pending) and is_clean
        wanted = [] if has_failed else self._collect(offset_checkpoints.ALL)
        for log in logs:
            if log.offline is None:
                try:
                    log_flush.close(log)
                except (StorageError, OSError) as error:
                    is_clean = False
                    logger.error("could not close a log", extra=facts(path=log.directory, reason=error))
        try:
            self.checkpoints.write(wanted)
        except OSError as error:
            logger.error("could not write checkpoints", extra=facts(path=root, reason=error))
            return
        if is_clean and not has_failed:
            try:
                self.directory.mark_clean(broker_epoch)
            except OSError as error:
                logger.error("could not mark the stop as clean", extra=facts(path=root, reason=error))

    def _sync_unopened(self) -> bool:
        """Sync the logs that are not open yet, except those that are unchanged since a clean stop. Returns whether none
        needed it: the next start has to recover them.
        """
        root = self.directory.path
        unopened = [
            each
            for each in self.checkpoints.unopened.values()
            if (each.begun or not each.was_clean) and os.path.dirname(each.path) == root
        ]
        if unopened:
            try:
                disk.sync_filesystem(root)
            except OSError as error:
                logger.error("could not sync a file system", extra=facts(path=root, reason=error))
                for each in unopened:
                    syncs.mark_failed(each.path)
        return not unopened

    def _sync(self, pending: Pending) -> None:
        """Run the jobs; called in a worker."""
        for _, job in pending:
            job.run()
        for _, job in self.not_synced_together([(log, job) for log, job in pending if job.error is None]):
            job.sync()
        for _, job in pending:
            if job.error is None:
                job.remove_superseded()

    def not_synced_together(self, pending: list[tuple[Log, J]]) -> list[tuple[Log, J]]:
        """The jobs whose files have to be synced one by one. With many files, the whole file system is synced instead.

        If that fails, some file has an error, maybe one of another program. Then each file is synced, which still
        reports its own error. The file system reports its error only once, and is not synced as a whole again.
        """
        if sum(len(job.paths) for _, job in pending) <= SYNC_FILES_MAX:
            return pending
        if not self._has_file_errors:
            try:
                disk.sync_filesystem(self.directory.path)
            except OSError as error:
                logger.error("could not sync a file system", extra=facts(path=self.directory.path, reason=error))
                self._has_file_errors = True
        return pending if self._has_file_errors else []


def sync_one_loaded(log: Log) -> None:
    """Flusher.sync_loaded for one log, in the worker that loaded it."""
    if sync_is_due(log):
        job = log_flush.begin_sync(log)
        job.run()
        complete_loaded_sync(log, job)


def sync_is_due(log: Log) -> bool:
    """Whether flush.messages requires a sync of a log that was just loaded."""
    unsynced = log.written_end_offset - log.synced_end_offset
    return log.offline is None and unsynced >= log.config.flush_messages


def complete_loaded_sync(log: Log, job: SyncJob) -> None:
    """Report the end of that sync. If it failed, the log is offline."""
    try:
        log_flush.complete_sync(log, job)
    except StorageError as error:
        logger.error("partition offline", extra=facts(path=log.directory, reason=error))
