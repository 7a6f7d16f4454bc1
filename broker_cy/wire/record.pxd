cimport cython
from libc.stdint cimport int32_t, int64_t, uint8_t

from broker_cy.core.writer cimport Writer
from broker_cy.wire.batch cimport BatchHeader


@cython.final
cdef class Record:
    cdef readonly int64_t offset
    cdef readonly int64_t timestamp         # ms; -1: none
    cdef readonly bytes key                 # or None
    cdef readonly bytes value               # or None
    cdef readonly tuple headers             # of (str, bytes or None)

# The `header.count` records in the n (uncompressed) bytes at p; raises WireError if the bytes are anything else.
cdef list read_records(const uint8_t* p, Py_ssize_t n, const BatchHeader* header)

# Sets the rows of those of the records that have a key, and offsets from `first` to `end` (not included): the key, and the value
# or None; with `timestamps`, the record's timestamp as a big-endian int64 before the value. Returns the number of the records with
# these offsets. Raises WireError if the bytes are anything else; rows of the records before are set then.
cdef Py_ssize_t set_rows(
    dict rows, const uint8_t* p, Py_ssize_t n, const BatchHeader* header, int64_t first, int64_t end, bint timestamps
) except -1

# Appends one record with offset delta `index`; raises WireError if it is too long.
cdef int put_record(Writer out, Record record, int64_t base_timestamp, int32_t index) except -1
