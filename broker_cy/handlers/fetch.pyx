"""Fetch, versions 4 to 18: sessions (KIP-227), long polling by min_bytes and max_wait_ms, leader epochs (KIP-320, KIP-595).

Answers are pieces: small record sets are read from the page cache into the answer itself, large ones are sent with sendfile. Data
that left the page cache - records, but also the index entries and batch headers that lead to them - is read by a worker thread, and
then the lookup is repeated, so that a cold read stalls no other client. A worker also checks the checksums of a segment that
existed when the broker started, before any of its records is sent for the first time. A fetch that finds less than min_bytes waits
at its partitions and is repeated when enough was written, or answered with the available records after max_wait_ms.

A follower (replica_id >= 0) reads up to the end of the log. The offset that it fetches from acknowledges all records before it
(replica.leading); its fetch waits for the next write. The follower gets a high watermark with the next record, or after max_wait_ms
(KAFKA-9952): an answer for the high watermark alone would double the fetches. A throttled follower (KIP-73) that is not in sync gets
no records, and waits only for max_wait_ms. A waiting fetch is answered when its follower sends another one behind it. The leader
reads only the partitions of the session that have changed since the last check: a follower fetches thousands, and few have news.
From version 11 on, consumers may read from followers up to their high watermarks, and the leader names a follower in their rack if
replica.selector.class says so (KIP-392); then followers learn of each high watermark immediately.

With an authorizer, consumers need READ on each topic for each read, so also within a session. A request with a replica id needs
CLUSTER_ACTION; without it, the fetch has no effect as a follower's (CVE-2018-1288). An unknown topic id is not a secret.
Omissions: snapshots (SnapshotId is the metadata quorum's); custom classes as replica.selector.class.

This file has the request; fetch_reply waits and answers, and fetch_read reads the partitions.
"""

from libc.stdint cimport int16_t, int32_t, int64_t, uint8_t

from broker_cy.core.clock cimport coarse_ms
from broker_cy.core.cursor cimport Cursor
from broker_cy.connections.answers cimport AnswerQueue, Reply, ServerCore
from broker_cy.connections.buffers cimport RecvBuffer
from broker_cy.connections.charging cimport fetch_bytes_max
from broker_cy.connections.fetch_read cimport deny, need_leading
from broker_cy.connections.fetch_reply cimport FetchReply
from broker_cy.connections.fetch_session cimport FetchContext, FetchPartition, SessionCache, refused, requested
from broker_cy.connections.rights cimport rights_of
from broker_cy.wire.fetch cimport FetchView

from broker_cy.storage.errors import ErrorCode
from broker_cy.broker.registry import handler
from broker_cy.wire.frame import ApiKey

cdef enum:
    FETCH_KEY = 1
    READ_UNCOMMITTED = 0
    READ_COMMITTED = 1

cdef int16_t UNKNOWN_SERVER_ERROR = ErrorCode.UNKNOWN_SERVER_ERROR

cdef FetchView _view = FetchView()


cdef bint hurry_followers(AnswerQueue connection) except *:
    """Answer the waiting fetch of a follower on this connection: it has sent a fetch behind it, for a partition that is not among
    those. Returns whether a worker still answers a fetch.
    """
    cdef bint is_busy = False
    cdef Reply reply = connection.head, following
    while reply is not None:
        following = reply.next
        if type(reply) is FetchReply:
            if (<FetchReply>reply).replica_id >= 0:
                reply.hurry()
            is_busy = is_busy or (<FetchReply>reply).context is not None
        reply = following
    return is_busy


cdef int handle_fetch(AnswerQueue connection, int32_t correlation_id, int16_t version, const uint8_t* p, Py_ssize_t n,
                      RecvBuffer owner) except -1:
    cdef ServerCore server = connection.server
    cdef FetchReply reply = FetchReply.__new__(FetchReply)
    cdef bint is_busy = connection.head is not None and hurry_followers(connection)
    _view.parse(Cursor.over(p, n, owner), version)
    reply.correlation_id = correlation_id
    reply.version = version
    reply.replica_id = _view.replica_id
    reply.broker_epoch = _view.replica_epoch
    if _view.rack_id and server.selects_replicas and reply.replica_id < 0:
        reply.rack = _view.rack_id.decode(errors="replace")
    if _view.isolation_level != READ_UNCOMMITTED and _view.isolation_level != READ_COMMITTED:
        # Kafka's handler fails on it.
        reply.context = refused(_view, UNKNOWN_SERVER_ERROR)
        connection.add_reply(reply)
        return reply.answer()
    reply.read_committed = _view.isolation_level == READ_COMMITTED
    reply.max_bytes = min(_view.max_bytes, server.fetch_bytes_max)
    if connection.account is not None and reply.replica_id < 0:
        reply.max_bytes = fetch_bytes_max(connection, reply.max_bytes)
    reply.min_bytes = min(_view.min_bytes, reply.max_bytes)
    reply.max_wait_ms = _view.max_wait_ms
    if server.authorization is not None:
        reply.rights = rights_of(connection)
        if reply.replica_id >= 0:
            if not reply.rights.may_act_for_cluster():
                return refuse_follower(connection, reply)
            reply.rights = None
    reply.context = (<SessionCache>server.fetch_sessions).context(_view, coarse_ms(&connection.clock.source), is_busy)
    reply.context.from_replica = reply.replica_id >= 0
    if reply.context.from_replica:
        need_leading()
    if reply.context.targets is None:
        reply.context.targets = []
    if reply.context.from_replica and server.silence is not None:
        reply.asks = True
        server.silence.fetched(reply.replica_id, coarse_ms(&connection.clock.source))
    connection.add_reply(reply)
    return reply.settle()


cdef int refuse_follower(AnswerQueue connection, FetchReply reply) except -1:
    """Answer a fetch with a replica id of a client without the rights of a broker, which gets no session either."""
    reply.replica_id = -1
    reply.context = FetchContext.__new__(FetchContext)
    reply.context.targets = list(requested(_view).values())
    connection.add_reply(reply)
    return deny_all(reply)


cdef int deny_all(FetchReply reply) except -1:
    """A client without the rights of a broker has given a replica id: it gets errors, and nothing is noted of its fetch."""
    cdef FetchPartition target
    for target in reply.context.targets:
        target.held = False
        target.records = None
        target.diverging_epoch = target.preferred_replica = -1
        target.high_watermark = target.last_stable_offset = target.log_start_offset = -1
        deny(reply.context, target)
    return reply.answer()


def install(ServerCore server, int slots, int64_t eviction_ms, randomness, *, bint selects_replicas=False):
    """Let `server` answer Fetch here; sessions are bounded by `slots`, and `randomness` draws their ids. With `selects_replicas`
    consumers are sent to the nearest replica (KIP-392).
    """
    server.selects_replicas = selects_replicas
    server.fetch_sessions = SessionCache(slots, eviction_ms, lambda: randomness.integer(1, 0x7fffffff))
    server.set_hot(FETCH_KEY, handle_fetch)


@handler(ApiKey.FETCH, versions=(4, 18), requires="READ on each topic; CLUSTER_ACTION on the cluster for followers")
def fetch(ctx, request):
    """Registered for its versions; `install` puts `handle_fetch` in its place."""
    raise RuntimeError("Fetch is answered by handle_fetch")
