from broker_cy.storage.log cimport Log
from broker_cy.storage.log_slice cimport LogSlice

# The part of a segment to check before `part` is sent, for verify_all: (log, segment, start, stop, end, offset at which the next segment
# begins); it is to be checked from `start` to `stop` at least, and to `end` at most. None if `part` is checked.
cdef tuple unverified_of(Log log, LogSlice part)
