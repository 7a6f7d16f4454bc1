"""The periodic work of the log manager, and when it is due."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

from broker_cy.storage import checkpoints
from broker_cy.storage.checkpoints import TopicPartition
from broker_cy.storage.cleaner.log_cleaner import LogCleaner
from broker_cy.storage.flushers import Flushers
from broker_cy.storage.log import Log
from broker_cy.storage.log_slice import LogTotals
from broker_cy.storage.settings import StorageSettings

# Time after a failed flush (the disk is full) until the next attempt.
FLUSH_RETRY_MS = 5_000
# Longest time until committed metadata are checkpointed as such; with many partitions the file is long.
METADATA_CHECKPOINT_MS = 10_000
# Kafka's delay of the first retention check after a start.
FIRST_RETENTION_CHECK_MS = 30_000


class Managed(Protocol):
    """The object of the periodic work: a LogManager."""

    settings: StorageSettings
    flusher: Flushers
    totals: LogTotals
    cleaner: LogCleaner | None

    @property
    def logs(self) -> Mapping[TopicPartition, Log]: ...
    @property
    def high_watermarks(self) -> dict[TopicPartition, int]: ...
    def apply_retention(
        self, now_ms: int, high_watermark_of: Callable[[str, int], int], *, compacted: bool = False
    ) -> None: ...


class PeriodicWork:
    """Schedules the periodic work of `manager`; `tick` does the due work. Logs that are not open yet are skipped."""

    def __init__(self, manager: Managed) -> None:
        self._manager = manager
        # Something was committed to the metadata log that is not in its checkpoint yet.
        self.metadata_committed = False
        self._last_checkpoint_ms = -1
        self._last_start_offset_checkpoint_ms = -1
        self._last_flush_ms = -1
        self._last_flush_check_ms = -1
        self._last_retention_ms = -1
        self._last_compacted_retention_ms = -1
        self._last_expiry_ms = -1
        self._last_metadata_checkpoint_ms = -METADATA_CHECKPOINT_MS

    def tick(self, now_ms: int, high_watermark_of: Callable[[str, int], int]) -> None:
        """Do the work that is due: flush, checkpoints, producer expiry, retention. Cheap if nothing is due; call it
        about once a second.
        """
        manager = self._manager
        settings = manager.settings
        if self._last_checkpoint_ms < 0:
            self._last_checkpoint_ms = self._last_expiry_ms = self._last_flush_check_ms = now_ms
            # As in Kafka the first check is early: otherwise a broker that is restarted often would delete nothing.
            first_ms = min(settings.retention_check_interval_ms, FIRST_RETENTION_CHECK_MS)
            self._last_retention_ms = now_ms + first_ms - settings.retention_check_interval_ms
            self._last_compacted_retention_ms = now_ms
            self._last_start_offset_checkpoint_ms = now_ms
        if now_ms - self._last_checkpoint_ms >= settings.checkpoint_interval_ms:
            self._last_checkpoint_ms = now_ms
            for key in manager.logs:
                manager.high_watermarks[key] = high_watermark_of(*key)
            manager.flusher.start(now_ms=now_ms)
            manager.flusher.write_checkpoints(checkpoints.HIGH_WATERMARKS)
        elif now_ms - self._last_flush_check_ms >= settings.flush_check_interval_ms:
            self._last_flush_check_ms = now_ms
            self.flush_old(now_ms)
        if self.metadata_committed and now_ms - self._last_metadata_checkpoint_ms >= METADATA_CHECKPOINT_MS:
            self.metadata_committed = False
            self._last_metadata_checkpoint_ms = now_ms
            manager.flusher.write_checkpoints(checkpoints.RECOVERY_POINTS)
        if now_ms - self._last_start_offset_checkpoint_ms >= settings.start_offset_checkpoint_interval_ms:
            self._last_start_offset_checkpoint_ms = now_ms
            manager.flusher.write_checkpoints(checkpoints.LOG_START_OFFSETS)
        if now_ms - self._last_expiry_ms >= settings.producer_id_expiration_check_interval_ms:
            self._last_expiry_ms = now_ms
            for log in manager.logs.values():
                log.producers.expire(now_ms, settings.producer_id_expiration_ms)
        if now_ms - self._last_retention_ms >= settings.retention_check_interval_ms:
            self._last_retention_ms = now_ms
            manager.apply_retention(now_ms, high_watermark_of)
        if manager.cleaner is not None and manager.cleaner.settings.enable:
            # This is the cleaner's task in Kafka, too: without the cleaner nothing is deleted from compacted logs.
            if now_ms - self._last_compacted_retention_ms >= manager.cleaner.settings.backoff_ms:
                self._last_compacted_retention_ms = now_ms
                manager.apply_retention(now_ms, high_watermark_of, compacted=True)
            manager.cleaner.tick(now_ms, high_watermark_of)

    def flush_old(self, now_ms: int) -> None:
        """Flush the logs whose flush.ms has passed, in a worker. `tick` does this every flush_check_interval_ms; it is
        called separately if that interval is shorter than that of the ticks. Cheap if nothing is due.
        """
        manager = self._manager
        if manager.flusher.failed and now_ms - self._last_flush_ms < FLUSH_RETRY_MS:
            return
        due = [log for log in manager.totals.dirty if log.needs_flush(now_ms)]
        if due:
            self._last_flush_ms = now_ms
            manager.flusher.start(due, now_ms)
