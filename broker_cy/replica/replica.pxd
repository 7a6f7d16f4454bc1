"""The state of one replica of a partition: the records that it holds, how far they may be read, and its role.

A pure state machine: no log, clock, loop or socket. The code that writes and syncs reports progress to it (`stage`, `wrote`, `undo`,
`begin_round`, `synced`, `void_round`, `lose`); each report returns one Output, and nothing else moves the high watermark.

The leader of a partition with several replicas has an InSync (in_sync.py), which limits the high watermark to the records that the
in-sync followers have fetched; metadata, fetches, answers to AlterPartition and time reach it through this class. A follower's high
watermark is its leader's (`learn`), as far as it has the records.

Invariants, between calls:
  high.offset <= local_end.offset <= written.offset <= staged.offset
  local_end is next_from if that is set and no round runs, round_from while a round runs, written otherwise
  round_from.offset <= next_from.offset if both are set; round_end <= written.offset
  the leader epoch never decreases; the high watermark only does in `truncated`, after an
  unclean election, and in `restarted`
  in_sync is None unless this replica leads a partition that has, or had, several replicas
"""

cimport cython
from libc.stdint cimport int32_t, int64_t

cdef enum Fate:
    PENDING                 # not decided: ask again after the next report
    DONE                    # complete up to the requested level
    LOST                    # undone, or possibly not on disk although it has to be
    MOVED                   # this replica no longer leads, or the partition has moved to other brokers
    TOO_FEW                 # committed, and the in-sync set is smaller than min.insync.replicas since
    EXPIRED                 # here, and still pending at the waiter's deadline; `fate` never returns it

cdef enum Level:
    LOCAL                   # this replica has it, on disk if flush.messages requires that (acks=1)
    COMMITTED               # below the high watermark (acks=all, internal appends, fetches)

cpdef enum Role:
    OFFLINE                 # without a log
    FOLLOWER
    LEADER
    CLOSED                  # the topic was deleted, or the partition moved to other brokers

cdef struct Mark:
    int64_t offset
    int64_t bytes           # of the batches before it, since the replica was opened

cdef struct Output:
    int64_t high_watermark
    int64_t readable_bytes  # the bytes below it, since the replica was opened
    bint moved              # the high watermark has moved by this report
    bint wants_round        # the next round of syncs has to include this replica
    bint wants_alter        # an AlterPartition is to be sent: in_sync.sent()


@cython.final
cdef class Replica:
    cdef readonly Role role
    cdef readonly int32_t leader_epoch
    cdef readonly Mark staged       # end of the batches that were taken
    cdef readonly Mark written      # end of the batches that are in the files
    cdef readonly Mark high         # the high watermark
    cdef readonly int64_t synced_end    # everything before it is on disk
    # A sync that an acknowledgement waits for: reads and acknowledgements end before it. NONE: without such a sync.
    cdef readonly Mark round_from   # start of the records that the running round must sync first
    cdef readonly int64_t round_end     # the running round syncs up to here
    cdef readonly Mark next_from    # start of the records that the next round must sync first
    cdef readonly int error         # errno of the last write if it failed, or of the sync that failed; 0
    cdef readonly bint sync_lost    # a sync failed: nothing more is acknowledged until the next start
    # For partitions with several replicas. The other fields are as before a follower was added.
    cdef bint replicated
    cdef readonly object in_sync    # in_sync.InSync
    cdef readonly object members    # its committed set when this leader last moved its high watermark, or tried to
    cdef readonly bint under_min    # its set is smaller than min.insync.replicas
    cdef int64_t known_high         # the high watermark that a follower's leader has sent
    # The log was replaced by an empty one that begins there, and some replicas in sync may not have it yet; else NONE. It begins
    # above their ends, so clients may read nothing: the next leader might not have that offset.
    cdef readonly int64_t begun_at
    cdef list marks             # (offset, bytes) of ends of writes above the high watermark; at most MARKS_MAX; None: one replica

    cdef inline void stage(self, int64_t end, int64_t size) noexcept:
        """`size` bytes of batches that end at `end` were taken, and are not written yet."""
        self.staged.offset = end
        self.staged.bytes += size

    cdef inline bint is_clean(self) noexcept:
        """Whether nothing waits for a write."""
        return self.staged.offset == self.written.offset

    cdef inline Fate fate(self, int64_t offset, Level level) noexcept:
        """The fate of the record at `offset`, which was staged here."""
        if offset < (self.high.offset if level == COMMITTED else self.local_end().offset):
            return TOO_FEW if self.under_min and level == COMMITTED else DONE
        if self.sync_lost or offset >= self.staged.offset:
            return LOST
        if self.role == CLOSED:
            # The new leader of a partition that was moved away may not have it. With a deleted topic, no client can find out.
            return MOVED if self.replicated else DONE
        return PENDING if self.role == LEADER else MOVED

    cdef Mark local_end(self) noexcept
    cdef Output advance(self, bint wants_round) except *
    cdef Output advance_replicated(self, bint wants_round) except *
    cdef Mark mark_at(self, int64_t offset)
    cdef int note_mark(self, Mark mark) except -1
    cdef int replicate(self) except -1
    cpdef Output open(self, int64_t end, int64_t synced_end, int64_t high_watermark=*)
    cpdef Output wrote(self, int64_t end, int64_t synced_end, int64_t flush_messages)
    cpdef Output undo(self, int error)
    cpdef Output begin_round(self)
    cpdef Output synced(self, int64_t synced_end)
    cpdef Output void_round(self)
    cpdef Output lose(self, int error)
    cpdef int become(self, Role role, int32_t leader_epoch) except -1
    cpdef Output lead(self, object in_sync, object image, int64_t now_ms)
    cpdef Output fetched(self, int32_t broker_id, int64_t broker_epoch, int64_t offset, int64_t log_start, int64_t now_ms)
    cpdef Output require(self, int32_t min_isr)
    cpdef Output answered(self, object proposal, object answer)
    cpdef Output tick(self, int64_t now_ms)
    cpdef Output follow(self, int32_t leader_epoch)
    cpdef Output learn(self, int64_t high_watermark)
    cpdef Output truncated(self, int64_t end)
    cpdef Output restarted(self, int64_t offset)
