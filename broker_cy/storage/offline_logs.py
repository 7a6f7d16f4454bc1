"""Partitions whose logs cannot be served: those that are damaged, those that could not be loaded, and those of disks
that failed.

If the disk works, the broker reports the log to the controller as lost, and another replica leads. A log that was not
loaded for lack of space, descriptors or memory may be loaded again.
"""

from __future__ import annotations

import errno
import logging
import os
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Protocol

from broker_cy.core.logs import facts
from broker_cy.storage import damage, syncs
from broker_cy.storage.checkpoints import TopicPartition
from broker_cy.storage.disk_workers import DiskWorkers
from broker_cy.storage.errors import SHORTAGES, CorruptSegment, StorageError, errno_of
from broker_cy.storage.log import Log
from broker_cy.storage.log_files import newest_base_offset
from broker_cy.storage.log_opener import Unopened
from broker_cy.storage.log_slice import LogTotals
from broker_cy.storage.lost_files import partition_of
from broker_cy.storage.written_points import forget_epoch

if TYPE_CHECKING:
    from broker_cy.storage.directory_failures import DirectoryFailures
    from broker_cy.storage.flushers import Flushers
    from broker_cy.storage.offset_checkpoints import OffsetCheckpoints

logger = logging.getLogger(__name__)


class Managed(Protocol):
    """The parts of the log manager that logs are lost from. `clean` and `same_boot` are by data directory: whether the
    last stop was a clean one, and whether the machine has run since.
    """

    checkpoints: OffsetCheckpoints
    clean: dict[str, bool]
    failures: DirectoryFailures
    flusher: Flushers
    on_placed: Callable[[str, int], None]
    same_boot: dict[str, bool]
    totals: LogTotals

    @property
    def logs(self) -> Mapping[TopicPartition, Log]: ...

    def has_failed(self, root: str) -> bool: ...


class OfflineLogs:
    """Bounded by the number of partitions."""

    def __init__(self, manager: Managed, workers: DiskWorkers) -> None:
        self._manager = manager
        self._workers = workers
        # The reasons; the directories of those that could not be loaded; and of these, those that may be loaded again.
        self.reasons: dict[TopicPartition, str] = {}
        self.unloaded: dict[TopicPartition, str] = {}
        self._short_of_room: dict[TopicPartition, str] = {}
        self._reopening: set[TopicPartition] = set()

    def is_lost(self, key: TopicPartition) -> bool:
        """Whether a log cannot be served, although its disk works."""
        log = self._manager.logs.get(key)
        path = self.unloaded.get(key) if log is None else log.directory if log.offline is not None else None
        return path is not None and not self._manager.has_failed(os.path.dirname(path))

    def take(self, key: TopicPartition, path: str, error: Exception, *, late: bool = False) -> None:
        """Take a partition offline whose log could not be loaded. With `late`, the broker is running, and nothing may
        block it.
        """
        manager = self._manager
        logger.error("partition offline", extra=facts(partition=f"{key[0]}-{key[1]}", reason=error))
        self.reasons[key] = str(error)
        self.unloaded[key] = path
        if not isinstance(error, CorruptSegment):
            manager.failures.suspect(path, error)
        if manager.has_failed(os.path.dirname(path)):
            return
        if late:
            self.consider(path)
        if errno_of(error) in SHORTAGES:
            self._short_of_room[key] = path
            root = os.path.dirname(path)
            if not late and not manager.same_boot[root] and not manager.clean[root]:
                # It was not recovered, and for the next start the power was not lost.
                syncs.mark_failed(path)
        elif errno_of(error) == errno.EIO and not isinstance(error, ValueError):
            # The ends of the parts that the loader had to trust. After these, the end of the log may be truncated
            # once the rest is intact again.
            synced = manager.checkpoints.recovery_points.get(key, 0)
            written = manager.checkpoints.written_points.get(key, 0)
            if isinstance(error, CorruptSegment) and manager.same_boot[os.path.dirname(path)]:
                # No power loss has torn it, so a later power loss must not be taken for the cause. The records of the
                # older segments existed, and group commit may have synced them.
                synced = max(synced, newest_base_offset(path))
            damage.write(path, damage.Note(max(synced, written), synced), str(error), sync=not late)
            if late and manager.totals.on_damage is not None:
                manager.totals.on_damage(path)

    def take_unopened(self, partition: Unopened, error: Exception | None, *, is_again: bool) -> None:
        """Take a partition offline that the opener could not load; `is_again`: after `begin_reopening`."""
        key = partition.key
        if is_again and errno_of(error) in SHORTAGES:
            # It was reported when it began. Nothing else is known of the log.
            self.reasons[key] = str(error)
            self.unloaded[key] = self._short_of_room[key] = partition.path
        else:
            self.take(key, partition.path, error or StorageError("the log was not loaded"), late=True)

    def damaged(self, path: str) -> None:
        """The log in this directory is offline, because it is damaged, or the directory was removed."""
        self._manager.flusher.sync_note(path)
        if not os.path.isdir(path):
            # Nothing was noted there. The next start makes the log again, empty.
            root = os.path.dirname(path)
            self._workers.of(root).run(partial(forget_epoch, root), lambda _, error: None)
        self.consider(path)

    def consider(self, path: str) -> None:
        """Report the partition if its log is lost; `path` is the directory of a log, or a file in it."""
        key = partition_of(path)
        if key is not None and self.is_lost(key):
            self._manager.on_placed(*key)

    def consider_all(self) -> None:
        """The broker is registered: report the replicas whose logs could not be loaded, or are offline by now."""
        for key in [*self.unloaded, *(key for key, log in self._manager.logs.items() if log.offline is not None)]:
            if self.is_lost(key):
                self._manager.on_placed(*key)

    def may_reopen(self, key: TopicPartition) -> bool:
        """Whether a partition is offline for lack of space, descriptors or memory."""
        return key in self._short_of_room

    def begin_reopening(self, key: TopicPartition) -> str:
        """A partition that `may_reopen` is loaded again. Returns the directory of its log."""
        path = self._short_of_room.pop(key)
        del self.reasons[key]
        del self.unloaded[key]
        self._reopening.add(key)
        return path

    def end_reopening(self, key: TopicPartition) -> bool:
        """The opener is done with a partition. Returns whether that was since `begin_reopening`."""
        is_again = key in self._reopening
        self._reopening.discard(key)
        return is_again

    def forget(self, key: TopicPartition) -> str | None:
        """The partition is deleted. Returns the reason why it was offline, if it was."""
        self._short_of_room.pop(key, None)
        self.unloaded.pop(key, None)
        self._reopening.discard(key)
        return self.reasons.pop(key, None)
