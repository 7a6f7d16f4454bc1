"""A partition as clients see it, and the group that writes all staged partitions at the end of a loop turn.

Whoever waits for a record of a partition is a Waiter, registered with the record's offset and level; fetches that wait for more
are DelayedFetch. Both are notified after reports of progress to the partition's Replica.
"""

from libc.stdint cimport int16_t, int32_t, int64_t, uint8_t

from broker_cy.core.clock cimport Clock
from broker_cy.replica.replica cimport Fate, Level, Output, Replica
from broker_cy.replica.verification cimport Verification, Verifications
from broker_cy.storage.log cimport Log, LogSlice
from broker_cy.wire.batch cimport BatchHeader, ValidationRules
from broker_cy.wire.batch_check cimport BatchCheck

cdef struct AppendResult:
    int16_t error                   # Kafka error code, 0 if the batch was staged or is a duplicate
    int64_t base_offset
    int64_t last_offset
    int64_t log_append_time_ms      # -1 under CreateTime, except for duplicates
    int64_t log_start_offset

cdef class DelayedFetch:
    """A request that waits for data of some partitions. The Fetch handler subclasses it."""
    cdef int on_advance(self, Partition partition, Py_ssize_t written_bytes) except -1

cdef class Waiter:
    """Waits for records of partitions, each with a number of its own (`place`)."""
    cdef int settled(self, int32_t place, Partition partition, Fate fate) except -1

cdef class _OwnAppend(Waiter):
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
    cdef bint recodes                   # the compression.type of a topic is, or was, a codec
    cdef public bint verifies           # transaction.partition.verification.enable
    cdef public object commit           # replica.group_commit.GroupCommit
    cdef bint sync_wanted               # a partition waits for the next round
    cdef public object on_alter         # called with a Partition that has an AlterPartition to send; None: nobody sends it
    cdef list stagers                   # functions called before the write of this turn, which may stage batches

    cdef int schedule_flush(self) except -1
    cdef int before_flush(self, object stage) except -1
    cdef int add_dirty(self, Partition partition) except -1
    cdef int answer_waiting(self) except -1
    cdef int failed(self, Partition partition, object what, object error) except -1
    cdef int answer_settled(self) except -1
    cdef int alter(self, Partition partition) except -1
    cdef int settle_moved(self, list partitions) except -1
    cpdef int flush(self) except -1

cdef class Partition:
    cdef readonly str topic
    cdef readonly int32_t index
    cdef readonly object topic_id       # uuid.UUID
    cdef readonly Log log               # None while the partition is offline
    cdef readonly str offline_reason
    cdef readonly Replica replica
    cdef int64_t reported_bytes         # Output.readable_bytes of which waiting fetches know
    cdef ValidationRules rules
    cdef readonly object compression_level  # of compression.type; None: the codec's default
    cdef FlushGroup group
    cdef readonly bint closed           # deleted or replaced: callers that hold it must look it up again
    cdef readonly bint protected        # clients may neither produce to it nor delete its records
    cdef readonly int32_t replication_factor
    cdef readonly int32_t min_insync_replicas   # min.insync.replicas, at most replication_factor
    cdef int32_t min_isr                # min.insync.replicas
    cdef dict waiting_fetches           # keys are DelayedFetch; each removes itself when it is answered
    # What the waiting fetches know: reported_stable is the last stable offset, reported_open whether it was below the high
    # watermark.
    cdef int64_t reported_stable
    cdef bint reported_open
    # For on_advance: whether open transactions hid records before or after this write; whether the last stable offset moved.
    cdef bint undecided
    cdef bint stable_moved
    # (Waiter, place, offset, level): answers, which leave before others learn of what they waited for, and internal appends.
    cdef list waiting_answers
    cdef list waiting_appends
    cdef list undone_appends            # of waiting_appends, those of a write that failed; told after the answers of the turn
    cdef Verifications verifications    # None until the first one starts
    # Of a partition with several replicas; see `assign`. None: this broker has the only one.
    cdef readonly object assigned       # in_sync.Assigned
    cdef bint leads                     # as `assigned` says
    cdef object new_in_sync             # () -> in_sync.InSync
    cdef int64_t checkpointed_high      # the high watermark with which a log is opened
    cdef int64_t leader_start           # a follower's leader has deleted everything before; -1 if that is not known
    cdef dict waiting_followers         # as waiting_fetches, but they wait for writes; None while `assigned` is
    # What the waiting followers know: ends of the written records, and of the committed ones.
    cdef int64_t told_written
    cdef int64_t told_high
    cdef public object on_written       # called with a following partition when what it fetched is written
    # Counters since the start: appended batches, records and bytes; fetches that returned records, and the bytes of those records.
    cdef readonly int64_t batches
    cdef readonly int64_t records
    cdef readonly int64_t appended_bytes
    cdef readonly int64_t fetches
    cdef readonly int64_t fetched_bytes
    cdef readonly object last_error     # (message, [(record index, reason)]) of the last refused append
    # The log is not open yet but will be, and `log` is None. Requests that need it wait (server.partitions).
    cdef readonly bint unopened

    cdef int append_produced(self, uint8_t* data, Py_ssize_t size, object owner, int64_t now_ms, int16_t acks,
                             int16_t version, Verification verification, BatchCheck check, AppendResult* out) except -1
    cdef bint needs_check(self, const uint8_t* data, Py_ssize_t size) noexcept
    cdef BatchCheck new_check(self, uint8_t* data, Py_ssize_t size, object owner, int64_t now_ms, int16_t version)
    cdef object start_verification(self, int64_t producer_id, int16_t epoch, int32_t sequence, bint adds)
    cdef int serve(self, Log log) except -1
    cdef object append_for_future(self, bytes batch, int64_t now_ms)
    cdef _OwnAppend append_own(self, bytes batch, int64_t now_ms)
    cdef int64_t stage_own(self, bytes batch, int64_t now_ms) except -1
    cdef int refill(self) except -1
    cdef bytes close_gaps(self, uint8_t* data, Py_ssize_t size, int64_t now_ms)
    cdef int stage_rebuilt(self, bytes rebuilt, int64_t now_ms, AppendResult* out) except -1
    cdef int stage(self, uint8_t* data, Py_ssize_t size, BatchHeader* header, object owner, int64_t now_ms,
                   AppendResult* out) except -1
    cdef int refuse(self, AppendResult* out, int16_t error, str message) except -1
    cdef int write_staged(self) except -1
    cdef int take(self, Output progress) except -1
    cdef int wait(self, Waiter waiter, int32_t place, int64_t offset, Level level) except -1
    cdef tuple undecided_of(self, list waiting)
    cdef int settle(self, list decided) except -1
    cdef int settle_answers(self) except -1
    cdef int tell(self) except -1
    cdef int note_stable(self) except -1
    cdef int wake(self, Py_ssize_t written_bytes) except -1
    cdef int64_t fetch_bound(self, bint read_committed) except -2
    cdef int take_role(self) except -1
    cdef int leave_role(self) except -1
    cdef int tell_replicas(self) except -1
    cdef bint take_fetch(self, int32_t broker_id, int64_t broker_epoch, int64_t offset, int64_t log_start) except *
    cdef int add_follower(self, DelayedFetch waiting) except -1
    cdef int add_waiting(self, DelayedFetch waiting) except -1
    cdef int remove_waiting(self, DelayedFetch waiting) except -1
