"""Loading the logs of a broker: the facts about the data directory and its checkpoints that load_log needs.

A power loss may take the first segments of a log, if none of it was synced, and leave later ones. The checkpoints show
that. Files of deleted segments are renamed only after the checkpoint of log start offsets (retention.py). Records
before the recovery point were synced or deleted. No record is appended to a log that begins again elsewhere before the
checkpoints are written (truncations.py). Compaction never moves the base offset of the first segment. So if that is
after both checkpointed offsets, the records before it were lost, and no record after it was synced either.

With one replica, a log keeps the remaining records. With several, it begins again, empty: otherwise it would look as if
its first records had been deleted, and join the in-sync set without them; once it leads, consumers could no longer read
records that other replicas have. That holds for compacted topics and those of the broker itself, too.

This is unknown if a deletion could not be checkpointed, or if another program wrote the directory: Kafka renames files
before it checkpoints the log start. Then every log is loaded as it is.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial
from uuid import UUID

from broker_cy.storage import checkpoints, flusher
from broker_cy.storage.checkpoints import TopicPartition
from broker_cy.storage.log import Log
from broker_cy.storage.log_config import LogConfig
from broker_cy.storage.log_files import NEVER
from broker_cy.storage.log_loader import LoadContext, load_log
from broker_cy.storage.log_slice import LogTotals
from broker_cy.storage.offset_checkpoints import OffsetCheckpoints
from broker_cy.storage.segment import OpenFiles

# Segments that a worker holds open while it loads a log.
WORKER_OPEN_FILES = 16


class LogLoading:
    """Loads logs with the entries that `offset_checkpoints` accepted for them; `topic_ids` are the log manager's.

    By data directory, `clean` is whether the last stop was clean, and `same_boot` whether the machine is known not to
    have restarted since.
    """

    def __init__(
        self,
        offset_checkpoints: OffsetCheckpoints,
        topic_ids: Mapping[TopicPartition, UUID],
        open_files: OpenFiles,
        totals: LogTotals,
        clean: Mapping[str, bool],
        same_boot: Mapping[str, bool],
    ) -> None:
        self._checkpoints = offset_checkpoints
        self._topic_ids = topic_ids
        self._open_files = open_files
        self._totals = totals
        self._clean = clean
        self._same_boot = same_boot
        # Whether a partition has replicas on other brokers, by topic and number.
        self.is_replicated: Callable[[str, int], bool] = lambda topic, partition: False
        # Bytes that loading cut off the ends of logs, by topic-partition.
        self.cuts: dict[str, int] = {}
        # Segments that are still to be checked, by directory of the logs that are being loaded.
        self.segments_left: dict[str, int] = {}

    def context(
        self, root: str, now_ms: int, producer_expiration_ms: int, kept_whole: frozenset[str] = frozenset()
    ) -> LoadContext:
        """The input of loading about the data directory `root`, without the part that `with_cleaned` reads."""
        return LoadContext(
            self._open_files,
            self._totals,
            self._clean.get(root, False),
            now_ms,
            producer_expiration_ms,
            not self._same_boot.get(root, False),
            kept_whole=kept_whole,
            cuts=self.cuts,
            segments_left=self.segments_left,
        )

    def load(self, key: TopicPartition, path: str, config: LogConfig, context: LoadContext) -> Log:
        """Load the log of one partition. Raises StorageError, OSError, ValueError if it cannot be served."""
        return self._prepared(key, path, config)(context)

    def late(
        self,
        key: TopicPartition,
        path: str,
        config_of: Callable[[str], LogConfig],
        context: LoadContext,
        *,
        rereads: bool = False,
    ) -> Callable[[], Log]:
        """Return a function that loads the log in a worker, with the current settings of its topic. The log shares
        nothing with other logs until `adopt`, and is synced if flush.messages requires that. With `rereads`, the worker
        also reads the cleaner's checkpoint.
        """
        apart = replace(context, open_files=OpenFiles(WORKER_OPEN_FILES), totals=LogTotals())
        load = self._prepared(key, path, config_of(key[0]))

        def load_and_sync() -> Log:
            log = load(with_cleaned(apart, os.path.dirname(path)) if rereads else apart)
            flusher.sync_one_loaded(log)
            return log

        return load_and_sync

    def adopt(self, log: Log) -> None:
        """Make a log that a worker loaded use the broker's counters and limit of open files."""
        log.adopt(self._open_files, self._totals)

    def _prepared(self, key: TopicPartition, path: str, config: LogConfig) -> Callable[[LoadContext], Log]:
        """Return a function that loads the log as the checkpoints and topic ids are now, on the loop."""
        return partial(
            _load,
            path,
            key,
            config,
            self._checkpoints.recovery_points.get(key, 0),
            self._checkpoints.log_starts.get(key, 0),
            self._checkpoints.written_points.get(key, 0),
            self._topic_ids.get(key),
            self._first_base_max(key, os.path.dirname(path)),
        )

    def _first_base_max(self, key: TopicPartition, root: str) -> int:
        """The greatest base offset of a first segment that no loss explains; NEVER if that is not known."""
        noted = self._checkpoints
        if self._clean[root] or self._same_boot[root] or not self.is_replicated(*key):
            return NEVER
        if root not in noted.were_saved or key in noted.not_ours:
            return NEVER
        return max(noted.log_starts.get(key, 0), noted.recovery_points.get(key, 0))


def with_cleaned(context: LoadContext, root: str) -> LoadContext:
    """Read the cleaner's notes in the data directory `root`. Blocks: at a start or in a worker."""
    cleaned = checkpoints.Entries({}, {})
    with suppress(OSError, ValueError):  # the cleaner reports a damaged checkpoint
        cleaned = checkpoints.read_entries(f"{root}/{checkpoints.CLEANED_OFFSETS}")
    return replace(context, cleaned=cleaned)


def _load(
    path: str,
    key: TopicPartition,
    config: LogConfig,
    recovery_point: int,
    log_start: int,
    written_point: int,
    topic_id: UUID | None,
    first_base_max: int,
    context: LoadContext,
) -> Log:
    return load_log(path, *key, config, recovery_point, log_start, context, written_point, topic_id, first_base_max)
