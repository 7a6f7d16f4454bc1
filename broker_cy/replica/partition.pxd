"""A partition as clients see it, and the group that writes all staged partitions at the end of a loop turn."""

from libc.stdint cimport int16_t, int32_t, int64_t, uint8_t

from broker_cy.replica.verification cimport Verification, Verifications
from broker_cy.storage.log cimport Log, LogSlice
from broker_cy.wire.batch cimport BatchHeader, ValidationRules
from broker_cy.wire.batch_check cimport BatchCheck

cdef struct AppendResult:
    int16_t error                   # Kafka error code, 0 if the batch was staged or is a duplicate
    int64_t base_offset
    int64_t log_append_time_ms      # -1 under CreateTime, except for duplicates
    int64_t log_start_offset

cdef class DelayedFetch:
    """A request that waits for data of some partitions. The Fetch handler subclasses it."""
    cdef int on_advance(self, Partition partition, Py_ssize_t written_bytes) except -1

cdef class FlushGroup:
    """Partitions with staged batches, written together once per loop turn."""
    cdef readonly object loop
    cdef list dirty
    cdef bint flush_scheduled
    cdef readonly Py_ssize_t staged_bytes
    cdef readonly int64_t flushes       # flushes done so far
    cdef readonly int64_t checked_bytes  # decompressed for validation in this turn of the loop; see BatchCheck.spent
    cdef bint recodes                   # the compression.type of a topic is, or was, a codec
    cdef public bint verifies           # transaction.partition.verification.enable
    cdef public object commit           # replica.group_commit.GroupCommit
    cdef bint sync_wanted               # a partition waits for the next round
    cdef list stagers                   # functions called before the write of this turn, which may stage batches

    cdef int schedule_flush(self) except -1
    cdef int before_flush(self, object stage) except -1
    cdef int add_dirty(self, Partition partition, Py_ssize_t staged_bytes) except -1
    cdef int answer_waiting(self) except -1
    cdef int failed(self, Partition partition, object what, object error) except -1
    cdef int answer_synced(self, list answers) except -1
    cpdef int flush(self) except -1

cdef class Partition:
    cdef readonly str topic
    cdef readonly int32_t index
    cdef readonly object topic_id       # uuid.UUID
    cdef readonly Log log               # None while the partition is offline
    cdef readonly str offline_reason
    cdef readonly int32_t leader_epoch
    # Invariant: log_start_offset <= high_watermark <= log.written_end_offset <= log.log_end_offset. The high watermark is below the
    # written end while written records wait for a sync (flush.messages).
    cdef readonly int64_t high_watermark
    cdef readonly int flush_errno       # of the last write; 0 if it succeeded
    cdef bint sync_due                  # waits for the next round of group commit
    cdef bint syncing                   # is in the running round
    cdef int64_t synced_to              # end of the data that the running round syncs
    cdef int64_t settles_to             # the high watermark once that round is done
    cdef Py_ssize_t unsettled_bytes     # written, but not yet reported to waiting fetches
    cdef Py_ssize_t round_bytes         # the same, in the running round
    cdef ValidationRules rules
    cdef readonly object compression_level  # of compression.type; None: the codec's default
    cdef FlushGroup group
    cdef bint dirty
    cdef Py_ssize_t staged_bytes
    cdef readonly bint closed           # deleted or replaced: callers that hold it must look it up again
    cdef readonly bint protected        # clients may neither produce to it nor delete its records
    cdef readonly int32_t replication_factor
    cdef readonly int32_t min_insync_replicas
    cdef dict waiting_fetches           # keys are DelayedFetch; each removes itself when it is answered
    # What the waiting fetches know: reported_stable is the last stable offset, reported_open whether it was below the high
    # watermark.
    cdef int64_t reported_stable
    cdef bint reported_open
    # For on_advance: whether open transactions hid records before or after this write; whether the last stable offset moved.
    cdef bint undecided
    cdef bint stable_moved
    cdef list waiting_appends           # (future or None, callback, base offset) of append_records, append_then
    cdef Verifications verifications    # None until the first one starts
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
    cdef object append_own(self, bytes batch, int64_t now_ms)
    cdef int64_t stage_own(self, bytes batch, int64_t now_ms) except -1
    cdef int refill(self) except -1
    cdef bytes close_gaps(self, uint8_t* data, Py_ssize_t size, int64_t now_ms)
    cdef int stage_rebuilt(self, bytes rebuilt, int64_t now_ms, AppendResult* out) except -1
    cdef int stage(self, uint8_t* data, Py_ssize_t size, BatchHeader* header, object owner, int64_t now_ms,
                   AppendResult* out) except -1
    cdef int refuse(self, AppendResult* out, int16_t error, str message) except -1
    cdef int write_staged(self) except -1
    cdef bint sync_lost(self) noexcept
    cdef int await_sync(self) except -1
    cdef int complete_appends(self, bint undone) except -1
    cdef int tell(self) except -1
    cdef int note_stable(self) except -1
    cdef int wake(self, Py_ssize_t written_bytes) except -1
    cdef int64_t fetch_bound(self, bint read_committed) except -2
    cdef int add_waiting(self, DelayedFetch waiting) except -1
    cdef int remove_waiting(self, DelayedFetch waiting) except -1
