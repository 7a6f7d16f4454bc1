"""Old records: retention.ms and retention.bytes, and segments before the log start offset (Kafka's deleteOldSegments).

The offset moves immediately, and readers no longer see records before it. A worker then writes the checkpoint of log
start offsets, and no file is renamed before that: after a power loss, a log has lost its missing first segments unless
the checkpoint shows that they were deleted (log_loading.py). If the checkpoint cannot be written, the lack of deletions
is noted, and the files are still renamed, because a deletion must free space on a full disk. The loop renames the files
of a few segments in each turn, so that deleting thousands delays no client; they are removed after
file.delete.delay.ms.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Mapping

from broker_cy.core.logs import facts
from broker_cy.storage import log_deletion
from broker_cy.storage.checkpoints import TopicPartition
from broker_cy.storage.data_directory import METADATA_TOPIC
from broker_cy.storage.errors import StorageError
from broker_cy.storage.jobs import Jobs
from broker_cy.storage.log import Log
from broker_cy.storage.removal import Removal

logger = logging.getLogger(__name__)

# Segments whose files are renamed in one turn of the loop, of all logs together: five files each.
SEGMENTS_PER_TURN = 64
# The end of the new name of a segment's records.
RENAMED = ".log.deleted"


class Retention:
    """Deletes from the logs in `logs` (the log manager's, by partition). Everything is called on the loop.

    `before_deletion(key)` is called each time before a log loses segments. `save_starts(done)` checkpoints the log
    start offsets as they are now, in a worker, and then calls `done()`, also if that failed. `may_rename(root)` is
    OffsetCheckpoints.may_rename.
    """

    def __init__(
        self,
        logs: Mapping[TopicPartition, Log],
        jobs: Jobs,
        removal: Removal,
        before_deletion: Callable[[TopicPartition], None],
        save_starts: Callable[[Callable[[], None]], None],
        may_rename: Callable[[str], bool],
    ) -> None:
        self._logs = logs
        self._jobs = jobs
        self._removal = removal
        self._before_deletion = before_deletion
        self._save_starts = save_starts
        self._may_rename = may_rename
        # Logs whose start offset has to be checkpointed, by the write that runs or by the one after it; then those with
        # old segments that wait for a turn. A log is in one of them at most. Bounded by the number of logs.
        self._saving: dict[Log, None] = {}
        self._unsaved: dict[Log, None] = {}
        self._waiting: dict[Log, None] = {}
        self._is_saving = False
        # Segments that this turn may still rename, of all logs together. A next turn is scheduled once it is less than
        # SEGMENTS_PER_TURN.
        self._left = SEGMENTS_PER_TURN
        self._is_scheduled = False

    def delete_before(self, log: Log, offset: int, now_ms: int) -> None:
        """Move a log's start offset (KIP-107); the segments before it are removed later. Raises OffsetOutOfRange,
        StorageError.
        """
        self._before_deletion((log.topic, log.partition))
        try:
            log_deletion.delete_records_before(log, offset, now_ms, 0)
        except OSError as error:
            raise StorageError(f"cannot delete records of {log.directory}: {error.strerror}") from error
        self._save(log)

    def _save(self, log: Log) -> None:
        """Checkpoint the start of a log, and then rename its old segments."""
        self._saving.pop(log, None)
        self._waiting.pop(log, None)
        self._unsaved[log] = None
        if not self._is_saving:
            self._save_next()

    def _save_next(self) -> None:
        self._is_saving = True
        self._saving, self._unsaved = self._unsaved, {}
        self._save_starts(self._saved)

    def _saved(self) -> None:
        self._is_saving = False
        for log in self._saving:
            # The next check tries again if no file may be renamed.
            if log_deletion.has_old_segments(log) and self._may_rename(os.path.dirname(log.directory)):
                self._waiting[log] = None
        self._saving = {}
        if self._unsaved:
            self._save_next()
        self._drop_waiting()

    def _drop_waiting(self) -> None:
        """Rename old segments, as many as this turn may."""
        for log in list(self._waiting):
            if self._left == 0:
                break
            del self._waiting[log]
            if log.offline is None:
                self._drop(log)
        self._schedule()

    def _drop(self, log: Log) -> None:
        self._before_deletion((log.topic, log.partition))
        try:
            paths = log_deletion.drop_old_segments(log, self._left)
        except OSError as error:
            logger.warning("could not delete old segments; will retry", extra=facts(path=log.directory, reason=error))
            return
        self._removal.files(paths, log.config.file_delete_delay_ms)
        self._left -= sum(path.endswith(RENAMED) for path in paths)
        # If this turn may rename more and there is no path, none could be renamed, and the next check tries again; or
        # batches are staged, which lasts only a moment.
        if log_deletion.has_old_segments(log) and (paths or log.staged_batches or self._left == 0):
            self._waiting[log] = None

    def _schedule(self) -> None:
        if self._is_scheduled or (not self._waiting and self._left == SEGMENTS_PER_TURN):
            return
        self._is_scheduled = True
        is_staged = bool(self._waiting) and all(log.staged_batches for log in self._waiting)
        self._jobs.later(1 if is_staged else 0, self._next_turn)

    def _next_turn(self) -> None:
        self._is_scheduled = False
        self._left = SEGMENTS_PER_TURN
        self._drop_waiting()

    def apply(
        self,
        now_ms: int,
        high_watermark_of: Callable[[str, int], int],
        *,
        compacted: bool,
        busy: Callable[[TopicPartition], bool],
    ) -> None:
        """Delete segments by retention.ms and retention.bytes, and those before the log start offset: of the logs whose
        cleanup.policy has `compact`, or of the others. `busy` logs wait for the next call.
        """
        for key, log in list(self._logs.items()):
            if log.config.compact is not compacted or key[0] == METADATA_TOPIC or log.offline is not None:
                continue
            if log.staged_batches or busy(key):
                continue
            try:
                start = log_deletion.retention_start_offset(log, high_watermark_of(*key), now_ms)
                if start > log.log_start_offset:
                    logger.info("deleting old records", extra=facts(path=log.directory, log_start_offset=start))
                    self.delete_before(log, start, now_ms)
                elif log_deletion.has_old_segments(log) and not self._is_pending(log):
                    # Their files could not be renamed before, or a follower's log start moved as far as its leader's.
                    self._save(log)
            except (StorageError, OSError) as error:
                logger.warning("retention failed", extra=facts(path=log.directory, reason=error))

    def _is_pending(self, log: Log) -> bool:
        return log in self._unsaved or log in self._saving or log in self._waiting
