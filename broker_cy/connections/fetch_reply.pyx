"""The answer of one Fetch request: it reads, waits for more records or for the disk, and is sent. handlers/fetch.pyx describes the
rules.
"""

cimport cython
from libc.stdint cimport int32_t, int64_t

from broker_cy.core.clock cimport coarse_ms, now_ns
from broker_cy.metrics.requests cimport DATA, DISK, RequestMetrics
from broker_cy.replica.flush_group cimport FlushedPartition
from broker_cy.connections.answers cimport ServerCore
from broker_cy.connections.charging cimport charge_fetch
from broker_cy.connections.fetch_answer cimport encode
from broker_cy.connections.fetch_read cimport read_one
from broker_cy.connections.fetch_session cimport FetchPartition, FetchSession, SessionCache
from broker_cy.storage.disk cimport confine_reads
from broker_cy.storage.log cimport LogSlice
from broker_cy.storage.segment cimport Segment
from broker_cy.storage.unverified cimport unverified_of

from broker_cy.storage.page_cache import warm, warm_path
from broker_cy.storage.unverified import note_verified, verify_all

cdef enum:
    # Times that a lookup is repeated after a worker read the missing data; after that, the loop waits for the disk. One or two are
    # usual; data that is missing again and again is evicted as fast as it is read.
    COLD_LOOKUPS_MAX = 16
    # After so many writes without a fetch of the follower, its session is no longer registered at the written partitions.
    UNHEARD_MAX = 1000
    # The approximate size of an answer, and of each partition in it, without the records, from version 13 on.
    ANSWER_BYTES = 20
    PARTITION_BYTES = 58


cdef class FetchReply(FetchRead):
    """The answer of one Fetch request, and its wait."""

    cdef int cancel(self) except -1:
        self.answered = True
        self.asks_no_more()
        self.leave()
        if self.replica_id >= 0 and self.context is not None and self.context.session is not None:
            # The follower begins another session on another connection.
            self.context.session.leave()
        return 0

    cdef int asks_no_more(self) except -1:
        cdef Py_ssize_t size = 0
        if self.asks:
            self.asks = False
            if self.payload is not None:
                for part in self.payload:
                    size += len(<bytes>part) if type(part) is bytes else (<LogSlice>part).size
            self.connection.server.silence.answered(self.replica_id, coarse_ms(&self.connection.clock.source), size)
        return 0

    cdef int hurry(self) except -1:
        if self.waiting is not None:
            self.try_again()
        return 0

    cdef int leave(self) except -1:
        """End the wait."""
        cdef FetchPartition target
        if self.waiting is None:
            return 0
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None
        if self.replica_id >= 0 and self.context.session is not None:
            (<StandingWait>self.waiting).reply = None
        else:
            for target in self.context.targets:
                if target.partition is not None:
                    target.partition.remove_waiting(self.waiting)
        self.waiting = None
        return 0

    cdef int64_t read_all(self) except -1:
        """Read every target within max_bytes. Returns the number of bytes of records, or INT64_MAX to answer immediately."""
        cdef FetchPartition target
        cdef FetchSession session = self.context.session if self.replica_id >= 0 else None
        cdef Py_ssize_t left = self.max_bytes
        cdef int64_t found = 0
        cdef bint at_once = False
        self.cold = None
        self.context.any_unknown = False
        if self.rights is not None:
            self.rights.renew()
        if self.replica_id >= 0 and self.connection.server.leader_throttle is not None:
            self.held = self.connection.server.leader_throttle.is_exceeded(coarse_ms(&self.connection.clock.source))
        if session is not None:
            session.be_asked_by(self.broker_epoch)
        confine_reads(self.cold_lookups < COLD_LOOKUPS_MAX)
        try:
            for target in self.context.targets:
                if session is not None:
                    if target.is_still_quiet():
                        continue
                    session.wake_up(target)
                # KIP-74: the first record set of an answer is whole, however small the limits.
                read_one(self, target, left, found == 0)
                if session is not None and self.cold is None and target.error == 0:
                    target.note_quiet(self.replica_id)
                if target.error or target.diverging_epoch >= 0 or target.preferred_replica >= 0:
                    at_once = True
                elif target.records is not None:
                    found += target.records.size
                    left -= target.records.size
                left = max(0, left)
                if self.replica_id >= 0 and self.context.incremental and not target.held and target.is_urgent(
                        self.connection.server.selects_replicas):
                    at_once = True
        finally:
            confine_reads(False)
        if self.cold is None:
            if session is not None and not self.acknowledged:
                session.fetched_ms = coarse_ms(&self.connection.clock.source)
            self.acknowledged = True
        return 0x7fffffffffffffff if at_once else found

    cdef int settle(self) except -1:
        """Read, and answer or wait: for memory to be filled, or for more to be written."""
        cdef FetchPartition target
        cdef int64_t found = self.read_all()
        cdef list moved
        if self.moved is not None:
            # This wakes others, but not this fetch, which waits nowhere.
            moved, self.moved = self.moved, None
            self.connection.server.settle_moved(moved)
            if self.answered or self.connection.closed:
                return 0
        if self.cold is not None:
            if self.unopened is not None:
                return self.await_opening()
            self.cold_lookups += 1
            return self.in_worker(warm_paths, self.cold, self.looked_up)
        if found >= self.min_bytes or self.max_wait_ms <= 0 or not self.context.targets or self.connection.server.stopping:
            return self.answer()
        self.missing_bytes = self.min_bytes - found
        self.deadline_ms = coarse_ms(&self.connection.clock.source) + self.max_wait_ms
        self.enter(DATA, now_ns(&self.connection.clock.source) if self.mark_ns else 0)
        if self.replica_id >= 0:
            self.stand()
        else:
            self.waiting = ConsumerWait.__new__(ConsumerWait)
            (<ConsumerWait>self.waiting).reply = self
            for target in self.context.targets:
                target.partition.add_waiting(self.waiting)
        self.timer = self.connection.server.loop.call_later(self.max_wait_ms / 1000.0, self.expire)
        return 0

    cdef int stand(self) except -1:
        """A follower waits, at all partitions but those that a throttle holds. In a session it stands there already."""
        cdef FetchPartition target
        cdef FetchSession session = self.context.session
        cdef StandingWait wait = <StandingWait>session.wait if session is not None else None
        if wait is None:
            wait = StandingWait.__new__(StandingWait)
            if session is not None:
                session.wait = wait
        self.waiting = wait
        wait.reply = self
        wait.unheard = 0
        for target in self.context.targets:
            if target.held:
                if target.stands_at is not None:
                    target.stands_at.remove_waiting(wait)
                    target.stands_at = None
            elif target.stands_at is not target.partition or target.wait_generation != wait.generation:
                target.partition.add_follower(wait)
                target.stands_at = target.partition
                target.wait_generation = wait.generation
        return 0

    cdef int in_worker(self, function, list what, then) except -1:
        cdef ServerCore server = self.connection.server
        self.enter(DISK, now_ns(&self.connection.clock.source) if self.mark_ns else 0)
        self.from_disk = True
        server.loop.run_in_executor(server.cold_reader, function, what).add_done_callback(then)
        return 0

    cdef int await_opening(self) except -1:
        """Read again once the partitions are open that are not open yet, however long the client wants to wait for data: as if
        the broker were still starting.
        """
        cdef list partitions = self.unopened
        self.unopened = None
        self.enter(DISK, now_ns(&self.connection.clock.source) if self.mark_ns else 0)
        self.connection.server.broker.openings.when_open(partitions, self.opened)
        return 0

    def opened(self):
        if self.answered or self.connection.closed:
            return
        try:
            self.settle()
        except Exception as error:
            self.connection.broken(error)

    def looked_up(self, future):
        """The worker read the missing data, or failed: then the lookup meets the same error."""
        if future.cancelled() or self.answered or self.connection.closed:
            return
        future.exception()
        try:
            self.settle()
        except Exception as error:
            self.connection.broken(error)

    cdef int answer(self) except -1:
        """Build the answer from the last read, and send it once its records are checked and in memory."""
        cdef list cold, unchecked
        cdef object part
        self.answered = True
        self.leave()
        unchecked = self.unchecked_parts()
        if unchecked:
            return self.in_worker(verify_all, unchecked, self.verified)
        if self.replica_id >= 0:
            if self.connection.server.leader_throttle is not None:
                self.count_throttled(self.connection.server.leader_throttle)
        elif self.connection.account is not None and charge_fetch(self.connection, self, self.answer_bytes()):
            self.give_nothing()
        self.payload = encode(self.connection, self.context, self.correlation_id, self.version, self.throttle_ms)
        cold = [part for part in self.payload if type(part) is not bytes
                and not (<Segment>(<LogSlice>part).segment).in_memory((<LogSlice>part).position, (<LogSlice>part).size)]
        self.count(bool(cold))
        if not cold:
            self.context = None
            self.asks_no_more()
            return self.connection.mark_ready(self)
        return self.in_worker(warm_all, cold, self.warmed)

    cdef Py_ssize_t answer_bytes(self) except -1:
        """The size of the answer of the last read, as quotas count it."""
        cdef FetchPartition target
        cdef Py_ssize_t size = ANSWER_BYTES
        for target in self.context.targets:
            if not self.context.incremental or target.is_news():
                size += PARTITION_BYTES
                if target.records is not None:
                    size += target.records.size
        return size

    cdef int give_nothing(self) except -1:
        """Answer with no partitions, because of a quota. As in Kafka, a session that would begin with this answer does not."""
        if self.context.session is not None and not self.context.incremental:
            (<SessionCache>self.connection.server.fetch_sessions).drop(self.context.session_id)
            self.context.session = None
            self.context.session_id = 0
        self.context.targets = []
        self.context.any_unknown = False
        return 0

    cdef int count_throttled(self, throttle) except -1:
        """Report the bytes that listed replicas copy, in sync or not."""
        cdef FetchPartition target
        cdef int64_t found = 0
        for target in self.context.targets:
            if target.records is not None and throttle.lists(target.partition.topic, target.index):
                found += target.records.size
        if found:
            throttle.record(found, coarse_ms(&self.connection.clock.source))
        return 0

    cdef int count(self, bint cold) except -1:
        """Count a fetch that found records, and whether all came from memory."""
        cdef RequestMetrics metrics = self.connection.server.metrics
        cdef FetchPartition target
        cdef int64_t found = 0
        for target in self.context.targets:
            if target.records is not None:
                found += target.records.size
        if not found:
            return 0
        if cold or self.from_disk:
            metrics.cold_reads += 1
            metrics.cold_bytes += found
        else:
            metrics.hot_reads += 1
            metrics.hot_bytes += found
        return 0

    cdef list unchecked_parts(self):
        """The parts that were read and not checked since the broker started; see unverified_of."""
        cdef FetchPartition target
        cdef list found = []
        for target in self.context.targets:
            if target.records is None or not (<Segment>target.records.segment).unverified_bytes:
                continue
            part = unverified_of(target.partition.log, target.records)
            if part is not None:
                found.append(part)
        return found

    def verified(self, future):
        """The worker checked segments."""
        if future.cancelled() or self.connection.closed:
            return
        try:
            note_verified(future.result())
            self.read_again()
        except Exception as error:
            self.connection.broken(error)

    def warmed(self, future):
        """The worker read the cold slices, or failed: then sendfile meets the same error and closes this connection."""
        if not future.cancelled():
            future.exception()
        self.context = None
        if not self.connection.closed:
            try:
                self.asks_no_more()
                self.connection.mark_ready(self)
            except Exception as error:
                self.connection.broken(error)

    def expire(self):
        """max_wait_ms is over: answer with the available records."""
        self.timer = None
        self.try_again()

    cdef int read_again(self) except -1:
        """Read once more and answer with the available records."""
        self.leave()
        self.answered = False
        self.max_wait_ms = 0
        return self.settle()

    cdef int look_again(self) except -1:
        """Transactions ended: answer if that is enough, or wait on."""
        if self.answered or self.connection.closed:
            return 0
        self.leave()
        self.max_wait_ms = <int32_t>max(0, self.deadline_ms - coarse_ms(&self.connection.clock.source))
        try:
            self.settle()
        except Exception as error:
            self.connection.broken(error)
        return 0

    cdef int try_again(self) except -1:
        if self.answered or self.connection.closed:
            return 0
        try:
            self.read_again()
        except Exception as error:
            self.connection.broken(error)
        return 0


def warm_all(list slices):
    """In a worker thread."""
    for part in slices:
        warm(part.fd, part.position, part.size, True)


def warm_paths(list parts):
    """In a worker thread."""
    for part in parts:
        warm_path(*part)


@cython.final
cdef class StandingWait(DelayedFetch):
    """Is registered at every partition of a follower's session; without one, of its fetch."""
    cdef FetchReply reply               # which waits; None: the follower has not fetched since the last answer
    cdef int unheard                    # writes since then
    cdef int64_t generation             # counts how often it was removed because the follower did not fetch

    cdef int on_advance(self, FlushedPartition partition, Py_ssize_t written_bytes) except -1:
        if self.reply is not None:
            return self.reply.try_again()
        self.unheard += 1
        if self.unheard > UNHEARD_MAX:
            # The session seems unused. If a fetch still comes, the next wait is registered at all partitions again.
            partition.remove_waiting(self)
            self.generation += 1
        return 0


@cython.final
cdef class ConsumerWait(DelayedFetch):
    """Is registered at every partition of a consumer's waiting fetch."""
    cdef FetchReply reply

    cdef int on_advance(self, FlushedPartition partition, Py_ssize_t written_bytes) except -1:
        if self.reply.read_committed and partition.undecided and written_bytes >= 0:
            # The bytes written and the bytes that may be read now differ.
            return self.reply.look_again() if partition.stable_moved else 0
        self.reply.missing_bytes -= written_bytes
        if self.reply.missing_bytes <= 0 or written_bytes < 0:
            return self.reply.try_again()
        return 0
