"""The syncs of one log's files, and the effect of a failed sync on the log.

When the kernel cannot write a page, it reports the error to one sync only and then treats the page as clean: a later
sync of the same file, also through another descriptor, succeeds. So after a failed sync no later part of the log may be
assumed to be synced. The syncs of one log run one at a time, in any thread, so that no other sync can begin between the
failed sync and the note of its error. That costs little, since a sync also waits for the pages that an earlier one is
writing.

The files appear intact as long as the pages stay in memory, to the next process, too. `FAILED_MARK` in the partition's
directory makes the next start write them again (`write_again`), which makes the pages dirty: the sync that follows
writes them to disk or fails. The mark is also that of a log that could not be recovered after a power loss, for lack of
space: the next start finds that the machine has not restarted since.
"""

from __future__ import annotations

import errno
import logging
import os
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import ParamSpec, TypeVar

from broker_cy.core.logs import facts
from broker_cy.storage import disk
from broker_cy.storage.atomic import sync_directory
from broker_cy.storage.segment_files import SEGMENT_SUFFIXES

logger = logging.getLogger(__name__)

P = ParamSpec("P")
T = TypeVar("T")
# Kafka ignores a file of this name.
FAILED_MARK = "sync-failed"
BLOCK_BYTES = 1 << 20
# Errors of opening the file or directory: no sync was tried, and nothing is lost.
_NOT_TRIED = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOENT})


class LogSyncs:
    """Syncs of the files of the log in `directory`. A sync that fails raises OSError, and so do all after it."""

    __slots__ = ("_lock", "directory", "error", "names_changed", "names_synced")

    def __init__(self, directory: str) -> None:
        self.directory = directory
        # The error of the first sync that failed.
        self.error: OSError | None = None
        # How often names in the directory changed in a way that the next sync of the log has to include, and how many
        # of these changes, with the topic id, are synced. At a start none counts as synced: the offsets are no proof,
        # since a deletion of records moves them past data that was never synced.
        self.names_changed = 1
        self.names_synced = 0
        self._lock = threading.Lock()

    def run(self, sync: Callable[P, T], *args: P.args, **named: P.kwargs) -> T:
        """Call `sync`, which syncs a part of the log, and return its result."""
        with self._lock:
            self.check()
            try:
                return sync(*args, **named)
            except OSError as error:
                if error.errno not in _NOT_TRIED:
                    self._failed(error)
                raise

    def file(self, path: str) -> bool:
        """Sync the content of a file. Returns whether the file exists."""
        return self.run(disk.sync_file, path)

    def names(self, path: str) -> None:
        """Sync the names in a directory."""
        self.run(sync_directory, path)

    @property
    def names_are_due(self) -> bool:
        """Whether the next sync of the log has to include its directory and its topic id."""
        return self.names_synced < self.names_changed

    def check(self) -> None:
        """Raise the error of the sync that failed."""
        if self.error is not None:
            raise OSError(self.error.errno, f"{self.error.strerror} (by an earlier sync)", self.error.filename)

    def _failed(self, error: OSError) -> None:
        self.error = error
        mark_failed(self.directory)


def mark_failed(directory: str) -> None:
    """Make the next start write the partition's files again."""
    try:
        os.close(os.open(f"{directory}/{FAILED_MARK}", os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o644))
    except FileNotFoundError:  # the partition was deleted
        return
    except OSError as failure:
        logger.error("could not record a failed sync", extra=facts(path=directory, reason=failure))


def has_failed(directory: str) -> bool:
    """Whether a sync failed and the files were not written again since."""
    return os.path.exists(f"{directory}/{FAILED_MARK}")


def write_again(directory: str, recovery_point: int) -> None:
    """Write all of a partition's files again, except segments that end at or before `recovery_point`, and sync them.
    Blocks while it writes the bytes that no flush has synced, and the rest of one segment. FAILED_MARK stays until
    `forget_failed`, because the log has to be recovered as after a power loss. Raises OSError.
    """
    with os.scandir(directory) as entries:
        names = sorted(entry.name for entry in entries if entry.is_file(follow_symlinks=False))
    bases = [int(name[:20]) for name in names if name.endswith(".log") and name[:20].isdigit()]
    first = max((base for base in bases if base <= recovery_point), default=0)
    for name in names:
        stem, suffix = os.path.splitext(name)
        is_old = suffix in SEGMENT_SUFFIXES and stem.isdigit() and int(stem) < first
        if not is_old and name != FAILED_MARK:
            with suppress(FileNotFoundError):
                _write_again(f"{directory}/{name}")
    sync_directory(directory)
    sync_directory(os.path.dirname(directory))


def forget_failed(directory: str) -> None:
    """Remove FAILED_MARK: the log is recovered. Raises OSError."""
    os.unlink(f"{directory}/{FAILED_MARK}")


def _write_again(path: str) -> None:
    fd = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    try:
        found = os.fstat(fd)
        position = 0
        while data := os.pread(fd, BLOCK_BYTES, position):
            view = memoryview(data)
            while view:
                written = os.pwrite(fd, view, position)
                position += written
                view = view[written:]
        # Keep the modification time: retention of records without a timestamp is determined by it.
        os.utime(fd, ns=(found.st_atime_ns, found.st_mtime_ns))
        os.fsync(fd)
    finally:
        os.close(fd)
