"""Group commit: partitions whose flush.messages is reached share rounds of fdatasync in worker threads.

A round takes every partition that reached flush.messages before it starts; while it runs, the next one collects partitions. When
the whole round is done, the synced records can be read and are acknowledged. So the loop never waits for the disk, and one sync
serves more producers the more of them wait. Bounded by the number of partitions: each is in a round at most once.
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
    cdef list round                 # (Partition, SyncJob or None) of the one that runs
    cdef list answers
    cdef Py_ssize_t parts_left
    cdef int64_t covered            # FlushGroup.flushes when it began
    cdef int64_t settled            # the same of the last one that is done
    cdef readonly int64_t rounds    # started so far
    cdef readonly int64_t syncs     # files and directories in them
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
        """Have `partition` in the next round."""
        self.due.append(partition)

    def hold(self, answer, bint due):
        """Keep an answer until the next round is done (`due`), or the one that runs."""
        (self.due_answers if due else self.answers).append(answer)

    def unsettled(self, int64_t staged_at):
        """Whether batches staged before the flush of that number (FlushGroup.flushes) may still wait for a sync."""
        return bool(self.round or self.due) and staged_at >= self.settled

    def start(self):
        """Begin a round where none runs and some partition waits for it."""
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
        # A round whose partitions were all deleted meanwhile has nothing to sync, and is done.
        parts = parts or [[]]
        self.parts_left = len(parts)
        for part in parts:
            self.jobs.run(partial(sync_all, part), self.part_done)

    def part_done(self, _result, error):
        """A job of the round is done; with the last one the round is."""
        cdef Partition partition
        if error is not None:
            # Never of a sync, whose errors the jobs keep: a defect, after which nothing is known to be on disk.
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
    """The part of a round that one worker does."""
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
    """The round is done: what it brought to disk may be read. If that failed the partition is offline."""
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
    """After the answers of the round: complete internal appends, wake fetches."""
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
