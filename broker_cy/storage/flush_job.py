"""Flushing a log to the disk, or only to the page cache, in a worker thread.

A job writes through a descriptor of the log's directory: while it waits for a worker, the topic may be deleted and
another one created under its name, with other epochs and producers.
"""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import field
from typing import TYPE_CHECKING

from broker_cy.core.classes import dataclass
from broker_cy.storage import epochs, noted_state, snapshots
from broker_cy.storage.atomic import write_atomically

if TYPE_CHECKING:
    from broker_cy.storage.log import Log
    from broker_cy.storage.syncs import LogSyncs


@dataclass(slots=True)
class FlushJob:
    """The data of one log to flush, copied from it on the loop (Log.begin_flush).

    `run` (or `note`) blocks, and touches only files, and none if the log was closed meanwhile; then
    `log_flush.complete_flush` (`complete_note`) applies the result on the loop.
    """

    log: Log
    # The syncs of the log when the job was created: others, if it was moved to another data directory meanwhile.
    syncs: LogSyncs
    end_offset: int
    # Value of the log when the job was created: a truncation meanwhile makes the result invalid.
    generation: int
    unflushed_bytes: int
    # The start of the time that flush.ms limits.
    begun_ms: int = -1
    paths: list[str] = field(default_factory=list)
    # Directories with files that are new since the last flush; the log's own directory is synced in any case.
    directories: list[str] = field(default_factory=list)
    # `names_changed` of LogSyncs when the job was created, if it has directories.
    names: int = 0
    snapshot: bytes = b""
    superseded_snapshot: int = -1
    # For `note`: the slot that it writes (storage.noted_state), and whether the content of the other slot is not valid.
    slot: int = 0
    forgets_other: bool = False
    epochs: bytes = b""
    # The `paths` that do not exist (log_flush.refuse_missing).
    missing: list[str] = field(default_factory=list)
    error: OSError | None = None

    def run(self) -> None:
        """Write producer state and epochs. An OSError is kept in `error`."""
        fd = self._open()
        if fd < 0:
            return
        try:
            self._write_snapshot(fd)
            write_atomically(epochs.FILE_NAME, self.epochs, sync=False, dir_fd=fd)
            self.paths.append(f"{self.log.directory}/{epochs.FILE_NAME}")
        except OSError as error:
            self.error = error
        finally:
            os.close(fd)

    def sync(self) -> None:
        """Sync the files that `run` has written and those that existed before. An OSError is kept in `error`."""
        try:
            for path in self.paths:
                if not self.log.closed and not self.syncs.file(path):
                    self.missing.append(path)
            for path in dict.fromkeys([self.log.directory, *self.directories]):
                if not self.log.closed:
                    self.syncs.names(path)
        except OSError as error:
            self.error = error

    def remove_superseded(self) -> None:
        """Remove the snapshot of the previous flush, now that a newer one is on disk. An OSError is kept in `error`."""
        if self.superseded_snapshot < 0 or self.superseded_snapshot == self.end_offset:
            return
        fd = self._open()
        if fd < 0:
            return
        try:
            with suppress(FileNotFoundError):
                os.unlink(snapshots.name_of(self.superseded_snapshot), dir_fd=fd)
        except OSError as error:
            self.error = error
        finally:
            os.close(fd)

    def note(self) -> None:
        """Write producer state without a sync: the page cache outlives the process. Epochs are written when they
        change. An OSError is kept in `error`.
        """
        fd = self._open()
        if fd < 0:
            return
        try:
            if self.forgets_other:
                noted_state.forget(fd, [slot for slot in range(noted_state.SLOTS) if slot != self.slot])
            noted_state.write(fd, self.slot, self.end_offset, self.snapshot)
        except OSError as error:
            self.error = error
        finally:
            os.close(fd)

    def _open(self) -> int:
        """Open a descriptor of the log's directory; -1 if the log was closed, or with an OSError kept in `error`."""
        try:
            fd = os.open(self.log.directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError as error:
            self.error = error
            return -1
        # A log is closed before its directory is renamed. So if the log is not closed now, the descriptor is that of
        # its directory.
        if self.log.closed:
            os.close(fd)
            return -1
        return fd

    def _write_snapshot(self, fd: int) -> None:
        """Write the snapshot of producer state, unless it exists already because a segment begins at that offset."""
        name = snapshots.name_of(self.end_offset)
        try:
            os.stat(name, dir_fd=fd)
        except FileNotFoundError:
            write_atomically(name, self.snapshot, sync=False, dir_fd=fd)
        self.paths.append(f"{self.log.directory}/{name}")
