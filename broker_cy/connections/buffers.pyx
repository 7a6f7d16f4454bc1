"""Receive buffers, pooled: an idle connection holds none.

A connection borrows a buffer while it has unparsed bytes; a staged batch holds a reference to its buffer until it is
written. Blocks come in size classes of BUFFER_BYTES << k, so that a block fits the next request of that class.
"""

cimport cython
from libc.stdlib cimport free, malloc


cdef class BufferPool:
    def __cinit__(self):
        cdef int k
        for k in range(MAX_CLASS + 1):
            self.free_blocks[k] = NULL
        self.pooled_bytes = 0
        self.lent_bytes = 0

    def __dealloc__(self):
        cdef int k
        cdef void* block
        for k in range(MAX_CLASS + 1):
            while self.free_blocks[k] != NULL:
                block = self.free_blocks[k]
                self.free_blocks[k] = (<void**>block)[0]
                free(block)

    cdef RecvBuffer acquire(self, Py_ssize_t at_least):
        """A buffer of at least that many bytes. Raises MemoryError."""
        cdef int k = 0
        cdef Py_ssize_t capacity = BUFFER_BYTES
        cdef void* block
        while capacity < at_least:
            capacity <<= 1
            k += 1
        if k > MAX_CLASS:
            raise MemoryError(f"a receive buffer of {at_least} bytes is above the largest, {BUFFER_BYTES << MAX_CLASS}")
        block = self.free_blocks[k]
        if block != NULL:
            self.free_blocks[k] = (<void**>block)[0]
            self.pooled_bytes -= capacity
        else:
            block = malloc(capacity)
            if block == NULL:
                raise MemoryError(f"no memory for a receive buffer of {capacity} bytes")
        cdef RecvBuffer buffer = RecvBuffer.__new__(RecvBuffer)
        buffer.data = <uint8_t*>block
        buffer.capacity = capacity
        buffer.size_class = k
        buffer.pool = self
        self.lent_bytes += capacity
        return buffer

    cdef void give_back(self, uint8_t* block, int size_class) noexcept:
        cdef Py_ssize_t capacity = <Py_ssize_t>BUFFER_BYTES << size_class
        self.lent_bytes -= capacity
        if self.pooled_bytes + capacity > POOLED_BYTES_MAX:
            free(block)
            return
        (<void**>block)[0] = self.free_blocks[size_class]
        self.free_blocks[size_class] = block
        self.pooled_bytes += capacity


@cython.no_gc
cdef class RecvBuffer:
    def __cinit__(self):
        self.data = NULL

    def __dealloc__(self):
        if self.data != NULL:
            self.pool.give_back(self.data, self.size_class)
            self.data = NULL
