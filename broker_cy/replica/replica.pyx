"""See replica.pxd."""

cdef enum:
    NONE = -1

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
        self.high.offset = self.round_from.offset = self.next_from.offset = self.round_end = NONE

    def __repr__(self):
        rounds = ""
        if self.round_from.offset != NONE:
            rounds += f", syncing {self.round_from.offset}..{self.round_end}"
        if self.next_from.offset != NONE:
            rounds += f", to be synced from {self.next_from.offset}"
        if self.sync_lost or self.error:
            rounds += f", {'sync lost' if self.sync_lost else 'write failed'} (errno {self.error})"
        return (f"Replica({Role(self.role).name.lower()} of epoch {self.leader_epoch}, staged {self.staged.offset}, "
                f"written {self.written.offset}, synced {self.synced_end}, high watermark {self.high.offset}{rounds})")

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

    cpdef Output open(self, int64_t end, int64_t synced_end):
        """The log is there and ends at `end`. What a killed process left in it and did not sync counts as written, as in Kafka; a
        start has synced it where flush.messages requires that.
        """
        self.staged = self.written = Mark(end, 0)
        self.high = Mark(NONE, 0)
        self.round_from.offset = self.next_from.offset = self.round_end = NONE
        self.synced_end = synced_end
        self.error = 0
        self.sync_lost = False
        return self.advance(False)

    cpdef Output wrote(self, int64_t end, int64_t synced_end, int64_t flush_messages):
        """All staged batches are in the files, which end at `end` and are on disk up to `synced_end`.

        If `flush_messages` records are not on disk then, and no running round includes them, what was written now waits for the
        next round.
        """
        cdef Mark start = self.written
        self.staged.offset = end
        self.written = self.staged
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

    cpdef Output lose(self, int error):
        """A sync failed: the kernel may have dropped what it should have written."""
        self.sync_lost = True
        self.error = error
        return self.advance(False)

    cdef Mark local_end(self) noexcept:
        """Where what this replica may acknowledge by itself ends."""
        if self.round_from.offset != NONE:
            return self.round_from
        return self.next_from if self.next_from.offset != NONE else self.written

    cdef Output advance(self, bint wants_round) noexcept:
        """Move the high watermark as far as a leader may by itself. This is the only place that does."""
        cdef Output found
        cdef Mark end = self.local_end()
        found.moved = self.role == LEADER and not self.sync_lost and end.offset > self.high.offset
        if found.moved:
            self.high = end
        found.high_watermark = self.high.offset
        found.readable_bytes = self.high.bytes
        found.wants_round = wants_round
        return found
