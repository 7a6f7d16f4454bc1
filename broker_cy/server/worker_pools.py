"""The worker threads of a node: one pool for each kind of work that must not wait for the others."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from broker_cy.server.jobs import LoopJobs
from broker_cy.storage.disk_workers import DiskWorkers, Workers

if TYPE_CHECKING:
    from broker_cy.network.seams import Seams

# For fsync, removals and snapshots.
BACKGROUND_WORKERS = 2
# For votes and syncs of the metadata log, and for other nodes' reads of it: they do not wait for flushes of partitions.
METADATA_WORKERS = 2
# Cleaner threads beyond this number wait for each other; no machine needs more.
CLEANER_THREADS_MAX = 256
# Opening threads beyond this number wait for each other.
OPENING_THREADS_MAX = 256
# Concurrent cold reads, each for one consumer; further ones queue.
COLD_READERS = 4
# Threads of one round of group commit: a disk syncs several files at the same time, and they share a journal commit.
SYNC_THREADS = 8


class NodePools:
    """The pools of every node; `directories` is the number of its data directories."""

    def __init__(self, seams: Seams, directories: int) -> None:
        pool = seams.workers.pool
        self.background = pool("background", BACKGROUND_WORKERS)
        self.metadata = pool("metadata", METADATA_WORKERS)
        # Measures the free bytes of disks. A thread for each disk, also for that of the metadata log, because a disk
        # that hangs keeps its thread.
        self._rooms = pool("disk-room", directories + 1)
        self.background_jobs = LoopJobs(seams.loop, self.background)
        self.room_jobs = LoopJobs(seams.loop, self._rooms)
        # For the recovery of logs at a start.
        self.run_all = seams.workers.run_all

    def stop(self) -> None:
        """Wait for work that has begun, and drop the rest. Blocks."""
        self.background_jobs.stop()
        self.room_jobs.stop()
        self._rooms.shutdown(wait=False, cancel_futures=True)
        self.metadata.shutdown(wait=True, cancel_futures=True)
        self.background.shutdown(wait=True, cancel_futures=True)


class BrokerPools(NodePools):
    """The pools of a broker with these data directories."""

    def __init__(self, seams: Seams, directories: Sequence[str]) -> None:
        super().__init__(seams, len(directories))
        pool = seams.workers.pool
        names = {path: f"-{number}" if len(directories) > 1 else "" for number, path in enumerate(directories)}
        # log.cleaner.threads of them are in use; that setting may be raised while the broker runs.
        self._cleaner = pool("cleaner", CLEANER_THREADS_MAX)
        self.cold_reader = pool("cold-read", COLD_READERS)
        # One of each for each disk: no disk waits for another one.
        self._syncs = {path: pool(f"sync{name}", SYNC_THREADS) for path, name in names.items()}
        # Notes of how far the logs were written: both background workers may wait for the disk.
        self._notes = {path: pool(f"note{name}", 1) for path, name in names.items()}
        # For a single disk, the background workers.
        several = names if len(names) > 1 else {}
        self._files = {path: pool(f"files{name}", BACKGROUND_WORKERS) for path, name in several.items()}
        # num.recovery.threads.per.data.dir of them for each disk are in use; it may be raised while the broker runs.
        self._open = pool("open", OPENING_THREADS_MAX)
        # One thread: no two large batches are decompressed, and in memory, at the same time.
        self._check = pool("check", 1)
        # Looks whether a disk has failed: the other workers may all wait for it. A thread for each disk, as above.
        self._disk = pool("disk-check", len(directories) + 1)
        self.cleaner_jobs = LoopJobs(seams.loop, self._cleaner)
        self.sync_jobs = {path: LoopJobs(seams.loop, each) for path, each in self._syncs.items()}
        self.open_jobs = LoopJobs(seams.loop, self._open)
        self.check_jobs = LoopJobs(seams.loop, self._check)
        self.disk_jobs = LoopJobs(seams.loop, self._disk)
        note_jobs = {path: LoopJobs(seams.loop, each) for path, each in self._notes.items()}
        file_jobs = {path: LoopJobs(seams.loop, each) for path, each in self._files.items()}
        self._disk_jobs = (*note_jobs.values(), *file_jobs.values())
        by_directory = {path: Workers(file_jobs.get(path, self.background_jobs), note_jobs[path]) for path in names}
        self.disk_workers = DiskWorkers(next(iter(by_directory.values())), by_directory)

    def stop(self) -> None:
        """Wait for work on files that has begun, and drop the rest. Blocks."""
        self._cleaner.shutdown(wait=True, cancel_futures=True)
        for jobs in (
            self.background_jobs, *self._disk_jobs, *self.sync_jobs.values(), self.check_jobs, self.open_jobs,
            self.disk_jobs,
        ):  # fmt: skip
            jobs.stop()
        for pool in (*self._notes.values(), self._open, *self._syncs.values(), *self._files.values()):
            pool.shutdown(wait=True, cancel_futures=True)
        super().stop()
        for pool in (self.cold_reader, self._check, self._disk):
            pool.shutdown(wait=False, cancel_futures=True)
