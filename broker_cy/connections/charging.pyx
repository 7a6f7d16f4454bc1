"""Charges requests to the quotas of a connection's client, and throttles the connection (KIP-13, KIP-124, KIP-219).

No function here is called while no quota is set (ServerCore.meter). Otherwise a connection keeps the Account of its client, and gets
it again when the client id, the principal or the quotas have changed.

- Produce is executed, and answered immediately with its throttle_time_ms; the connection handles no further request for that time.
  The charged bytes are those of the request.
- A throttled Fetch is answered without records, and the records that it would have got are not charged. The charged bytes are those
  of the answer. The answer is limited to the bytes that the quota allows now, or in a window: a client with large fetches gets many
  smaller answers, rather than few with long waits.
- The charged time is the loop's time for reading, handling and answering the client's requests, in percent of one second. As with
  the network threads of Kafka, the time of a request is charged to later ones. The throttle time for it is at most one window.
- A change of the controller's (`client_quotas.Changes`) has put its throttle time into the response.

As in Kafka, followers' fetches and requests that only brokers send are exempt, unless they were denied. If two quotas throttle a
request, the longer throttle time applies.
"""

from libc.stdint cimport uint8_t

from broker_cy.core.clock cimport coarse_ms, now_ns
from broker_cy.quotas.rate cimport PacedRate, Rate
from broker_cy.connections.answers cimport ServerCore
from broker_cy.connections.buffers cimport RecvBuffer

import types

from broker_cy.core.errors import ErrorCode
from broker_cy.wire.api_keys import ApiKey

cdef enum:
    PRODUCE_KEY = 0
    FETCH_KEY = 1
    # Key, version, correlation id and the length of the client id.
    HEADER_BYTES = 10
    CLUSTER_AUTHORIZATION_FAILED = 31

cdef double PERCENT_OF_NS = 100.0 / 1000000000

assert CLUSTER_AUTHORIZATION_FAILED == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
# ApiKeys.clusterAction, and the APIs that Kafka's brokers and controllers answer by sendResponseExemptThrottle.
cdef frozenset EXEMPT = frozenset(int(key) for key in (
    ApiKey.WRITE_TXN_MARKERS, ApiKey.VOTE, ApiKey.BEGIN_QUORUM_EPOCH, ApiKey.END_QUORUM_EPOCH, ApiKey.ALTER_PARTITION,
    ApiKey.ENVELOPE, ApiKey.FETCH_SNAPSHOT, ApiKey.BROKER_REGISTRATION, ApiKey.BROKER_HEARTBEAT, ApiKey.ALLOCATE_PRODUCER_IDS,
    ApiKey.CONTROLLER_REGISTRATION, ApiKey.ASSIGN_REPLICAS_TO_DIRS, ApiKey.UPDATE_RAFT_VOTER, ApiKey.FETCH,
))


cdef Account account_of(AnswerQueue connection):
    """The account of the client; None if the quotas were removed."""
    cdef ServerCore server = connection.server
    cdef Account account = connection.account
    if server.quotas is None:
        connection.account = None
        return None
    if (account is None or account.generation != server.quota_generation or account.client_id is not connection.client_id
            or account.principal is not connection.principal):
        account = connection.account = server.quotas.account(connection.principal, connection.client_id)
    return account


cdef int charge_produce(AnswerQueue connection, int32_t correlation_id, int16_t version, const uint8_t* p, Py_ssize_t n,
                        RecvBuffer owner) except -1:
    """In place of the handler of Produce while quotas are set."""
    cdef ServerCore server = connection.server
    cdef Account account = account_of(connection)
    cdef Reply before = connection.tail
    cdef Reply reply
    cdef int64_t now_ms, wait = 0, time_wait = 0
    cdef Py_ssize_t size = n + HEADER_BYTES + len(connection.client_id) + (version >= server.flexible_from[PRODUCE_KEY])
    server.plain[PRODUCE_KEY](connection, correlation_id, version, p, n, owner)
    if connection.closed or account is None or (account.produce is None and account.time is None):
        return 0
    now_ms = coarse_ms(&connection.clock.source)
    # acks=0 has no answer, and no quota of time; one that waits for a log to be opened gets its place later.
    reply = connection.tail if connection.tail is not before else None
    if account.produce is not None:
        wait = account.produce.charge_at(size, now_ms)
    if account.time is not None and reply is not None:
        time_wait = account.time.wait_of(now_ms)
    if wait == 0 and time_wait == 0:
        return 0
    note(account.produce if wait > time_wait else account.time, max(wait, time_wait))
    if reply is not None:
        reply.throttle_ms = <int32_t>max(wait, time_wait)
    return connection.mute(max(wait, time_wait))


cdef int note(Rate rate, int64_t wait_ms) except -1:
    rate.waits += 1
    rate.waited_ms += wait_ms
    return 0


cdef int charge_fetches(AnswerQueue connection, int32_t correlation_id, int16_t version, const uint8_t* p, Py_ssize_t n,
                        RecvBuffer owner) except -1:
    """In place of the handler of Fetch while quotas are set: the answer asks `charge_fetch` for the account."""
    account_of(connection)
    return connection.server.plain[FETCH_KEY](connection, correlation_id, version, p, n, owner)


cdef int32_t fetch_bytes_max(AnswerQueue connection, int32_t wanted) noexcept:
    cdef PacedRate rate = connection.account.fetch
    return rate.allowed(wanted, coarse_ms(&connection.clock.source)) if rate is not None else wanted


cdef int64_t charge_fetch(AnswerQueue connection, Reply reply, Py_ssize_t size) except -1:
    """Count an answer to a consumer. Returns for how long it has to wait, and get nothing; 0 if it need not."""
    cdef Account account = account_of(connection)
    cdef int64_t now_ms, wait = 0, time_wait = 0
    if account is None or (account.fetch is None and account.time is None):
        return 0
    now_ms = coarse_ms(&connection.clock.source)
    if account.time is not None:
        time_wait = account.time.wait_of(now_ms)
    if account.fetch is not None:
        wait = account.fetch.charge_at(size, now_ms)
        if wait or time_wait:
            account.fetch.add(-size, now_ms)
    if wait == 0 and time_wait == 0:
        return 0
    note(account.fetch if wait > time_wait else account.time, max(wait, time_wait))
    reply.throttle_ms = <int32_t>max(wait, time_wait)
    connection.mute(reply.throttle_ms)
    return reply.throttle_ms


cdef int charge_answer(AnswerQueue connection, int16_t key, object response) except -1:
    """A handler written in Python has answered."""
    cdef Account account = account_of(connection)
    cdef int64_t wait = 0, own
    if account is None or (key in EXEMPT and getattr(response, "error_code", 0) != CLUSTER_AUTHORIZATION_FAILED):
        return 0
    own = getattr(response, "throttle_time_ms", 0)
    if account.time is not None:
        wait = account.time.wait_of(coarse_ms(&connection.clock.source))
        if wait >= own and wait:
            note(account.time, wait)
    wait = max(wait, own)
    if wait <= 0:
        return 0
    if hasattr(response, "throttle_time_ms"):
        response.throttle_time_ms = wait
    return connection.mute(wait)


cdef object timed(object handling, AnswerQueue connection):
    """The coroutine of a handler, whose time on the loop counts for the client."""
    cdef Account account = account_of(connection)
    return handling if account is None or account.time is None else _timed(handling.__await__(), account, connection)


def _count(Account account, AnswerQueue connection, int64_t began_ns):
    account.time.add((now_ns(&connection.clock.source) - began_ns) * PERCENT_OF_NS, coarse_ms(&connection.clock.source))


@types.coroutine
def _timed(steps, Account account, AnswerQueue connection):
    cdef int64_t began_ns
    sent = error = None
    while True:
        began_ns = now_ns(&connection.clock.source)
        try:
            waits_for = steps.send(sent) if error is None else steps.throw(error)
        except StopIteration as done:
            return done.value
        finally:
            _count(account, connection, began_ns)
        sent = error = None
        try:
            sent = yield waits_for
        except BaseException as failure:
            error = failure


def install(ServerCore server):
    """Let `server` count for quotas once it has some."""
    server.metered[PRODUCE_KEY] = charge_produce
    server.metered[FETCH_KEY] = charge_fetches
