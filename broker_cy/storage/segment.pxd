from libc.stdint cimport int32_t, int64_t, uint8_t

from broker_cy.storage.index cimport OffsetIndex, TimeIndex
from broker_cy.storage.log_config cimport LogConfig
from broker_cy.wire.batch cimport BatchHeader

# Bounds the number of open segments: beyond `limit`, opening one closes another that was not used recently.
cdef class OpenFiles:
    cdef readonly Py_ssize_t limit
    cdef list segments
    cdef Py_ssize_t hand
    cdef int admit(self, Segment segment) except -1

cdef enum:
    TIMESTAMP_UNKNOWN = -2          # not read from the files yet; -1 is Kafka's "no timestamp"

# One segment: `<base offset>.log` and its indexes. The descriptor is opened on first use and may be closed while pins == 0.
cdef class Segment:
    cdef readonly object directory      # str, shared by all of a log
    cdef readonly int64_t base_offset
    cdef readonly int64_t size          # bytes that are written and may be read
    cdef int64_t staged_size            # size plus the bytes staged after it: size <= staged_size
    cdef readonly OffsetIndex offsets
    cdef readonly TimeIndex times
    cdef list pending_aborts            # entries for the .txnindex that wait for the next write; None if there are none
    cdef public bint without_aborts     # there is no .txnindex; False if that is not known yet
    cdef bytes aborts                   # content of the .txnindex, if it is short and was read; a change of the file sets None
    cdef OpenFiles open_files
    cdef int fd                         # -1 while closed
    cdef int pins                       # slices that use fd
    cdef Py_ssize_t slot                # index in the list of open segments, if it is open
    cdef int cuts                       # how often it was truncated: a slice from before may have other bytes by now
    cdef bint recently_used
    cdef bint was_cut                   # by a truncation, or when a write was undone: it may have its former length on the disk
    cdef bint was_cold                  # a part was read from the disk, or may have been: this process did not write all of it
    # Bytes that existed when the segment was loaded and whose checksums have not been verified since: the part that a reader reads
    # is verified first (recovery.verify_part). 0 for bytes that this process wrote or recovered.
    cdef readonly int64_t unverified_bytes
    cdef readonly list unverified       # their positions: (start, end), sorted; each begins and ends at the bounds of batches
    cdef readonly bint deleted          # its files were renamed or removed: closed for good once pins == 0
    # The state that the next index entry and the next roll depend on.
    cdef int64_t index_interval_bytes   # index.interval.bytes, for an index that has to be rebuilt
    cdef int64_t bytes_since_index
    cdef int64_t max_timestamp          # TIMESTAMP_UNKNOWN until ensure_timestamps
    cdef int64_t max_timestamp_offset
    cdef int64_t rolling_timestamp      # largest timestamp of the first batch; TIMESTAMP_UNKNOWN until it is read
    cdef int64_t created_ms
    cdef int64_t jitter_draw            # number that determines the share of segment.jitter.ms; -1 until it is needed

    # Kafka's LogSegment.shouldRoll for a batch of `size` bytes.
    cdef bint should_roll(self, LogConfig config, BatchHeader* header, Py_ssize_t size, int64_t now_ms) except -1
    cdef int descriptor(self) except -1
    cdef int close_fd(self) except -1
    cdef int unpin(self) except -1
    cdef int ensure_timestamps(self) except -1
    cdef int ensure_rolling_timestamp(self) except -1
    # First part at or after `start` that is not verified, and begins before `end`: (start, end), or None. It may end after `end`.
    cdef object unverified_part(self, int64_t start, int64_t end)
    # Whether these bytes can be sent without waiting for the disk.
    cdef bint in_memory(self, int64_t position, int64_t size) except -1
    cdef int needs_disk(self, int64_t position, int64_t size) except -1
    # First batch whose last offset is >= `offset`, from `start` (the start of a batch) and before `end`: 1, or 0 if there is none.
    cdef int find_batch(
        self, int64_t offset, int64_t start, int64_t end, int64_t* position, BatchHeader* header
    ) except -1
    # The same, starting at the position in the index.
    cdef int locate(self, int64_t offset, int64_t* position, BatchHeader* header) except -1
    # Position of an indexed batch at or before `offset`. If `nearer` is not NULL, it is set to the same position, or to that of the
    # next batch if the indexed one ends before `offset`. Raises CorruptSegment if the index is wrong. checked_start rebuilds such
    # an index, and raises only if the segment itself is damaged.
    cdef int64_t start_position(self, int64_t offset, int64_t* nearer) except -1
    cdef int64_t checked_start(self, int64_t offset, int64_t* nearer=*) except -1
