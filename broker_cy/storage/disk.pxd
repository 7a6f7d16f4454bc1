# The system calls that write segments and indexes, in one place: each completes short writes, and a test can make each fail
# (`disk.set_write_budget`). All return 0 or the errno.
from libc.stdint cimport int64_t, uint8_t

cdef extern from "<sys/uio.h>" nogil:
    cdef struct iovec:
        void* iov_base
        size_t iov_len

cdef enum:
    # Most iovec entries that Linux accepts in one call (UIO_MAXIOV); longer lists are written in chunks.
    IOV_MAX = 1024

# Writes all of `iov` at `position`. The array is modified: entries of a short write are advanced in place.
cdef int pwritev_all(int fd, iovec* iov, Py_ssize_t count, int64_t position) noexcept nogil
cdef int pwrite_all(int fd, const void* data, size_t size, int64_t position) noexcept nogil
# Reads up to `size` bytes; `got` is less only at the end of the file. EAGAIN under confine_reads if the disk would be needed.
cdef int pread_all(int fd, void* out, size_t size, int64_t position, Py_ssize_t* got) noexcept nogil
# The whole file as bytes; raises OSError, and ColdRead under confine_reads.
cpdef bytes read_whole(object path)
# After a call with True, and until one with False, pread_all in this thread reads only from the page cache. The caller has to reset
# it in a `finally`, and to catch ColdRead (storage.errors), which the lookups of a log raise then.
cdef void confine_reads(bint on) noexcept nogil
cdef bint reads_are_confined() noexcept nogil
