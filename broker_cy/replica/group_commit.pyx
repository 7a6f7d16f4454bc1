"""Group commit: partitions whose flush.messages is reached share rounds of fdatasync in worker threads.

A round takes every partition that reached flush.messages before it starts; while it runs, the next one collects partitions. When
the whole round is done, the synced records can be read and are acknowledged. So the loop never waits for the disk, and the more
producers wait, the more of them one sync serves. The number of partitions bounds a round: each is in it at most once.
"""

from libc.stdint cimport int64_t

from broker_cy.metrics.histogram cimport Histogram, now_ns
from broker_cy.replica.partition cimport FlushGroup, Partition

import errno
from functools import partial

from broker_cy.storage.errors import StorageError, errno_of
from broker_cy.storage.maintenance import begin_sync, complete_sync


cdef class GroupCommit:
    """The rounds of `group`, each in up to `threads` jobs. Called on the loop only."""
    cdef FlushGroup group
    cdef object jobs                # storage.jobs.Jobs
    cdef int threads
    cdef list due                   # partitions of the next round
    cdef list due_answers
    cdef list round                 # (Partition, SyncJob or None) of the running round
    cdef list answers
    cdef Py_ssize_t parts_left
    cdef int64_t covered            # FlushGroup.flushes when that round began
    cdef int64_t settled            # the same for the last completed round
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
        self.due_answers = []
        self.round = []
        self.answers = []

    def add(self, Partition partition not None):
        """Add `partition` to the next round."""
        self.due.append(partition)

    def hold(self, answer, bint due):
        """Keep an answer until the next round, if `due`, or the running round is done."""
        (self.due_answers if due else self.answers).append(answer)

    def unsettled(self, int64_t staged_at):
        """Whether batches staged before flush number `staged_at` (FlushGroup.flushes) may still wait for a sync."""
        return bool(self.round or self.due) and staged_at >= self.settled

    def start(self):
        """Begin a round if none is running and a partition waits for one."""
        cdef Partition partition
        if not self.due or self.round:
            return
        due, self.due = self.due, []
        self.answers, self.due_answers = self.due_answers, []
        self.covered = self.group.flushes
        self.round = [(partition, join(partition)) for partition in due]
        jobs = [job for _, job in self.round if job is not None]
        self.rounds += 1
        self.began_ns = now_ns()
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
        cdef Partition partition
        if error is not None:
            # Not the error of a sync, which its job keeps, but a defect: it is unknown what is on disk.
            for _, job in self.round:
                if job is not None and job.error is None:
                    job.error = OSError(errno.EIO, f"the sync was not done: {error!r}")
        self.parts_left -= 1
        if self.parts_left:
            return
        self.round_times.observe_ns(now_ns() - self.began_ns)
        ended, self.round = self.round, []
        answers, self.answers = self.answers, []
        self.settled = self.covered
        for partition, job in ended:
            leave(partition, job)
        self.group.answer_synced(answers)
        for partition, _ in ended:
            tell(partition)
        self.start()


def sync_all(jobs):
    """Run the jobs of a round that one worker has."""
    for job in jobs:
        job.run()


cdef object join(Partition partition):
    """Add the partition's unsynced data to the round that starts. Returns a SyncJob, or None if there is nothing to sync."""
    partition.sync_due = False
    partition.syncing = True
    partition.round_bytes = partition.unsettled_bytes
    partition.unsettled_bytes = 0
    partition.synced_to = partition.settles_to = partition.log.written_end_offset
    return None if partition.closed or partition.sync_lost() else begin_sync(partition.log)


cdef int leave(Partition partition, job) except -1:
    """Complete the round for one partition: the synced records may be read. If the sync failed, the partition is offline."""
    partition.syncing = False
    if job is None or partition.closed:
        return 0
    try:
        complete_sync(partition.log, job)
    except StorageError as error:
        partition.flush_errno = errno_of(error)
        partition.group.failed(partition, "sync", error)
        return 0
    if partition.settles_to > partition.high_watermark:
        partition.high_watermark = min(partition.settles_to, partition.log.written_end_offset)
        partition.log.producers.forget_completed(partition.high_watermark)
    return 0


cdef int tell(Partition partition) except -1:
    """Complete internal appends and wake fetches, after the answers of the round."""
    cdef Py_ssize_t written = partition.round_bytes
    partition.round_bytes = 0
    if not partition.sync_due:
        written += partition.unsettled_bytes
        partition.unsettled_bytes = 0
    if partition.waiting_appends:
        partition.complete_appends(False)
    if partition.waiting_fetches:
        partition.wake(-1 if partition.sync_lost() else written)
    return 0
