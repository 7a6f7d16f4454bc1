"""Whether bytes of a file are in memory, and bringing them there without stalling the loop.

`is_cached` asks cachestat(2) (Linux 6.5): one call for a whole range. Where the kernel has none, a probe with RWF_NOWAIT of
every PROBE_STRIDE-th byte stands in; it may take a partly cached range for cached, which costs one stall, no error.
`warm` is for worker threads: it reads a range in pieces and drops what it read.
"""

from libc.errno cimport EINTR, ENOSYS, EPERM, errno
from libc.stdint cimport uint64_t
from libc.stdlib cimport free, malloc

cdef extern from *:
    """
    #include <sys/syscall.h>
    #include <sys/uio.h>
    #include <unistd.h>
    #ifndef SYS_cachestat
    #define SYS_cachestat 451
    #endif
    #ifndef RWF_NOWAIT
    #define RWF_NOWAIT 0x00000008
    #endif
    struct bc_cachestat_range { unsigned long long off, len; };
    struct bc_cachestat { unsigned long long nr_cache, nr_dirty, nr_writeback, nr_evicted, nr_recently_evicted; };
    static long bc_cachestat(int fd, struct bc_cachestat_range* range, struct bc_cachestat* out) {
        return syscall(SYS_cachestat, fd, range, out, 0);
    }
    static ssize_t bc_read_nowait(int fd, void* into, size_t size, long long position) {
        struct iovec part = { into, size };
        return preadv2(fd, &part, 1, position, RWF_NOWAIT);
    }
    """
    struct cachestat_range "bc_cachestat_range":
        uint64_t off
        uint64_t len
    struct cachestat_result "bc_cachestat":
        uint64_t nr_cache
    long cachestat "bc_cachestat"(int fd, cachestat_range* range, cachestat_result* out) nogil
    ssize_t read_nowait "bc_read_nowait"(int fd, void* into, size_t size, int64_t position) nogil

cdef extern from "unistd.h" nogil:
    ssize_t pread(int fd, void* buf, size_t count, int64_t offset)

cdef enum:
    PAGE_BYTES = 4096
    PROBE_STRIDE = 65536
    WARM_BYTES = 131072

cdef bint has_cachestat = True


cdef bint is_cached(int fd, int64_t position, Py_ssize_t size) noexcept nogil:
    """Whether every page of the range is in the page cache; an error counts as cached, so that the read itself tells it."""
    global has_cachestat
    cdef cachestat_range wanted
    cdef cachestat_result found
    cdef int64_t first = position // PAGE_BYTES
    cdef int64_t last = (position + size - 1) // PAGE_BYTES
    cdef int64_t at
    cdef uint8_t byte
    if size <= 0:
        return True
    if has_cachestat:
        wanted.off = first * PAGE_BYTES
        wanted.len = (last - first + 1) * PAGE_BYTES
        if cachestat(fd, &wanted, &found) == 0:
            return <int64_t>found.nr_cache >= last - first + 1
        if errno != ENOSYS and errno != EPERM:
            return True
        has_cachestat = False
    at = position
    while at < position + size:
        if read_nowait(fd, &byte, 1, at) < 0:
            return False
        at += PROBE_STRIDE
    return read_nowait(fd, &byte, 1, position + size - 1) >= 0


cdef Py_ssize_t read_cached(int fd, uint8_t* into, Py_ssize_t size, int64_t position) noexcept nogil:
    """Read from the page cache only; how many bytes were there without waiting, -1 where none."""
    cdef ssize_t n
    while True:
        n = read_nowait(fd, into, size, position)
        if n >= 0 or errno != EINTR:
            return n


def warm(int fd, int64_t position, Py_ssize_t size):
    """Read a range of a file into the page cache. For worker threads; holds no GIL while it waits. Raises OSError."""
    cdef Py_ssize_t done = 0
    cdef ssize_t n = 0
    cdef int failed = 0
    cdef uint8_t* scratch = <uint8_t*>malloc(WARM_BYTES)
    if scratch == NULL:
        raise MemoryError("no memory to read ahead")
    with nogil:
        while done < size:
            n = pread(fd, scratch, min(WARM_BYTES, size - done), position + done)
            if n > 0:
                done += n
            elif n == 0:
                break
            elif errno != EINTR:
                failed = errno
                break
    free(scratch)
    if failed:
        raise OSError(failed, f"reading {size} bytes at {position} ahead failed")


def cached(int fd, int64_t position, Py_ssize_t size):
    """`is_cached` for tests and diagnostics."""
    return bool(is_cached(fd, position, size))
