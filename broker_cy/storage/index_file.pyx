"""The file of one index, and the entries that wait for it: reading, writing, truncation, search. See index_file.pxd."""

import os

from libc.errno cimport EAGAIN, EIO
from libc.stdint cimport int64_t, uint8_t
from libc.stdlib cimport free, realloc
from libc.string cimport memcpy

from broker_cy.storage.disk cimport pread_all, pwrite_all

from broker_cy.storage.errors import ColdRead

cdef extern from "<unistd.h>" nogil:
    int c_close "close"(int fd)

cdef enum:
    # Bytes that are read ahead around an entry that is not in memory: most indexes are shorter.
    COLD_BYTES = 1048576


cdef inline bint is_zero(const uint8_t* p, int size) noexcept nogil:
    cdef int i
    for i in range(size):
        if p[i] != 0:
            return False
    return True


cdef class IndexFile:
    """Entries of one index: those in the file and those that wait in memory. `directory` is the log's, a str."""

    suffix = ""

    def __cinit__(self, directory, int64_t base_offset, bint exists=True):
        self.directory = directory
        self.base_offset = base_offset
        self.written = -1 if exists else 0
        self.entry_bytes = OFFSET_ENTRY_BYTES
        self.read_fd = -1
        self.last_key = -1

    def __dealloc__(self):
        free(self.pending)
        self.close_reader()

    @property
    def path(self):
        return f"{self.directory}/{self.base_offset:020d}{self.suffix}"

    def __len__(self):
        return self.count()

    def entries(self):
        """All entries, as tuples (absolute offset, position) or (timestamp, absolute offset)."""
        cdef uint8_t entry[TIME_ENTRY_BYTES]
        cdef int64_t i
        found = []
        for i in range(self.count()):
            self.read_entry(i, entry)
            found.append(self._unpack(entry[:self.entry_bytes]))
        return found

    def entry_at(self, int64_t number):
        """Entry `number`, as in `entries`; raises IndexError."""
        cdef uint8_t entry[TIME_ENTRY_BYTES]
        self.read_entry(number, entry)
        return self._unpack(entry[:self.entry_bytes])

    cdef int64_t key_of(self, const uint8_t* entry) noexcept:
        return get_i32(entry)

    cdef int load(self) except -1:
        """Count the entries of the file. A preallocated file that was never trimmed ends in zeroed entries: these do not count, nor
        does a partial entry at the end."""
        cdef uint8_t entry[TIME_ENTRY_BYTES]
        cdef Py_ssize_t got = 0
        cdef int64_t low, high, middle
        cdef int fd, error
        if self.written >= 0:
            return 0
        try:
            py_fd = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            self.written = 0
            return 0
        fd = py_fd
        try:
            low = 0
            high = os.fstat(fd).st_size // self.entry_bytes
            if high > 0:
                error = pread_all(fd, entry, self.entry_bytes, (high - 1) * self.entry_bytes, &got)
                # A time index of one entry may hold timestamp 0 at the base offset; a preallocated file is longer.
                if error == EAGAIN:
                    self.read_failed(error, (high - 1) * self.entry_bytes)
                lone = high == 1 and self.entry_bytes == TIME_ENTRY_BYTES
                if error == 0 and (lone or not is_zero(entry, self.entry_bytes)):
                    low = high
            while low < high:
                middle = (low + high) // 2
                error = pread_all(fd, entry, self.entry_bytes, middle * self.entry_bytes, &got)
                if error != 0:
                    self.read_failed(error, middle * self.entry_bytes)
                if is_zero(entry, self.entry_bytes):
                    high = middle
                else:
                    low = middle + 1
        finally:
            os.close(fd)
        self.written = low
        return 0

    cdef int64_t count(self) except -1:
        if self.written < 0:
            self.load()
        return self.written + self.pending_count

    cdef uint8_t* push(self) except NULL:
        """Make room for one more pending entry, which the caller fills."""
        cdef int64_t capacity
        cdef uint8_t* grown
        if self.pending_count == self.pending_capacity:
            capacity = self.pending_capacity * 2 if self.pending_capacity else 8
            grown = <uint8_t*>realloc(self.pending, <size_t>(capacity * self.entry_bytes))
            if grown == NULL:
                raise MemoryError("no memory for index entries")
            self.pending = grown
            self.pending_capacity = capacity
        self.pending_count += 1
        return self.pending + (self.pending_count - 1) * self.entry_bytes

    cdef int flush(self) except -1:
        """Write the pending entries. Returns 0 or the errno; on an error they stay pending."""
        cdef int fd, error
        if self.pending_count == 0:
            return 0
        self.count()
        try:
            py_fd = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o644)
        except OSError as failure:
            return failure.errno
        fd = py_fd
        error = pwrite_all(
            fd, self.pending, <size_t>(self.pending_count * self.entry_bytes), self.written * self.entry_bytes
        )
        os.close(fd)
        if error == 0:
            self.written += self.pending_count
            self.pending_count = 0
            self.last_key = -1
        return error

    def write(self):
        """Write pending entries; raises OSError."""
        cdef int error = self.flush()
        if error:
            raise OSError(error, os.strerror(error), self.path)

    cdef int truncate_entries(self, int64_t count) except -1:
        """Keep the first `count` entries."""
        if count >= self.count():
            return 0
        if count >= self.written:
            self.pending_count = count - self.written
            return 0
        self.pending_count = 0
        self.written = count
        self.last_key = -1
        self.trim()
        return 0

    def trim(self):
        """Truncate the file to its entries: removes a preallocated tail."""
        self.count()
        try:
            os.truncate(self.path, self.written * self.entry_bytes)
        except FileNotFoundError:
            pass

    def create(self):
        """Make sure that the file exists: Kafka treats a segment without it as damaged."""
        os.close(os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o644))

    def release(self):
        """Free the memory for pending entries of a segment that gets no more records."""
        if self.pending_count == 0:
            free(self.pending)
            self.pending = NULL
            self.pending_capacity = 0

    cdef int read_entry(self, int64_t number, uint8_t* out) except -1:
        cdef Py_ssize_t got = 0
        cdef int fd, error
        if number < 0 or number >= self.count():
            raise IndexError(f"index entry {number} of {self.count()}")
        if number >= self.written:
            memcpy(out, self.pending + (number - self.written) * self.entry_bytes, self.entry_bytes)
            return 0
        fd = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC)
        error = pread_all(fd, out, self.entry_bytes, number * self.entry_bytes, &got)
        os.close(fd)
        if error != 0 or got < self.entry_bytes:
            self.read_failed(error, number * self.entry_bytes)
        return 0

    cdef int read_failed(self, int error, int64_t position) except -1:
        """Raise the error of a read at `position` of the file; `error` 0 means that the file became shorter."""
        if error == EAGAIN:
            raise ColdRead(self.path, max(0, position - COLD_BYTES // 2), COLD_BYTES)
        if error == 0:
            raise OSError(EIO, "index is shorter than it was", self.path)
        raise OSError(error, os.strerror(error), self.path)

    cdef int reader(self) except -1:
        """A descriptor for reading the file; it stays open until close_reader."""
        if self.read_fd < 0:
            self.read_fd = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC)
        return self.read_fd

    cdef int close_reader(self) noexcept:
        if self.read_fd >= 0:
            c_close(self.read_fd)
            self.read_fd = -1
        return 0

    cdef int64_t search(self, int64_t key, uint8_t* out) except -2:
        """Number of the last entry whose key is <= `key`, copied to `out`; -1 if there is none."""
        if self.count() == 0:
            return -1
        if self.pending_count > 0 and self.key_of(self.pending) <= key:
            return self.bisect(self.pending, self.written, self.pending_count, key, out)
        if self.written == 0:
            return -1
        return self.search_file(key, out)

    cdef int read_block(self, uint8_t* block, int64_t first, int64_t count) except -1:
        cdef Py_ssize_t got = 0
        cdef int error = pread_all(self.reader(), block, count * self.entry_bytes, first * self.entry_bytes, &got)
        if error != 0 or got < count * self.entry_bytes:
            self.read_failed(error, first * self.entry_bytes)
        return 0

    cdef int64_t search_file(self, int64_t key, uint8_t* out) except -2:
        """search, among the entries of the file. Keys grow about evenly, so the first block is read at the position that follows
        from that, and it is mostly the right one; otherwise a bisection continues with the bounds of this block."""
        cdef uint8_t block[SEARCH_BLOCK_BYTES]
        cdef int64_t low = 0, high = self.written       # the answer, if there is one, is in [low, high)
        cdef int64_t middle, at
        if high > SEARCH_BLOCK_ENTRIES:
            if self.last_key < 0:
                self.read_block(block, high - 1, 1)
                self.last_key = self.key_of(block)
            at = <int64_t>(<double>key / (self.last_key + 1.0) * high) - SEARCH_BLOCK_ENTRIES // 2
            at = max(0, min(at, high - SEARCH_BLOCK_ENTRIES))
            self.read_block(block, at, SEARCH_BLOCK_ENTRIES)
            if self.key_of(block) > key:
                high = at
            elif at + SEARCH_BLOCK_ENTRIES < high and self.key_of(
                block + (SEARCH_BLOCK_ENTRIES - 1) * self.entry_bytes
            ) <= key:
                low = at + SEARCH_BLOCK_ENTRIES - 1
            else:
                return self.bisect(block, at, SEARCH_BLOCK_ENTRIES, key, out)
        while high - low > SEARCH_BLOCK_ENTRIES:
            middle = (low + high) // 2
            self.read_block(block, middle, 1)
            if self.key_of(block) <= key:
                low = middle
            else:
                high = middle
        if high <= low:
            return -1
        self.read_block(block, low, high - low)
        return self.bisect(block, low, high - low, key, out)

    cdef int64_t bisect(self, const uint8_t* entries, int64_t first, int64_t count, int64_t key, uint8_t* out) noexcept:
        """Number of the last of `count` entries with a key <= `key`, copied to `out`; -1 if no entry has one. The first of the entries
        has number `first`."""
        cdef int64_t low = 0, high = count, middle
        while low < high:
            middle = (low + high) // 2
            if self.key_of(entries + middle * self.entry_bytes) <= key:
                low = middle + 1
            else:
                high = middle
        if low == 0:
            return -1
        memcpy(out, entries + (low - 1) * self.entry_bytes, self.entry_bytes)
        return first + low - 1
