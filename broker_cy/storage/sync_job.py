"""The sync that an acknowledgement waits for (flush.messages), in a worker thread."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import field

from broker_cy.core.classes import dataclass
from broker_cy.storage.syncs import LogSyncs


@dataclass(slots=True)
class SyncJob:
    """Files of one log whose content has to be on disk before the written records are acknowledged.

    `log_flush.begin_sync` creates it on the loop; `run` blocks; then `log_flush.complete_sync` applies the result
    on the loop. The files are opened one by one, so that few descriptors are in use even with thousands of partitions
    in a round.
    """

    syncs: LogSyncs
    end_offset: int
    # Value of the log when the job was created: a truncation since then makes the result invalid.
    generation: int
    paths: list[str] = field(default_factory=list)
    # Directories with files that are new since the last sync.
    directories: list[str] = field(default_factory=list)
    # `names_changed` of LogSyncs when the job was created, if it has directories.
    names: int = 0
    # The `paths` that do not exist (log_flush.refuse_missing).
    missing: list[str] = field(default_factory=list)
    error: OSError | None = None

    def run(self) -> SyncJob:
        """Sync the files, then the directories. Files that do not exist are in `missing` then. An OSError is kept in
        `error`.
        """
        try:
            for path in self.paths:
                if not self.syncs.file(path):
                    self.missing.append(path)
            for path in self.directories:
                with suppress(FileNotFoundError):
                    self.syncs.names(path)
        except OSError as error:
            self.error = error
        return self
