"""Logs whose files were removed, or made inaccessible, on a disk that works.

Kafka 4.3.1 takes the whole data directory offline at such an error, and ends if it was the last one. Here only the log
goes offline, because the other logs of the disk are intact. Its replica is reported as LOST, like that of a damaged log
(DirectoryReports), so others lead.

An error of a file may also come from a log that has just moved, or from a segment that was deleted. So a worker looks
for all files of the log, and what it misses is looked up again on the loop, where files get other names.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING

from broker_cy.storage.checkpoints import TopicPartition
from broker_cy.storage.data_directory import META_PROPERTIES, METADATA_TOPIC, parse_partition
from broker_cy.storage.disk_workers import DiskWorkers
from broker_cy.storage.errors import GONE, errno_of

if TYPE_CHECKING:
    from broker_cy.storage.log import Log


def partition_of(path: str) -> TopicPartition | None:
    """The partition with the directory `path`, or with the file `path`; None for another path."""
    return parse_partition(os.path.basename(path)) or parse_partition(os.path.basename(os.path.dirname(path)))


def missing(directory: str, paths: Iterable[str]) -> list[str]:
    """In a worker: those of `paths`, which are in `directory`, that are not there; the directory itself if it is not
    there, or cannot be used although the data directory can. Raises OSError.
    """
    try:
        names = frozenset(os.listdir(directory))
    except OSError as error:
        if errno_of(error) not in GONE:
            raise
        return [directory]
    if not os.access(directory, os.W_OK) and os.access(os.path.dirname(directory), os.W_OK):
        return [directory]
    return [path for path in paths if os.path.basename(path) not in names]


class LostFiles:
    """`suspect` is called on the loop with each error of a disk. One look at a time for each log."""

    def __init__(self, logs: Mapping[TopicPartition, Log], workers: DiskWorkers) -> None:
        self._logs = logs
        self._workers = workers
        self._looking: set[TopicPartition] = set()

    def suspect(self, path: str, error: BaseException) -> None:
        """An access to `path` failed."""
        key = partition_of(path)
        if key is None or key[0] == METADATA_TOPIC or key in self._looking or errno_of(error, 0) not in GONE:
            return
        log = self._logs.get(key)
        if log is None or log.offline is not None:
            return
        directory = log.directory
        self._looking.add(key)
        work = partial(missing, directory, [each.path for each in log.segments])
        self._workers.of(directory).run(work, partial(self._looked, key, log, directory))

    def _looked(
        self, key: TopicPartition, log: Log, directory: str, found: list[str] | None, error: BaseException | None
    ) -> None:
        self._looking.discard(key)
        if not found or self._logs.get(key) is not log or log.directory != directory or log.offline is not None:
            return
        if not os.path.isfile(f"{os.path.dirname(directory)}/{META_PROPERTIES}"):
            return  # the data directory itself is gone (DirectoryFailures)
        current = {directory, *(each.path for each in log.segments)}
        for path in found:
            if path in current and not (os.path.isfile(path) or os.access(path, os.W_OK | os.X_OK)):
                log.mark_offline(f"{path} was removed, or cannot be used")
                return
