# The log of one partition. One thread only: everything here runs on the broker's loop, apart from jobs (storage.jobs).
#
# Life of a batch: stage (it stays in the buffer that received it; offsets and producer state change immediately) -> flush_staged
# (one pwritev per segment; then written_end_offset moves) -> read. Invariants, outside of a call:
#   log_start_offset <= recovery_point <= written_end_offset <= log_end_offset
#   written_end_offset == log_end_offset if nothing is staged
#   the file of the active segment ends at active.size, or the bytes after that were never acknowledged and are never read
from libc.stdint cimport int32_t, int64_t, uint8_t

from broker_cy.storage.disk cimport iovec
from broker_cy.storage.log_config cimport LogConfig
from broker_cy.storage.log_slice cimport LogSlice, LogTotals
from broker_cy.storage.producer_state cimport ProducerState
from broker_cy.storage.segment cimport OpenFiles, Segment
from broker_cy.wire.batch cimport BatchHeader

cdef enum:
    # Starts of the latest writes, kept so that the position of a consumer at the tail is found without the index.
    HINTS = 8

cdef struct Hint:
    int64_t offset
    int64_t position

# The state that a failed flush returns to.
cdef struct Mark:
    int64_t end_offset
    int32_t leader_epoch
    int64_t size
    int64_t offset_entries
    int64_t time_entries
    int64_t bytes_since_index
    int64_t max_timestamp
    int64_t max_timestamp_offset
    int64_t rolling_timestamp
    int64_t created_ms

cdef class Log:
    cdef readonly object directory              # str
    cdef readonly object topic
    cdef readonly int32_t partition
    cdef readonly LogConfig config
    cdef readonly list segments                 # of Segment, by base offset; never empty
    cdef readonly Segment active                # the last of them
    cdef readonly int64_t log_start_offset
    cdef readonly int64_t log_end_offset        # including the staged batches
    cdef readonly int64_t written_end_offset
    cdef readonly int64_t recovery_point        # everything before it is on disk, with indexes and producer state
    # Records before it are on disk, as flush.messages requires before they are acknowledged; they are read again after a crash.
    cdef readonly int64_t synced_end_offset
    cdef readonly int32_t leader_epoch          # of the newest batch; -1 for none
    cdef readonly ProducerState producers
    cdef readonly object epochs                 # storage.epochs.LeaderEpochs
    cdef readonly object syncs                  # storage.syncs.LogSyncs
    cdef readonly object offline                # None, or why every operation is refused (str)
    # Deleted, or the broker is stopping: the directory may belong to another log. Read by workers.
    cdef readonly bint closed
    cdef readonly int64_t unflushed_bytes
    # Everything before it is in the page cache, with indexes and producer state: a kill of the process loses none of it.
    cdef public int64_t written_point
    cdef readonly int64_t unnoted_bytes         # written since the written point last moved
    cdef readonly int64_t last_append_ms        # time of the last stage
    cdef readonly bint sync_failed              # the error in syncs.error was noticed: the log is offline
    cdef public int64_t last_flush_ms           # when the recovery point last moved, or the log was created or loaded
    cdef readonly int64_t generation            # counts truncations
    cdef int64_t flushed_snapshot               # offset of the producer state written with the recovery point; -1 for none
    cdef int noted_slot                         # slot of that of the written point (storage.noted_state); -1 for none
    cdef OpenFiles open_files
    cdef LogTotals totals
    cdef Hint hints[HINTS]
    cdef int hint_next
    # Staged batches: pointers into buffers that `owners` keeps alive.
    cdef iovec* iov
    cdef Py_ssize_t iov_count
    cdef Py_ssize_t iov_capacity
    cdef list owners
    cdef object last_owner
    cdef readonly Py_ssize_t staged_batches
    cdef int staged_errno                       # of an early write by a roll; the next flush_staged returns it
    cdef Mark mark
    cdef Segment marked                         # the active segment when `mark` was taken; in `segments` while batches are staged
    cdef bint touched                           # a write to `marked` was begun since then

    # Takes a validated and stamped batch whose base_offset is log_end_offset, or greater in a follower of a compacted log; `owner`
    # keeps `data` alive, which is not copied. Raises ValueError for a smaller base offset, StorageError if the log is offline, MemoryError: then the batch is not part of
    # the log, and flush_staged undoes the other batches of the same turn.
    cdef int stage(self, BatchHeader* header, uint8_t* data, Py_ssize_t size, object owner, int64_t now_ms) except -1
    # Writes the staged batches. Returns 0, or the errno: then everything staged since the last flush is undone. If flush.messages
    # is reached (sync_is_due), the caller has to sync the batches before it acknowledges them: log_flush.begin_sync.
    cdef int flush_staged(self) except -1
    # Batches from the one that contains `offset` up to, but not including, `max_offset`, at most `max_bytes` (the last may be cut).
    # If the first does not fit, it is returned whole with `at_least_one`, else None. Also None if nothing is below `max_offset`.
    # Raises OffsetOutOfRange, StorageError.
    cdef LogSlice read(self, int64_t offset, int64_t max_offset, Py_ssize_t max_bytes, bint at_least_one)

    cdef LogSlice slice_from(self, int64_t offset, int64_t max_offset, Py_ssize_t max_bytes, bint at_least_one)
    cdef Py_ssize_t segment_number(self, int64_t offset) except -1
    cpdef int64_t end_of(self, Segment segment) except -1
    cdef int roll_staged(self, int64_t now_ms) except -1
    cdef int write_staged(self) except -1
    cdef bint sync_is_due(self, int64_t synced_end_offset) noexcept
    cdef int undo_staged(self) except -1
    cdef int set_mark(self) except -1
    cdef int take(self, BatchHeader* header, uint8_t* data, Py_ssize_t size, object owner, int64_t now_ms) except -1
    cdef int discard(self, Segment segment) except -1
    cdef int undo_files(self) except -1
    cdef int64_t hinted_position(self, Segment segment, int64_t offset) noexcept
    cdef int drop_hints(self) noexcept
    cdef int refuse_offline(self) except -1
    cdef int refuse_staged(self) except -1
    # Stops counting `size` bytes as unflushed, because they never need to be flushed.
    cdef int drop_unflushed(self, int64_t size) except -1
    cdef set base_offsets(self)
