"""Group commit: partitions whose flush.messages is reached share rounds of fdatasync in worker threads.

A round takes every partition that reached flush.messages before it starts; while it runs, the next one collects partitions. When
the whole round is done, it is reported to the partitions' replicas, which decide on reads and acknowledgements. So the
loop never waits for the disk, and the more producers wait, the more of them one sync serves. The number of partitions bounds a
round: each is in it at most once.
"""

from libc.stdint cimport int64_t

from broker_cy.core.clock cimport now_ns
from broker_cy.metrics.histogram cimport Histogram
from broker_cy.replica.flush_group cimport FlushedPartition, FlushGroup

import errno
from functools import partial

from broker_cy.storage.errors import StorageError, errno_of
from broker_cy.storage.log_flush import begin_sync, complete_sync


cdef class GroupCommit:
    """The rounds of `group`, each in up to `threads` jobs. Called on the loop only."""
    cdef FlushGroup group
    cdef object jobs                # storage.jobs.Jobs
    cdef int threads
    cdef list due                   # partitions of the next round
    cdef list round                 # (Partition, SyncJob or None) of the running round
    cdef Py_ssize_t parts_left
    cdef readonly int64_t rounds    # rounds started so far
    cdef readonly int64_t syncs     # files and directories synced by them
    cdef readonly Histogram round_times
    cdef int64_t began_ns

    def __init__(self, FlushGroup group not None, jobs, int threads):
        self.group = group
        self.jobs = jobs
        self.threads = threads
        self.round_times = Histogram()
        self.due = []
        self.round = []

    def add(self, FlushedPartition partition not None):
        """Add `partition` to the next round."""
        self.due.append(partition)

    def start(self):
        """Begin a round if none is running and a partition waits for one."""
        cdef FlushedPartition partition
        if not self.due or self.round:
            return
        due, self.due = self.due, []
        self.round = [(partition, join(partition)) for partition in due]
        jobs = [job for _, job in self.round if job is not None]
        self.rounds += 1
        self.began_ns = now_ns(&self.group.clock.source)
        for job in jobs:
            self.syncs += len(job.paths) + len(job.directories)
        parts = [jobs[at::self.threads] for at in range(min(self.threads, len(jobs)))]
        # If all partitions of the round were deleted or went offline before it, there is nothing to sync: it is done.
        parts = parts or [[]]
        self.parts_left = len(parts)
        for part in parts:
            self.jobs.run(partial(sync_all, part), self.part_done)

    def part_done(self, _result, error):
        """Called when a job of the round is done; the last one completes the round."""
        cdef FlushedPartition partition
        if error is not None:
            # Not the error of a sync, which its job keeps, but a defect: the content of the disk is unknown.
            for _, job in self.round:
                if job is not None and job.error is None:
                    job.error = OSError(errno.EIO, f"the sync was not done: {error!r}")
        self.parts_left -= 1
        if self.parts_left:
            return
        self.round_times.observe_ns(now_ns(&self.group.clock.source) - self.began_ns)
        ended, self.round = self.round, []
        for partition, job in ended:
            leave(partition, job)
        for partition, _ in ended:
            partition.settle_answers()
        self.group.answer_settled()
        for partition, _ in ended:
            partition.tell()
        self.start()


def sync_all(jobs):
    """Run the jobs of a round that one worker has."""
    for job in jobs:
        job.run()


cdef object join(FlushedPartition partition):
    """Add the partition's unsynced data to the round that starts. Returns a SyncJob, or None without unsynced data."""
    partition.take(partition.replica.begin_round())
    return None if partition.closed or partition.log.sync_failed else begin_sync(partition.log)


cdef int leave(FlushedPartition partition, job) except -1:
    """Report the end of the round for one partition. If the sync failed, the partition is offline."""
    if partition.closed:
        return 0
    try:
        if job is not None:
            complete_sync(partition.log, job)
    except StorageError as error:
        partition.take(partition.replica.lose(errno_of(error)))
        partition.group.failed(partition, "sync", error)
        return 0
    if job is None:
        return partition.take(partition.replica.lose(errno.EIO))    # a flush has found that a sync had failed
    return partition.take(partition.replica.synced(partition.log.synced_end_offset))
