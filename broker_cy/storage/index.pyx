"""Offset index and time index of a segment, in Kafka's file formats. index_file.pxd describes the life of an entry."""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t

from broker_cy.storage.index_file cimport (
    OFFSET_ENTRY_BYTES, SEARCH_BLOCK_BYTES, SEARCH_BLOCK_ENTRIES, TIME_ENTRY_BYTES, IndexFile, get_i32, get_i64, put_i32, put_i64,
)


cdef class OffsetIndex(IndexFile):
    """`.index`: relative offset of a batch's last record -> position of the batch."""

    suffix = ".index"

    def _unpack(self, bytes raw):
        cdef const uint8_t* p = raw
        return self.base_offset + get_i32(p), get_i32(p + 4)

    cdef int append(self, int64_t last_offset, int64_t position) except -1:
        cdef uint8_t* entry = self.push()
        put_i32(entry, <int32_t>(last_offset - self.base_offset))
        put_i32(entry + 4, <int32_t>position)
        return 0

    cdef int64_t lookup(self, int64_t offset, int64_t* entry_offset) except -1:
        cdef uint8_t entry[TIME_ENTRY_BYTES]
        if self.search(offset - self.base_offset, entry) < 0:
            entry_offset[0] = self.base_offset
            return 0
        entry_offset[0] = self.base_offset + get_i32(entry)
        return <uint32_t>get_i32(entry + 4)

    cdef int64_t offset_from(self, int64_t position, int64_t size) except -2:
        cdef uint8_t block[SEARCH_BLOCK_BYTES]
        cdef int64_t low = 0, middle, at, offset, behind = -1
        cdef int64_t high = self.count() - self.pending_count       # the answer is in [low, high), or `behind`
        if self.pending_count > 0:
            behind = self.offset_among(self.pending, self.pending_count, position)
            if <uint32_t>get_i32(self.pending + 4) < position:
                return behind
        if high > SEARCH_BLOCK_ENTRIES:
            at = <int64_t>(<double>position / (size + 1.0) * high) - SEARCH_BLOCK_ENTRIES // 2
            at = max(0, min(at, high - SEARCH_BLOCK_ENTRIES))
            self.read_block(block, at, SEARCH_BLOCK_ENTRIES)
            offset = self.offset_among(block, SEARCH_BLOCK_ENTRIES, position)
            if offset < 0:
                low = at + SEARCH_BLOCK_ENTRIES
            elif at == 0 or <uint32_t>get_i32(block + 4) < position:
                return offset
            else:
                high, behind = at, offset
        while high - low > SEARCH_BLOCK_ENTRIES:
            middle = (low + high) // 2
            self.read_block(block, middle, 1)
            offset = self.offset_among(block, 1, position)
            if offset < 0:
                low = middle + 1
            else:
                high, behind = middle, offset
        if low < high:
            self.read_block(block, low, high - low)
            offset = self.offset_among(block, high - low, position)
            if offset >= 0:
                return offset
        return behind

    cdef int64_t offset_among(self, const uint8_t* entries, int64_t count, int64_t position) noexcept:
        """offset_from, among `count` entries in memory."""
        cdef int64_t low = 0, high = count, middle
        while low < high:
            middle = (low + high) // 2
            if <uint32_t>get_i32(entries + middle * OFFSET_ENTRY_BYTES + 4) < position:
                low = middle + 1
            else:
                high = middle
        return -1 if low == count else self.base_offset + get_i32(entries + low * OFFSET_ENTRY_BYTES)

    def find_position(self, int64_t position, int64_t size):
        """Offset of the first entry at or after `position`, in a segment of `size` bytes; -1 if there is none."""
        return self.offset_from(position, size)

    def find(self, int64_t offset):
        """(offset, position) of the entry at or before `offset`; (base offset, 0) if there is none."""
        cdef int64_t entry_offset = 0
        cdef int64_t position = self.lookup(offset, &entry_offset)
        return entry_offset, position

    def add(self, int64_t last_offset, int64_t position):
        self.append(last_offset, position)

    def truncate_to(self, int64_t offset):
        """Drop the entries with an offset >= `offset`."""
        cdef uint8_t entry[TIME_ENTRY_BYTES]
        self.truncate_entries(self.search(offset - self.base_offset - 1, entry) + 1)


cdef class TimeIndex(IndexFile):
    """`.timeindex`: largest timestamp so far -> relative offset of the record (or batch end) that has it."""

    suffix = ".timeindex"

    def __cinit__(self, directory, int64_t base_offset, bint exists=True):
        self.entry_bytes = TIME_ENTRY_BYTES
        self.last_timestamp = -1
        self.last_offset = base_offset

    cdef int64_t key_of(self, const uint8_t* entry) noexcept:
        return get_i64(entry)

    def _unpack(self, bytes raw):
        cdef const uint8_t* p = raw
        return get_i64(p), self.base_offset + get_i32(p + 8)

    cdef int load(self) except -1:
        if self.written >= 0:
            return 0
        IndexFile.load(self)
        try:
            self.read_last()
        except Exception:
            self.written = -1           # not loaded: a later call has to read the file again
            raise
        return 0

    cdef int read_last(self) except -1:
        cdef uint8_t entry[TIME_ENTRY_BYTES]
        cdef int64_t count = self.count()
        self.last_timestamp = -1
        self.last_offset = self.base_offset
        if count > 0:
            self.read_entry(count - 1, entry)
            self.last_timestamp = get_i64(entry)
            self.last_offset = self.base_offset + get_i32(entry + 8)
        return 0

    cdef int truncate_entries(self, int64_t count) except -1:
        IndexFile.truncate_entries(self, count)
        self.read_last()
        return 0

    cdef int maybe_append(self, int64_t timestamp, int64_t offset) except -1:
        """Add an entry if the timestamp is above the last one's (timestamps of the index strictly increase)."""
        cdef uint8_t* entry
        self.count()
        if timestamp <= self.last_timestamp:
            return 0
        entry = self.push()
        put_i64(entry, timestamp)
        put_i32(entry + 8, <int32_t>(offset - self.base_offset))
        self.last_timestamp = timestamp
        self.last_offset = offset
        return 0

    cdef int64_t search_file(self, int64_t key, uint8_t* out) except -2:
        cdef int64_t number
        try:
            number = IndexFile.search_file(self, key, out)
        finally:
            self.close_reader()
        return number

    cdef int64_t lookup(self, int64_t timestamp, int64_t* entry_timestamp) except? -1:
        cdef uint8_t entry[TIME_ENTRY_BYTES]
        if self.search(timestamp, entry) < 0:
            entry_timestamp[0] = -1
            return self.base_offset
        entry_timestamp[0] = get_i64(entry)
        return self.base_offset + get_i32(entry + 8)

    @property
    def last(self):
        """(timestamp, offset) of the last entry; (-1, base offset) if there is none."""
        self.count()
        return self.last_timestamp, self.last_offset

    def find(self, int64_t timestamp):
        """(timestamp, offset) of the last entry at or before `timestamp`; (-1, base offset) if there is none."""
        cdef int64_t entry_timestamp = -1
        cdef int64_t offset = self.lookup(timestamp, &entry_timestamp)
        return entry_timestamp, offset

    def add(self, int64_t timestamp, int64_t offset):
        self.maybe_append(timestamp, offset)

    def truncate_to(self, int64_t offset):
        """Drop the entries with an offset >= `offset`."""
        cdef uint8_t entry[TIME_ENTRY_BYTES]
        cdef int64_t low = 0, high = self.count(), middle
        while low < high:
            middle = (low + high) // 2
            self.read_entry(middle, entry)
            if self.base_offset + get_i32(entry + 8) < offset:
                low = middle + 1
            else:
                high = middle
        self.truncate_entries(low)
