"""The log cleaner: compacts the logs of topics with cleanup.policy=compact, in worker threads.

Everything in this module runs on the loop: it asks the policy which log is next, has workers write one group of
segments after the other (job), and puts the result in place (swap). A cleaning that fails leaves the old segments in
use; its partition is then not cleaned until the next start, unless disk space, memory or descriptors were short. Other
partitions are not affected.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterator, Mapping
from uuid import UUID

from broker_cy.core.classes import dataclass
from broker_cy.core.clock import Clock
from broker_cy.core.logs import facts
from broker_cy.core.randomness import Randomness
from broker_cy.storage import log_flush
from broker_cy.storage.checkpoints import CLEANED_OFFSETS, TopicPartition, read_entries, topic_ids_of, write_offsets
from broker_cy.storage.cleaner import swap
from broker_cy.storage.cleaner.files import SWAP, DirectoryFiles
from broker_cy.storage.cleaner.job import Cleaning, CleaningAborted, Replacement
from broker_cy.storage.cleaner.policy import Choice, CleanerPolicy
from broker_cy.storage.cleaner.throttle import Throttle
from broker_cy.storage.errors import SHORTAGES, StorageError, errno_of
from broker_cy.storage.jobs import Jobs
from broker_cy.storage.log import Log
from broker_cy.storage.log_opener import Unopened

logger = logging.getLogger(__name__)

# Largest size of a map: a larger one would be of no use, and Kafka does not make one either.
MAP_BYTES_MAX = 2**31 - 1


@dataclass(slots=True, frozen=True)
class CleanerSettings:
    """Kafka's log.cleaner.*, with units. `dedupe_buffer_bytes` and `io_buffer_bytes` are for all threads together."""

    enable: bool = True
    threads: int = 1
    dedupe_buffer_bytes: int = 134_217_728
    load_factor: float = 0.9
    io_buffer_bytes: int = 524_288
    io_max_bytes_per_s: float = 1.7976931348623157e308
    backoff_ms: int = 15_000


class _View:
    """A log as the policy sees it."""

    def __init__(self, log: Log, high_watermark: int) -> None:
        self._log = log
        self.log_start_offset = log.log_start_offset
        self.log_end_offset = log.written_end_offset
        self.last_stable_offset = log.last_stable_offset(high_watermark)
        self.segments = swap.segment_sizes(log)
        self.min_cleanable_dirty_ratio = log.config.min_cleanable_dirty_ratio
        self.min_compaction_lag_ms = log.config.min_compaction_lag_ms
        self.max_compaction_lag_ms = log.config.max_compaction_lag_ms

    def largest_timestamp(self, number: int) -> int:
        return swap.largest_timestamp(self._log, number)

    def first_timestamp(self, number: int) -> int:
        return swap.first_timestamp(self._log, number)


class LogCleaner:
    """Cleans the logs in `logs` (the log manager's, by partition), which are stored in the data directories `roots`.

    `jobs` must run at least as many jobs at a time as the cleaner has threads. `unlink_later(paths, delay_ms)` removes
    files.
    `files` is for tests.
    """

    def __init__(
        self,
        logs: Mapping[TopicPartition, Log],
        roots: list[str],
        settings: CleanerSettings,
        jobs: Jobs,
        unlink_later: Callable[[list[str], int], None],
        clock: Clock,
        randomness: Randomness,
        files: Callable[[str], DirectoryFiles] = DirectoryFiles,
        unopened: Mapping[TopicPartition, Unopened] | None = None,
    ) -> None:
        """`unopened` are the partitions whose logs are not in `logs` yet (the log manager's)."""
        self.settings = settings
        self.policy = CleanerPolicy(settings.backoff_ms)
        self._logs = logs
        self._unopened = unopened if unopened is not None else {}
        self._roots = roots
        self._jobs = jobs
        self._unlink_later = unlink_later
        self._files = files
        self._clock = clock
        self._randomness = randomness
        self._throttle = Throttle(settings.io_max_bytes_per_s, clock.monotonic, clock.sleep)
        self._running: dict[TopicPartition, Cleaning] = {}
        self._held: set[TopicPartition] = set()
        self._checkpoint_due = False
        self._checkpoint_running = False
        self._short_of_room = False
        self._stopped = False
        # Topic ids of the partitions that have an entry, as far as they are known.
        self._topic_ids: dict[TopicPartition, UUID] = {}
        for root in roots:
            try:
                entries = read_entries(f"{root}/{CLEANED_OFFSETS}")
                self.policy.cleaned.update(entries.offsets)
                for key in entries.offsets:
                    if key[0] in entries.topic_ids:
                        self._topic_ids[key] = entries.topic_ids[key[0]]
            except ValueError as error:
                # As in Kafka, every log of this directory is then cleaned from its start.
                logger.warning("treated a damaged checkpoint as empty", extra=facts(reason=error))

    @property
    def running(self) -> set[TopicPartition]:
        """Partitions that are being cleaned."""
        return set(self._running)

    def reconfigure(self, settings: CleanerSettings) -> None:
        """Apply changed settings: the throttle immediately, the others with the next cleaning."""
        self.settings = settings
        self.policy.backoff_ms = settings.backoff_ms
        self._throttle.bytes_per_s = settings.io_max_bytes_per_s

    # --- the choice of the next log

    def tick(self, now_ms: int, high_watermark_of: Callable[[str, int], int]) -> None:
        """Begin the cleanings that are due, as far as there are threads. Cheap if none is; call it about once a
        second.
        """
        if not self.settings.enable or self._stopped:
            return
        while len(self._running) < self.settings.threads and self.policy.is_due(now_ms) and self._has_room():
            self._fit_checkpoint()
            choice = self.policy.choose(self._views(high_watermark_of), now_ms)
            if choice is None or not self._begin(choice, now_ms):
                self.policy.back_off(now_ms)
                return

    def _fit_checkpoint(self) -> None:
        changed = False
        for key, log in self._logs.items():
            if not log.config.compact or not self.policy.fit(key, log.log_start_offset, log.written_end_offset):
                continue
            changed = True
            # With cleanup.policy=delete this is normal: retention moves the start of a log past its checkpoint.
            if not log.config.delete:
                logger.warning(
                    "cleaning a log from its start: its checkpoint is outside of the log",
                    extra=facts(path=log.directory, log_start_offset=log.log_start_offset),
                )
        if changed:
            self.write_checkpoint()

    def _views(self, high_watermark_of: Callable[[str, int], int]) -> Iterator[tuple[TopicPartition, _View]]:
        for key, log in self._logs.items():
            if log.config.compact and log.offline is None and len(log.segments) > 1 and key not in self._held:
                try:
                    yield key, _View(log, high_watermark_of(*key))
                except (StorageError, OSError) as error:
                    self._give_up(key, log, error)

    def _map_bytes(self) -> int:
        return min(self.settings.dedupe_buffer_bytes // self.settings.threads, MAP_BYTES_MAX)

    def _has_room(self) -> bool:
        """Whether the map of another cleaning fits beside the running ones, which may have been begun with other
        settings.
        """
        held = sum(cleaning.plan.map_bytes for cleaning in self._running.values())
        return held + self._map_bytes() <= self.settings.dedupe_buffer_bytes or not self._running

    def _begin(self, choice: Choice, now_ms: int) -> bool:
        # Here, for the reason given in Cleaning.
        from broker_cy.storage.cleaner.offset_map import SECRET_BYTES

        log = self._logs[choice.key]
        settings = self.settings
        try:
            plan = swap.plan(
                log,
                choice.first_dirty_offset,
                choice.first_uncleanable_offset,
                now_ms,
                map_bytes=self._map_bytes(),
                load_factor=settings.load_factor,
                buffer_bytes=settings.io_buffer_bytes // settings.threads // 2,
            )
            cleaning = Cleaning(
                plan,
                self._files(log.directory),
                self._throttle,
                self._clock,
                self._randomness.take_bytes(SECRET_BYTES),
            )
        except (OSError, StorageError) as error:
            self._failed(choice.key, log, error, now_ms)
            return False
        self._running[choice.key] = cleaning
        self._next_step(choice.key, log, cleaning)
        return True

    # --- one cleaning

    def _next_step(self, key: TopicPartition, log: Log, cleaning: Cleaning) -> None:
        def done(replacement: Replacement | None, error: BaseException | None) -> None:
            self._on_step(key, log, cleaning, replacement, error)

        self._jobs.run(cleaning.step, done)

    def _on_step(
        self,
        key: TopicPartition,
        log: Log,
        cleaning: Cleaning,
        replacement: Replacement | None,
        error: BaseException | None,
    ) -> None:
        now_ms = cleaning.plan.now_ms
        try:
            if error is None and replacement is not None:
                if cleaning.aborted or cleaning.plan.generation != log.generation:
                    cleaning.files.discard(replacement.base_offset, SWAP)
                    raise CleaningAborted
                if log.staged_batches:
                    # A failed write returns to a segment that has to be in the log until then: replace these later.
                    self._jobs.later(1, lambda: self._on_step(key, log, cleaning, replacement, None))
                    return
                paths = swap.install(log, cleaning.files, replacement)
                self._unlink_later(paths, log.config.file_delete_delay_ms)
                self._next_step(key, log, cleaning)
                return
            log_flush.notice_failed_sync(log)
        except (OSError, StorageError, CleaningAborted) as failure:
            error = failure
        cleaning.files.close()
        if self._running.get(key) is cleaning:
            del self._running[key]
        if error is None:
            self.policy.done(key, cleaning.end_offset)
            self.policy.look_again(now_ms)
            self._short_of_room = False
            self._tell(log, cleaning)
            self.write_checkpoint()
        elif isinstance(error, CleaningAborted) or cleaning.aborted:
            self.policy.done(key, None)
        else:
            self._failed(key, log, error, now_ms)

    def _failed(self, key: TopicPartition, log: Log, error: BaseException, now_ms: int) -> None:
        self.policy.done(key, None)
        self.policy.back_off(now_ms)
        if errno_of(error) in SHORTAGES or isinstance(error, MemoryError):
            # Logged once until a cleaning succeeds: the others most likely fail for the same reason.
            if not self._short_of_room:
                logger.warning(
                    "could not clean a log for lack of space: free some, or lower log.cleaner.dedupe.buffer.size",
                    extra=facts(path=log.directory, reason=error, retry_ms=self.policy.backoff_ms),
                )
            self._short_of_room = True
        else:
            self._give_up(key, log, error)

    def _give_up(self, key: TopicPartition, log: Log, error: BaseException) -> None:
        if key not in self.policy.uncleanable:
            logger.error(
                "stopped cleaning a log: repair or delete it, and restart the broker",
                extra=facts(path=log.directory, reason=error),
            )
        self.policy.mark_uncleanable(key)

    @staticmethod
    def _tell(log: Log, cleaning: Cleaning) -> None:
        stats = cleaning.stats
        logger.info(
            "cleaned a log",
            extra=facts(
                path=log.directory,
                cleaned_offset=cleaning.end_offset,
                input_bytes=stats.input_bytes,
                output_bytes=stats.output_bytes,
                records=stats.records_read,
                records_kept=stats.records_kept,
                keys=stats.keys,
                elapsed_s=round(stats.elapsed_s, 3),
            ),
        )
        if stats.records_without_key:
            logger.warning(
                "dropped records without a key", extra=facts(path=log.directory, records=stats.records_without_key)
            )

    # --- changes of the logs

    def abort(self, key: TopicPartition) -> None:
        """Abort a cleaning, because its log is about to lose segments: the worker's result is discarded. The log may be
        chosen again once the worker has noticed.
        """
        cleaning = self._running.pop(key, None)
        if cleaning is not None:
            cleaning.aborted = True

    def hold(self, key: TopicPartition, *, is_held: bool) -> None:
        """Leave a log alone while its files are copied, or not any longer."""
        if is_held:
            self._held.add(key)
            self.abort(key)
        else:
            self._held.discard(key)

    def accept(self, key: TopicPartition, topic_id: UUID | None) -> None:
        """Note that a partition of the topic `topic_id` (None: not known) was loaded or created. A checkpoint entry for
        another topic of this name does not apply to it.
        """
        if topic_id is None:
            return
        known = self._topic_ids.get(key)
        if known is not None and known != topic_id:
            self.policy.forget(key)
        self._topic_ids[key] = topic_id

    def truncated(self, key: TopicPartition, offset: int) -> None:
        """Note that everything at or after `offset` was removed from a log."""
        self.abort(key)
        if self.policy.truncated(key, offset):
            self.write_checkpoint()

    def forget(self, key: TopicPartition) -> None:
        """Forget a partition that was deleted or re-created."""
        self.abort(key)
        self._topic_ids.pop(key, None)
        if self.policy.forget(key):
            self.write_checkpoint()

    def drop(self, root: str) -> None:
        """Write nothing more in a data directory, because its disk has failed."""
        self._roots = [each for each in self._roots if each != root]

    def stop(self) -> None:
        """End all cleanings; workers notice soon, and their results are discarded."""
        self._stopped = True
        for key in list(self._running):
            self.abort(key)

    # --- the checkpoint

    def write_checkpoint(self) -> None:
        """Write cleaner-offset-checkpoint in a worker. If this is called during a write, one more write follows."""
        self._checkpoint_due = True
        if self._checkpoint_running or self._stopped:
            return
        self._checkpoint_due = False
        self._checkpoint_running = True
        wanted: dict[str, dict[TopicPartition, int]] = {root: {} for root in self._roots}
        for key, offset in self.policy.cleaned.items():
            path = self._path_of(key)
            for root, offsets in wanted.items():
                # A log that is offline keeps its entry if there is only one directory.
                if (path is not None and os.path.dirname(path) == root) or (path is None and len(wanted) == 1):
                    offsets[key] = offset

        topic_ids = {root: topic_ids_of(offsets, self._topic_ids) for root, offsets in wanted.items()}

        def write() -> None:
            for root, offsets in wanted.items():
                write_offsets(f"{root}/{CLEANED_OFFSETS}", offsets, topic_ids[root])

        def done(_: None, error: BaseException | None) -> None:
            self._checkpoint_running = False
            if error is not None:
                # The next start cleans more than it needs to.
                logger.warning("could not write the cleaner's checkpoint", extra=facts(reason=error))
            if self._checkpoint_due:
                self.write_checkpoint()

        self._jobs.run(write, done)

    def _path_of(self, key: TopicPartition) -> str | None:
        """The directory of a log; None if it is offline."""
        log, unopened = self._logs.get(key), self._unopened.get(key)
        if log is not None:
            return str(log.directory)
        return unopened.path if unopened is not None else None
