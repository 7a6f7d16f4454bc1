"""Rows in order as blocks of bytes, and the merge of such runs: what a restore writes before it writes LMDB's tree.

A block has the number of its rows as uint32; then each row: the size of its key as uint16, that of its value as int32, key and
value. A size of -1 is a deletion. Numbers are in the order of this machine's bytes: a block never leaves it, except in a copy of
the whole file, whose pages have that order, too.
"""

cimport cython
from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.dict cimport PyDict_Next
from cpython.ref cimport PyObject
from libc.stdint cimport int32_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free, malloc, qsort
from libc.string cimport memcmp, memcpy

cdef enum:
    HEAD_BYTES = 4
    ROW_HEAD_BYTES = 6
    PREFIX_BYTES = 8
    DELETED = -1

cdef struct Row:
    uint64_t prefix         # of the part of the key that not all keys have
    PyObject* name          # the key and the value, borrowed: the dictionary does not change meanwhile
    PyObject* value
    const uint8_t* key
    int32_t key_size

# The place of a run: the row that comes next.
cdef struct Place:
    uint64_t prefix
    const uint8_t* key
    const uint8_t* value
    const uint8_t* end      # of its block
    int32_t key_size
    int32_t value_size
    uint32_t left           # rows of the block, this one included; 0: the run is over
    int32_t block


cdef extern from *:
    """
    #define ROWS_LITTLE (__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__)
    """
    const bint LITTLE "ROWS_LITTLE"
    uint64_t __builtin_bswap64(uint64_t) noexcept nogil


cdef inline uint64_t prefix_of(const uint8_t* key, int32_t size) noexcept nogil:
    cdef uint64_t found = 0
    cdef int32_t at
    if size >= PREFIX_BYTES:
        memcpy(&found, key, PREFIX_BYTES)
        return __builtin_bswap64(found) if LITTLE else found
    for at in range(size):
        found |= <uint64_t>key[at] << (8 * (PREFIX_BYTES - 1 - at))
    return found


cdef inline int order(const uint8_t* a, int32_t a_size, const uint8_t* b, int32_t b_size) noexcept nogil:
    cdef int found = memcmp(a, b, <size_t>(a_size if a_size < b_size else b_size))
    return found if found != 0 else (a_size > b_size) - (a_size < b_size)


cdef int order_rows(const void* first, const void* second) noexcept nogil:
    cdef const Row* a = <const Row*>first
    cdef const Row* b = <const Row*>second
    if a.prefix != b.prefix:
        return 1 if a.prefix > b.prefix else -1
    return order(a.key, a.key_size, b.key, b.key_size)


cdef int32_t common(const Row* rows, Py_ssize_t count) noexcept nogil:
    """Bytes with which all keys begin."""
    cdef int32_t size = rows[0].key_size
    cdef int32_t same
    cdef Py_ssize_t at
    for at in range(1, count):
        if rows[at].key_size < size:
            size = rows[at].key_size
        same = 0
        while same < size and rows[at].key[same] == rows[0].key[same]:
            same += 1
        size = same
        if size == 0:
            break
    return size


cdef Py_ssize_t row_bytes(const Row* row) noexcept:
    cdef Py_ssize_t value_size = 0 if <object>row.value is None else PyBytes_GET_SIZE(<bytes>row.value)
    return ROW_HEAD_BYTES + row.key_size + value_size


cdef bytes block_of(const Row* rows, Py_ssize_t count, Py_ssize_t size):
    cdef bytes made = PyBytes_FromStringAndSize(NULL, size)
    cdef uint8_t* p = <uint8_t*>PyBytes_AS_STRING(made)
    cdef uint32_t number = <uint32_t>count
    cdef uint16_t key_size
    cdef int32_t value_size
    cdef Py_ssize_t at
    cdef bytes value
    memcpy(p, &number, HEAD_BYTES)
    p += HEAD_BYTES
    for at in range(count):
        value = <bytes>rows[at].value
        key_size = <uint16_t>rows[at].key_size
        value_size = DELETED if value is None else <int32_t>PyBytes_GET_SIZE(value)
        memcpy(p, &key_size, 2)
        memcpy(p + 2, &value_size, 4)
        p += ROW_HEAD_BYTES
        memcpy(p, rows[at].key, key_size)
        p += key_size
        if value_size > 0:
            memcpy(p, PyBytes_AS_STRING(value), value_size)
            p += value_size
    return made


cdef class _Rows:
    """The rows of a dictionary in order."""

    cdef Row* rows
    cdef Py_ssize_t count

    def __dealloc__(self):
        free(self.rows)

    cdef bint take(self, dict rows, Py_ssize_t key_bytes_max) except -1:
        """False: a key is empty, or too long."""
        cdef PyObject* key
        cdef PyObject* value
        cdef Py_ssize_t at = 0, count = 0, size
        cdef int32_t skipped
        self.rows = <Row*>malloc(max(1, len(rows)) * sizeof(Row))
        if self.rows == NULL:
            raise MemoryError(f"no memory for the order of {len(rows)} rows")
        while PyDict_Next(rows, &at, &key, &value):
            size = PyBytes_GET_SIZE(<bytes?><object>key)
            if size == 0 or size > key_bytes_max:
                return False
            if <object>value is not None and not isinstance(<object>value, bytes):
                raise TypeError(f"a value is {type(<object>value).__name__}; bytes or None are expected")
            self.rows[count].name = key
            self.rows[count].key = <const uint8_t*>PyBytes_AS_STRING(<bytes>key)
            self.rows[count].key_size = <int32_t>size
            self.rows[count].value = value
            count += 1
        self.count = count
        if count == 0:
            return True
        skipped = common(self.rows, count)
        for at in range(count):
            self.rows[at].prefix = prefix_of(self.rows[at].key + skipped, self.rows[at].key_size - skipped)
        qsort(self.rows, <size_t>count, sizeof(Row), order_rows)
        return True


def in_order(dict rows not None, Py_ssize_t key_bytes_max):
    """Two lists: pairs of keys and values in the order of keys, and the keys of deletions. None: a key is empty, or longer than
    `key_bytes_max`.
    """
    cdef _Rows taken = _Rows()
    cdef Py_ssize_t at
    cdef list pairs = [], gone = []
    if not taken.take(rows, key_bytes_max):
        return None
    for at in range(taken.count):
        if <object>taken.rows[at].value is None:
            gone.append(<object>taken.rows[at].name)
        else:
            pairs.append((<object>taken.rows[at].name, <object>taken.rows[at].value))
    return pairs, gone


def blocks_of(dict rows not None, Py_ssize_t key_bytes_max, Py_ssize_t block_bytes):
    """The rows in order, in blocks of at most `block_bytes`, or of one row. None: a key is empty, or longer than `key_bytes_max`."""
    cdef _Rows taken = _Rows()
    cdef Py_ssize_t first = 0, at, size = HEAD_BYTES, more
    if not taken.take(rows, key_bytes_max):
        return None
    made = []
    for at in range(taken.count):
        more = row_bytes(&taken.rows[at])
        if at > first and size + more > block_bytes:
            made.append(block_of(taken.rows + first, at - first, size))
            first, size = at, HEAD_BYTES
        size += more
    if taken.count > first:
        made.append(block_of(taken.rows + first, taken.count - first, size))
    return made


def count_of(block not None):
    """The number of rows of a block."""
    cdef Py_buffer data
    cdef uint32_t number
    PyObject_GetBuffer(block, &data, PyBUF_SIMPLE)
    try:
        if data.len < HEAD_BYTES:
            raise ValueError(f"a block of rows has {data.len} bytes")
        memcpy(&number, data.buf, HEAD_BYTES)
        return number
    finally:
        PyBuffer_Release(&data)


@cython.final
cdef class Merge:
    """The rows of runs in the order of keys; of one key, the row of the last run counts, and a deletion leaves none.

    `runs` are lists of blocks, the oldest first. With `low`, rows begin at this key, or behind it without `with_low`. Blocks are
    bytes-like objects, which must not change until `close`. Raises ValueError: a block is damaged.
    """

    cdef list _runs
    cdef Py_buffer** _buffers   # of each run, its blocks
    cdef Place* _places
    cdef int32_t* _heap         # numbers of runs that are not over; the one with the next row first
    cdef int32_t _count
    cdef int32_t _live
    cdef readonly Py_ssize_t size_bytes     # of the keys and values that `rows` gave

    def __cinit__(self, runs not None, bytes low=None, bint with_low=True):
        cdef Py_ssize_t run, block
        self._runs = [list(blocks) for blocks in runs]
        self._count = <int32_t>len(self._runs)
        self._buffers = <Py_buffer**>calloc(max(1, self._count), sizeof(Py_buffer*))
        self._places = <Place*>calloc(max(1, self._count), sizeof(Place))
        self._heap = <int32_t*>calloc(max(1, self._count), sizeof(int32_t))
        if self._buffers == NULL or self._places == NULL or self._heap == NULL:
            raise MemoryError(f"no memory for a merge of {self._count} runs")
        for run in range(self._count):
            blocks = self._runs[run]
            self._buffers[run] = <Py_buffer*>calloc(max(1, len(blocks)), sizeof(Py_buffer))
            if self._buffers[run] == NULL:
                raise MemoryError(f"no memory for {len(blocks)} blocks")
            for block in range(len(blocks)):
                PyObject_GetBuffer(blocks[block], &self._buffers[run][block], PyBUF_SIMPLE)
            self._places[run].block = -1
            self._seek(<int32_t>run, low, with_low)
            if self._places[run].left:
                self._heap[self._live] = <int32_t>run
                self._live += 1
        for run in range(self._live // 2 - 1, -1, -1):
            self._sift(<int32_t>run)

    def __dealloc__(self):
        self.close()

    def close(self):
        """Let the blocks go. Later calls do nothing, and there are no more rows."""
        cdef Py_ssize_t run, block
        self._live = 0
        if self._buffers != NULL:
            for run in range(self._count):
                if self._buffers[run] != NULL:
                    for block in range(len(self._runs[run])):
                        # Nothing happens to a buffer that was not taken.
                        PyBuffer_Release(&self._buffers[run][block])
                    free(self._buffers[run])
            free(self._buffers)
            self._buffers = NULL
        free(self._places)
        free(self._heap)
        self._places, self._heap = NULL, NULL

    cdef int _seek(self, int32_t run, bytes low, bint with_low) except -1:
        """Put a run at its first row from a key on."""
        cdef Place* place = &self._places[run]
        cdef int32_t first = 0, last = <int32_t>len(self._runs[run]), middle, size
        cdef const uint8_t* key
        if low is None:
            return self._next_block(run)
        key, size = <const uint8_t*>PyBytes_AS_STRING(low), <int32_t>PyBytes_GET_SIZE(low)
        # The last block that begins with the key or before it.
        while first < last:
            middle = (first + last) // 2
            place.block = middle - 1
            self._next_block(run)
            if place.left and order(place.key, place.key_size, key, size) <= 0:
                first = middle + 1
            else:
                last = middle
        place.block = max(0, first - 1) - 1
        self._next_block(run)
        while place.left and order(place.key, place.key_size, key, size) < (0 if with_low else 1):
            self._step(run)
        return 0

    cdef int _next_block(self, int32_t run) except -1:
        cdef Place* place = &self._places[run]
        cdef Py_buffer* buffer
        place.block += 1
        place.left = 0
        if place.block == len(self._runs[run]):
            return 0
        buffer = &self._buffers[run][place.block]
        if buffer.len < HEAD_BYTES:
            raise ValueError(f"a block of rows has {buffer.len} bytes")
        memcpy(&place.left, buffer.buf, HEAD_BYTES)
        place.end = <const uint8_t*>buffer.buf + buffer.len
        return self._read(place, <const uint8_t*>buffer.buf + HEAD_BYTES)

    cdef int _step(self, int32_t run) except -1:
        """Go on to the next row of a run."""
        cdef Place* place = &self._places[run]
        place.left -= 1
        if place.left == 0:
            return self._next_block(run)
        return self._read(place, place.value + (place.value_size if place.value_size > 0 else 0))

    cdef int _read(self, Place* place, const uint8_t* p) except -1:
        cdef uint16_t key_size
        if place.left == 0:
            return 0
        if place.end - p < ROW_HEAD_BYTES:
            raise ValueError("a block of rows is cut")
        memcpy(&key_size, p, 2)
        memcpy(&place.value_size, p + 2, 4)
        p += ROW_HEAD_BYTES
        if place.value_size < DELETED or place.end - p < key_size + (place.value_size if place.value_size > 0 else 0):
            raise ValueError("a block of rows is cut")
        place.key = p
        place.key_size = key_size
        place.value = p + key_size
        place.prefix = prefix_of(p, key_size)
        return 0

    cdef bint _is_before(self, int32_t a, int32_t b) noexcept:
        """Whether run `a` comes before run `b`: by its key, and of one key, by its age, the youngest first."""
        cdef const Place* x = &self._places[a]
        cdef const Place* y = &self._places[b]
        cdef int found
        if x.prefix != y.prefix:
            return x.prefix < y.prefix
        found = order(x.key, x.key_size, y.key, y.key_size)
        return found < 0 or (found == 0 and a > b)

    cdef void _sift(self, int32_t at) noexcept:
        """Let the run at this place of the heap sink to where it belongs."""
        cdef int32_t run = self._heap[at]
        cdef int32_t child
        while True:
            child = 2 * at + 1
            if child >= self._live:
                break
            if child + 1 < self._live and self._is_before(self._heap[child + 1], self._heap[child]):
                child += 1
            if not self._is_before(self._heap[child], run):
                break
            self._heap[at] = self._heap[child]
            at = child
        self._heap[at] = run

    cdef int _advance(self) except -1:
        """Take the next row away."""
        cdef int32_t run = self._heap[0]
        self._step(run)
        if self._places[run].left == 0:
            self._live -= 1
            self._heap[0] = self._heap[self._live]
        if self._live:
            self._sift(0)
        return 0

    def rows(self, Py_ssize_t count):
        """At most `count` pairs of key and value that come next; fewer: these are the last ones."""
        cdef list found = []
        cdef bytes key
        cdef Place* place
        while self._live and len(found) < count:
            place = &self._places[self._heap[0]]
            key = PyBytes_FromStringAndSize(<const char*>place.key, place.key_size)
            if place.value_size >= 0:
                found.append((key, PyBytes_FromStringAndSize(<const char*>place.value, place.value_size)))
                self.size_bytes += place.key_size + place.value_size
            self._advance()
            # Older rows of the same key.
            while self._live:
                place = &self._places[self._heap[0]]
                if order(place.key, place.key_size, <const uint8_t*>PyBytes_AS_STRING(key), <int32_t>PyBytes_GET_SIZE(key)) != 0:
                    break
                self._advance()
        return found
