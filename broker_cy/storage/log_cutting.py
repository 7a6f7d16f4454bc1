"""Logs of followers are cut: where they differ from their leaders, or as a whole.

The loop renames the files of dropped segments, and a worker removes them. Until the checkpoints of a cut log are
written (`truncations`), nothing may be appended to it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, Protocol

from broker_cy.storage import log_deletion, log_truncation
from broker_cy.storage.errors import StorageError
from broker_cy.storage.log import Log
from broker_cy.storage.segment_files import DATA_SUFFIXES

if TYPE_CHECKING:
    from broker_cy.storage.cleaner.log_cleaner import LogCleaner
    from broker_cy.storage.moves.replica_moves import ReplicaMoves
    from broker_cy.storage.removal import Removal
    from broker_cy.storage.truncations import Truncations


class Managed(Protocol):
    """The parts of the log manager that have to know of a cut."""

    cleaner: LogCleaner | None
    moves: ReplicaMoves
    removal: Removal
    truncations: Truncations
    on_settled: Callable[[Log], None]

    def suspect(self, path: str | None, error: BaseException) -> None: ...


class LogCutting:
    def __init__(self, manager: Managed) -> None:
        self._manager = manager

    def truncate_to(self, log: Log, offset: int, now_ms: int, done: Callable[[], None]) -> bool:
        """See LogManager.truncate_to."""
        manager = self._manager
        manager.moves.truncated((log.topic, log.partition), offset)
        if manager.cleaner is not None:
            manager.cleaner.truncated((log.topic, log.partition), offset)
        generation = log.generation
        try:
            with self._removed_later() as remove:
                return bool(log_truncation.truncate_to(log, offset, now_ms, remove))
        except OSError as error:
            manager.suspect(log.directory, error)
            raise StorageError(f"cannot truncate {log.directory}: {error.strerror}") from error
        finally:
            # Also if it failed on the way: it may end earlier than before.
            if log.generation != generation:
                manager.truncations.add(log, partial(self._settled, log, done))

    def restart_at(self, log: Log, offset: int, now_ms: int, done: Callable[[], None]) -> None:
        """See LogManager.restart_at."""
        manager = self._manager
        manager.moves.truncated((log.topic, log.partition), -1)
        if manager.cleaner is not None:
            manager.cleaner.truncated((log.topic, log.partition), 0)
        try:
            with self._removed_later() as remove:
                log_truncation.restart_at(log, offset, now_ms, remove)
        except OSError as error:
            manager.suspect(log.directory, error)
            raise StorageError(f"cannot begin {log.directory} again at {offset}: {error.strerror}") from error
        manager.truncations.add(log, partial(self._settled, log, done))

    @contextmanager
    def _removed_later(self) -> Iterator[Callable[[str, int], None]]:
        """Give a function that renames the files of a segment, which a worker then removes: the file system needs about
        0.1 s to free a gigabyte of cached records.
        """
        renamed: list[str] = []
        try:
            yield partial(_rename_segment, renamed)
        finally:
            self._manager.removal.files(renamed, 0)

    def _settled(self, log: Log, done: Callable[[], None]) -> None:
        done()
        self._manager.on_settled(log)


def _rename_segment(renamed: list[str], directory: str, base_offset: int) -> None:
    """Add the new names of the files of a segment to `renamed`. Raises OSError as log_deletion.remove_segment: an index
    that stays would belong to the next segment of the name.
    """
    for suffix in DATA_SUFFIXES:
        path = f"{directory}/{base_offset:020d}{suffix}"
        with suppress(FileNotFoundError):
            os.rename(path, path + log_deletion.DELETED)
            renamed.append(path + log_deletion.DELETED)
