"""Incremental fetch sessions (KIP-227): the partitions of a client are kept here, so that it sends only changes."""

from libc.stdint cimport int8_t, int16_t, int32_t, int64_t

from broker_cy.replica.flush_group cimport DelayedFetch
from broker_cy.replica.partition cimport Partition
from broker_cy.storage.log cimport LogSlice
from broker_cy.wire.fetch cimport FetchTarget, FetchView

cdef class FetchPartition:
    """One partition of a fetch: the client's request, the last answer, and the result of the last read."""
    cdef bytes topic                    # name up to version 12, 16 bytes of id from 13 on
    cdef int32_t index
    cdef int32_t current_leader_epoch
    cdef int64_t fetch_offset
    cdef int32_t last_fetched_epoch
    cdef int64_t follower_start         # the log start offset of a follower; -1 from consumers
    cdef int32_t judged_epoch           # of the leader that has accepted this fetch of a follower; -1: none has
    cdef int32_t max_bytes
    cdef Partition partition            # looked up again once it is closed
    cdef str known_name                 # the name of the topic's id when it was last found, from version 13 on
    cdef int64_t reported_high_watermark  # -1 before the first answer
    cdef int64_t reported_log_start_offset
    # For a follower. A partition is quiet if the follower had all its records at the last check, and it is unchanged since.
    cdef bint is_quiet
    cdef object members                 # the in-sync set at that check
    cdef Partition stands_at            # the partition that the wait of the session is registered at; None: not registered
    cdef int64_t wait_generation        # StandingWait.generation when it was registered
    # The last read.
    cdef bint held                      # a throttled follower
    cdef bint unknown                   # the topic or partition does not exist
    cdef int16_t error
    cdef int64_t high_watermark
    cdef int64_t last_stable_offset
    cdef int64_t log_start_offset
    cdef int32_t diverging_epoch        # -1 if the logs do not diverge
    cdef int64_t diverging_end_offset
    cdef int32_t preferred_replica      # the replica that the client should fetch from (KIP-392); -1: this one
    cdef LogSlice records               # None without records
    cdef list aborted                   # [(producer id, first offset)]; None if it is not sent

    cdef int ask(self, FetchTarget* target) except -1
    cdef FetchPartition twin(self)
    cdef bint is_still_quiet(self) noexcept
    cdef int note_quiet(self, int32_t replica_id) except -1
    cdef bint is_news(self) noexcept
    cdef bint is_urgent(self, bint reads_followers) noexcept

cdef class FetchSession:
    cdef readonly int32_t session_id
    cdef int32_t epoch                  # the next request must carry it
    cdef bint uses_ids
    cdef dict partitions                # (topic, index) -> FetchPartition, in the order of service
    cdef int64_t last_used_ms
    # For a follower.
    cdef int32_t replica_id             # -1 for a consumer
    cdef int64_t broker_epoch           # of its last fetch
    cdef int64_t fetched_ms             # when all partitions were checked last
    # The Fetch handler's object with which its fetches wait; None before the first wait. From then on it stays registered at the
    # partitions, because they are many and few have news.
    cdef DelayedFetch wait

    cdef int wake_up(self, FetchPartition part) except -1
    cdef int be_asked_by(self, int64_t broker_epoch) except -1
    cdef int leave(self) except -1
    cdef int detach(self) except -1
    cdef int update(self, FetchView view) except -1

cdef class FetchContext:
    """One Fetch request after its session was looked up."""
    cdef int16_t error                  # of the session; then `targets` is empty
    cdef int32_t session_id             # sent to the client; 0 without a session
    cdef bint incremental               # answer only partitions with news
    cdef FetchSession session
    cdef list targets                   # of FetchPartition
    cdef bint any_unknown               # some of them do not exist
    cdef bint from_replica

cdef dict requested(FetchView view)
cdef FetchContext refused(FetchView view, int16_t error)

cdef class SessionCache:
    cdef readonly dict sessions         # id -> FetchSession, least recently used first
    cdef readonly int slots
    cdef readonly int64_t eviction_ms
    cdef object random_id               # () -> int in 1..2^31-1
    cdef readonly int64_t evicted

    cdef FetchContext context(self, FetchView view, int64_t now_ms, bint is_busy)
    cdef int drop(self, int32_t session_id) except -1
    cdef FetchSession create(self, FetchView view, dict partitions, int64_t now_ms)
