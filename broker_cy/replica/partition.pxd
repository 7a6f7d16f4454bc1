"""A partition as clients see it: its identity and settings, the role of its replica, appends and reads.

flush_group has the writes at the end of a turn, and their waiters; produced appends the records of clients, and follower_log the
records that a follower has fetched.
"""

from libc.stdint cimport int16_t, int32_t, int64_t, uint8_t

from broker_cy.replica.flush_group cimport FlushedPartition, FlushGroup, InternalAppend
from broker_cy.replica.verification cimport Verification, Verifications
from broker_cy.storage.log cimport Log
from broker_cy.wire.batch cimport BatchHeader, ValidationRules

cdef enum:
    # message.timestamp.type, as ValidationRules.timestamp_type
    CREATE_TIME = 0
    LOG_APPEND_TIME = 1

cdef struct AppendResult:
    int16_t error                   # Kafka error code, 0 if the batch was staged or is a duplicate
    int64_t base_offset
    int64_t last_offset
    int64_t log_append_time_ms      # -1 under CreateTime, except for duplicates
    int64_t log_start_offset

cdef class Partition(FlushedPartition):
    cdef readonly object topic_id       # uuid.UUID
    cdef readonly str offline_reason
    cdef ValidationRules rules
    cdef readonly object compression_level  # of compression.type; None: the codec's default
    cdef readonly object record_schemas     # the RecordSchemas of the topic; None: its records may name any schema, or none
    cdef bint checks_apart              # batches of clients are checked apart from their append, also if they are not compressed
    cdef readonly bint protected        # clients may neither produce to it nor delete its records
    cdef readonly bint mirrors          # its leader copies a partition of another cluster (replica.mirror)
    cdef readonly bint has_mirrored     # it does, or did until it was promoted
    cdef bint is_own                    # a topic that brokers write
    cdef readonly int32_t replication_factor
    cdef readonly int32_t min_insync_replicas   # min.insync.replicas, at most replication_factor
    cdef int32_t min_isr                # min.insync.replicas
    cdef Verifications verifications    # None until the first one starts
    # The assignment of a partition with several replicas; see `assign`. None: this broker has the only replica.
    cdef readonly object assigned       # in_sync.Assigned
    cdef bint leads                     # as `assigned` says
    cdef object new_in_sync             # () -> in_sync.InSync
    cdef int64_t checkpointed_high      # the high watermark of a log when it is opened
    cdef int64_t leader_start           # a follower's leader has deleted everything before; -1 if that is not known
    cdef list waiting_deletes           # (offset, future) of until_deleted; None without any
    # Counters since the start: appended batches, records and bytes; fetches that returned records, and the bytes of those records.
    # As in Kafka, none of them counts replication, or a cluster would seem to have each record as often as it has replicas.
    cdef readonly int64_t batches
    cdef readonly int64_t records
    cdef readonly int64_t appended_bytes
    cdef readonly int64_t fetches
    cdef readonly int64_t fetched_bytes
    cdef readonly int64_t replicated_bytes  # appended by this follower
    cdef readonly object last_error     # (message, [(record index, reason)]) of the last refused append
    # The log is not open yet but will be, and `log` is None. Requests that need it wait (partitions).
    cdef readonly bint unopened

    cdef inline int note_staged(self, Py_ssize_t size) except -1:
        """The log has staged a batch, of a client or of the leader: have it written at the end of this turn."""
        self.group.staged_bytes += size
        if self.replica.is_clean():
            self.group.add_dirty(self)
        self.replica.stage(self.log.log_end_offset, size)
        return 0

    cdef object start_verification(self, int64_t producer_id, int16_t epoch, int32_t sequence, bint adds)
    cdef int serve(self, Log log) except -1
    cdef object append_for_future(self, bytes batch, int64_t now_ms)
    cdef InternalAppend append_internal(self, bytes batch, int64_t now_ms)
    cdef int64_t stage_own(self, bytes batch, int64_t now_ms) except -1
    cdef int stage(self, uint8_t* data, Py_ssize_t size, BatchHeader* header, object owner, int64_t now_ms,
                   AppendResult* out) except -1
    cdef int refuse(self, AppendResult* out, int16_t error, str message) except -1
    cdef int take_role(self) except -1
    cdef int leave_role(self) except -1
    cpdef int settle_deletes(self) except -1
    cdef bint is_member(self, int32_t broker_id) except *
    cdef int kept_up(self, int32_t broker_id, int64_t until_ms) except -1
    cdef bint take_fetch(self, int32_t broker_id, int64_t broker_epoch, int64_t offset, int64_t log_start) except *
