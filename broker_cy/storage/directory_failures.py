"""Data directories whose disk has failed (Kafka's LogDirFailureChannel).

Kafka takes a directory offline at the first IOException. Here an error of one file affects only that file: a worker
then writes and syncs a file of its own in the data directory. If that fails, too, the disk has failed. A full disk has
not failed, nor a disk whose process lacks descriptors. A data directory without its meta.properties has failed, too: it
was removed, or its disk was unmounted, and the mount point is on another disk. This process does not use a failed disk
again: only a start examines a disk that has come back.

A disk may come back while the machine still runs, without the data that was written and not synced: the kernel has
dropped that page cache. So a failure is noted next to the metadata log, if that is on another disk, and the next start
trusts the directory as little as after a power loss. The note is not synced: after a power loss it is not needed.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial

from broker_cy.core.logs import facts
from broker_cy.storage.atomic import read_whole, sync_directory, write_atomically
from broker_cy.storage.data_directory import META_PROPERTIES, DataDirectory, room
from broker_cy.storage.errors import DISK_FAILURES, GONE, SHORTAGES, errno_of
from broker_cy.storage.jobs import Jobs
from broker_cy.storage.written_points import RUNNING_EPOCH, WRITTEN_POINTS

logger = logging.getLogger(__name__)

# Kafka ignores files in a data directory.
CHECK_FILE = ".disk-check"
CONTENT = bytes(4096)
# In the directory of the metadata log: the paths of the data directories that have failed, one a line.
NOTE_FILE = "failed-data-directories"
NOTE_BYTES_MAX = 64 << 10
# Between two checks of a directory that is not offline: consumers may ask for a damaged part of a file all the time.
PAUSE_MS = 200


def check(path: str) -> None:
    """Write, sync and remove a file in a data directory that is still there. Blocks. Raises OSError."""
    os.stat(f"{path}/{META_PROPERTIES}")
    write_atomically(f"{path}/{CHECK_FILE}", CONTENT, sync=True)
    os.unlink(f"{path}/{CHECK_FILE}")


def measure(path: str) -> tuple[int, int]:
    """Return (free bytes, total bytes) of the file system of a data directory that is still there. Raises OSError."""
    os.stat(f"{path}/{META_PROPERTIES}")
    return room(path)


def note(metadata_root: str, path: str) -> None:
    """Note that a data directory has failed. Raises OSError."""
    noted = dict.fromkeys([*_noted(metadata_root), path])
    write_atomically(f"{metadata_root}/{NOTE_FILE}", "".join(f"{each}\n" for each in noted).encode(), sync=False)


def distrust(metadata_root: str, directories: Sequence[DataDirectory]) -> None:
    """At a start: let data directories that had failed be read as after a power loss, and note those that are offline
    now. Blocks. Raises OSError if the note cannot be written.
    """
    noted = _noted(metadata_root)
    for directory in directories:
        if directory.failure is None and directory.path in noted:
            try:
                _distrust(directory.path)
            except OSError as error:
                directory.failure = f"the data directory {directory.path} failed: {error}"
                logger.error("data directory offline", extra=facts(path=directory.path, reason=error))
    still = [each.path for each in directories if each.failure is not None and each.path != metadata_root]
    if still:
        write_atomically(f"{metadata_root}/{NOTE_FILE}", "".join(f"{each}\n" for each in still).encode(), sync=False)
    elif noted:
        os.unlink(f"{metadata_root}/{NOTE_FILE}")


def _distrust(path: str) -> None:
    logger.warning("the disk of a data directory had failed: its logs are recovered", extra=facts(path=path))
    for name in (WRITTEN_POINTS, RUNNING_EPOCH):
        with suppress(FileNotFoundError):
            os.unlink(f"{path}/{name}")
    sync_directory(path)


def _noted(metadata_root: str) -> list[str]:
    try:
        return read_whole(f"{metadata_root}/{NOTE_FILE}", NOTE_BYTES_MAX).decode(errors="replace").splitlines()
    except FileNotFoundError:
        return []


class DirectoryFailures:
    """`suspect` is called on the loop with each error of a disk; `on_failed` with each directory that has failed."""

    def __init__(
        self,
        directories: Sequence[DataDirectory],
        jobs: Jobs,
        on_failed: Callable[[DataDirectory], None],
        metadata_root: str | None = None,
    ) -> None:
        """`metadata_root` is the directory of the metadata log."""
        self._directories = directories
        self._jobs = jobs
        self._on_failed = on_failed
        self._metadata_root = metadata_root
        # By path, those that are being checked or were a moment ago: whether to check again after that.
        self._checking: dict[str, bool] = {}

    def suspect(self, path: str | None, error: BaseException) -> None:
        """An access to `path` failed; None: to any data directory. Errors unrelated to the disk are ignored."""
        if errno_of(error, 0) not in DISK_FAILURES | GONE:
            return
        for directory in self._directories:
            is_there = path is None or path == directory.path or path.startswith(f"{directory.path}/")
            if is_there and directory.failure is None:
                self._check(directory)

    def fail(self, directory: DataDirectory, error: BaseException) -> None:
        """A directory cannot be listed or marked at the start: it has failed. Blocks."""
        if directory.failure is None:
            self._note(directory.path)
            self._failed(directory, error)

    def _check(self, directory: DataDirectory) -> None:
        if directory.path in self._checking:
            self._checking[directory.path] = True
            return
        self._checking[directory.path] = False
        self._jobs.run(partial(self._look, directory.path), lambda _, error: self._checked(directory, error))

    def _look(self, path: str) -> None:
        """Check a directory, in a worker. Raises OSError."""
        try:
            check(path)
        except OSError as error:
            if errno_of(error) not in SHORTAGES:
                self._note(path)
            raise

    def _note(self, path: str) -> None:
        if self._metadata_root in (None, path):
            return
        try:
            note(str(self._metadata_root), path)
        except OSError as failure:
            logger.error("could not note a failed data directory", extra=facts(path=path, reason=failure))

    def _checked(self, directory: DataDirectory, error: BaseException | None) -> None:
        if error is None or errno_of(error) in SHORTAGES:
            self._jobs.later(PAUSE_MS, lambda: self._rested(directory))
        elif directory.failure is None:
            self._failed(directory, error)

    def _failed(self, directory: DataDirectory, error: BaseException) -> None:
        directory.failure = f"the data directory {directory.path} failed: {error}"
        logger.error("data directory offline", extra=facts(path=directory.path, reason=error))
        self._on_failed(directory)

    def _rested(self, directory: DataDirectory) -> None:
        if self._checking.pop(directory.path):
            self._check(directory)
