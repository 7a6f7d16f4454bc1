"""A share partition, as Kafka's SharePartition: the records of a partition that a share group has in flight, and their holders.

A pure state machine. Its inputs are the persisted state (`load`), the start of the log (`move_log_start`), the bounds of batches that
were read (acquiring.acquire), and in `acknowledging` acknowledgements, closed sessions, time and the ends of writes. Its outputs are
acquired ranges, and values of StateWrite for the share coordinator.

A state that an acknowledgement gives is tentative until its write ends. A write has the start offset from before it, so that the
persisted one is a write behind. Records whose lock ends change their state at once, and keep it even if the write of it fails.

Kafka 4.3.1 differs in these points, where it has defects: here the start offset also moves when acquiring or the start of the log
archived the records at it, never moves back, and does not wait for a gap whose records are no longer in the log; a tentative state
survives that the start of the log moves into its batch.
"""

from libc.stdint cimport INT64_MAX

from broker_cy.share.runs cimport (
    ACKNOWLEDGED, ACQUIRED, ARCHIVED, AVAILABLE, BATCH_START, PENDING, STAYS, is_available, is_terminal
)

from broker_cy.share.state_write import LoadError

cdef enum:
    # Records that were delivered this often are delivered in smaller pieces, so that one bad record does not archive the others.
    THROTTLED_DELIVERIES_MIN = 2

STATUS_NAMES = ("EMPTY", "INITIALIZING", "ACTIVE", "FAILED", "FENCED")


cdef class SharePartition:
    """`leader_epoch` is the one in which this node leads the partition. At most about `records_max` records are in flight: a batch
    that is acquired in part is in flight as a whole."""

    def __cinit__(self, int32_t leader_epoch):
        self.runs = Runs()
        self.holders = Holders()
        self.leader_epoch = leader_epoch
        self.gap_start = self.gap_end = NO_GAP

    def configure(self, int32_t lock_ms, int32_t delivery_limit, int32_t records_max, bint is_renew_enabled):
        """Use these settings of the group from now on. Locks that exist keep their deadlines."""
        self.lock_ms = lock_ms
        self.delivery_limit = delivery_limit
        self.records_max = records_max
        self.is_renew_enabled = is_renew_enabled

    # ---- the life of a share partition

    def begin(self):
        """Whether the caller has to read the persisted state now, and to call `load` or `fail`."""
        if self.status != EMPTY:
            return False
        self.status = INITIALIZING
        return True

    def load(self, int32_t state_epoch, int64_t start_offset, batches):
        """Begin with persisted state: (first offset, last offset, delivery count, state) of each batch. Raises LoadError."""
        cdef Run run
        cdef int64_t previous = start_offset - 1
        if self.status != INITIALIZING:
            # It was fenced meanwhile.
            return
        for first, last, deliveries, state in batches:
            if first <= previous or last < first or state not in (AVAILABLE, ACKNOWLEDGED, ARCHIVED):
                self.fail()
                raise LoadError(
                    f"persisted batch {first} to {last} in state {state} is invalid after offset {previous}; the start offset is "
                    f"{start_offset}"
                )
            if self.gap_start == NO_GAP and first > previous + 1:
                self.gap_start = previous + 1
            previous = last
            run = Run(first, last, 0, 0, deliveries, AVAILABLE, BATCH_START)
            self.runs.insert(self.runs.count, &run)
            self.set_state(self.runs.last(), state)
        self.state_epoch = state_epoch
        self.start_offset = self.end_offset = start_offset
        self.status = ACTIVE
        if self.runs.count:
            self.may_have_available = True
            self.end_offset = previous
            if self.gap_start != NO_GAP:
                self.gap_end = self.end_offset
            self.advance()

    def fail(self):
        """The persisted state could not be read: nothing can be acquired, and the caller drops the share partition."""
        if self.status == INITIALIZING:
            self.runs.clear()
            self.status = FAILED

    def fence(self):
        """The partition has another leader, or no longer exists: nothing can be acquired, and the caller drops the share partition."""
        self.status = FENCED

    # ---- where to read

    cpdef int64_t next_fetch_offset(self) noexcept:
        """The first record that can be acquired: one that is available or in a gap, otherwise the one after the last."""
        cdef Py_ssize_t index
        cdef int64_t gap
        cdef Run* run
        if self.runs.count == 0 or self.start_offset > self.runs.last().last:
            self.may_have_available = False
            return self.end_offset
        if not self.may_have_available:
            return self.end_offset + 1
        gap = self.gap_start if self.has_gap() else INT64_MAX
        for index in range(self.runs.count):
            run = self.runs.at(index)
            if run.first > gap:
                return gap
            if gap != INT64_MAX and run.last >= gap:
                gap = run.last + 1
            if is_available(run):
                return run.first
        self.may_have_available = False
        return self.end_offset + 1

    cpdef bint can_acquire(self) noexcept:
        """Whether a fetch can get records: not if records_max are in flight, unless some of them are available."""
        return self.records_in_flight() < self.records_max or self.next_fetch_offset() != self.end_offset + 1

    cpdef int throttled_from(self) noexcept:
        """The number of deliveries from which on records are delivered in smaller pieces, and apart from other batches."""
        return max(<int>THROTTLED_DELIVERIES_MIN, (self.delivery_limit + 1) // 2)

    cdef int64_t records_in_flight(self) noexcept:
        return self.end_offset - self.start_offset + 1 if self.runs.count else 0

    cdef bint has_gap(self) noexcept:
        return self.gap_end != NO_GAP and self.gap_end == self.end_offset

    cdef void narrow_gap(self, int64_t offset) noexcept:
        """Records before `offset` were acquired; holes after the gap's end do not have to be fetched."""
        if self.has_gap() and offset <= self.gap_end:
            self.gap_start = max(offset, self.start_offset)
        else:
            self.gap_end = NO_GAP

    cdef void close_gap(self) noexcept:
        """Nothing could be acquired: forget the gap if all of it is in flight, and nothing fits behind it.

        In Kafka 4.3.1 the start offset stays before the gap until records after it are acquired: for ever, if there is no room.
        """
        if self.has_gap() and self.records_in_flight() >= self.records_max and self.next_fetch_offset() > self.end_offset:
            self.gap_end = NO_GAP

    cpdef int move_log_start(self, int64_t offset) except -1:
        """The log begins at `offset` now: available records before it are archived, locks on them go on."""
        if offset <= self.start_offset or self.status != ACTIVE:
            return 0
        if self.runs.count == 0:
            self.start_offset = self.end_offset = offset
            return 0
        if self.archive(self.start_offset, offset - 1, AVAILABLE):
            self.may_have_available = True
        self.move_start(offset)
        if self.has_gap() and self.gap_start < offset:
            self.gap_start = offset
        if self.end_offset < offset:
            self.end_offset = offset
        self.advance()
        return 0

    # ---- changes of runs

    cdef void set_state(self, Run* run, uint8_t state) noexcept:
        """Change the state of a run, and count terminal records."""
        cdef bint was_terminal = is_terminal(run)
        cdef int64_t records = run.last - max(run.first, self.start_offset) + 1
        run.state = state
        if records > 0 and was_terminal != is_terminal(run):
            self.delivery_complete_count += -records if was_terminal else records

    cdef int lock(self, Run* run, int32_t holder, int64_t deadline_ms) except -1:
        """Acquire a run that is available."""
        run.deliveries += 1
        run.holder = holder
        run.deadline_ms = deadline_ms
        self.set_state(run, ACQUIRED)
        if self.next_deadline_ms == 0 or deadline_ms < self.next_deadline_ms:
            self.next_deadline_ms = deadline_ms
        return self.holders.take(holder, run.last - run.first + 1)

    cdef int unlock(self, Run* run) except -1:
        """Forget the holder and the deadline of a run that has a lock."""
        cdef int32_t holder = run.holder
        run.holder = 0
        run.deadline_ms = 0
        return self.holders.give_back(holder, run.last - run.first + 1) if holder else 0

    cdef void release_state(self, Run* run) noexcept:
        """Make a run available again, or archive it after its last delivery or if the log no longer has it."""
        if run.last < self.start_offset or run.deliveries >= self.delivery_limit:
            self.set_state(run, ARCHIVED)
        else:
            self.set_state(run, AVAILABLE)

    cdef bint archive(self, int64_t first, int64_t last, uint8_t state) except -1:
        """Archive the records between `first` and `last` that are in this state; returns whether there are any."""
        cdef Py_ssize_t index = self.runs.first_from(first)
        cdef bint has_any = False
        cdef Run* run
        while index < self.runs.count and self.runs.at(index).first <= last:
            if self.runs.at(index).state == state:
                index = self.runs.cut(index, first, last)
                run = self.runs.at(index)
                self.set_state(run, ARCHIVED)
                # Only records that were just acquired are found to be in aborted transactions.
                if state == ACQUIRED:
                    self.archived_aborted += run.last - run.first + 1
                else:
                    self.archived_missing += run.last - run.first + 1
                self.unlock(run)
                if run.flags & PENDING:
                    run.flags |= STAYS
                has_any = True
            index += 1
        self.runs.join(first, last)
        return has_any

    cdef void move_start(self, int64_t offset) noexcept:
        """Move the start offset forward; terminal records before it no longer count."""
        cdef Py_ssize_t index
        cdef int64_t records
        cdef Run* run
        if offset <= self.start_offset:
            return
        for index in range(self.runs.count):
            run = self.runs.at(index)
            if run.first >= offset:
                break
            records = min(run.last, offset - 1) - max(run.first, self.start_offset) + 1
            if records > 0 and is_terminal(run):
                self.delivery_complete_count -= records
        self.start_offset = offset

    cdef bint advance(self) noexcept:
        """Move the start offset over the terminal records at it, up to a gap, and forget whole batches before it; returns whether
        it moved."""
        cdef Py_ssize_t index = self.runs.floor(self.start_offset), end
        cdef int64_t done = -1, before = self.start_offset
        cdef Run* run
        # No run is at or before the start offset if a gap begins there.
        if index < 0 or self.runs.at(index).flags & PENDING or not is_terminal(self.runs.at(index)):
            return False
        index = 0
        while index < self.runs.count:
            run = self.runs.at(index)
            if run.flags & BATCH_START and self.has_gap() and self.runs.at(self.runs.batch_end(index)).last >= self.gap_start:
                break
            if run.flags & PENDING or not is_terminal(run):
                break
            done = run.last
            index += 1
        if index == 0:
            return False
        if index == self.runs.count:
            self.start_offset = self.end_offset = max(self.start_offset, done + 1)
            self.delivery_complete_count = 0
            self.runs.clear()
        elif self.runs.at(index).flags & BATCH_START:
            done = self.runs.at(index).first
            self.move_start(min(done, self.gap_start) if self.has_gap() else done)
            self.runs.remove_head(index)
        else:
            self.move_start(done + 1)
            end = self.runs.batch_start(index)
            self.runs.remove_head(end)
        return self.start_offset > before

    @property
    def is_active(self):
        """Whether records can be acquired: the state is loaded, and the share partition is not fenced."""
        return self.status == ACTIVE

    # ---- for people and tests

    @property
    def status_name(self):
        return STATUS_NAMES[self.status]

    @property
    def unfinished_records(self):
        """Records in flight that are not terminal, as Kafka's InFlightMessageCount."""
        return self.records_in_flight() - self.delivery_complete_count

    @property
    def batches_in_flight(self):
        """As Kafka's InFlightBatchCount: those that were acquired together are one."""
        cdef Py_ssize_t index, count = 0
        for index in range(self.runs.count):
            if self.runs.at(index).flags & BATCH_START:
                count += 1
        return count

    def in_flight(self):
        """Each run: (first offset, last offset, state, delivery count, member id or None, deadline, whether its state is tentative).

        A tentative state still has the lock from before it.
        """
        cdef Py_ssize_t index
        cdef Run* run
        found = []
        for index in range(self.runs.count):
            run = self.runs.at(index)
            found.append((
                run.first, run.last, run.state, run.deliveries, self.holders.names[run.holder], run.deadline_ms,
                bool(run.flags & PENDING),
            ))
        return found

    @property
    def members_held(self):
        """The number of members that hold locks."""
        return len(self.holders.numbers)

    @property
    def bytes_in_memory(self):
        """Memory for the runs."""
        return self.runs.capacity * sizeof(Run)
