"""See replica.pxd."""

cdef enum:
    NONE = -1
    # Ends of writes that are kept to know how many bytes a high watermark between them makes readable. Beyond the limit, every
    # second one is forgotten, and fewer bytes are reported until the high watermark reaches the next one.
    MARKS_MAX = 16

# The names of Fate.
FATES = ("PENDING", "DONE", "LOST", "MOVED", "TOO_FEW")
# The roles that may precede each role.
PREDECESSORS = {
    Role.OFFLINE: (Role.OFFLINE,),
    Role.FOLLOWER: (Role.OFFLINE, Role.LEADER, Role.FOLLOWER),
    Role.LEADER: (Role.OFFLINE, Role.LEADER, Role.FOLLOWER),
    Role.CLOSED: (Role.OFFLINE, Role.LEADER, Role.FOLLOWER),
}


cdef class Replica:
    def __init__(self, int32_t leader_epoch):
        """Without a log: `open` and `become` follow."""
        self.role = OFFLINE
        self.leader_epoch = leader_epoch
        self.high.offset = self.round_from.offset = self.next_from.offset = self.round_end = self.known_high = NONE
        self.begun_at = NONE

    def __repr__(self):
        rounds = ""
        if self.round_from.offset != NONE:
            rounds += f", syncing {self.round_from.offset}..{self.round_end}"
        if self.next_from.offset != NONE:
            rounds += f", to be synced from {self.next_from.offset}"
        if self.sync_lost or self.error:
            rounds += f", {'sync lost' if self.sync_lost else 'write failed'} (errno {self.error})"
        return (f"Replica({Role(self.role).name.lower()} of epoch {self.leader_epoch}, staged {self.staged.offset}, "
                f"written {self.written.offset}, synced {self.synced_end}, high watermark {self.high.offset}{rounds}"
                f"{'' if self.in_sync is None else f', {self.in_sync!r}'})")

    @property
    def local_end_offset(self):
        """The end of the records that this replica has, on disk if flush.messages requires that."""
        return self.local_end().offset

    def report_staged(self, int64_t end, int64_t size):
        """`stage`, for Python."""
        self.stage(end, size)

    def fate_of(self, int64_t offset, bint committed):
        """`fate`, for Python: the name of the fate of the record at `offset`."""
        return FATES[self.fate(offset, COMMITTED if committed else LOCAL)]

    cpdef int become(self, Role role, int32_t leader_epoch) except -1:
        """Take a role, in the epoch of the leader that gives it. Raises ValueError for an epoch that is over, or a role that may
        not follow this one.
        """
        if leader_epoch < self.leader_epoch:
            raise ValueError(f"leader epoch {leader_epoch} is over: {self!r}")
        if self.role not in PREDECESSORS[Role(role)]:
            raise ValueError(f"{Role(role).name.lower()} may not follow {Role(self.role).name.lower()}: {self!r}")
        self.role = role
        self.leader_epoch = leader_epoch
        return 0

    cpdef Output open(self, int64_t end, int64_t synced_end, int64_t high_watermark=NONE):
        """The log is open and ends at `end`. As in Kafka, records that a killed process left there without a sync count as written; a
        start has synced them if flush.messages requires that. `high_watermark` is the checkpointed one of a partition with several
        replicas.
        """
        self.staged = self.written = Mark(end, 0)
        self.high = Mark(min(high_watermark, end), 0)
        self.marks = [] if self.replicated else None
        self.round_from.offset = self.next_from.offset = self.round_end = self.begun_at = NONE
        self.synced_end = synced_end
        self.error = 0
        self.sync_lost = False
        return self.advance(False)

    cpdef Output wrote(self, int64_t end, int64_t synced_end, int64_t flush_messages):
        """All staged batches are in the files, which end at `end` and are on disk up to `synced_end`.

        If `flush_messages` records are not on disk then, and no running round includes them, the records written now wait for the
        next round.
        """
        cdef Mark start = self.written
        self.staged.offset = end
        self.written = self.staged
        if self.replicated:
            self.note_mark(self.written)
        self.synced_end = synced_end
        self.error = 0
        if self.next_from.offset != NONE:
            return self.advance(False)
        if end - (self.round_end if self.round_end != NONE else synced_end) < flush_messages:
            return self.advance(False)
        self.next_from = start
        return self.advance(True)

    cpdef Output undo(self, int error):
        """The write of the staged batches failed; none of them is in the files."""
        self.staged = self.written
        self.error = error
        return self.advance(False)

    cpdef Output begin_round(self):
        """A round of syncs begins, and will sync all that is written."""
        self.round_from = self.next_from if self.next_from.offset != NONE else self.local_end()
        self.round_end = self.written.offset
        self.next_from.offset = NONE
        return self.advance(False)

    cpdef Output synced(self, int64_t synced_end):
        """The round is over; everything before `synced_end` is on disk."""
        self.synced_end = synced_end
        self.round_from.offset = self.round_end = NONE
        return self.advance(False)

    cpdef Output void_round(self):
        """The running round syncs files that the log has left: what it was to sync waits for the next one."""
        if self.round_from.offset != NONE:
            self.next_from = self.round_from
            self.round_from.offset = self.round_end = NONE
        return self.advance(False)

    cpdef Output lose(self, int error):
        """A sync failed: the kernel may have dropped data that it should have written."""
        self.sync_lost = True
        self.error = error
        return self.advance(False)

    cdef Mark local_end(self) noexcept:
        """The end of the records that this replica may acknowledge by itself."""
        if self.round_from.offset != NONE:
            return self.round_from
        return self.next_from if self.next_from.offset != NONE else self.written

    cdef Output advance(self, bint wants_round) except *:
        """Move the high watermark as far as it may be now. This is the only place that does, with advance_replicated."""
        cdef Output found
        cdef Mark end
        if self.replicated:
            return self.advance_replicated(wants_round)
        end = self.local_end()
        found.moved = self.role == LEADER and not self.sync_lost and end.offset > self.high.offset
        if found.moved:
            self.high = end
        found.high_watermark = self.high.offset
        found.readable_bytes = self.high.bytes
        found.wants_round = wants_round
        found.wants_alter = False
        return found

    # ---- several replicas ----

    cdef Output advance_replicated(self, bint wants_round) except *:
        cdef Output found
        cdef int64_t end = self.local_end().offset
        cdef int64_t bound = NONE
        found.wants_alter = False
        if self.role == LEADER:
            bound = self.in_sync.bound(end)
            self.under_min = self.in_sync.is_under_min
            self.members = self.in_sync.isr
            found.wants_alter = self.in_sync.unsent
        elif self.role == FOLLOWER:
            bound = min(self.known_high, end)
        if bound >= self.begun_at:
            self.begun_at = NONE
        found.moved = not self.sync_lost and bound > self.high.offset
        if found.moved:
            self.high = self.mark_at(bound)
        found.high_watermark = self.high.offset
        found.readable_bytes = self.high.bytes
        found.wants_round = wants_round
        return found

    cdef Mark mark_at(self, int64_t offset):
        """`offset` with the number of bytes before it, or fewer if no write ended there. It is above the high watermark, so it
        counts at least one byte more than that.
        """
        cdef Mark found = Mark(offset, self.high.bytes + (self.high.offset != NONE))
        cdef int64_t end, bytes
        while self.marks:
            end, bytes = self.marks[0]
            if end > offset:
                break
            del self.marks[0]
            found.bytes = max(found.bytes, bytes)
        return found

    cdef int note_mark(self, Mark mark) except -1:
        if len(self.marks) >= MARKS_MAX:
            del self.marks[::2]
        self.marks.append((mark.offset, mark.bytes))
        return 0

    cpdef Output lead(self, object in_sync, object image, int64_t now_ms):
        """Lead, as in the metadata, a partition with several replicas, or one that had several. `in_sync` is that of the previous
        epoch if this replica led in it, too. Raises ValueError for an epoch that is over.
        """
        self.become(LEADER, image.leader_epoch)
        self.replicate()
        self.in_sync = in_sync
        in_sync.image(image, self.written.offset, now_ms)
        return self.advance(False)

    cdef int replicate(self) except -1:
        """Be one of several replicas from now on."""
        self.replicated = True
        if self.marks is None:
            self.marks = []
        return 0

    cpdef Output fetched(self, int32_t broker_id, int64_t broker_epoch, int64_t offset, int64_t log_start, int64_t now_ms):
        """A follower fetched from `offset`, and leading.take did not refuse it."""
        self.in_sync.fetched(broker_id, broker_epoch, offset, log_start, self.written.offset, self.high.offset, now_ms)
        return self.advance(False)

    cpdef Output require(self, int32_t min_isr):
        """min.insync.replicas has changed."""
        if self.in_sync is not None:
            self.in_sync.min_isr = min_isr
        return self.advance(False)

    cpdef Output answered(self, object proposal, object answer):
        """The controller has answered an AlterPartition (in_sync.Proposal, in_sync.Altered)."""
        if self.in_sync is not None:
            self.in_sync.answered(proposal, answer)
        return self.advance(False)

    cpdef Output tick(self, int64_t now_ms):
        """Time has passed; called at least twice in replica.lag.time.max.ms."""
        if self.in_sync is not None:
            self.in_sync.tick(self.written.offset, now_ms)
        return self.advance(False)

    cpdef Output follow(self, int32_t leader_epoch):
        """Follow the leader of an epoch. Nothing may be staged. Raises ValueError for an epoch that is over."""
        self.become(FOLLOWER, leader_epoch)
        self.replicate()
        self.in_sync = self.members = None
        self.under_min = False
        # The high watermark of an earlier leader may be beyond records that this log lacks.
        self.known_high = NONE
        return self.advance(False)

    cpdef Output learn(self, int64_t high_watermark):
        """A follower's leader has committed everything before `high_watermark`."""
        self.known_high = max(self.known_high, high_watermark)
        return self.advance(False)

    cpdef Output truncated(self, int64_t end):
        """The log of a follower or of a mirror's leader was truncated, and ends at `end`, with nothing staged and no round running."""
        self.written.offset = self.staged.offset = min(end, self.written.offset)
        self.next_from.offset = NONE
        self.synced_end = min(self.synced_end, end)
        self.high.offset = min(self.high.offset, end)
        self.marks = []
        if self.in_sync is not None:
            self.in_sync.truncated(self.written.offset)
        return self.advance(False)

    cpdef Output restarted(self, int64_t offset):
        """The log of a follower or of a mirror's leader was replaced by an empty one that begins at `offset`: everything before is
        deleted where it fetches from.
        """
        self.written.offset = self.staged.offset = self.synced_end = self.high.offset = offset
        self.next_from.offset = NONE
        if self.replicated:
            self.begun_at = offset
        self.marks = []
        if self.in_sync is not None:
            self.in_sync.truncated(offset)
        return self.advance(False)
