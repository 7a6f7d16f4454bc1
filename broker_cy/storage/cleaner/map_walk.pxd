# The walk that notes the newest offset of each key, and the common parts of both walks of a cleaning. Each runs without the GIL
# until it needs Python, and returns the reason.
from libc.stdint cimport int32_t, int64_t, uint64_t

from broker_cy.storage.cleaner.source cimport BatchSource

cdef enum WalkStop:
    STOP_END = 0
    STOP_FAULT = 1
    STOP_PAUSE = 2              # enough was read to consult the throttle and to check for an abort
    STOP_SPECIAL = 3            # the current batch is compressed, a marker, or transactional
    STOP_FULL = 4               # the map has no room for the current batch's keys
    STOP_FLUSH = 5              # the output buffer has no room for the current batch

# A record that was read and has not been looked up yet.
cdef struct Looked:
    int64_t start               # of the record, in the payload
    int64_t end
    int64_t offset
    int64_t timestamp
    int32_t key_size
    int32_t value_size
    uint64_t low                # of the key's hash
    uint64_t high

cdef enum:
    LOOKED_MAX = 32

# The records of the current batch, decompressed: a bytes-like object. Raises CorruptSegment.
cdef object payload_of(BatchSource source)
# Type of the control record in the current batch, None if it is empty. Raises CorruptSegment.
cdef object control_kind(BatchSource source)
