"""Loading the logs of all data directories at a start, for the log manager.

A directory that cannot be read has failed, and the others are loaded. The logs that have to be recovered after a power
loss are loaded last, in threads for each disk: disks do not wait for each other.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Container, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Protocol
from uuid import UUID

from broker_cy.core.logs import facts
from broker_cy.storage import log_flush, syncs
from broker_cy.storage.checkpoints import TopicPartition
from broker_cy.storage.data_directory import (
    METADATA_TOPIC,
    DataDirectory,
    mark_of,
    moved_partition,
    read_topic_id,
    room,
    topic_id_in,
)
from broker_cy.storage.duplicates import newer_elsewhere, superfluous
from broker_cy.storage.errors import DISK_FAILURES, StorageError, errno_of
from broker_cy.storage.jobs import RunAll
from broker_cy.storage.log import Log
from broker_cy.storage.log_config import LogConfig
from broker_cy.storage.log_loader import LoadContext
from broker_cy.storage.log_loading import LogLoading, with_cleaned
from broker_cy.storage.log_opener import LogOpener, Unopened
from broker_cy.storage.open_directories import usable
from broker_cy.storage.start_listing import Listing

if TYPE_CHECKING:
    from broker_cy.storage.cleaner.log_cleaner import LogCleaner
    from broker_cy.storage.directory_failures import DirectoryFailures
    from broker_cy.storage.offline_logs import OfflineLogs
    from broker_cy.storage.offset_checkpoints import OffsetCheckpoints
    from broker_cy.storage.placement import Placement
    from broker_cy.storage.removal import Removal
    from broker_cy.storage.settings import StorageSettings

logger = logging.getLogger(__name__)

NO_TOPIC_ID = UUID(int=0)
# Partitions between two reports of the progress.
TOLD_EACH = 64
# Returned instead of a reason why a partition cannot be loaded: the directory is that of no partition of this broker.
STRAY = Exception("stray")
# A partition with the path of its directory, and a function that loads its log.
Recovered = tuple[TopicPartition, str, Callable[[], Log]]
ConfigOf = Callable[[str], LogConfig]
IdOf = Callable[[str, int], UUID | None]


class Managed(Protocol):
    """The parts of the log manager that a start fills."""

    data_directories: list[DataDirectory]
    settings: StorageSettings
    logs: dict[TopicPartition, Log]
    topic_ids: dict[TopicPartition, UUID]
    offline: dict[TopicPartition, str]
    offline_logs: OfflineLogs
    interrupted: dict[TopicPartition, DataDirectory]
    cleaner: LogCleaner | None
    checkpoints: OffsetCheckpoints
    failures: DirectoryFailures
    opener: LogOpener
    placement: Placement
    removal: Removal
    on_progress: Callable[[int], None] | None

    def add(self, key: TopicPartition, log: Log) -> None: ...

    def context(self, root: str, now_ms: int) -> LoadContext: ...

    def has_failed(self, root: str) -> bool: ...

    def rename_away(self, path: str, mark: str, topic_id: UUID, delay_ms: int) -> None: ...

    def resume_move(self, key: TopicPartition) -> None: ...


class DirectoryLoading:
    """`load` fills the tables of `manager`; `may_open_late` returns whether a log may be opened after the start."""

    def __init__(
        self,
        manager: Managed,
        loading: LogLoading,
        run_all: RunAll,
        may_open_late: Callable[[TopicPartition, LoadContext], bool],
    ) -> None:
        self._manager = manager
        self._loading = loading
        self._run_all = run_all
        self._may_open_late = may_open_late

    def load(
        self,
        listings: Sequence[Listing],
        config_of: ConfigOf,
        now_ms: int,
        topic_id_of: IdOf | None,
        directory_id_of: IdOf,
        is_spare: Callable[[str, int], bool],
        *,
        late: bool,
    ) -> None:
        """Load the logs, or leave them to the opener. `listings` are those of the data directories. For the other
        arguments and errors see LogManager.load.
        """
        manager = self._manager
        listings = self._usable(listings)
        renamed = set(superfluous(listings, topic_id_of, directory_id_of, is_spare))
        for path in sorted(renamed):
            logger.warning("added -stray to the name of a copy in another data directory", extra=facts(path=path))
            manager.rename_away(path, "stray", NO_TOPIC_ID, -1)

        def doubt_of(key: TopicPartition) -> str | None:
            is_replicated = self._loading.is_replicated(*key)
            return None if is_replicated else newer_elsewhere(directory_id_of(*key), manager.data_directories)

        recovered: list[Recovered] = []
        for listing in listings:
            data_directory = listing.directory
            try:
                recovered += self._load_directory(listing, renamed, config_of, now_ms, topic_id_of, doubt_of, late=late)
                self._clear_up(listing)
                data_directory.unmark_clean()
            except (StorageError, OSError) as error:
                if errno_of(error) not in DISK_FAILURES:
                    raise
                manager.failures.fail(data_directory, error)
                self._unload(data_directory)
        for key in [key for key in manager.interrupted if key in manager.logs]:
            manager.resume_move(key)
        self._recover([each for each in recovered if not manager.has_failed(os.path.dirname(each[1]))])
        for each in usable(manager.data_directories):
            with suppress(OSError):
                manager.placement.measured(each.path, *room(each.path))

    def _usable(self, listings: Sequence[Listing]) -> list[Listing]:
        """The listings without those of failed directories. One that could not be listed has failed."""
        for each in listings:
            if each.error is not None and each.directory.failure is None:
                self._manager.failures.fail(each.directory, each.error)
        return [each for each in listings if each.directory.failure is None]

    def _load_directory(
        self,
        listing: Listing,
        renamed: Container[str],
        config_of: ConfigOf,
        now_ms: int,
        topic_id_of: IdOf | None,
        doubt_of: Callable[[TopicPartition], str | None],
        *,
        late: bool,
    ) -> list[Recovered]:
        """Load the logs of one data directory, but not those whose directories are `renamed`, or return those that have
        to be recovered after a power loss, for `_recover`. `doubt_of` says why a log must not be served, or None.
        Raises StorageError.
        """
        manager, root = self._manager, listing.directory.path
        recovered: list[Recovered] = []
        configs: dict[str, LogConfig] = {}
        context = with_cleaned(manager.context(root, now_ms), root)
        for number, (name, key, content) in enumerate(listing.partitions):
            if not number % TOLD_EACH:
                self._tell()
            path = f"{root}/{name}"
            if key[0] == METADATA_TOPIC or path in renamed:
                continue
            problem = self._identify(key, root, path, content, topic_id_of)
            if problem is STRAY:
                continue
            manager.placement.add(root)
            if problem is not None:
                manager.offline_logs.take(key, path, problem)
                continue
            if (doubt := doubt_of(key)) is not None:
                logger.error("partition offline", extra=facts(partition=f"{key[0]}-{key[1]}", reason=doubt))
                manager.offline[key] = doubt
                continue
            # A sync that failed has left a mark: the pages that must be written again may be evicted from memory.
            if late and self._may_open_late(key, context) and (content is not None or not syncs.has_failed(path)):
                prepare = partial(self._loading.late, key, path, config_of, context)
                manager.opener.add(Unopened(key, root, path, context.clean, prepare))
                continue
            if key[0] not in configs:
                configs[key[0]] = config_of(key[0])
            if context.power_lost and not context.clean:
                recovered.append((key, path, self._loading.late(key, path, configs.__getitem__, context)))
            else:
                self._load_one(key, path, configs[key[0]], context)
        return recovered

    def _clear_up(self, listing: Listing) -> None:
        """Remove, or report, the directories that are not those of partitions in use."""
        for name in listing.others:
            path, mark = f"{listing.directory.path}/{name}", mark_of(name)
            if mark == "delete":
                self._manager.removal.directory(path, 0)
            elif mark == "future" and (moved := moved_partition(name)) is not None:
                # A move begins again, because its copy may be torn.
                self._manager.interrupted[moved] = listing.directory
                self._manager.removal.directory(path, 0)
            elif mark is not None:
                logger.warning("ignored a copy of a partition", extra=facts(path=path, kind=mark))

    def _identify(
        self, key: TopicPartition, root: str, path: str, content: bytes | None, topic_id_of: IdOf | None
    ) -> Exception | None:
        """Determine which topic the directory of a partition in `root` belongs to, and accept its checkpoint entries.
        `content` is that of its `partition.metadata`, None: not known. Returns STRAY if the directory is not that of
        the partition (see LogManager.load), or the error that leaves this open.

        A directory without a topic id is a stray, too, as in Kafka: the process ended, or the power was lost, before
        the first sync of a new log, perhaps one of a deleted topic of this name. Raises StorageError if a stray cannot
        be renamed.
        """
        manager = self._manager
        expected = topic_id_of(*key) if topic_id_of is not None else None
        problem: Exception | None = None
        try:
            topic_id = _topic_id(path, content)
        except (OSError, ValueError) as error:
            topic_id, problem = expected, error
        if topic_id_of is not None and (expected is None or topic_id != expected):
            logger.warning(
                "added -stray to the name of a directory that belongs to no partition of this broker",
                extra=facts(path=path),
            )
            manager.rename_away(path, "stray", topic_id or NO_TOPIC_ID, -1)
            return STRAY
        if topic_id is not None:
            manager.topic_ids[key] = topic_id
        manager.checkpoints.accept(root, key, topic_id)
        if manager.cleaner is not None:
            manager.cleaner.accept(key, topic_id)
        return problem

    def _load_one(self, key: TopicPartition, path: str, config: LogConfig, context: LoadContext) -> None:
        try:
            log = self._loading.load(key, path, config, context)
        except (StorageError, OSError, ValueError) as error:
            self._manager.offline_logs.take(key, path, error)
        else:
            self._manager.add(key, log)

    def _recover(self, recovered: Sequence[Recovered]) -> None:
        """Recover logs after a power loss, in threads for each disk."""
        jobs = [(os.path.dirname(path), load) for _, path, load in recovered]
        results = self._run_all(jobs, self._manager.settings.recovery_threads)
        for (key, path, _), found in zip(recovered, results, strict=True):
            self._tell()
            if isinstance(found, Log):
                self._loading.adopt(found)
                self._manager.add(key, found)
            elif isinstance(found, (StorageError, OSError, ValueError)):
                self._manager.offline_logs.take(key, path, found)
            else:
                raise found

    def _tell(self) -> None:
        if self._manager.on_progress is not None:
            self._manager.on_progress(len(self._manager.logs))

    def _unload(self, data_directory: DataDirectory) -> None:
        """The disk of a data directory has failed while its logs were loaded."""
        manager = self._manager
        for key, log in list(manager.logs.items()):
            if key[0] != METADATA_TOPIC and os.path.dirname(log.directory) == data_directory.path:
                log_flush.mark_closed(manager.logs.pop(key))
                manager.offline[key] = str(data_directory.failure)


def _topic_id(path: str, content: bytes | None) -> UUID | None:
    """See read_topic_id; `content` is known to be that of the file, or None."""
    if content is not None:
        with suppress(ValueError):
            return topic_id_in(content)
    # The error names the file.
    return read_topic_id(path)
