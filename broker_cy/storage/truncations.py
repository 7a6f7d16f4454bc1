"""The checkpoints after logs were truncated, for all logs of a turn together.

A truncated log is shorter than its checkpoints. If records were appended before the checkpoints on disk are corrected,
a start after a power loss would not check them. So the log accepts no appends until a worker has written the
checkpoints, and has synced the names of files that a cut removed: a power loss could bring back the producer state of
other records. Each write syncs three files of a data directory, for any number of logs: after a failover a thousand
partitions may diverge from their new leaders, and one write each would take longer than a broker's session.

The loop cuts the files themselves. That needs no sync, because the records behind the cut are not acknowledged. The
next sync of the log includes the cut file, even if a later segment has the new records (log_flush). If the power is
lost before that, a start cuts the file again (segment_recovery).
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress

from broker_cy.core.logs import facts
from broker_cy.storage import disk
from broker_cy.storage.checkpoints import LOG_START_OFFSETS, RECOVERY_POINTS, TopicPartition
from broker_cy.storage.disk_workers import DiskWorkers
from broker_cy.storage.flusher import SYNC_FILES_MAX
from broker_cy.storage.log import Log
from broker_cy.storage.offset_checkpoints import Content, OffsetCheckpoints
from broker_cy.storage.written_points import WRITTEN_POINTS

logger = logging.getLogger(__name__)

NAMES = (LOG_START_OFFSETS, RECOVERY_POINTS, WRITTEN_POINTS)
# Until the next attempt, if a disk refuses the checkpoints.
RETRY_MS = 1_000


class Truncations:
    """Logs that were truncated, until their checkpoints are on disk. One job runs at a time for each data directory
    that has such logs; logs that are truncated during it are in the next one. Bounded by the number of logs.
    """

    def __init__(
        self,
        logs: Mapping[TopicPartition, Log],
        offline: Iterable[TopicPartition],
        checkpoints: OffsetCheckpoints,
        workers: DiskWorkers,
        has_failed: Callable[[str], bool],
    ) -> None:
        """`logs` and `offline` are the log manager's. `has_failed` says whether the disk of a data directory has
        failed: nothing can be written there.
        """
        self._logs = logs
        self._offline = offline
        self._checkpoints = checkpoints
        self._workers = workers
        self._has_failed = has_failed
        self._pending: dict[Log, Callable[[], None]] = {}
        self._scheduled: set[str] = set()  # the data directories for which a job runs, or will
        self._refused: set[str] = set()  # those whose last job has failed

    def add(self, log: Log, done: Callable[[], None]) -> None:
        """Call `done()` on the loop, never within this call, once the checkpoints of a truncated log are on disk, or
        the log is closed. If it is called twice for a log meanwhile, only the later `done` is called.
        """
        self._pending[log] = done
        root = os.path.dirname(log.directory)
        if root not in self._scheduled:
            # After all truncations of this turn of the loop.
            self._schedule(root, 0)

    def __contains__(self, log: Log) -> bool:
        return log in self._pending

    def _schedule(self, root: str, delay_ms: int) -> None:
        self._scheduled.add(root)
        self._workers.of(root).later(delay_ms, lambda: self._begin(root))

    def _begin(self, root: str) -> None:
        begun = {log: done for log, done in self._pending.items() if os.path.dirname(log.directory) == root}
        is_needed = not self._has_failed(root) and not all(log.closed for log in begun)
        wanted = self._checkpoints.collect(NAMES, self._logs, self._offline, (root,)) if is_needed else []
        renamed = [log for log in begun if is_needed and not log.closed and log.syncs.names_are_due]
        self._workers.of(root).run(
            lambda: self._write(root, wanted, renamed), lambda _, error: self._end(root, begun, error)
        )

    def _write(self, root: str, wanted: list[Content], renamed: list[Log]) -> None:
        """Write the checkpoints of a data directory, and sync the names in the directories of `renamed`, in a worker.
        Raises OSError.
        """
        if len(renamed) > SYNC_FILES_MAX:
            disk.sync_filesystem(root)
        else:
            for log in renamed:
                with suppress(FileNotFoundError):  # the partition was deleted meanwhile
                    log.syncs.names(log.directory)
        self._checkpoints.write(wanted)

    def _end(self, root: str, begun: dict[Log, Callable[[], None]], error: BaseException | None) -> None:
        self._scheduled.discard(root)
        settled: list[Callable[[], None]] = []
        for log, callback in begun.items():
            if self._pending[log] is callback and (log.closed or error is None or self._has_failed(root)):
                del self._pending[log]
                settled.append(callback)
        if error is None:
            self._refused.discard(root)
        elif root not in self._refused:
            self._refused.add(root)
            logger.error("could not checkpoint truncated logs; will retry", extra=facts(path=root, reason=error))
        if any(os.path.dirname(log.directory) == root for log in self._pending):
            self._schedule(root, RETRY_MS if error is not None else 0)
        for callback in settled:
            callback()
