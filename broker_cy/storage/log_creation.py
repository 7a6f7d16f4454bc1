"""Creating the files of a log: in the data directory that the controller has chosen, or in another one if that fails
(KAFKA-8526).
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Protocol
from uuid import UUID

from broker_cy.core.logs import facts
from broker_cy.storage.checkpoints import TopicPartition
from broker_cy.storage.data_directory import DataDirectory, write_topic_id
from broker_cy.storage.directory_loading import NO_TOPIC_ID
from broker_cy.storage.errors import StorageError
from broker_cy.storage.log import Log
from broker_cy.storage.log_config import LogConfig
from broker_cy.storage.log_slice import LogTotals
from broker_cy.storage.segment import OpenFiles

if TYPE_CHECKING:
    from broker_cy.storage.directory_failures import DirectoryFailures
    from broker_cy.storage.offset_checkpoints import OffsetCheckpoints
    from broker_cy.storage.placement import Placement

logger = logging.getLogger(__name__)


class Managed(Protocol):
    """The parts of the log manager that a new log needs."""

    checkpoints: OffsetCheckpoints
    data_directories: list[DataDirectory]
    failures: DirectoryFailures
    open_files: OpenFiles
    placement: Placement
    totals: LogTotals

    def rename_away(self, path: str, mark: str, topic_id: UUID, delay_ms: int) -> None: ...


class LogCreation:
    """`is_free(path)` is LogMoves.is_free: whether no log that has moved is still in a directory."""

    def __init__(self, manager: Managed, is_free: Callable[[str], bool]) -> None:
        self._manager = manager
        self._is_free = is_free

    def create(self, key: TopicPartition, topic_id: UUID, config: LogConfig, now_ms: int, directory_id: UUID) -> Log:
        """See LogManager.create. Raises StorageError."""
        manager, name = self._manager, f"{key[0]}-{key[1]}"
        roots = manager.placement.choices(directory_id, key)
        if not roots:
            raise StorageError(f"cannot create {name}: {manager.data_directories[0].failure}")
        leaving = [root for root in roots if not self._is_free(f"{root}/{name}")]
        roots = [root for root in roots if root not in leaving]
        if not roots:
            raise StorageError(f"cannot create {leaving[0]}/{name}: a log that has moved is still there")
        for root in roots:
            try:
                log = self._create(f"{root}/{name}", key, topic_id, config, now_ms)
                break
            except StorageError as error:
                if root == roots[-1]:
                    raise
                logger.warning("a log is created in another data directory", extra=facts(reason=error))
                with suppress(StorageError):
                    manager.rename_away(f"{root}/{name}", "delete", NO_TOPIC_ID, 0)
        manager.placement.add(root)
        manager.placement.reserve(root, config.segment_bytes)
        return log

    def _create(self, path: str, key: TopicPartition, topic_id: UUID, config: LogConfig, now_ms: int) -> Log:
        manager = self._manager
        try:
            if os.path.isdir(path) and os.listdir(path):
                # Left by a deleted partition that could not be renamed, or by a failed attempt to create this one.
                manager.rename_away(path, "delete", NO_TOPIC_ID, config.file_delete_delay_ms)
            # Not the data directory as well: it is missing if its disk was removed.
            with suppress(FileExistsError):
                os.mkdir(path)
            start = manager.checkpoints.log_starts.get(key, 0)
            log = Log.create(path, *key, config, now_ms, manager.open_files, manager.totals, start)
            write_topic_id(log.directory, topic_id)
        except OSError as error:
            manager.failures.suspect(path, error)
            raise StorageError(f"cannot create {path}: {error.strerror}") from error
        return log
