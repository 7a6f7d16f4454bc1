"""The group that writes all staged batches at the end of a loop turn, and the logs that it writes, each with its waiters.

Order of a flush: stagers, one pwritev for each dirty log, the answers of the turn, internal appends, fetches. So no client learns of
a record before its producer can, and a woken fetch finds all records that were written in the turn. A round of group commit
(group_commit.pyx) settles the waiters for a sync in the same order.

FlushGroup and FlushedPartition are in one module because they call each other as C methods, for each batch and each turn.
"""

from libc.errno cimport EIO

from broker_cy.core.clock cimport coarse_ms
from broker_cy.replica.replica cimport COMMITTED, EXPIRED, FOLLOWER, LOCAL, LOST, MOVED, PENDING, TOO_FEW

import os

from broker_cy.core.errors import ErrorCode, KafkaError
from broker_cy.storage.errors import errno_of
from broker_cy.storage.jobs import InlineJobs

cdef enum:
    # A record that is past its deadline while this replica itself still syncs it is looked at again after this.
    UNSYNCED_MS = 100


cdef class DelayedFetch:
    cdef int on_advance(self, FlushedPartition partition, Py_ssize_t written_bytes) except -1:
        """Called when `written_bytes` more can be read from `partition`; -1 if it no longer exists or went offline."""
        raise NotImplementedError("a DelayedFetch without on_advance")


cdef class Waiter:
    cdef int settled(self, int32_t place, FlushedPartition partition, Fate fate) except -1:
        """The fate of the record that was registered as `place` is decided: DONE, LOST, MOVED, TOO_FEW or EXPIRED."""
        raise NotImplementedError("a Waiter without settled")


cdef class InternalAppend(Waiter):
    """An append of this broker itself, or one that it waits for: `future` gets the base offset, or `done` is called."""

    cdef int settled(self, int32_t place, FlushedPartition partition, Fate fate) except -1:
        error = None
        if fate == LOST:
            error = KafkaError(ErrorCode.KAFKA_STORAGE_ERROR,
                               f"writing {partition.topic}-{partition.index} failed: {os.strerror(partition.replica.error)}")
        elif fate == MOVED:
            error = KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER,
                               f"this broker no longer leads {partition.topic}-{partition.index}")
        elif fate == TOO_FEW:
            error = KafkaError(ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
                               f"{partition.topic}-{partition.index} has too few in-sync replicas since the append")
        if self.future is None:
            try:
                self.done(error)
            except Exception as failure:
                # A defect; the other appends and partitions still get their results.
                partition.group.loop.call_exception_handler({"message": "after an append", "exception": failure})
        elif not self.future.done():
            if error is None:
                self.future.set_result(self.base_offset)
            else:
                self.future.set_exception(error)
        return 0


cdef class FlushGroup:
    def __init__(self, loop, Clock clock not None):
        self.loop = loop
        self.clock = clock
        self.dirty = []
        self.verifies = True
        self.stagers = []
        self.expiring = []
        # Imported here, because group_commit is compiled against this module. This one syncs immediately; the server replaces it
        # with one that has threads.
        from broker_cy.replica.group_commit import GroupCommit
        self.commit = GroupCommit(self, {"": InlineJobs()}, 1)

    cdef int schedule_flush(self) except -1:
        """Schedule a flush after this turn's sockets are read: the loop runs call_soon callbacks after its poll."""
        if not self.flush_scheduled:
            self.flush_scheduled = True
            self.loop.call_soon(self.end_turn)
        return 0

    def end_turn(self):
        self.checked_bytes = 0
        self.flush()

    cdef int add_dirty(self, FlushedPartition partition) except -1:
        """`partition` had nothing to write until now."""
        self.dirty.append(partition)
        return self.schedule_flush()

    cdef int before_flush(self, object stage) except -1:
        self.stagers.append(stage)
        return self.schedule_flush()

    cdef int answer_waiting(self) except -1:
        """Called after each flush; the server sends the answers that waited for it."""
        return 0

    def before_ticks(self):
        """Called before partitions look for slow followers; the server reports the followers that have kept up."""

    cdef int failed(self, FlushedPartition partition, object what, object error) except -1:
        """Called for each failed append, write, read or sync of a log; the server logs it."""
        return 0

    cpdef int flush(self) except -1:
        """Write every dirty partition, with one pwritev each, then send the answers."""
        cdef list dirty, stagers
        self.flush_scheduled = False
        if self.stagers:
            stagers, self.stagers = self.stagers, []
            for stage in stagers:
                try:
                    stage()
                except Exception as failure:
                    # A defect; the batches of other stagers and of clients are still written and answered.
                    self.loop.call_exception_handler({"message": "before a write", "exception": failure})
            # The batches that they staged are written by this flush.
            self.flush_scheduled = False
        dirty = self.dirty
        self.staged_bytes = 0
        self.flushes += 1
        if dirty:
            self.dirty = []
            # Without a check of each type: only add_dirty puts anything there.
            for each in dirty:
                (<FlushedPartition>each).write_staged()
        self.answer_waiting()
        if dirty:
            for each in dirty:
                (<FlushedPartition>each).tell()
        if self.sync_wanted:
            self.sync_wanted = False
            self.commit.start()
        return 0

    cdef int answer_settled(self) except -1:
        """Called after the answers that waited for a round of group commit were settled; the server sends them."""
        return 0

    cdef int alter(self, FlushedPartition partition) except -1:
        """`partition` leads, and proposes another in-sync set: send the AlterPartition of its InSync."""
        if self.on_alter is not None:
            self.on_alter(partition)
        return 0

    cdef int settle_moved(self, list partitions) except -1:
        """The high watermark of `partitions` has moved, and not by a write of theirs."""
        cdef FlushedPartition partition
        for partition in partitions:
            partition.settle_answers()
        self.answer_settled()
        for partition in partitions:
            partition.tell()
        return 0

    # ---- deadlines: one timer, for the earliest ----

    cdef int expire_at(self, int64_t deadline_ms) except -1:
        """A request waits until then, for a partition of `expiring`."""
        if self.expires_ms != 0:
            if self.expires_ms <= deadline_ms:
                return 0
            self.expiry_timer.cancel()
        self.expires_ms = deadline_ms
        delay_ms = max(1, deadline_ms - coarse_ms(&self.clock.source))
        self.expiry_timer = self.loop.call_later(delay_ms / 1000.0, self.expire_answers)
        return 0

    def expire_answers(self):
        """Settle the answers that have waited for other replicas long enough."""
        cdef int64_t now_ms = coarse_ms(&self.clock.source), deadline_ms, next_ms = 0
        cdef FlushedPartition partition
        cdef list still = []
        self.expires_ms = 0
        for partition in self.expiring:
            deadline_ms = partition.expire(now_ms)
            partition.expires = deadline_ms != 0
            if partition.expires:
                still.append(partition)
                next_ms = min(next_ms, deadline_ms) if next_ms else deadline_ms
        self.expiring = still
        if next_ms:
            self.expire_at(next_ms)
        self.answer_settled()


cdef class FlushedPartition:
    cdef int follow_log_start(self) except -1:
        """Delete the records that the leader has deleted. Called for one of several replicas after its high watermark may have changed,
        before any waiter is woken.
        """
        return 0

    # ---- write ----

    cdef int write_staged(self) except -1:
        """Write the staged batches, and report their fate; if the write fails they are undone."""
        cdef int error
        cdef list undone
        cdef Output progress
        try:
            error = self.log.flush_staged()
        except Exception as failure:
            # A defect, or no memory. The content of the log is unknown now; other partitions are still written, and answers sent.
            error = errno_of(failure)
            self.log.mark_offline(f"writing failed: {failure!r}")
        if self.log.sync_failed and not self.replica.sync_lost:
            # The flush of all logs has found it.
            self.take(self.replica.lose(EIO))
        if self.replica.sync_lost and error == 0:
            error = EIO
        if error == 0:
            progress = self.replica.wrote(self.log.written_end_offset, self.log.synced_end_offset, self.log.config.flush_messages)
            return self.take(progress)
        self.take(self.replica.undo(error))
        self.group.failed(self, "write", OSError(error, os.strerror(error)))
        # This has to be done before anything else is staged at these offsets.
        if self.waiting_appends:
            self.waiting_appends, undone = self.undecided_of(self.waiting_appends)
            self.undone_appends = undone if self.undone_appends is None else self.undone_appends + undone
        return 0

    cdef int take(self, Output progress) except -1:
        """Carry out the output of a report of progress to the replica."""
        if progress.moved:
            self.log.producers.forget_completed(progress.high_watermark)
        if progress.wants_round:
            self.group.sync_wanted = True
            self.group.commit.add(self)
        if progress.wants_alter:
            self.group.alter(self)
        return 0

    # ---- waiters for records ----

    cdef int wait(self, Waiter waiter, int32_t place, int64_t offset, Level level) except -1:
        """Have `waiter.settled(place, ...)` called once the fate of the record at `offset` is decided, which is pending now."""
        if self.waiting_answers is None:
            self.waiting_answers = []
        self.waiting_answers.append((waiter, place, offset, level))
        if waiter.deadline_ms:
            if not self.expires:
                self.expires = True
                self.group.expiring.append(self)
            self.group.expire_at(waiter.deadline_ms)
        return 0

    cdef int wait_internal(self, InternalAppend append, Level level) except -1:
        """As `wait`, for an internal append, which is settled after the answers."""
        if self.waiting_appends is None:
            self.waiting_appends = []
        self.waiting_appends.append((append, 0, append.base_offset, level))
        return 0

    cdef tuple undecided_of(self, list waiting):
        """Split waiting entries: those that are still pending, and (waiter, place, fate) of the others."""
        cdef list pending = [], decided = []
        cdef Fate fate
        for entry in waiting:
            waiter, place, offset, level = entry
            fate = self.replica.fate(offset, level)
            if fate == PENDING:
                pending.append(entry)
            else:
                decided.append((waiter, place, fate))
        return pending, decided

    cdef int settle(self, list decided) except -1:
        cdef Waiter waiter
        for waiter, place, fate in decided:
            waiter.settled(place, self, fate)
        return 0

    cdef int settle_answers(self) except -1:
        """Settle the answers whose fate is decided, after a round of syncs."""
        cdef list decided
        if self.waiting_answers:
            self.waiting_answers, decided = self.undecided_of(self.waiting_answers)
            self.settle(decided)
        return 0

    cdef int64_t expire(self, int64_t now_ms) except -1:
        """Settle the answers whose deadline is over. Returns the earliest deadline of the other answers, or 0.

        Records that are not on this replica's own disk yet do not expire: as in Kafka, the deadline is for the other replicas.
        """
        cdef list pending = [], expired = []
        cdef Waiter waiter
        cdef int64_t next_ms = 0, deadline_ms
        for entry in self.waiting_answers or ():
            waiter, _, offset, level = entry
            deadline_ms = waiter.deadline_ms
            if 0 < deadline_ms <= now_ms:
                if level == COMMITTED and self.replica.fate(offset, COMMITTED) == PENDING and self.replica.fate(offset, LOCAL) != PENDING:
                    expired.append(entry)
                    continue
                deadline_ms = now_ms + UNSYNCED_MS
            pending.append(entry)
            if deadline_ms:
                next_ms = min(next_ms, deadline_ms) if next_ms else deadline_ms
        if expired:
            self.waiting_answers = pending
            self.settle([(waiter, place, EXPIRED) for waiter, place, _, _ in expired])
        return next_ms

    cdef int tell(self) except -1:
        """Complete internal appends and wake fetches, after the answers of the turn or the round."""
        cdef list decided
        cdef int64_t more = self.replica.high.bytes - self.reported_bytes
        self.reported_bytes += more
        if self.undone_appends:
            decided, self.undone_appends = self.undone_appends, None
            self.settle(decided)
        if self.waiting_appends:
            self.waiting_appends, decided = self.undecided_of(self.waiting_appends)
            self.settle(decided)
        if self.waiting_followers is not None:
            self.follow_log_start()
        if self.waiting_fetches:
            if self.replica.sync_lost:
                self.wake(-1)
            elif more > 0:
                self.wake(more)
        if self.waiting_followers is not None:
            self.tell_replicas()
        return 0

    # ---- waiters for more records ----

    cdef int wake(self, Py_ssize_t written_bytes) except -1:
        """Notify waiting fetches that the high watermark moved, or, with -1, that this partition no longer exists or is offline."""
        cdef DelayedFetch waiting
        cdef bint was_open = self.reported_open
        cdef int64_t before = self.reported_stable
        if written_bytes >= 0:
            self.note_stable()
            self.undecided = was_open or self.reported_open
            self.stable_moved = self.reported_stable != before
        if self.waiting_fetches:
            for waiting in list(self.waiting_fetches):
                waiting.on_advance(self, written_bytes)
        if written_bytes < 0 and self.waiting_followers:
            for waiting in list(self.waiting_followers):
                waiting.on_advance(self, written_bytes)
        return 0

    cdef int note_stable(self) except -1:
        self.reported_stable = self.fetch_bound(True)
        self.reported_open = self.reported_stable < self.replica.high.offset
        return 0

    cdef int64_t fetch_bound(self, bint read_committed) except -2:
        """First offset that may not be read: the high watermark, or the last stable offset under read_committed."""
        cdef int64_t stable
        if not read_committed:
            return self.replica.high.offset
        # If an open transaction began before the log start offset, the last stable offset would otherwise be below that.
        stable = max(<int64_t>self.log.producers.last_stable_offset(self.replica.high.offset), self.log.log_start_offset)
        return min(stable, self.replica.high.offset)

    cdef int add_waiting(self, DelayedFetch waiting) except -1:
        if self.waiting_fetches is None:
            self.waiting_fetches = {}
        self.waiting_fetches[waiting] = None
        self.note_stable()
        return 0

    cdef int remove_waiting(self, DelayedFetch waiting) except -1:
        if self.waiting_fetches is not None:
            self.waiting_fetches.pop(waiting, None)
        if self.waiting_followers is not None:
            self.waiting_followers.pop(waiting, None)
        return 0

    cdef int add_follower(self, DelayedFetch waiting) except -1:
        """Have `waiting` woken by each write from now on, until `remove_waiting`."""
        self.told_written = self.replica.written.bytes
        self.told_high = self.replica.high.offset
        self.waiting_followers[waiting] = None
        return 0

    cdef int tell_replicas(self) except -1:
        """Wake the followers that wait for written records, or for committed ones if consumers read from them, and the own fetches
        of a follower or mirror. A follower without a leader has no such waiters.
        """
        cdef int64_t bytes = self.replica.written.bytes
        if self.on_written is not None:
            if self.replica.is_clean():
                self.on_written(self)
            if self.replica.role == FOLLOWER:
                return 0
        if self.waiting_followers and (self.told_written != bytes or (
                self.group.selects_replicas and self.told_high != self.replica.high.offset)):
            self.told_written = bytes
            self.told_high = self.replica.high.offset
            self.wake_followers()
        return 0

    cdef int wake_followers(self) except -1:
        cdef DelayedFetch waiting
        for waiting in list(self.waiting_followers):
            waiting.on_advance(self, 0)
        return 0
