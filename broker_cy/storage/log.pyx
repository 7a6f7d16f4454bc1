"""The log of one partition: staged appends, one write per flush, reads as slices of segment files. The contract is in log.pxd.

The file is one extension class, which cannot be spread over several files. Everything that does not need to be a C method of it is
outside: log_flush, log_truncation, log_deletion, recovery, lookups, snapshots.
"""

import logging
import os

from libc.errno cimport ENOMEM
from libc.stdint cimport int32_t, int64_t, uint8_t
from libc.stdlib cimport free, realloc

from broker_cy.core.logs import facts
from broker_cy.core.cursor cimport Cursor
from broker_cy.storage.disk cimport iovec, pwritev_all
from broker_cy.storage.index_file cimport PENDING_ENTRIES_MAX
from broker_cy.storage.log_config cimport LogConfig
from broker_cy.storage.producer_state cimport ProducerState
from broker_cy.storage.log_slice cimport LogSlice, LogTotals
from broker_cy.storage.segment cimport OpenFiles, Segment
from broker_cy.wire.batch cimport BatchHeader, batch_bytes, parse_header

from broker_cy.storage import snapshots, txn_index
from broker_cy.storage.epochs import LeaderEpochs
from broker_cy.storage.errors import CorruptSegment, OffsetOutOfRange, StorageError, errno_of
from broker_cy.storage.syncs import LogSyncs

logger = logging.getLogger(__name__)


cdef class Log:
    """The log of one partition, over the segments found in `directory` (`segments`, sorted, at least one)."""

    def __init__(
        self,
        directory,
        topic,
        int32_t partition,
        LogConfig config,
        list segments not None,
        int64_t log_start_offset,
        int64_t log_end_offset,
        int64_t recovery_point,
        ProducerState producers not None,
        epochs,
        OpenFiles open_files not None,
        LogTotals totals not None,
    ):
        self.directory = directory
        self.topic = topic
        self.partition = partition
        self.config = config
        self.segments = segments
        self.active = segments[len(segments) - 1]
        self.log_start_offset = log_start_offset
        self.log_end_offset = log_end_offset
        self.written_end_offset = log_end_offset
        self.recovery_point = recovery_point
        self.synced_end_offset = recovery_point
        self.producers = producers
        self.epochs = epochs
        self.syncs = LogSyncs(directory)
        self.leader_epoch = epochs.latest_epoch
        self.open_files = open_files
        self.totals = totals
        self.owners = []
        self.last_append_ms = -1
        self.flushed_snapshot = -1
        self.noted_slot = -1
        self.drop_hints()
        # A process that was killed may have truncated the log to its recovery point.
        (<Segment>segments[self.segment_number(recovery_point - 1)]).was_cut = True

    def __dealloc__(self):
        free(self.iov)

    @staticmethod
    def create(directory, topic, int32_t partition, LogConfig config, int64_t now_ms, OpenFiles open_files=None,
               LogTotals totals=None, int64_t start_offset=0):
        """Create `directory` with a new, empty log; raises OSError."""
        os.makedirs(directory, exist_ok=True)
        open_files = open_files if open_files is not None else OpenFiles()
        segment = Segment(directory, start_offset, open_files, 0, False,
                          index_interval_bytes=config.index_interval_bytes)
        segment.create(now_ms)
        producers = ProducerState(directory, f"{topic}-{partition}")
        producers.clear(start_offset)
        log = Log(
            directory, topic, partition, config, [segment], start_offset, start_offset, start_offset, producers,
            LeaderEpochs(directory), open_files, totals if totals is not None else LogTotals(),
        )
        log.last_flush_ms = now_ms
        return log

    def adopt(self, OpenFiles open_files not None, LogTotals totals not None):
        """Use the broker's counters and limit of open files from now on: the worker that loaded this log used separate ones."""
        cdef Segment segment
        cdef bint is_dirty = self in self.totals.dirty
        for segment in self.segments:
            segment.close_fd()
            segment.open_files = open_files
        self.open_files = open_files
        self.totals = totals
        totals.unflushed_bytes += self.unflushed_bytes
        if is_dirty:
            totals.dirty.add(self)

    def __repr__(self):
        return f"Log({self.topic}-{self.partition}, {self.log_start_offset}..{self.log_end_offset})"

    @property
    def size_bytes(self):
        """Bytes of all segment files."""
        cdef Segment segment
        cdef int64_t total = 0
        for segment in self.segments:
            total += segment.size
        return total

    cdef int refuse_offline(self) except -1:
        raise StorageError(f"{self.topic}-{self.partition} is offline: {self.offline}")

    cdef int refuse_staged(self) except -1:
        if self.staged_batches > 0:
            raise RuntimeError(f"{self!r} has staged batches")
        return 0

    cdef int drop_unflushed(self, int64_t size) except -1:
        # A part of them may have been flushed before.
        if size > self.unflushed_bytes:
            size = self.unflushed_bytes
        self.unflushed_bytes -= size
        self.totals.unflushed_bytes -= size
        return 0

    cdef set base_offsets(self):
        """The base offsets of all segments."""
        cdef Segment segment
        cdef set found = set()
        for segment in self.segments:
            found.add(segment.base_offset)
        return found

    # --- append

    cdef int set_mark(self) except -1:
        cdef Segment active = self.active
        active.ensure_timestamps()
        active.ensure_rolling_timestamp()
        self.mark.end_offset = self.log_end_offset
        self.mark.leader_epoch = self.leader_epoch
        self.marked = active
        self.touched = False
        self.mark.size = active.size
        self.mark.offset_entries = active.offsets.count()
        self.mark.time_entries = active.times.count()
        self.mark.bytes_since_index = active.bytes_since_index
        self.mark.max_timestamp = active.max_timestamp
        self.mark.max_timestamp_offset = active.max_timestamp_offset
        self.mark.rolling_timestamp = active.rolling_timestamp
        self.mark.created_ms = active.created_ms
        return 0

    cdef int stage(self, BatchHeader* header, uint8_t* data, Py_ssize_t size, object owner, int64_t now_ms) except -1:
        if self.offline is not None:
            self.refuse_offline()
        if header.base_offset < self.log_end_offset:
            raise ValueError(f"batch at offset {header.base_offset} staged on a log that ends at {self.log_end_offset}")
        if self.staged_batches == 0:
            self.set_mark()
        if self.active.should_roll(self.config, header, size, now_ms) and self.staged_errno == 0:
            self.roll_staged(now_ms)
        try:
            self.take(header, data, size, owner, now_ms)
        except BaseException:
            # No memory, or a defect: some of the state was changed for this batch and some was not. Only the mark is consistent.
            if self.staged_batches == 0:
                self.undo_staged()
            else:
                self.staged_errno = ENOMEM
            raise
        return 0

    cdef int take(self, BatchHeader* header, uint8_t* data, Py_ssize_t size, object owner, int64_t now_ms) except -1:
        """Make all the changes of `stage`. If it raises, the caller has to return to the mark."""
        cdef Segment active
        cdef iovec* grown
        cdef Py_ssize_t capacity
        cdef int64_t last_offset = header.base_offset + header.last_offset_delta
        if self.iov_count == self.iov_capacity:
            capacity = self.iov_capacity * 2 if self.iov_capacity else 4
            grown = <iovec*>realloc(self.iov, <size_t>capacity * sizeof(iovec))
            if grown == NULL:
                raise MemoryError("no memory to stage a batch")
            self.iov = grown
            self.iov_capacity = capacity
        if owner is not self.last_owner:
            self.owners.append(owner)
            self.last_owner = owner
        self.iov[self.iov_count].iov_base = data
        self.iov[self.iov_count].iov_len = <size_t>size
        self.iov_count += 1
        active = self.active
        if header.max_timestamp > active.max_timestamp:
            active.max_timestamp = header.max_timestamp
            active.max_timestamp_offset = last_offset
        if active.staged_size == 0:
            active.rolling_timestamp = header.max_timestamp
        elif active.bytes_since_index > self.config.index_interval_bytes:
            active.offsets.append(last_offset, active.staged_size)
            active.times.maybe_append(active.max_timestamp, active.max_timestamp_offset)
            active.bytes_since_index = 0
        active.bytes_since_index += size
        active.staged_size += size
        aborted = self.producers.update(header, data, size)
        if aborted is not None:
            if active.pending_aborts is None:
                active.pending_aborts = []
            active.pending_aborts.append(aborted)
        if header.leader_epoch > self.leader_epoch:
            self.epochs.assign(header.leader_epoch, header.base_offset)
            self.leader_epoch = header.leader_epoch
        self.staged_batches += 1
        self.log_end_offset = last_offset + 1
        self.last_append_ms = now_ms
        return 0

    cdef int write_staged(self) except -1:
        """Write the staged bytes to the active segment. Returns 0 or the errno; the segment's size changes only for 0."""
        cdef Segment active = self.active
        cdef int error, fd
        if self.iov_count == 0:
            return 0
        fd = active.descriptor()
        self.touched = True
        error = pwritev_all(fd, self.iov, self.iov_count, active.size)
        self.iov_count = 0
        if error == 0 and active.pending_aborts is not None:
            active.without_aborts = False
            active.aborts = None
            txn_index.append(active.directory, active.base_offset, active.pending_aborts)
        if error == 0:
            active.pending_aborts = None
            self.totals.written(self, self.unflushed_bytes == 0, active.staged_size - active.size)
            self.unflushed_bytes += active.staged_size - active.size
            self.unnoted_bytes += active.staged_size - active.size
            active.size = active.staged_size
        return error

    cdef int roll_staged(self, int64_t now_ms) except -1:
        """Write the batches staged so far and begin a segment at the log end offset. A failure is kept for flush_staged to
        report."""
        try:
            self.staged_errno = self.write_staged()
            if self.staged_errno == 0:
                self.begin_segment(now_ms)
        except (OSError, StorageError) as error:
            self.staged_errno = errno_of(error)
        return 0

    def begin_segment(self, int64_t now_ms):
        """Complete the files of the active segment and create a new one at the log end offset. Raises OSError, and then leaves no
        files of the new one."""
        cdef Segment old = self.active
        cdef Segment segment
        old.complete()
        segment = Segment(self.directory, self.log_end_offset, self.open_files, 0, False,
                          index_interval_bytes=self.config.index_interval_bytes)
        try:
            snapshots.write(self.directory, self.log_end_offset, self.producers.encode())
            segment.create(now_ms)
        except OSError:
            # The log may end elsewhere when it rolls again: an empty segment among full ones would hide the records after it, and
            # the producer state of batches that are undone would come back at the next start.
            self.discard(segment)
            raise
        self.segments.append(segment)
        self.active = segment
        self.drop_hints()

    cdef int flush_staged(self) except -1:
        cdef Segment active
        cdef int error
        if self.staged_batches == 0:
            return 0
        try:
            error = self.staged_errno if self.staged_errno != 0 else self.write_staged()
            active = self.active
            if error == 0 and active.offsets.pending_count >= PENDING_ENTRIES_MAX:
                error = active.offsets.flush() or active.times.flush()
            if error == 0 and self.leader_epoch != self.mark.leader_epoch:
                self.epochs.write()
        except (OSError, StorageError) as failure:
            error = errno_of(failure)
        if error != 0:
            self.undo_staged()
            return error
        self.producers.commit()
        if self.active is self.marked:
            self.hints[self.hint_next].offset = self.written_end_offset
            self.hints[self.hint_next].position = self.mark.size
            self.hint_next = (self.hint_next + 1) % HINTS
        self.written_end_offset = self.log_end_offset
        self.staged_batches = 0
        self.last_owner = None
        self.owners.clear()
        return 0

    cdef bint sync_is_due(self, int64_t synced_end_offset) noexcept:
        """Whether flush.messages records are written and not on disk, given that everything before `synced_end_offset` is."""
        return self.written_end_offset - synced_end_offset >= self.config.flush_messages

    cdef int undo_staged(self) except -1:
        """Return to the mark: truncate the file, drop segments that were begun since, restore offsets and producer state. If that
        fails, the log goes offline: a start would take the bytes after the end of the log for its records."""
        cdef Segment active = self.active
        cdef int64_t end_offset = self.mark.end_offset
        cdef bint stays = False
        while active is not self.marked:
            self.segments.pop()
            self.totals.unflushed_bytes -= active.size
            self.unflushed_bytes -= active.size
            active.close()
            # Where refused records stay, those before them stay, too: if the note of the end cannot be written either, the next
            # start finds a log without a gap, and producer state that agrees with it.
            if not stays:
                stays = self.discard(active)
            active = self.segments[len(self.segments) - 1]
        self.active = active
        self.totals.unflushed_bytes -= active.size - self.mark.size
        self.unflushed_bytes -= active.size - self.mark.size
        active.size = self.mark.size
        active.staged_size = self.mark.size
        active.bytes_since_index = self.mark.bytes_since_index
        active.max_timestamp = self.mark.max_timestamp
        active.max_timestamp_offset = self.mark.max_timestamp_offset
        active.rolling_timestamp = self.mark.rolling_timestamp
        active.created_ms = self.mark.created_ms
        active.pending_aborts = None
        try:
            if not stays:
                self.undo_files()
        except (OSError, StorageError) as error:
            self.mark_offline(f"a failed write cannot be undone: {error}", is_end=True)
        if self.leader_epoch != self.mark.leader_epoch:
            self.epochs.truncate_from_end(end_offset)
            self.leader_epoch = self.epochs.latest_epoch
        self.producers.rollback()
        self.log_end_offset = end_offset
        self.iov_count = 0
        self.staged_batches = 0
        self.staged_errno = 0
        self.last_owner = None
        self.owners.clear()
        self.drop_hints()
        return 0

    cdef int discard(self, Segment segment) except -1:
        """Remove the files of a segment that was begun. If one stays, the log goes offline: a start would take its content for
        records of the log, or for the producer state of other records. Returns whether records may stay."""
        # Until the removal is synced, a power loss may bring the files back, among records that were written since.
        self.syncs.names_changed += 1
        try:
            segment.discard()
        except OSError as error:
            self.mark_offline(f"cannot remove the files of a discarded segment: {error}", is_end=True)
            return segment.has_records()
        return 0

    cdef int undo_files(self) except -1:
        """Truncate the files of the marked segment to the mark; raises OSError, StorageError."""
        cdef Segment active = self.marked
        active.offsets.truncate_entries(self.mark.offset_entries)
        active.times.truncate_entries(self.mark.time_entries)
        active.aborts = None
        if self.touched:
            # By path: the write may have failed for lack of descriptors.
            active.was_cut = True
            os.truncate(active.path, active.size)
            txn_index.truncate_to(active.directory, active.base_offset, self.mark.end_offset)
        return 0

    def stage_batches(self, data, int64_t now_ms):
        """Stage batches that are valid and stamped (bytes of one or more), for `flush` to write. For tests; the data path calls
        stage."""
        cdef Cursor cursor = Cursor(data)
        cdef BatchHeader header
        while cursor.remaining():
            if parse_header(cursor.ptr, cursor.remaining(), &header) != 0:
                raise ValueError(f"expected a whole batch at byte {cursor.position()} of {len(data)}")
            self.stage(&header, <uint8_t*>cursor.take(batch_bytes(&header)), batch_bytes(&header), data, now_ms)

    def append(self, data, int64_t now_ms):
        """stage_batches and flush; returns the new log end offset. Raises StorageError if they cannot be written. For recovery
        tools, followers and tests."""
        self.stage_batches(data, now_ms)
        self.flush()
        return self.log_end_offset

    def flush(self):
        """flush_staged, for Python, and the sync that flush.messages requires, which blocks. Raises StorageError with the
        reason."""
        cdef int error = self.flush_staged()
        if error:
            reason = os.strerror(error)
            raise StorageError(f"cannot write {self.topic}-{self.partition}: {reason}") from OSError(error, reason)
        if self.sync_is_due(self.synced_end_offset):
            from broker_cy.storage import log_flush
            log_flush.complete_sync(self, log_flush.begin_sync(self).run())

    # --- read

    cdef int drop_hints(self) noexcept:
        cdef int i
        for i in range(HINTS):
            self.hints[i].offset = -1
        return 0

    cdef int64_t hinted_position(self, Segment segment, int64_t offset) noexcept:
        """Position of the batch that starts at `offset`, if it began one of the latest writes; else -1."""
        cdef int i
        if segment is self.active:
            for i in range(HINTS):
                if self.hints[i].offset == offset:
                    return self.hints[i].position
        return -1

    cdef Py_ssize_t segment_number(self, int64_t offset) except -1:
        """Index of the last segment whose base offset is <= `offset` (0 if there is none)."""
        cdef Py_ssize_t low = 0, high = len(self.segments), middle
        if self.active.base_offset <= offset:
            return high - 1
        while low < high:
            middle = (low + high) // 2
            if (<Segment>self.segments[middle]).base_offset <= offset:
                low = middle + 1
            else:
                high = middle
        return low - 1 if low > 0 else 0

    cpdef int64_t end_of(self, Segment segment) except -1:
        """The offset at which the segment after `segment` begins; the greatest int64 if there is none."""
        cdef Py_ssize_t number = self.segment_number(segment.base_offset) + 1
        return (<Segment>self.segments[number]).base_offset if number < len(self.segments) else 0x7FFFFFFFFFFFFFFF

    cdef LogSlice read(self, int64_t offset, int64_t max_offset, Py_ssize_t max_bytes, bint at_least_one):
        if self.offline is not None:
            self.refuse_offline()
        if offset < self.log_start_offset or offset > self.written_end_offset:
            raise OffsetOutOfRange(offset, self.log_start_offset, self.written_end_offset)
        if max_offset > self.written_end_offset:
            max_offset = self.written_end_offset
        if offset >= max_offset:
            return None
        try:
            return self.slice_from(offset, max_offset, max_bytes, at_least_one)
        except CorruptSegment as error:
            self.mark_offline(str(error))
            raise

    cdef LogSlice slice_from(self, int64_t offset, int64_t max_offset, Py_ssize_t max_bytes, bint at_least_one):
        cdef Segment segment
        cdef BatchHeader first, beyond
        cdef LogSlice found
        cdef Py_ssize_t number
        cdef int64_t position = 0, start, end, size, segment_end_offset
        number = self.segment_number(offset)
        while True:
            segment = <Segment>self.segments[number]
            start = self.hinted_position(segment, offset)
            if start >= 0:
                if segment.find_batch(offset, start, segment.size, &position, &first):
                    break
            elif segment.locate(offset, &position, &first):
                break
            # Compaction and retention leave gaps: the next segment has the next batch.
            number += 1
            if number == len(self.segments):
                return None
        if first.base_offset >= max_offset:
            return None
        end = segment.size
        if segment is self.active:
            segment_end_offset = self.written_end_offset
        else:
            segment_end_offset = (<Segment>self.segments[number + 1]).base_offset
        if max_offset < segment_end_offset:
            if segment.locate(max_offset, &end, &beyond) and end <= position:
                return None
        size = end - position
        if size > max_bytes:
            size = batch_bytes(&first)
            if size <= max_bytes:
                size = max_bytes
            elif not at_least_one:
                return None
        found = LogSlice.__new__(LogSlice)
        found.fd = segment.descriptor()
        found.segment = segment
        segment.pins += 1
        found.position = position
        found.size = <Py_ssize_t>size
        found.first_offset = first.base_offset
        found.cuts = segment.cuts
        return found

    def read_slice(self, int64_t offset, max_offset=None, Py_ssize_t max_bytes=1 << 20, bint at_least_one=True):
        """read, for Python; `max_offset` None means the written end offset."""
        return self.read(offset, self.written_end_offset if max_offset is None else max_offset, max_bytes, at_least_one)

    # --- everything else is in separate modules, which import this one and so are imported when they are needed

    def offset_for_timestamp(self, int64_t timestamp):
        """lookups.offset_for_timestamp: (timestamp, offset) of the first record with at least this timestamp, or None."""
        from broker_cy.storage import lookups
        return lookups.offset_for_timestamp(self, timestamp)

    def max_timestamp(self):
        """lookups.max_timestamp: (timestamp, offset) of the record with the largest timestamp, or None. A segment that has to be
        searched is searched in this call."""
        from broker_cy.storage import lookups
        try:
            return lookups.max_timestamp(self)
        except lookups.MaximumDeleted as deleted:
            return lookups.max_timestamp(self, (deleted.base_offset, deleted.search()))

    def aborted_transactions(self, int64_t offset, int64_t end_offset):
        """lookups.aborted_transactions: [(producer id, first offset)] that overlap [offset, end_offset)."""
        from broker_cy.storage import lookups
        return lookups.aborted_transactions(self, offset, end_offset)

    def last_stable_offset(self, int64_t high_watermark):
        """The end offset for a read_committed reader. It is not below the log start offset, even if records of an open transaction
        were deleted."""
        return max(self.producers.last_stable_offset(high_watermark), min(self.log_start_offset, high_watermark))

    def end_offset_for_epoch(self, int32_t epoch):
        """(epoch, end offset) for OffsetForLeaderEpoch, (-1, -1) if the epoch is not known."""
        return self.epochs.end_offset_for(epoch, self.written_end_offset)

    def mark_offline(self, reason, *, bint is_end=False):
        """Refuse every operation from now on, with `reason` (str); the next start reads all of the log (storage.damage). With
        `is_end` the staged batches are undone, and the next start treats nothing after `written_end_offset` as a part of the
        log."""
        if self.offline is None:
            logger.error("partition offline", extra=facts(partition=f"{self.topic}-{self.partition}", reason=reason))
            self.offline = reason
            if not self.sync_failed:
                # After a failed sync the next start writes the data again that may be lost (storage.syncs).
                from broker_cy.storage import damage
                damage.write(self.directory, damage.Note(self.written_end_offset, self.synced_end_offset, is_end), reason)
                if self.totals.on_damage is not None:
                    self.totals.on_damage(self.directory)

    def lose_disk(self, reason):
        """Refuse every operation from now on, because the disk failed: the files are not touched, not even to note it."""
        if self.offline is None:
            self.offline = reason

    def needs_flush(self, int64_t now_ms):
        """Whether there is something to flush, and flush.ms has passed since the last flush."""
        if self.recovery_point >= self.written_end_offset or self.offline is not None:
            return False
        return now_ms - self.last_flush_ms >= self.config.flush_ms

    def reconfigure(self, LogConfig config not None):
        """Use these settings from the next append on."""
        self.config = config
