"""One segment of a log: the file of batches, its two indexes, and the bound on open descriptors."""

import os

from libc.stdint cimport int64_t, uint8_t

from broker_cy.storage.disk cimport pread_all
from broker_cy.storage.index cimport OffsetIndex, TimeIndex
from broker_cy.wire.batch cimport BATCH_HEADER_BYTES, BATCH_OVERHEAD_BYTES, BatchHeader, parse_header

from broker_cy.storage.errors import CorruptSegment, StorageError

cdef extern from "<unistd.h>" nogil:
    int c_close "close"(int fd)

cdef enum:
    SCAN_BLOCK_BYTES = 4096
    # Largest `length` a batch can have; keeps position arithmetic far from overflow.
    ANY_LENGTH = 0x7FFFFFFFFFFF


cdef class OpenFiles:
    """Holds at most `limit` segment descriptors open (more only while more than that are in use by slices)."""

    def __cinit__(self, Py_ssize_t limit=512):
        if limit < 1:
            raise ValueError(f"open file limit {limit} is below 1")
        self.limit = limit
        self.segments = []
        self.hand = 0

    def __len__(self):
        return len(self.segments)

    cdef int admit(self, Segment segment) except -1:
        """Take in a segment that was just opened; closes one that was not used since the hand last passed."""
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
        self.segments.append(segment)
        return 0


cdef class Segment:
    """A segment file and its indexes. `size` is what is known to be good; bytes after it are never read."""

    def __cinit__(self, directory, int64_t base_offset, OpenFiles open_files, int64_t size=0, bint exists=True):
        self.directory = directory
        self.base_offset = base_offset
        self.open_files = open_files
        self.size = size
        self.staged_size = size
        self.offsets = OffsetIndex(directory, base_offset, exists)
        self.times = TimeIndex(directory, base_offset, exists)
        self.fd = -1
        self.max_timestamp = TIMESTAMP_UNKNOWN if exists else -1
        self.max_timestamp_offset = base_offset
        self.rolling_timestamp = TIMESTAMP_UNKNOWN
        self.created_ms = 0

    def __dealloc__(self):
        if self.fd >= 0:
            c_close(self.fd)

    @property
    def path(self):
        return f"{self.directory}/{self.base_offset:020d}.log"

    def __repr__(self):
        return f"Segment({self.path!r}, size={self.size})"

    cdef int descriptor(self) except -1:
        """The open descriptor of the log file; raises StorageError."""
        self.recently_used = True
        if self.fd >= 0:
            return self.fd
        try:
            fd = os.open(self.path, os.O_RDWR | os.O_CLOEXEC)
        except OSError as error:
            raise StorageError(f"cannot open {self.path}: {error.strerror}") from error
        self.fd = fd
        self.open_files.admit(self)
        return self.fd

    def create(self, int64_t now_ms):
        """Make the empty files of a new segment; raises OSError. What an earlier life left under these names is dropped."""
        for path in (self.path, self.offsets.path, self.times.path):
            os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644))
        self.created_ms = now_ms

    cdef int close_fd(self) except -1:
        cdef int fd = self.fd
        cdef Py_ssize_t at
        if fd < 0:
            return 0
        self.fd = -1
        at = self.open_files.segments.index(self)
        self.open_files.segments[at] = self.open_files.segments[len(self.open_files.segments) - 1]
        self.open_files.segments.pop()
        os.close(fd)
        return 0

    cdef int unpin(self) except -1:
        self.pins -= 1
        if self.pins == 0 and self.deleted:
            self.close_fd()
        return 0

    def close(self):
        """Close the descriptor, at once or when the last slice is gone."""
        self.deleted = True
        if self.pins == 0:
            self.close_fd()

    cdef int64_t start_position(self, int64_t offset) except -1:
        """Where a search for `offset` may begin: the position of an indexed batch at or before it."""
        cdef int64_t entry_offset = 0
        cdef int64_t position = self.offsets.lookup(offset, &entry_offset)
        return position if position < self.size else 0

    cdef int find_batch(
        self, int64_t offset, int64_t start, int64_t end, int64_t* position, BatchHeader* header
    ) except -1:
        """Walk headers from `start`. Raises CorruptSegment where no header can be."""
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
                if error != 0:
                    raise StorageError(f"cannot read {self.path} at byte {at}: {os.strerror(error)}")
            if parse_header(block + (at - block_start), got - (at - block_start), header) != 0:
                # Either the batch reaches past the block, which parse_header cannot tell from a bad length, or it is none.
                if (
                    got - (at - block_start) < BATCH_HEADER_BYTES
                    or parse_header(block + (at - block_start), ANY_LENGTH, header) != 0
                ):
                    raise CorruptSegment(self.path, at, "no batch header there")
            if header.length + BATCH_OVERHEAD_BYTES > end - at:
                raise CorruptSegment(self.path, at, f"a batch of {header.length + BATCH_OVERHEAD_BYTES} bytes has no room")
            if header.base_offset + header.last_offset_delta >= offset:
                position[0] = at
                return 1
            at += header.length + BATCH_OVERHEAD_BYTES
            want = SCAN_BLOCK_BYTES if header.length < SCAN_BLOCK_BYTES // 4 else BATCH_HEADER_BYTES
        return 0

    cdef int ensure_timestamps(self) except -1:
        """Read from the files what only a later append or lookup needs to know: largest and first timestamp."""
        cdef BatchHeader header
        cdef int64_t position = 0
        if self.max_timestamp == TIMESTAMP_UNKNOWN:
            self.times.count()
            self.max_timestamp = self.times.last_timestamp
            self.max_timestamp_offset = self.times.last_offset
        if self.rolling_timestamp == TIMESTAMP_UNKNOWN and self.size > 0:
            if self.find_batch(self.base_offset, 0, self.size, &position, &header):
                self.rolling_timestamp = header.max_timestamp
        return 0

    def complete(self):
        """Nothing more will be appended: add the last time index entry, as Kafka does, and write the indexes; raises OSError."""
        self.ensure_timestamps()
        if self.max_timestamp >= 0:
            self.times.maybe_append(self.max_timestamp, self.max_timestamp_offset)
        self.offsets.write()
        self.times.write()
        self.offsets.release()
        self.times.release()

    @property
    def largest_timestamp(self):
        """(timestamp, offset of the batch that has it) over the segment; (-1, base offset) where no batch has one."""
        self.ensure_timestamps()
        return self.max_timestamp, self.max_timestamp_offset
