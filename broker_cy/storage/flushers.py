"""The flushers of all data directories, one for each: a disk that is slow delays no other one."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterable, Sequence

from broker_cy.core.logs import facts
from broker_cy.storage import damage, log_flush
from broker_cy.storage.checkpoints import LOG_START_OFFSETS, TopicPartition
from broker_cy.storage.data_directory import DataDirectory
from broker_cy.storage.disk_workers import DiskWorkers
from broker_cy.storage.flusher import FLUSH_BYTES, NOTE_BYTES, Flusher, complete_loaded_sync, sync_is_due
from broker_cy.storage.log import Log
from broker_cy.storage.log_slice import LogTotals
from broker_cy.storage.offset_checkpoints import OffsetCheckpoints
from broker_cy.storage.written_points import WRITTEN_POINTS

logger = logging.getLogger(__name__)


class Flushers:
    """`start` and `note` when the bytes in `totals` require it; everything else on demand."""

    def __init__(
        self,
        directories: Sequence[DataDirectory],
        logs: dict[TopicPartition, Log],
        offline: dict[TopicPartition, str],
        checkpoints: OffsetCheckpoints,
        totals: LogTotals,
        workers: DiskWorkers,
        flush_bytes: int = FLUSH_BYTES,
        note_bytes: int = NOTE_BYTES,
        on_error: Callable[[str | None, BaseException], None] = lambda path, error: None,
    ) -> None:
        """Arguments as those of Flusher."""
        self._checkpoints = checkpoints
        self._totals = totals
        self._workers = workers
        self._flush_bytes = flush_bytes
        self._first = directories[0].path
        self._of: dict[str, Flusher] = {
            each.path: Flusher(
                each,
                logs,
                offline,
                checkpoints,
                totals,
                workers.of(each.path),
                workers.notes_of(each.path),
                on_error,
                self._owner(each.path, len(directories) == 1),
            )
            for each in directories
        }
        totals.due_bytes = min(flush_bytes, note_bytes)
        # Soon, but not in the middle of an append.
        totals.on_due = lambda: workers.of(self._first).later(0, self._due)

    def _owner(self, root: str, is_only: bool) -> Callable[[Log], bool]:
        """Whether a log belongs to the flusher of `root`. The metadata log may be in a directory without one."""
        if is_only:
            return lambda log: True
        return lambda log: self._root(log) == root

    def _root(self, log: Log) -> str:
        root = os.path.dirname(log.directory)
        return root if root in self._of else self._first

    @property
    def failed(self) -> bool:
        """Whether the last flush of a directory failed, because its disk is full or broken."""
        return any(each.failed for each in self._served())

    def _served(self) -> list[Flusher]:
        return [each for each in self._of.values() if each.directory.failure is None]

    def _due(self) -> None:
        if self._totals.unflushed_bytes >= self._flush_bytes:
            self.start()
        # Also while a flush runs: it may take minutes, and later writes wait for the next one.
        self.note()

    def sync_note(self, directory: str) -> None:
        """Sync the damage note in a log's directory, in a worker."""

        def done(_: None, error: BaseException | None) -> None:
            if error is not None:
                logger.error("could not sync a damage note", extra=facts(path=directory, reason=error))

        self._workers.of(directory).run(lambda: damage.sync(directory), done)

    def note(self) -> None:
        """Flusher.note of each directory."""
        for each in self._served():
            each.note()

    def note_start(self) -> None:
        """Write the written points of the logs as they were loaded. Blocks for one write without a sync. The first
        start in a data directory, and one after deletions that could not be checkpointed, sync the log starts, too.
        """
        names = [WRITTEN_POINTS] if self._checkpoints.starts_are_saved else [LOG_START_OFFSETS, WRITTEN_POINTS]
        for each in self._served():
            each.write_now(names)

    def start(self, logs: Iterable[Log] | None = None, now_ms: int = -1) -> None:
        """Flusher.start of each directory, with its part of `logs`."""
        if logs is None:
            for each in self._served():
                each.start(None, now_ms)
            return
        parts: dict[str, list[Log]] = {}
        for log in logs:
            parts.setdefault(self._root(log), []).append(log)
        for root, part in parts.items():
            if self._of[root].directory.failure is None:
                self._of[root].start(part, now_ms)

    def write_checkpoints(self, *names: str, then: Callable[[], None] | None = None) -> None:
        """Flusher.write_checkpoints of each directory; `then` is called after the last of them."""
        served = self._served()
        left = len(served)

        def written() -> None:
            nonlocal left
            left -= 1
            if not left and then is not None:
                then()

        for each in served:
            each.write_checkpoints(*names, then=None if then is None else written)

    def sync_loaded(self, logs: Iterable[Log]) -> None:
        """Sync the just loaded logs whose flush.messages requires it: from now on the records that a killed process
        left in the page cache are served, and acknowledged to producers that resend them. Blocks. If it fails, the log
        goes offline.
        """
        pending = [(log, log_flush.begin_sync(log)) for log in logs if sync_is_due(log)]
        for flusher in self._served():
            part = [each for each in pending if self._of[self._root(each[0])] is flusher]
            for _, job in flusher.not_synced_together(part):
                job.run()
        for log, job in pending:
            complete_loaded_sync(log, job)

    def stop(self, broker_epoch: int) -> None:
        """Flusher.stop of each directory."""
        for each in self._of.values():
            each.stop(broker_epoch)
