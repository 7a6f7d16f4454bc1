"""Receive buffers, pooled: an idle connection holds none."""

from libc.stdint cimport uint8_t

cdef enum:
    BUFFER_BYTES = 262144               # the most that one recv fills; fits the second-level cache
    MAX_CLASS = 10                  # buffers of up to BUFFER_BYTES << 10 (256 MiB)
    POOLED_BYTES_MAX = 8388608          # freed blocks kept for reuse, over all classes

cdef class BufferPool:
    cdef void* free_blocks[11]          # per class, singly linked through the first word of each block
    cdef readonly Py_ssize_t pooled_bytes
    cdef readonly Py_ssize_t lent_bytes     # held by connections and staged batches now

    cdef RecvBuffer acquire(self, Py_ssize_t at_least)
    cdef void give_back(self, uint8_t* block, int size_class) noexcept

cdef class RecvBuffer:
    """A block of memory; it goes back to the pool when the last reference (connection or staged batch) goes."""
    cdef uint8_t* data
    cdef Py_ssize_t capacity
    cdef int size_class
    cdef BufferPool pool
