"""Bringing what a log has written onto the disk, or only out of this process, in a worker thread."""

import os
from dataclasses import dataclass, field

from broker_cy.storage import disk, noted_state, snapshots
from broker_cy.storage.atomic import sync_directory, write_atomically


@dataclass(slots=True)
class FlushJob:
    """What one log has to bring to disk, copied from it on the loop (Log.begin_flush).

    `run` (or `note`) blocks, and touches files only; then `maintenance.complete_flush` (`complete_note`) takes the
    result on the loop.
    """

    directory: str
    end_offset: int
    # Of the log when the job was made: a truncation meanwhile makes the result worthless.
    generation: int
    unflushed_bytes: int
    # What flush.ms counts from.
    begun_ms: int = -1
    paths: list[str] = field(default_factory=list)
    # Those that hold files which are new since the last flush; the log's own is synced in any case.
    directories: list[str] = field(default_factory=list)
    snapshot: bytes = b""
    superseded_snapshot: int = -1
    # Of `note`: which of the two files it writes (storage.noted_state), and whether the other is not to be believed.
    slot: int = 0
    forgets_other: bool = False
    epochs_path: str = ""
    epochs: bytes = b""
    error: OSError | None = None
    # A sync failed: what it was to bring to disk may be gone from the page cache, and a later sync would not tell.
    sync_failed: bool = False

    def run(self, *, synced: bool = False) -> "FlushJob":
        """Write producer state and epochs, sync the files and the directory; with `synced` the caller syncs the whole
        file system afterwards. An OSError is kept in `error`.
        """
        try:
            self.paths.append(self._write_snapshot())
            write_atomically(self.epochs_path, self.epochs, sync=False)
            self.paths.append(self.epochs_path)
            if not synced:
                self._sync()
            self._remove_superseded()
        except OSError as error:
            self.error = error
        return self

    def note(self) -> None:
        """Write producer state and sync nothing: the page cache outlives the process. Epochs are written when they
        change. An OSError is kept in `error`.
        """
        try:
            if self.forgets_other:
                noted_state.forget(self.directory, [slot for slot in range(noted_state.SLOTS) if slot != self.slot])
            noted_state.write(self.directory, self.slot, self.end_offset, self.snapshot)
        except OSError as error:
            self.error = error

    def _write_snapshot(self) -> str:
        """Its path. There may be one already: a segment begins at that offset."""
        path = snapshots.path_of(self.directory, self.end_offset)
        if not os.path.exists(path):
            write_atomically(path, self.snapshot, sync=False)
        return path

    def _remove_superseded(self) -> None:
        if self.superseded_snapshot >= 0 and self.superseded_snapshot != self.end_offset:
            snapshots.remove(self.directory, self.superseded_snapshot)

    def _sync(self) -> None:
        try:
            for path in self.paths:
                disk.sync_file(path)
            for path in dict.fromkeys([self.directory, *self.directories]):
                sync_directory(path)
        except OSError:
            self.sync_failed = True
            raise
