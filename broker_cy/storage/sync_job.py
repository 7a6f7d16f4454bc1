"""The sync that an acknowledgement waits for (flush.messages), in a worker thread."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field

from broker_cy.storage.syncs import LogSyncs


@dataclass(slots=True)
class SyncJob:
    """Files of one log whose content has to be on disk before what was written is acknowledged.

    Made on the loop by `maintenance.begin_sync`; `run` blocks; then `maintenance.complete_sync` takes the result on the
    loop. The files are opened one by one: with thousands of partitions in a round there are few descriptors in use.
    """

    syncs: LogSyncs
    end_offset: int
    # Of the log when the job was made: a truncation meanwhile makes the result worthless.
    generation: int
    paths: list[str] = field(default_factory=list)
    # Those that hold files which are new since the last sync.
    directories: list[str] = field(default_factory=list)
    # Of LogSyncs when the job was made, where it has directories.
    names: int = 0
    error: OSError | None = None

    def run(self) -> SyncJob:
        """Sync the files, then the directories; what was deleted meanwhile needs no sync. An OSError is kept in
        `error`.
        """
        try:
            for path in self.paths:
                self.syncs.file(path)
            for path in self.directories:
                with suppress(FileNotFoundError):
                    self.syncs.names(path)
        except OSError as error:
            self.error = error
        return self
