"""Flushing the logs of a broker to disk: in a worker while it runs, and completely when it stops.

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
from broker_cy.storage import damage, disk, log_flush, offset_checkpoints, syncs
from broker_cy.storage.checkpoints import LOG_START_OFFSETS, RECOVERY_POINTS, TopicPartition
from broker_cy.storage.data_directory import DataDirectory
from broker_cy.storage.errors import StorageError
from broker_cy.storage.flush_job import FlushJob
from broker_cy.storage.jobs import Jobs
from broker_cy.storage.log import Log
from broker_cy.storage.log_opener import Unopened
from broker_cy.storage.log_slice import LogTotals
from broker_cy.storage.offset_checkpoints import OffsetCheckpoints
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


def _directory(log: Log) -> str:
    """Return the sort key of logs, so that their order is the same in every run and a simulation can be repeated."""
    return log.directory


class Flusher:
    """Flushes the logs in `logs` (the log manager's, by partition) and writes their checkpoints."""

    def __init__(
        self,
        logs: dict[TopicPartition, Log],
        offline: dict[TopicPartition, str],
        checkpoints: OffsetCheckpoints,
        totals: LogTotals,
        jobs: Jobs,
        flush_bytes: int = FLUSH_BYTES,
        note_bytes: int = NOTE_BYTES,
        note_jobs: Jobs | None = None,
        on_error: Callable[[str | None, BaseException], None] = lambda path, error: None,
    ) -> None:
        """`note_jobs` has the worker for the notes; None: `jobs`. `on_error` is called with each failure and its path,
        None if unknown.
        """
        self.logs = logs
        self.offline = offline
        self.checkpoints = checkpoints
        self.totals = totals
        self.jobs = jobs
        self.note_jobs = note_jobs or jobs
        self._on_error = on_error
        self._running = False
        self._again = False
        self._asked: dict[Log, None] = {}
        self._writing = False
        self._names_due: set[str] = set()
        # Called after the next write. Bounded: see `write_checkpoints`.
        self._then_due: list[Callable[[], None]] = []
        # Whether the last flush failed, because the disk is full or broken.
        self.failed = False
        self.flush_bytes = flush_bytes
        # The time of the last call of `start` that passed it.
        self._now_ms = -1
        self._noting = False
        # Data directories with a file that could not be written, as a sync of the whole file system has reported.
        self._roots_with_errors: set[str] = set()
        totals.due_bytes = min(flush_bytes, note_bytes)
        # Soon, but not in the middle of an append.
        totals.on_due = lambda: jobs.later(0, self._due)
        totals.on_damage = self._sync_note

    def _due(self) -> None:
        if self.totals.unflushed_bytes >= self.flush_bytes:
            self.start()
        # Also while a flush runs: it may take minutes, and later writes wait for the next one.
        self.note()

    def _sync_note(self, directory: str) -> None:
        """Sync the damage note in a log's directory, in a worker."""

        def done(_: None, error: BaseException | None) -> None:
            if error is not None:
                logger.error("could not sync a damage note", extra=facts(path=directory, reason=error))

        self.jobs.run(lambda: damage.sync(directory), done)

    def note(self) -> None:
        """Advance the written points, in a worker, and checkpoint them. Does nothing while a note is under way: writes
        during it trigger the next note.
        """
        if self._noting:
            return
        pending: Pending = []
        for log in sorted(self.totals.dirty, key=_directory):
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
            wanted = self.checkpoints.collect([WRITTEN_POINTS], self.logs, self.offline)
            self.note_jobs.run(lambda: self.checkpoints.write(wanted), noted)

        def noted(_: None, error: BaseException | None) -> None:
            self._noting = False
            if error is not None:
                self._note_failure("could not write checkpoints", error)

        self.note_jobs.run(write, done)

    def note_start(self) -> None:
        """Write the written points of the logs as they were loaded. Blocks for one write without a sync. The first
        start in a data directory, and one after deletions that could not be checkpointed, sync the log starts, too.
        """
        names = [WRITTEN_POINTS] if self.checkpoints.starts_are_saved else [LOG_START_OFFSETS, WRITTEN_POINTS]
        try:
            self.checkpoints.write(self.checkpoints.collect(names, self.logs, self.offline))
        except OSError as error:
            self._note_failure("could not write checkpoints", error)

    def start(self, logs: Iterable[Log] | None = None, now_ms: int = -1) -> None:
        """Flush `logs` (all by default) in a worker; then their recovery points move and are checkpointed. At most one
        flush runs at a time; logs that are requested during it are flushed after it.
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
        for log in sorted(self.totals.dirty if logs is None else logs, key=_directory):
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

    def _complete(self, pending: Pending) -> set[str]:
        """Advance the recovery points; return the data directories with a failure."""
        failed = set()
        for log, job in pending:
            try:
                log_flush.complete_flush(log, job)
            except StorageError as error:
                failed.add(os.path.dirname(log.directory))
                self._note_failure("could not advance the recovery point", error, log.directory)
        return failed

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
        wanted = self.checkpoints.collect(self._names_due, self.logs, self.offline)
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

    def sync_loaded(self, logs: Iterable[Log]) -> None:
        """Sync the just loaded logs whose flush.messages requires it: from now on the records that a killed process
        left in the page cache are served, and acknowledged to producers that resend them. Blocks. If it fails, the log
        goes offline.
        """
        pending = [(log, log_flush.begin_sync(log)) for log in logs if _sync_is_due(log)]
        for _, job in self._not_synced_together(pending):
            job.run()
        for log, job in pending:
            _complete_sync(log, job)

    def stop(self, directories: list[DataDirectory], broker_epoch: int) -> None:
        """Sync everything, write checkpoints, close the logs and mark the stop as clean, except in a directory where
        any of that failed (which is logged). Blocks; nothing may be staged.
        """
        # The content of logs that are offline is not known: the next start, also one of Kafka, has to check it.
        failed = {
            directory.path
            for topic, partition in self.offline
            for directory in directories
            if os.path.isdir(f"{directory.path}/{topic}-{partition}")
        }
        failed |= self._sync_unopened()
        pending: Pending = []
        self.failed = False
        for log in self.logs.values():
            if log.offline is not None:
                failed.add(os.path.dirname(log.directory))
                if log.sync_failed:
                    # The disk may have refused the note of that, too, and have room for it by now.
                    syncs.mark_failed(log.directory)
                continue
            try:
                log_flush.complete_active(log)
                job = log_flush.begin_flush(log)
            except (StorageError, OSError) as error:
                failed.add(os.path.dirname(log.directory))
                logger.error("could not complete a log", extra=facts(path=log.directory, reason=error))
                continue
            if job is not None:
                pending.append((log, job))
        self._sync(pending)
        failed |= self._complete(pending)
        wanted = self.checkpoints.collect(offset_checkpoints.ALL, self.logs, self.offline)
        for log in self.logs.values():
            if log.offline is None:
                try:
                    log_flush.close(log)
                except (StorageError, OSError) as error:
                    failed.add(os.path.dirname(log.directory))
                    logger.error("could not close a log", extra=facts(path=log.directory, reason=error))
        try:
            self.checkpoints.write(wanted)
        except OSError as error:
            logger.error("could not write checkpoints", extra=facts(reason=error))
            return
        for directory in directories:
            if directory.path not in failed:
                try:
                    directory.mark_clean(broker_epoch)
                except OSError as error:
                    logger.error("could not mark the stop as clean", extra=facts(path=directory.path, reason=error))

    def _sync_unopened(self) -> set[str]:
        """Sync the logs that are not open yet, except those that are unchanged since a clean stop. Returns the data
        directories of the logs that needed it: the next start has to recover them.
        """
        unopened: dict[str, list[Unopened]] = {}
        for each in self.checkpoints.unopened.values():
            if each.begun or not each.was_clean:
                unopened.setdefault(os.path.dirname(each.path), []).append(each)
        for root, partitions in unopened.items():
            try:
                disk.sync_filesystem(root)
            except OSError as error:
                logger.error("could not sync a file system", extra=facts(path=root, reason=error))
                for each in partitions:
                    syncs.mark_failed(each.path)
        return set(unopened)

    def _sync(self, pending: Pending) -> None:
        """Run the jobs; called in a worker."""
        for _, job in pending:
            job.run()
        for _, job in self._not_synced_together([(log, job) for log, job in pending if job.error is None]):
            job.sync()
        for _, job in pending:
            if job.error is None:
                job.remove_superseded()

    def _not_synced_together(self, pending: list[tuple[Log, J]]) -> list[tuple[Log, J]]:
        """The jobs whose files have to be synced one by one. With many files, the whole file system is synced instead.

        If that fails, some file has an error, maybe one of another program. Then each file is synced, which still
        reports its own error. The file system reports its error only once, and is not synced as a whole again.
        """
        if sum(len(job.paths) for _, job in pending) <= SYNC_FILES_MAX:
            return pending
        for root in sorted({os.path.dirname(log.directory) for log, _ in pending} - self._roots_with_errors):
            try:
                disk.sync_filesystem(root)
            except OSError as error:
                logger.error("could not sync a file system", extra=facts(path=root, reason=error))
                self._roots_with_errors.add(root)
        return [(log, job) for log, job in pending if os.path.dirname(log.directory) in self._roots_with_errors]


def sync_one_loaded(log: Log) -> None:
    """Flusher.sync_loaded for one log, in the worker that loaded it."""
    if _sync_is_due(log):
        job = log_flush.begin_sync(log)
        job.run()
        _complete_sync(log, job)


def _sync_is_due(log: Log) -> bool:
    unsynced = log.written_end_offset - log.synced_end_offset
    return log.offline is None and unsynced >= log.config.flush_messages


def _complete_sync(log: Log, job: SyncJob) -> None:
    try:
        log_flush.complete_sync(log, job)
    except StorageError as error:
        logger.error("partition offline", extra=facts(path=log.directory, reason=error))
