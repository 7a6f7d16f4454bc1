"""Incremental fetch sessions (KIP-227): the partitions of a client are kept here, so that it sends only changes.

Epoch 0 asks for a new session with a full answer, -1 for a full answer without a session; n > 0 continues a session and
carries only changes. The cache is bounded by max.incremental.fetch.session.cache.slots; a session that was not used for
`eviction_ms` makes room for a new one, else the new client is served without a session.
"""

cimport cython

from broker_cy.replica.replica cimport LEADER
from broker_cy.storage.log cimport Log
from broker_cy.wire.produce cimport FIRST_ID_VERSION, TopicSpan, topic_key

from broker_cy.core.errors import ErrorCode

cdef int16_t FETCH_SESSION_ID_NOT_FOUND = ErrorCode.FETCH_SESSION_ID_NOT_FOUND
cdef int16_t INVALID_FETCH_SESSION_EPOCH = ErrorCode.INVALID_FETCH_SESSION_EPOCH
cdef int16_t FETCH_SESSION_TOPIC_ID_ERROR = ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR

cdef enum:
    NEW_SESSION_EPOCH = 0
    NO_SESSION_EPOCH = -1
    SESSION_VERSION = 7

cdef int32_t EPOCH_MAX = 2147483647


@cython.freelist(256)
@cython.final
cdef class FetchPartition:
    cdef int ask(self, FetchTarget* target) except -1:
        self.index = target.index
        self.current_leader_epoch = target.current_leader_epoch
        self.fetch_offset = target.fetch_offset
        self.last_fetched_epoch = target.last_fetched_epoch
        self.follower_start = target.log_start_offset
        self.max_bytes = target.max_bytes
        return 0

    cdef bint is_still_quiet(self) noexcept:
        """Whether the partition is unchanged since note_quiet: a check costs as much as a record, and a follower fetches
        thousands.
        """
        cdef Partition partition = self.partition
        cdef Log log
        if not self.is_quiet or partition.closed or partition.log is None:
            return False
        log = partition.log
        return (log.offline is None and partition.replica.role == LEADER
                and partition.replica.leader_epoch == self.judged_epoch
                and partition.replica.members is self.members
                and log.written_end_offset == self.fetch_offset
                and log.log_start_offset == self.log_start_offset
                and partition.replica.high.offset == self.high_watermark)

    cdef int note_quiet(self, int32_t replica_id) except -1:
        """The partition was looked at for a follower, and its fetch was accepted."""
        cdef Partition partition = self.partition
        self.is_quiet = (self.error == 0 and self.records is None and self.diverging_epoch < 0 and not self.held
                         and self.fetch_offset == partition.log.written_end_offset and partition.is_member(replica_id))
        self.members = partition.replica.members if self.is_quiet else None
        return 0

    cdef FetchPartition twin(self):
        """The same without the last read."""
        cdef FetchPartition part = FetchPartition.__new__(FetchPartition)
        part.topic = self.topic
        part.index = self.index
        part.current_leader_epoch = self.current_leader_epoch
        part.fetch_offset = self.fetch_offset
        part.last_fetched_epoch = self.last_fetched_epoch
        part.follower_start = self.follower_start
        part.judged_epoch = -1
        part.max_bytes = self.max_bytes
        part.partition = self.partition
        part.known_name = self.known_name
        part.reported_high_watermark = self.reported_high_watermark
        part.reported_log_start_offset = self.reported_log_start_offset
        return part

    cdef bint is_news(self) noexcept:
        """Whether an incremental answer must name this partition."""
        return (self.error != 0 or self.records is not None or self.diverging_epoch >= 0 or self.preferred_replica >= 0
                or self.high_watermark != self.reported_high_watermark
                or self.log_start_offset != self.reported_log_start_offset)

    cdef bint is_urgent(self, bint reads_followers) noexcept:
        """Whether a waiting follower must learn of this partition without a record: `reads_followers` says that consumers wait for
        its high watermark.
        """
        return (self.log_start_offset != self.reported_log_start_offset
                or (reads_followers and self.high_watermark != self.reported_high_watermark))


cdef dict requested(FetchView view):
    """The partitions of a request, in its order, by (topic, index). The last entry of a partition counts."""
    cdef dict found = {}
    cdef FetchPartition part
    cdef TopicSpan* topic
    cdef bytes name
    cdef int32_t i, k
    for i in range(view.topic_count):
        topic = &view.topics[i]
        name = topic_key(topic, view.version)
        for k in range(topic.first, topic.first + topic.count):
            part = FetchPartition.__new__(FetchPartition)
            part.topic = name
            part.reported_high_watermark = part.reported_log_start_offset = part.judged_epoch = -1
            part.ask(&view.partitions[k])
            found[name, part.index] = part
    return found


cdef FetchContext refused(FetchView view, int16_t error):
    """The answer to a request that cannot be served at all: up to version 12 it names each partition."""
    cdef FetchContext found = FetchContext.__new__(FetchContext)
    cdef FetchPartition part
    found.error = error
    found.session_id = view.session_id
    found.targets = list(requested(view).values()) if view.version < FIRST_ID_VERSION else []
    for part in found.targets:
        part.error = error
        part.aborted = []
        part.high_watermark = part.last_stable_offset = part.log_start_offset = part.diverging_epoch = -1
        part.preferred_replica = -1
    return found


@cython.final
cdef class FetchSession:
    cdef int update(self, FetchView view) except -1:
        """Apply the partitions that an incremental request adds, changes and forgets."""
        cdef FetchPartition part, known = None
        cdef TopicSpan* topic
        cdef bytes name
        cdef int32_t i, k
        for part in requested(view).values():
            known = self.partitions.get((part.topic, part.index))
            if known is None:
                self.partitions[part.topic, part.index] = part
            else:
                self.wake_up(known)
                known.current_leader_epoch = part.current_leader_epoch
                known.fetch_offset = part.fetch_offset
                known.last_fetched_epoch = part.last_fetched_epoch
                known.follower_start = part.follower_start
                known.max_bytes = part.max_bytes
        for i in range(view.forgotten_count):
            topic = &view.forgotten[i]
            name = topic_key(topic, view.version)
            for k in range(topic.first, topic.first + topic.count):
                known = self.partitions.pop((name, view.forgotten_partitions[k]), None)
                if known is not None:
                    self.wake_up(known)
                    if known.stands_at is not None:
                        known.stands_at.remove_waiting(self.wait)
        return 0

    cdef int wake_up(self, FetchPartition part) except -1:
        """A partition is looked at again. Until the last look its follower had everything."""
        if part.is_quiet:
            part.is_quiet = False
            part.partition.kept_up(self.replica_id, self.fetched_ms)
        return 0

    cdef int be_asked_by(self, int64_t broker_epoch) except -1:
        """Another incarnation of the follower has to be heard for each partition (KIP-903)."""
        cdef FetchPartition part
        if broker_epoch != self.broker_epoch:
            self.broker_epoch = broker_epoch
            for part in self.partitions.values():
                self.wake_up(part)
        return 0

    cdef int detach(self) except -1:
        """Share no partition with the request before, which has its own reads."""
        cdef FetchPartition part
        self.leave()
        for key, part in self.partitions.items():
            self.partitions[key] = part.twin()
        return 0

    cdef int leave(self) except -1:
        """The session ends, or its connection: it waits nowhere."""
        cdef FetchPartition part
        for part in self.partitions.values():
            self.wake_up(part)
            if part.stands_at is not None:
                part.stands_at.remove_waiting(self.wait)
                part.stands_at = None
        return 0


@cython.final
cdef class FetchContext:
    pass


@cython.final
cdef class SessionCache:
    def __init__(self, int slots, int64_t eviction_ms, random_id):
        self.sessions = {}
        self.slots = slots
        self.eviction_ms = eviction_ms
        self.random_id = random_id

    cdef FetchContext context(self, FetchView view, int64_t now_ms, bint is_busy):
        """The kind of fetch, by session id and epoch; the error to answer if the session does not match. With `is_busy` an earlier
        request may still be being answered.
        """
        cdef FetchContext found = FetchContext.__new__(FetchContext)
        cdef FetchSession session
        cdef dict partitions
        if view.version < SESSION_VERSION or view.session_epoch == NO_SESSION_EPOCH:
            self.drop(view.session_id)
            found.targets = list(requested(view).values())
            return found
        if view.session_epoch == NEW_SESSION_EPOCH:
            self.drop(view.session_id)
            partitions = requested(view)
            found.targets = list(partitions.values())
            session = self.create(view, partitions, now_ms)
            if session is not None:
                found.session = session
                found.session_id = session.session_id
            return found
        session = self.sessions.pop(view.session_id, None)
        if session is None:
            found.error = FETCH_SESSION_ID_NOT_FOUND
            return found
        self.sessions[view.session_id] = session
        if session.epoch != view.session_epoch:
            found.error = INVALID_FETCH_SESSION_EPOCH
            return found
        if session.uses_ids != (view.version >= FIRST_ID_VERSION):
            found.error = FETCH_SESSION_TOPIC_ID_ERROR
            return found
        session.last_used_ms = now_ms
        session.epoch = 1 if session.epoch == EPOCH_MAX else session.epoch + 1
        if is_busy:
            session.detach()
        session.update(view)
        if not session.partitions:
            # The client forgot everything: the session ends with this answer.
            self.drop(session.session_id)
            return found
        found.session = session
        found.session_id = session.session_id
        found.incremental = True
        found.targets = list(session.partitions.values())
        return found

    cdef int drop(self, int32_t session_id) except -1:
        """End the session with this id, if it exists."""
        cdef FetchSession session = self.sessions.pop(session_id, None)
        if session is not None:
            session.leave()
        return 0

    def tick(self):
        """Report how long followers have kept up, of partitions that are different since the last look at them. Called before
        Partition.tick.
        """
        cdef FetchSession session
        cdef FetchPartition part
        for session in self.sessions.values():
            if session.replica_id < 0:
                continue
            for part in session.partitions.values():
                if part.is_quiet and not part.is_still_quiet():
                    session.wake_up(part)

    cdef FetchSession create(self, FetchView view, dict partitions, int64_t now_ms):
        """A new session, or None if the cache is full of sessions in use."""
        cdef FetchSession session, oldest
        cdef int32_t session_id
        if self.slots <= 0:
            return None
        if len(self.sessions) >= self.slots:
            oldest = next(iter(self.sessions.values()))
            if now_ms - oldest.last_used_ms < self.eviction_ms:
                return None
            self.drop(oldest.session_id)
            self.evicted += 1
        session_id = self.random_id()
        while session_id in self.sessions:
            session_id = self.random_id()
        session = FetchSession.__new__(FetchSession)
        session.session_id = session_id
        session.epoch = 1
        session.uses_ids = view.version >= FIRST_ID_VERSION
        session.partitions = partitions
        session.last_used_ms = session.fetched_ms = now_ms
        session.replica_id = view.replica_id
        self.sessions[session_id] = session
        return session
