"""The answers of a connection, in the order of its requests, and the state that all connections of a broker share.

Bounds: requests are left unread while output waits for the socket or PENDING_MAX answers are due; ready answers go to
the socket once they pass SCRATCH_BYTES.
"""

from libc.stdint cimport int16_t, int32_t, int64_t, uint8_t

from broker_cy.core.writer cimport Writer
from broker_cy.metrics.requests cimport RequestMetrics
from broker_cy.quotas.account cimport Account
from broker_cy.replica.flush_group cimport FlushedPartition, FlushGroup, Waiter
from broker_cy.connections.buffers cimport BufferPool, RecvBuffer
from broker_cy.connections.gate cimport API_KEYS, Gate
from broker_cy.connections.outbox cimport Outbox
from broker_cy.storage.log cimport LogSlice

cdef enum:
    SCRATCH_BYTES = 65536           # answers are gathered up to this before they go to the socket
    PENDING_MAX = 2048              # answers due on one connection
    # Staged batches over all partitions before they are written without waiting for the turn's end: data that fills
    # part of the second-level cache is cheaper to write while it is cached, and the buffer becomes free for the next
    # request.
    STAGED_BYTES_MAX = 524288

cdef enum:
    # Why AnswerQueue.held.
    HELD_FOR_SYNC = 1               # until its Produce requests with a sync are settled
    MUTED = 2                       # until a quota's wait is over

ctypedef int (*HotHandler)(AnswerQueue, int32_t, int16_t, const uint8_t*, Py_ssize_t, RecvBuffer) except -1

cdef class Reply(Waiter):
    """One place in a connection's order of answers."""
    cdef AnswerQueue connection
    cdef Reply next
    cdef int32_t correlation_id
    cdef bint ready
    cdef object payload             # the whole frame (bytes), or a list of bytes and LogSlice
    cdef object task                # the asyncio.Task that will answer, or None
    cdef int16_t key                # of its API
    cdef int wait_phase             # the phase that it waits in while it is not ready
    cdef int64_t received_ns
    cdef int64_t mark_ns            # when the phase it is in began; 0 until the handler returned
    cdef int32_t throttle_ms        # of Produce and Fetch: how long a quota throttles the client

    cdef int enter(self, int phase, int64_t now) except -1
    cdef int emit(self, Writer out) except -1
    cdef bint written(self) except *
    cdef int cancel(self) except -1
    cdef int hurry(self) except -1

cdef class ServerCore(FlushGroup):
    """The state that all connections of a broker share."""
    cdef readonly object broker
    cdef readonly object log_events     # events.log_events.LogEvents
    cdef readonly BufferPool pool
    # In the order of their start: a set would have the order of their addresses.
    cdef readonly dict connections
    cdef Writer scratch
    cdef public Py_ssize_t request_bytes_max
    cdef readonly int64_t connections_opened
    cdef readonly int64_t connections_closed
    cdef readonly int64_t requests
    cdef readonly RequestMetrics metrics
    cdef list registrations         # by api key: Registration or None
    cdef list request_classes
    cdef readonly Gate gate
    cdef Gate login_gate            # of connections that are not logged in: no request passes without a check
    cdef readonly Py_ssize_t login_bytes    # connection.LOGIN_BYTES_MAX
    cdef dict login_holders         # connections with a part in it, the one that has had it for longest first
    cdef Gate session_gate          # of connections that are logged in: SaslHandshake may begin another login
    cdef HotHandler hot[API_KEYS]
    # While there are quotas, `hot` has those of `metered` that there are, which call those of `plain`.
    cdef HotHandler plain[API_KEYS]
    cdef HotHandler metered[API_KEYS]
    cdef readonly object quotas     # client_quotas.ClientQuotas; None: no quota is set
    cdef readonly int64_t quota_generation
    cdef int16_t flexible_from[API_KEYS]
    cdef list unflushed             # replies that wait for the write of this turn
    # The results of group commit: replies that leave now, and connections whose next request waited for it.
    cdef list settled_replies
    cdef list freed
    cdef int64_t now_ms             # wall clock of this turn; 0 until asked
    cdef object on_closed           # called with each connection that ended, or listener.Ended
    cdef readonly bint stopping
    cdef readonly object tasks      # strong references to running handler tasks
    cdef readonly dict topics_by_name   # PartitionTable.by_name: name -> [Partition or None]
    cdef readonly dict topics_by_id
    cdef public Py_ssize_t fetch_bytes_max
    cdef public object leader_throttle  # replica.throttle.ReplicaThrottle of followers' fetches; None: no followers
    cdef public object silence          # replica.silence.FollowerSilence of the followers; None: not watched
    cdef public object fetch_sessions   # SessionCache, put there by the Fetch handler
    cdef public object cold_reader      # executor of reads that left the page cache
    cdef public object authorization    # access.authorization.Authorization; None: every operation is allowed
    cdef public object on_disk_error    # called with a path and the error of each access to it that failed, or None
    cdef public object check_jobs       # storage.jobs.Jobs with one thread, which checks large compressed batches

    cdef int release(self, list replies) except -1
    cdef int settle(self, Reply reply, bint leaves) except -1
    cdef int set_hot(self, int16_t key, HotHandler function) except -1
    cdef int64_t wall_ms(self) except -1

cdef class AnswerQueue(Outbox):
    cdef readonly ServerCore server
    cdef readonly str listener
    cdef readonly str principal     # the client's principal in Kafka's form
    cdef bint by_token              # the client has logged in with a delegation token
    cdef readonly str connection_id
    cdef readonly object rights  # rights.Rights of the client, from its first Produce or Fetch on; None without an authorizer
    cdef readonly str client_host
    cdef readonly int client_port
    cdef Reply head
    cdef Reply tail
    cdef readonly int pending
    cdef readonly int64_t opened_ms     # coarse_ms
    cdef readonly int64_t requests
    cdef readonly int64_t bytes_in
    cdef readonly bytes client_id   # of the last request; kept while requests repeat it
    cdef Reply unsent               # answers that the socket has not taken whole; linked by `next`
    cdef int16_t key                # API of the request that is being handled
    cdef int64_t received_ns        # when it was read
    cdef Py_ssize_t ready_bytes     # of answers that are ready and not yet given to the socket
    cdef bint reading               # the loop watches for input
    cdef bint parsing               # requests are being handled: ready answers leave after them
    cdef bint closing               # close once everything due is sent
    cdef bint in_touched            # is in the chain of connections to drain after a write, before `next_touched`
    cdef AnswerQueue next_touched
    cdef bint running               # a handler's task is not done: the request behind it waits, as in Kafka
    cdef int64_t staged_at          # server.flushes when this connection last staged a batch; -1: never
    cdef bint awaits_sync           # may have produced records that are not on disk yet, to a partition with flush.messages
    cdef int32_t unsettled          # answers to its Produce requests that wait for a sync, those with acks=0 included
    cdef int held                   # why the next request waits: HELD_FOR_SYNC, MUTED, both; 0 if it need not
    cdef Account account            # the account of the client; None until it is used while quotas are set
    cdef object mute_timer          # while MUTED, and until when
    cdef int64_t muted_until_ms

    cdef int add_reply(self, Reply reply) except -1
    cdef int mark_ready(self, Reply reply) except -1
    cdef int drain(self) except -1
    cdef int drain_guarded(self) except -1
    cdef int after_output(self) except -1
    cdef int output_free(self) except -1
    cdef bint has_whole_request(self) noexcept
    cdef int release_input(self) except -1
    cdef int count_sent(self) except -1
    cdef int mute(self, int64_t wait_ms) except -1
