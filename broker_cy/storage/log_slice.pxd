cimport cython
from libc.stdint cimport int64_t

from broker_cy.storage.segment cimport Segment


# Bytes of one segment file: [position, position + size). Holds a reference to the segment, so that the descriptor stays open and
# the bytes stay readable even if the segment is deleted. Released when the object is deallocated. If the segment was truncated
# since (`is_cut`), other records may be there now.
@cython.final
cdef class LogSlice:
    cdef readonly int fd
    cdef readonly int64_t position
    cdef readonly Py_ssize_t size
    cdef readonly object segment
    cdef readonly int64_t first_offset          # base offset of the first batch in it
    cdef int cuts                               # of the segment when it was made

    cdef inline bint is_cut(self) noexcept:
        return self.cuts != (<Segment>self.segment).cuts

    # Another slice of the same segment, which keeps it open as well.
    cdef LogSlice piece(self, int64_t position, Py_ssize_t size, int64_t first_offset)

# Counters that all logs of a broker share.
cdef class LogTotals:
    cdef public int64_t unflushed_bytes         # written and not yet known to be on disk
    cdef public int64_t due_bytes               # on_due is called each time that this many more bytes were written
    cdef public object on_due                   # None, or a function that requests a flush; it must not flush itself
    cdef public object on_damage                # None, or called with the directory of a log in which a damage note was written
    cdef int64_t new_bytes                      # written since on_due was last called
    cdef public set dirty                       # logs that may have something to flush
    cdef int written(self, object log, bint first, int64_t size) except -1
