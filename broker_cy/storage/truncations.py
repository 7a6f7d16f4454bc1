"""The checkpoints after logs were truncated, for all logs of a turn together.

A truncated log is shorter than its checkpoints. If records were appended before the checkpoints on disk are corrected,
a start after a power loss would not check them. So the log accepts no appends until a worker has written the
checkpoints, and has synced the names of files that a cut removed: a power loss could bring back the producer state of
other records. Each write syncs three files of a data directory, for any number of logs: after a failover a thousand
partitions may diverge from their new leaders, and one write each would take longer than a broker's session.

The loop cuts the files themselves. That needs no sync, because the records behind the cut are not acknowledged.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress

from broker_cy.core.logs import facts
from broker_cy.storage import disk
from broker_cy.storage.checkpoints import LOG_START_OFFSETS, RECOVERY_POINTS, TopicPartition
from broker_cy.storage.flusher import SYNC_FILES_MAX
from broker_cy.storage.jobs import Jobs
from broker_cy.storage.log import Log
from broker_cy.storage.offset_checkpoints import Content, OffsetCheckpoints
from broker_cy.storage.written_points import WRITTEN_POINTS

logger = logging.getLogger(__name__)

NAMES = (LOG_START_OFFSETS, RECOVERY_POINTS, WRITTEN_POINTS)
# Until the next attempt, if a disk refuses the checkpoints.
RETRY_MS = 1_000


class Truncations:
    """Logs that were truncated, until their checkpoints are on disk. One job runs at a time, for all data directories
    that have such logs; logs that are truncated during it are in the next one. Bounded by the number of logs.
    """

    def __init__(
        self,
        logs: Mapping[TopicPartition, Log],
        offline: Iterable[TopicPartition],
        checkpoints: OffsetCheckpoints,
        jobs: Jobs,
    ) -> None:
        """`logs` and `offline` are the log manager's."""
        self._logs = logs
        self._offline = offline
        self._checkpoints = checkpoints
        self._jobs = jobs
        self._pending: dict[Log, Callable[[], None]] = {}
        self._scheduled = False  # a job runs, or will
        self._has_failed = False

    def add(self, log: Log, done: Callable[[], None]) -> None:
        """Call `done()` on the loop, never within this call, once the checkpoints of a truncated log are on disk, or
        the log is closed. If it is called twice for a log meanwhile, only the later `done` is called.
        """
        self._pending[log] = done
        if not self._scheduled:
            # After all truncations of this turn of the loop.
            self._schedule(0)

    def __contains__(self, log: Log) -> bool:
        return log in self._pending

    def _schedule(self, delay_ms: int) -> None:
        self._scheduled = True
        self._jobs.later(delay_ms, self._begin)

    def _begin(self) -> None:
        begun = dict(self._pending)
        wanted: dict[str, list[Content]] = {os.path.dirname(log.directory): [] for log in begun if not log.closed}
        for content in self._checkpoints.collect(NAMES, self._logs, self._offline):
            root = os.path.dirname(content.path)
            if root in wanted:
                wanted[root].append(content)

        renamed = [log for log in begun if not log.closed and log.syncs.names_are_due]

        def done(failures: dict[str, OSError] | None, error: BaseException | None) -> None:
            # A defect: nothing is known of any of them.
            self._end(begun, failures if failures is not None else dict.fromkeys(wanted, OSError(str(error))))

        self._jobs.run(lambda: self._write(wanted, renamed), done)

    def _write(self, wanted: Mapping[str, list[Content]], renamed: list[Log]) -> dict[str, OSError]:
        """Write the checkpoints of each data directory, and sync the names in those of `renamed`, in a worker. Returns
        the errors by data directory.
        """
        failures: dict[str, OSError] = {}
        for root, contents in wanted.items():
            logs = [log for log in renamed if os.path.dirname(log.directory) == root]
            try:
                if len(logs) > SYNC_FILES_MAX:
                    disk.sync_filesystem(root)
                else:
                    for log in logs:
                        with suppress(FileNotFoundError):  # the partition was deleted meanwhile
                            log.syncs.names(log.directory)
                self._checkpoints.write(contents)
            except OSError as error:
                failures[root] = error
        return failures

    def _end(self, begun: dict[Log, Callable[[], None]], failures: Mapping[str, OSError]) -> None:
        self._scheduled = False
        settled: list[Callable[[], None]] = []
        for log, callback in begun.items():
            if self._pending[log] is callback and (log.closed or os.path.dirname(log.directory) not in failures):
                del self._pending[log]
                settled.append(callback)
        if failures and not self._has_failed:
            for root, error in failures.items():
                logger.error("could not checkpoint truncated logs; will retry", extra=facts(path=root, reason=error))
        self._has_failed = bool(failures)
        if self._pending:
            self._schedule(RETRY_MS if failures else 0)
        for callback in settled:
            callback()
