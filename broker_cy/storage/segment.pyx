"""One segment of a log: the file of batches, its two indexes, and the bound on open descriptors."""

import logging
import os
from contextlib import suppress

from libc.errno cimport EAGAIN
from libc.stdint cimport int64_t, uint8_t

from broker_cy.core.logs import facts
from broker_cy.storage.disk cimport confine_reads, pread_all, reads_are_confined
from broker_cy.storage.index cimport OffsetIndex, TimeIndex
from broker_cy.storage.index_file cimport OFFSET_ENTRY_BYTES, TIME_ENTRY_BYTES
from broker_cy.storage.log_config cimport LogConfig
from broker_cy.storage.page_cache cimport is_cached
from broker_cy.wire.batch cimport BATCH_HEADER_BYTES, BatchHeader, batch_bytes, parse_header

from broker_cy.core.crc32c import value as crc32c_value
from broker_cy.storage.errors import ColdRead, CorruptSegment, StorageError
from broker_cy.storage.segment_files import SEGMENT_SUFFIXES

logger = logging.getLogger(__name__)

cdef extern from "<unistd.h>" nogil:
    int c_close "close"(int fd)

cdef enum:
    SCAN_BLOCK_BYTES = 4096
    # Largest `length` a batch can have; keeps position arithmetic far from overflow.
    ANY_LENGTH = 0x7FFFFFFFFFFF
    # The indexes of a segment store offsets as int32, relative to its base offset.
    OFFSETS_MAX = 0x7FFFFFFF
    # Most unverified parts that are tracked for a segment: readers that begin at many positions would otherwise create ever more.
    UNVERIFIED_PARTS_MAX = 16
    # Bytes read ahead from a batch header that is not in memory: with small batches, the headers up to the next index entry.
    COLD_BYTES = 65536


cdef class OpenFiles:
    """Holds at most `limit` segments open, with up to two descriptors each (more only while more than that are in use by slices)."""

    def __cinit__(self, Py_ssize_t limit=512):
        if limit < 1:
            raise ValueError(f"open file limit {limit} is below 1")
        self.limit = limit
        self.segments = []
        self.hand = 0

    def __len__(self):
        return len(self.segments)

    cdef int admit(self, Segment segment) except -1:
        """Add a segment that was just opened; closes one that was not used since the hand last passed it."""
        cdef Py_ssize_t _step
        cdef Segment other
        if len(self.segments) >= self.limit:
            for _step in range(2 * len(self.segments)):
                if self.hand >= len(self.segments):
                    self.hand = 0
                other = <Segment>self.segments[self.hand]
                if other.pins == 0 and not other.recently_used:
                    other.close_fd()
                    break
                other.recently_used = False
                self.hand += 1
        segment.slot = len(self.segments)
        self.segments.append(segment)
        return 0


cdef class Segment:
    """A segment file and its indexes. `size` is that of the part known to be valid; bytes after it are never read."""

    def __cinit__(self, directory, int64_t base_offset, OpenFiles open_files, int64_t size=0, bint exists=True,
                  int64_t created_ms=0, int64_t index_interval_bytes=4096):
        self.directory = directory
        self.base_offset = base_offset
        self.open_files = open_files
        self.size = size
        self.staged_size = size
        self.unverified_bytes = size if exists else 0
        self.unverified = [(0, size)] if self.unverified_bytes else []
        self.was_cold = exists
        self.offsets = OffsetIndex(directory, base_offset, exists)
        self.times = TimeIndex(directory, base_offset, exists)
        self.fd = -1
        self.max_timestamp = TIMESTAMP_UNKNOWN if exists else -1
        self.max_timestamp_offset = base_offset
        self.rolling_timestamp = TIMESTAMP_UNKNOWN
        self.created_ms = created_ms
        self.index_interval_bytes = index_interval_bytes
        self.jitter_draw = -1

    def mark_verified(self, int64_t start=0, int64_t end=0x7FFFFFFFFFFFFFFF):
        """Note that the checksums of the batches from `start` to `end` are correct, or that these batches were removed."""
        cdef list left = []
        cdef Py_ssize_t i, dropped = -1
        cdef int64_t gap, smallest = 0x7FFFFFFFFFFFFFFF
        if start >= end:
            return
        for begin, stop in self.unverified:
            if begin < start:
                left.append((begin, min(stop, start)))
            if stop > end:
                left.append((max(begin, end), stop))
        if len(left) > UNVERIFIED_PARTS_MAX:
            # Merge two parts across the smallest gap, so that the least is verified again; but not across the one that was just
            # verified: its reader would never get a response.
            for i in range(len(left) - 1):
                gap = left[i + 1][0] - left[i][1]
                if gap < smallest and not left[i][1] <= start < left[i + 1][0]:
                    smallest, dropped = gap, i
            left[dropped:dropped + 2] = [(left[dropped][0], left[dropped + 1][1])]
        self.unverified = left
        self.unverified_bytes = sum([stop - begin for begin, stop in left])

    cdef object unverified_part(self, int64_t start, int64_t end):
        for begin, stop in self.unverified:
            if begin < end and stop > start:
                return max(start, <int64_t>begin), stop
        return None

    def __dealloc__(self):
        if self.fd >= 0:
            c_close(self.fd)

    @property
    def path(self):
        return f"{self.directory}/{self.base_offset:020d}.log"

    def __repr__(self):
        return f"Segment({self.path!r}, size={self.size})"

    cdef bint should_roll(self, LogConfig config, BatchHeader* header, Py_ssize_t size, int64_t now_ms) except -1:
        """Whether the segment is too large, or too old by the first batch's timestamp, an index is full, or the offsets are too far
        apart for 32 bits."""
        cdef int64_t last_offset = header.base_offset + header.last_offset_delta
        cdef int64_t waited, jitter
        if self.base_offset == header.base_offset:
            return False                # empty: a new one would be the same
        if last_offset - self.base_offset > OFFSETS_MAX:
            return True
        if self.staged_size > config.segment_bytes - size:
            return True
        if self.offsets.count() >= config.segment_index_bytes // OFFSET_ENTRY_BYTES:
            return True
        # Room for one entry is reserved for that of a roll or a close.
        if self.times.count() >= config.segment_index_bytes // TIME_ENTRY_BYTES - 1:
            return True
        if self.staged_size == 0:
            return False
        if self.rolling_timestamp >= 0:
            waited = header.max_timestamp - self.rolling_timestamp
        else:
            waited = now_ms - self.created_ms
        if config.segment_jitter_ms == 0:
            return waited > config.segment_ms
        jitter = min(config.segment_jitter_ms, config.segment_ms)
        # The jitter depends on name and offset instead of chance: the same after every start, different between partitions.
        if self.jitter_draw < 0:
            self.jitter_draw = crc32c_value(self.path.encode())
        return waited > config.segment_ms - self.jitter_draw % jitter

    cdef int descriptor(self) except -1:
        """The open descriptor of the log file; raises StorageError."""
        self.recently_used = True
        if self.fd >= 0:
            return self.fd
        try:
            fd = os.open(self.path, os.O_RDWR | os.O_CLOEXEC)
        except OSError as error:
            raise StorageError(f"cannot open {self.path}: {error.strerror}") from error
        # No readahead by the kernel: the loop would start it, up to some MB, in a lookup or a sendfile. The workers that read cold
        # data read ahead instead (page_cache.warm), and a reader of the whole file requests it (BatchReader).
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_RANDOM)
        self.fd = fd
        self.open_files.admit(self)
        return self.fd

    def create(self, int64_t now_ms):
        """Create the empty files of a new segment, in place of existing files with these names; raises OSError."""
        for path in (self.path, self.offsets.path, self.times.path):
            os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644))
        self.created_ms = now_ms

    def discard(self):
        """Remove the files of a segment that was begun and is not needed, and the producer state taken for it. Raises OSError if
        one of them stays; it is truncated to zero bytes then, if possible."""
        failure = None
        for suffix in SEGMENT_SUFFIXES:
            path = f"{self.directory}/{self.base_offset:020d}{suffix}"
            try:
                os.unlink(path)
            except FileNotFoundError:
                continue
            except OSError as error:
                failure = failure or error
                with suppress(OSError):
                    os.truncate(path, 0)
        if failure is not None:
            raise failure

    def has_records(self):
        """Whether the file with the records exists and is not empty, or may be."""
        try:
            return os.stat(self.path).st_size > 0
        except FileNotFoundError:
            return False
        except OSError:
            return True

    cdef int close_fd(self) except -1:
        cdef int fd = self.fd
        cdef Segment last
        if self.offsets is not None:        # otherwise it is being garbage-collected, together with the last slice
            self.offsets.close_reader()
        if fd < 0:
            return 0
        self.fd = -1
        if self.open_files is not None and self.open_files.segments:    # otherwise both are being garbage-collected
            # The last one takes its place, which is fast: deleting a topic closes thousands of segments in one turn of the loop.
            last = <Segment>self.open_files.segments.pop()
            if last is not self:
                self.open_files.segments[self.slot] = last
                last.slot = self.slot
        os.close(fd)
        return 0

    cdef int unpin(self) except -1:
        self.pins -= 1
        if self.pins == 0 and self.deleted:
            self.close_fd()
        return 0

    def close(self):
        """Close the descriptor now, or when the last slice is released."""
        self.deleted = True
        if self.pins == 0:
            self.close_fd()

    cdef int64_t start_position(self, int64_t offset, int64_t* nearer) except -1:
        """Where a search for `offset` may begin: the position of an indexed batch at or before it. Raises CorruptSegment if the batch
        there is not the indexed one."""
        if nearer != NULL:
            nearer[0] = 0
        cdef BatchHeader header
        cdef int64_t entry_offset = 0, found = 0
        cdef int64_t position
        # Open first: the descriptor of the index is closed together with this one.
        self.descriptor()
        position = self.offsets.lookup(offset, &entry_offset)
        if position == 0:
            return 0
        if position >= self.size or entry_offset < self.base_offset:
            raise CorruptSegment(self.path, position, f"the index has an entry for offset {entry_offset} here, outside of the segment")
        if not self.find_batch(entry_offset, position, self.size, &found, &header) or found != position or (
            header.base_offset + header.last_offset_delta != entry_offset
        ):
            raise CorruptSegment(self.path, position, f"expected a batch that ends at offset {entry_offset}, as in the index")
        if nearer != NULL:
            nearer[0] = position + batch_bytes(&header) if entry_offset < offset else position
        return position

    cdef int64_t checked_start(self, int64_t offset, int64_t* nearer=NULL) except -1:
        try:
            return self.start_position(offset, nearer)
        except (CorruptSegment, OSError) as error:
            logger.warning("rebuilding the indexes of a segment", extra=facts(reason=error))
        # Reads the headers of the whole segment, on the loop: rare, and bounded by segment.bytes. If the thread must not wait for
        # the disk, a worker brings all of the segment into memory first.
        confined = reads_are_confined()
        if confined and not self.in_memory(0, self.size):
            self.needs_disk(0, self.size)
        from broker_cy.storage import recovery
        confine_reads(False)
        try:
            recovery.mend_indexes(self)
        finally:
            confine_reads(confined)
        return self.start_position(offset, nearer)

    cdef int locate(self, int64_t offset, int64_t* position, BatchHeader* header) except -1:
        cdef int64_t start = 0
        self.checked_start(offset, &start)
        return self.find_batch(offset, start, self.size, position, header)

    cdef bint in_memory(self, int64_t position, int64_t size) except -1:
        if not is_cached(self.descriptor(), position, size, self.was_cold):
            self.was_cold = True
            return False
        return True

    cdef int needs_disk(self, int64_t position, int64_t size) except -1:
        """Raise ColdRead."""
        self.was_cold = True
        raise ColdRead(self.path, position, size)

    def indexes_fit(self):
        """Whether the last entries of the indexes can belong to this segment (a cheap check for damaged or foreign files)."""
        cdef int64_t count = self.offsets.count()
        if count > 0:
            offset, position = self.offsets.entry_at(count - 1)
            if offset < self.base_offset or not 0 < position < self.size:
                return False
        if self.times.count() == 0:
            return True
        if self.times.last_timestamp == 0:
            # The entry that completes a segment is written after its records are synced: a power loss may leave zeros, and by
            # them the segment would be as old as retention.ms can be. They are right if the first batch is as old.
            self.ensure_rolling_timestamp()
            return self.rolling_timestamp <= 0
        return self.times.last_offset >= self.base_offset and self.times.last_timestamp > 0

    cdef int find_batch(
        self, int64_t offset, int64_t start, int64_t end, int64_t* position, BatchHeader* header
    ) except -1:
        """Walk headers from `start`. Raises CorruptSegment at bytes that cannot be a header."""
        cdef uint8_t block[SCAN_BLOCK_BYTES]
        cdef int64_t at = start
        cdef int64_t block_start = 0
        cdef Py_ssize_t got = 0
        cdef size_t want = 512
        cdef int error
        cdef int fd = self.descriptor()
        while at < end:
            if at - block_start + BATCH_HEADER_BYTES > got:
                block_start = at
                error = pread_all(fd, block, want, at, &got)
                if error == EAGAIN:
                    self.needs_disk(at, min(COLD_BYTES, self.size - at))
                if error != 0:
                    raise StorageError(f"cannot read {self.path} at byte {at}: {os.strerror(error)}")
            if parse_header(block + (at - block_start), got - (at - block_start), header) != 0:
                # Either the batch extends past the block, which parse_header cannot distinguish from a bad length, or it is none.
                if (
                    got - (at - block_start) < BATCH_HEADER_BYTES
                    or parse_header(block + (at - block_start), ANY_LENGTH, header) != 0
                ):
                    raise CorruptSegment(self.path, at, "expected a batch header")
            if batch_bytes(header) > end - at:
                raise CorruptSegment(self.path, at, f"a batch of {batch_bytes(header)} bytes does not fit into the last {end - at} bytes")
            if (
                header.base_offset < self.base_offset
                or header.last_offset_delta < 0
                or header.base_offset - self.base_offset > OFFSETS_MAX - header.last_offset_delta
            ):
                raise CorruptSegment(
                    self.path, at,
                    f"base offset {header.base_offset} with last offset delta {header.last_offset_delta} is invalid in a segment "
                    f"that begins at offset {self.base_offset}",
                )
            if header.base_offset + header.last_offset_delta >= offset:
                position[0] = at
                return 1
            at += batch_bytes(header)
            want = SCAN_BLOCK_BYTES if header.length < SCAN_BLOCK_BYTES // 4 else BATCH_HEADER_BYTES
        return 0

    cdef int ensure_timestamps(self) except -1:
        """Read the largest timestamp from the files, which only a later append or lookup needs."""
        if self.max_timestamp == TIMESTAMP_UNKNOWN:
            self.times.count()
            self.max_timestamp = self.times.last_timestamp
            self.max_timestamp_offset = self.times.last_offset
        return 0

    cdef int ensure_rolling_timestamp(self) except -1:
        """Read the first batch's largest timestamp, which only an append needs."""
        cdef BatchHeader header
        cdef int64_t position = 0
        if self.rolling_timestamp == TIMESTAMP_UNKNOWN and self.size > 0:
            if self.find_batch(self.base_offset, 0, self.size, &position, &header):
                self.rolling_timestamp = header.max_timestamp
        return 0

    def complete(self):
        """Complete the indexes of a segment that gets no further records: add the last time index entry, as Kafka does, and write
        them; raises OSError."""
        if self.max_timestamp >= 0:
            self.times.maybe_append(self.max_timestamp, self.max_timestamp_offset)
        self.offsets.write()
        self.times.write()
        self.offsets.release()
        self.times.release()
