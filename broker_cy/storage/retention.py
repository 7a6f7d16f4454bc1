"""Old records: retention.ms and retention.bytes, and segments before the log start offset (Kafka's deleteOldSegments).

The offset moves at once, and readers no longer see records before it. The loop renames the files of a few segments in
each turn, so that deleting thousands delays no client; they are removed after file.delete.delay.ms.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping

from broker_cy.core.logs import facts
from broker_cy.storage import maintenance
from broker_cy.storage.checkpoints import TopicPartition
from broker_cy.storage.data_directory import METADATA_TOPIC
from broker_cy.storage.errors import StorageError
from broker_cy.storage.jobs import Jobs
from broker_cy.storage.log import Log
from broker_cy.storage.removal import Removal

logger = logging.getLogger(__name__)

# Segments whose files are renamed in one turn of the loop: five files each.
SEGMENTS_PER_TURN = 64


class Retention:
    """Deletes from the logs in `logs` (the log manager's, by partition). Everything is called on the loop.

    `before_deletion(key)` is called each time before a log loses segments, `moved()` after a log start offset moved.
    """

    def __init__(
        self,
        logs: Mapping[TopicPartition, Log],
        jobs: Jobs,
        removal: Removal,
        before_deletion: Callable[[TopicPartition], None],
        moved: Callable[[], None],
    ) -> None:
        self._logs = logs
        self._jobs = jobs
        self._removal = removal
        self._before_deletion = before_deletion
        self._moved = moved
        # Logs with a scheduled turn.
        self._dropping: set[Log] = set()

    def delete_before(self, log: Log, offset: int, now_ms: int) -> None:
        """Move a log's start offset (KIP-107); remove the segments before it. Raises OffsetOutOfRange, StorageError."""
        self._before_deletion((log.topic, log.partition))
        try:
            paths = maintenance.delete_records_before(log, offset, now_ms, SEGMENTS_PER_TURN)
        except OSError as error:
            raise StorageError(f"cannot delete records of {log.directory}: {error.strerror}") from error
        self._dropped(log, paths)
        self._moved()

    def _dropped(self, log: Log, paths: list[str]) -> None:
        self._removal.files(paths, log.config.file_delete_delay_ms)
        if log in self._dropping or not maintenance.has_old_segments(log):
            return
        # No path means that none could be renamed, and the next check tries again; or that batches are staged, which
        # lasts only a moment.
        if paths or log.staged_batches:
            self._dropping.add(log)
            self._jobs.later(1 if log.staged_batches else 0, lambda: self._drop_more(log))

    def _drop_more(self, log: Log) -> None:
        self._dropping.discard(log)
        if log.offline is not None:
            return
        self._before_deletion((log.topic, log.partition))
        try:
            self._dropped(log, maintenance.drop_old_segments(log, SEGMENTS_PER_TURN))
        except OSError as error:
            logger.warning("could not delete old segments; will retry", extra=facts(path=log.directory, reason=error))

    def apply(
        self,
        now_ms: int,
        high_watermark_of: Callable[[str, int], int],
        *,
        compacted: bool,
        busy: Callable[[TopicPartition], bool],
    ) -> None:
        """Delete segments by retention.ms and retention.bytes, and those before the log start offset: of the logs whose
        cleanup.policy has `compact`, or of the others. Those that are `busy` wait for the next call.
        """
        for key, log in list(self._logs.items()):
            if log.config.compact is not compacted or key[0] == METADATA_TOPIC or log.offline is not None:
                continue
            if log.staged_batches or busy(key):
                continue
            try:
                start = maintenance.retention_start_offset(log, high_watermark_of(*key), now_ms)
                if start > log.log_start_offset:
                    logger.info("deleting old records", extra=facts(path=log.directory, log_start_offset=start))
                    self.delete_before(log, start, now_ms)
                elif maintenance.has_old_segments(log) and log not in self._dropping:
                    self._drop_more(log)
            except (StorageError, OSError) as error:
                logger.warning("retention failed", extra=facts(path=log.directory, reason=error))
