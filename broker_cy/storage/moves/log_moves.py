"""The log manager as the host of moves between its data directories (storage.moves.move.Host)."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol
from uuid import UUID, uuid5

from broker_cy.core.logs import facts
from broker_cy.core.uuid import ZERO
from broker_cy.storage.atomic import sync_directory
from broker_cy.storage.checkpoints import HIGH_WATERMARKS, LOG_START_OFFSETS, RECOVERY_POINTS, TopicPartition
from broker_cy.storage.disk_workers import DiskWorkers
from broker_cy.storage.log import Log
from broker_cy.storage.moves.replica_moves import RETRY_MS
from broker_cy.storage.open_directories import usable
from broker_cy.storage.removal import rename_away

if TYPE_CHECKING:
    from broker_cy.storage.cleaner.log_cleaner import LogCleaner
    from broker_cy.storage.data_directory import DataDirectory
    from broker_cy.storage.directory_failures import DirectoryFailures
    from broker_cy.storage.flushers import Flushers
    from broker_cy.storage.offset_checkpoints import OffsetCheckpoints
    from broker_cy.storage.placement import Placement
    from broker_cy.storage.removal import Removal
    from broker_cy.storage.truncations import Truncations

logger = logging.getLogger(__name__)


class Managed(Protocol):
    """The parts of the log manager that moves use."""

    data_directories: list[DataDirectory]
    logs: dict[TopicPartition, Log]
    offline: dict[TopicPartition, str]
    cleaner: LogCleaner | None
    checkpoints: OffsetCheckpoints
    failures: DirectoryFailures
    flusher: Flushers
    placement: Placement
    removal: Removal
    truncations: Truncations
    on_placed: Callable[[str, int], None]
    on_relocated: Callable[[Log, str], None]

    def suspect(self, path: str | None, error: BaseException) -> None: ...


class LogMoves:
    """See Host. Errors of the old disk after the swap change nothing: the next start finds two logs, and the metadata
    name the new one.
    """

    def __init__(self, manager: Managed, workers: DiskWorkers) -> None:
        self._manager = manager
        self._workers = workers
        self._copies = 0
        # The directories of logs that have moved away and still have their names there; at most one for each log and
        # data directory. No log may be created, and none may move there.
        self.leaving: set[str] = set()

    def new_uuid(self) -> UUID:
        """An id for the name of a copy, other than all since the start."""
        self._copies += 1
        return uuid5(self._manager.data_directories[0].directory_id, f"copy {self._copies}")

    def may_swap(self, log: Log) -> bool:
        return log not in self._manager.truncations

    def is_free(self, path: str) -> bool:
        return path not in self.leaving

    def hold(self, key: TopicPartition, *, is_moving: bool) -> None:
        if self._manager.cleaner is not None:
            self._manager.cleaner.hold(key, is_held=is_moving)
        if not is_moving:
            self._manager.checkpoints.arriving.pop(key, None)

    def discard(self, path: str) -> None:
        self._manager.removal.directory(path, 0)

    def clear(self, path: str) -> None:
        if (renamed := _rename_unused(path)) is not None:
            self._manager.removal.directory(renamed, 0)

    def suspect(self, path: str | None, error: BaseException) -> None:
        self._manager.suspect(path, error)

    def on_placed(self, topic: str, partition: int) -> None:
        self._manager.on_placed(topic, partition)

    def arriving(self, key: TopicPartition, root: str) -> Callable[[], None]:
        manager = self._manager
        manager.checkpoints.arriving[key] = root
        wanted = manager.checkpoints.collect([LOG_START_OFFSETS], manager.logs, manager.offline, (root,))
        return lambda: manager.checkpoints.write(wanted)

    def relocated(self, log: Log, old_path: str) -> None:
        manager, root, path = self._manager, os.path.dirname(log.directory), log.directory
        manager.placement.remove(os.path.dirname(old_path))
        manager.placement.add(root)
        manager.on_relocated(log, os.path.dirname(old_path))
        manager.flusher.start([log])
        if manager.cleaner is not None:
            manager.cleaner.write_checkpoint()
        names = (LOG_START_OFFSETS, RECOVERY_POINTS, HIGH_WATERMARKS)
        wanted = manager.checkpoints.collect(names, manager.logs, manager.offline, (root,))
        self.leaving.add(old_path)

        def save() -> None:
            sync_directory(path)
            sync_directory(root)
            manager.checkpoints.write(wanted)

        def done(_: None, error: BaseException | None) -> None:
            if error is None or isinstance(error, FileNotFoundError):
                self._forget(old_path, log.config.file_delete_delay_ms)
            else:
                logger.warning("could not sync a moved replica; will retry", extra=facts(path=path, reason=error))
                manager.failures.suspect(path, error)
                self._workers.of(path).later(RETRY_MS, again)

        def again() -> None:
            if log.closed:
                self._forget(old_path, 0)
            elif log.offline is None:
                self._workers.of(path).run(save, done)
            else:
                # The next start decides, unless the partition is deleted.
                self._workers.of(old_path).later(RETRY_MS, again)

        again()

    def _forget(self, old_path: str, delay_ms: int) -> None:
        """Remove the old log, now that the new one survives a power loss, or is deleted. A worker renames it, because
        its disk may be slow.
        """
        manager = self._manager

        def done(renamed: str | None, error: BaseException | None) -> None:
            roots = [each.path for each in usable(manager.data_directories)]
            if error is not None and os.path.dirname(old_path) in roots:
                logger.warning("could not rename a replica that was moved", extra=facts(path=old_path, reason=error))
                manager.failures.suspect(old_path, error)
                self._workers.of(old_path).later(RETRY_MS, lambda: self._forget(old_path, delay_ms))
                return
            self.leaving.discard(old_path)
            if renamed is not None:
                manager.removal.directory(renamed, delay_ms)
            manager.flusher.write_checkpoints()

        self._workers.of(old_path).run(lambda: _rename_unused(old_path), done)


def _rename_unused(path: str) -> str | None:
    """Rename the directory of a partition that is not in use, if it exists; return its new path. Raises OSError."""
    return rename_away(path, "delete", ZERO) if os.path.isdir(path) else None
