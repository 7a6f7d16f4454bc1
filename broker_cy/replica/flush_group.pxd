"""The group that writes all staged batches at the end of a loop turn, the logs that it writes, and the waiters for these writes.

A Waiter waits for a record and is registered with the record's offset and level; a DelayedFetch is a fetch that waits for more data.
Both are notified after reports of progress to the log's Replica.
"""

from libc.stdint cimport int32_t, int64_t

from broker_cy.core.clock cimport Clock
from broker_cy.replica.replica cimport Fate, Level, Output, Replica
from broker_cy.storage.log cimport Log

cdef class DelayedFetch:
    """A request that waits for data of some partitions. The Fetch handler subclasses it."""
    cdef int on_advance(self, FlushedPartition partition, Py_ssize_t written_bytes) except -1

cdef class Waiter:
    """Waits for records of partitions, each with a number of its own (`place`)."""
    cdef int64_t deadline_ms            # coarse_ms up to which it waits for other replicas; 0: without a limit

    cdef int settled(self, int32_t place, FlushedPartition partition, Fate fate) except -1

cdef class InternalAppend(Waiter):
    """Waits for a batch that this broker itself has appended."""
    cdef object future
    cdef object done
    cdef int64_t base_offset

cdef class FlushGroup:
    """Partitions with staged batches, written together once per loop turn."""
    cdef readonly object loop
    cdef readonly Clock clock
    cdef list dirty
    cdef bint flush_scheduled
    cdef readonly Py_ssize_t staged_bytes
    cdef readonly int64_t flushes       # flushes done so far
    cdef readonly int64_t checked_bytes  # decompressed for validation in this turn of the loop; see BatchCheck.spent
    cdef bint recodes                   # batches that are not compressed may need a BatchCheck: a topic has, or had, such settings
    cdef bint checks_schemas            # a topic checks, or checked, the schemas of records
    cdef public bint verifies           # transaction.partition.verification.enable
    cdef public object commit           # replica.group_commit.GroupCommit
    cdef bint sync_wanted               # a partition waits for the next round
    # replica.selector.class: consumers read from the nearest replica, so followers learn of each high watermark immediately.
    cdef public bint selects_replicas
    cdef public object on_alter         # called with a Partition that has an AlterPartition to send; None: it is not sent
    cdef list stagers                   # functions called before the write of this turn, which may stage batches
    cdef list expiring                  # partitions whose waiters have, or had, a deadline
    cdef int64_t expires_ms             # when `expire_answers` runs next; 0: no waiter has a deadline
    cdef object expiry_timer

    cdef int schedule_flush(self) except -1
    cdef int before_flush(self, object stage) except -1
    cdef int add_dirty(self, FlushedPartition partition) except -1
    cdef int answer_waiting(self) except -1
    cdef int failed(self, FlushedPartition partition, object what, object error) except -1
    cdef int answer_settled(self) except -1
    cdef int alter(self, FlushedPartition partition) except -1
    cdef int settle_moved(self, list partitions) except -1
    cdef int expire_at(self, int64_t deadline_ms) except -1
    cpdef int flush(self) except -1

cdef class FlushedPartition:
    """The part of a partition that a FlushGroup writes: its log, its replica, and the waiters for either."""
    cdef readonly str topic
    cdef readonly int32_t index
    cdef readonly Log log               # None while the partition is offline
    cdef readonly Replica replica
    cdef FlushGroup group
    cdef readonly bint closed           # deleted or replaced: callers that hold it must look it up again
    cdef int64_t reported_bytes         # Output.readable_bytes that waiting fetches know
    cdef dict waiting_fetches           # keys are DelayedFetch; each removes itself when it is answered; None before the first
    # The state that the waiting fetches know: reported_stable is the last stable offset, reported_open whether it was below the
    # high watermark.
    cdef int64_t reported_stable
    cdef bint reported_open
    # For on_advance: whether open transactions hid records before or after this write; whether the last stable offset moved.
    cdef bint undecided
    cdef bint stable_moved
    # (Waiter, place, offset, level): answers, which leave before other clients see the same progress, and internal appends. None
    # before the first: most of many partitions never have one.
    cdef list waiting_answers
    cdef bint expires                   # is in FlushGroup.expiring
    cdef list waiting_appends
    cdef list undone_appends            # those of waiting_appends whose write failed; completed after the answers of the turn
    cdef dict waiting_followers         # as waiting_fetches, but for writes, and they stay; None for the only replica
    # The offsets that the waiting followers know: ends of the written records, and of the committed ones.
    cdef int64_t told_written
    cdef int64_t told_high
    cdef public object on_written       # called with a partition that fetches when the records are written

    cdef int follow_log_start(self) except -1
    cdef int write_staged(self) except -1
    cdef int take(self, Output progress) except -1
    cdef int wait(self, Waiter waiter, int32_t place, int64_t offset, Level level) except -1
    cdef int wait_internal(self, InternalAppend append, Level level) except -1
    cdef tuple undecided_of(self, list waiting)
    cdef int settle(self, list decided) except -1
    cdef int settle_answers(self) except -1
    cdef int64_t expire(self, int64_t now_ms) except -1
    cdef int tell(self) except -1
    cdef int note_stable(self) except -1
    cdef int wake(self, Py_ssize_t written_bytes) except -1
    cdef int64_t fetch_bound(self, bint read_committed) except -2
    cdef int add_follower(self, DelayedFetch waiting) except -1
    cdef int add_waiting(self, DelayedFetch waiting) except -1
    cdef int remove_waiting(self, DelayedFetch waiting) except -1
    cdef int tell_replicas(self) except -1
    cdef int wake_followers(self) except -1
