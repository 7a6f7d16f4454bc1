"""The fetch session of one follower with one leader (KIP-227).

mirror_fetch_session fetches from other clusters: it replaces the last group of methods, and the end of requests.
"""

from libc.stdint cimport int16_t, int32_t, int64_t, uint8_t

from broker_cy.core.writer cimport Writer
from broker_cy.replica.partition cimport Partition


cdef class FetchSessionHandler:
    """Invariant: `asked` equals the leader's session, if `epoch` is not NEW_SESSION. Partitions have the keys of key_of."""
    cdef int32_t node_id
    cdef object config
    cdef object throttle            # replica.throttle.ReplicaThrottle
    cdef readonly int32_t session_id
    cdef readonly int32_t epoch     # that of the next request
    cdef readonly int32_t share_bytes   # the most that one answer may have of a partition, as last requested
    cdef readonly int in_flight     # requests without an answer, at most 2
    cdef int stale                  # the number of the oldest of them that belong to a session that has ended
    cdef dict overtaken             # key -> the Ask of the older of two requests, or None, if the newer one has another
    cdef dict partitions            # key -> Partition
    cdef dict keys                  # Partition -> key
    cdef dict asked                 # key -> following.Ask
    cdef dict starts                # key -> the log start offset that the leader knows; as `asked`
    cdef set changed
    cdef set paused
    cdef set forgotten              # removed from `asked`; the leader does not know it yet
    cdef set unwritten              # their records are not written, or not on disk as flush.messages requires
    cdef set held                   # by the throttle, when the last request was made
    cdef bint is_exceeded           # the throttle, when the last request was made
    cdef dict high                  # key -> the leader's high watermark, as last answered
    cdef Writer writer

    cdef int begin_again(self) except -1
    cdef list take_changes(self, int64_t now_ms)
    cdef int put_wanted(self, Writer out, list wanted) except -1
    cdef object start_of(self, key)
    cdef int hold(self, int64_t now_ms) except -1
    cdef list parts(self, body)

    cdef object topic_id_of(self, Partition partition)      # the id of the topic at the leader
    cdef object ask(self, key)      # following.Ask, or None while nothing can be fetched
    cdef bint waits(self, key, Partition partition, ask) except *   # for the throttle
