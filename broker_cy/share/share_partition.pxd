from libc.stdint cimport int32_t, int64_t, uint8_t

from broker_cy.share.holders cimport Holders
from broker_cy.share.read_batches cimport ReadBatches
from broker_cy.share.runs cimport Run, Runs

# The states of a share partition as a whole. EMPTY is before `begin`, INITIALIZING before `load`.
cdef enum:
    EMPTY = 0
    INITIALIZING = 1
    ACTIVE = 2
    FAILED = 3
    FENCED = 4

cdef enum:
    NO_GAP = -1


# The records of one partition that are in flight in one share group, while this node leads the partition in one epoch.
cdef class SharePartition:
    cdef Runs runs
    cdef Holders holders
    cdef readonly int status
    cdef readonly int32_t leader_epoch
    cdef readonly int32_t state_epoch
    # All records before it are done; it is where the runs begin, except for locks that outlive the start of the log.
    cdef readonly int64_t start_offset
    cdef readonly int64_t end_offset                # of the last record that was acquired; start_offset if nothing is in flight
    cdef readonly int64_t delivery_complete_count   # terminal records from start_offset on
    # Records that were archived without an acknowledgement: they are no longer in the log, or were in aborted transactions.
    cdef readonly int64_t archived_missing
    cdef readonly int64_t archived_aborted
    cdef readonly int64_t next_deadline_ms          # `expire` has nothing to do before it; 0 if no lock ends
    cdef bint may_have_available                    # a run may be AVAILABLE, so that the next fetch is not at the end
    # Holes of the loaded state, which have to be fetched: from gap_start to gap_end as long as gap_end is the end offset.
    cdef int64_t gap_start
    cdef int64_t gap_end                            # NO_GAP if there are none
    cdef readonly int32_t lock_ms
    cdef readonly int32_t delivery_limit
    cdef readonly int32_t records_max
    cdef readonly bint is_renew_enabled

    cpdef int64_t next_fetch_offset(self) noexcept
    cpdef bint can_acquire(self) noexcept
    cpdef int move_log_start(self, int64_t offset) except -1
    cpdef int throttled_from(self) noexcept
    cdef int64_t records_in_flight(self) noexcept
    cdef bint has_gap(self) noexcept
    cdef void narrow_gap(self, int64_t offset) noexcept
    cdef void close_gap(self) noexcept
    cdef void set_state(self, Run* run, uint8_t state) noexcept
    cdef int lock(self, Run* run, int32_t holder, int64_t deadline_ms) except -1
    cdef int unlock(self, Run* run) except -1
    cdef void release_state(self, Run* run) noexcept
    cdef bint archive(self, int64_t first, int64_t last, uint8_t state) except -1
    cdef void move_start(self, int64_t offset) noexcept
    cdef bint advance(self) noexcept
