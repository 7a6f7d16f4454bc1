"""Group commit: partitions whose flush.messages is reached share rounds of fdatasync in worker threads.

Each data directory has rounds and workers of its own: a slow disk delays no partition of another one. A round takes every partition that reached flush.messages before it starts; while it runs, the next one collects partitions. When
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
from os.path import dirname

from broker_cy.storage.errors import StorageError, errno_of
from broker_cy.storage.log_flush import begin_sync, complete_sync


cdef class GroupCommit:
    """The rounds of `group`. Called on the loop only.

    `jobs` (storage.jobs.Jobs by data directory; a single one is used for every log) runs each round in up to `threads` jobs.
    """
    cdef dict disks                 # Rounds by data directory
    cdef list rounds_of             # the values of `disks`
    cdef readonly Histogram round_times

    def __init__(self, FlushGroup group not None, jobs, int threads):
        self.round_times = Histogram()
        self.disks = {path: Rounds(group, each, threads, self.round_times) for path, each in jobs.items()}
        self.rounds_of = list(self.disks.values())

    @property
    def rounds(self):
        """Rounds started so far."""
        return sum(each.rounds for each in self.rounds_of)

    @property
    def syncs(self):
        """Files and directories synced by them."""
        return sum(each.syncs for each in self.rounds_of)

    def add(self, FlushedPartition partition not None):
        """Add `partition` to the next round of its disk."""
        cdef Rounds rounds = self.rounds_of[0] if len(self.rounds_of) == 1 else self.disks[dirname(partition.log.directory)]
        rounds.due.append(partition)

    def moved(self, FlushedPartition partition not None, root):
        """The log of `partition` has left the data directory `root`. The records that wait for a round are synced in its new one, with
        the names of the files there: a running round syncs the files that it has left."""
        cdef Rounds rounds = self.rounds_of[0] if len(self.rounds_of) == 1 else self.disks[root]
        if rounds.drop(partition):
            partition.take(partition.replica.void_round())
            self.add(partition)
            self.start()

    def start(self):
        """Begin a round on each disk where none is running and a partition waits for one."""
        cdef Rounds rounds
        for rounds in self.rounds_of:
            if rounds.due and not rounds.round:
                rounds.start()


cdef class Rounds:
    """The rounds of one disk."""
    cdef FlushGroup group
    cdef object jobs                # storage.jobs.Jobs
    cdef int threads
    cdef list due                   # partitions of the next round
    cdef list round                 # (Partition, SyncJob or None) of the running round; (None, None): it has left the disk
    cdef Py_ssize_t parts_left
    cdef readonly int64_t rounds
    cdef readonly int64_t syncs
    cdef Histogram round_times
    cdef int64_t began_ns

    def __init__(self, FlushGroup group not None, jobs, int threads, Histogram round_times not None):
        self.group = group
        self.jobs = jobs
        self.threads = threads
        self.round_times = round_times
        self.due = []
        self.round = []

    cdef int start(self) except -1:
        cdef FlushedPartition partition
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
        return 0

    cdef bint drop(self, FlushedPartition partition) except *:
        """Forget a partition. Returns whether it waits for the next round, or is in the running one."""
        cdef bint is_here = partition in self.due
        if is_here:
            self.due.remove(partition)
        for at, (each, _) in enumerate(self.round):
            if each is partition:
                self.round[at] = (None, None)
                is_here = True
        return is_here

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
        ended, self.round = [each for each in self.round if each[0] is not None], []
        for partition, job in ended:
            leave(partition, job)
        for partition, _ in ended:
            partition.settle_answers()
        self.group.answer_settled()
        for partition, _ in ended:
            partition.tell()
        if self.due:
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
