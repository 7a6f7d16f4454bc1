"""Finds out whether bytes of a file are in memory, and brings them there without stalling the loop.

`is_cached` uses cachestat(2) (Linux 6.5): one call for a whole range. This also counts pages that are still being read from the
disk, so in a file that was read from there every PROBE_STRIDE-th byte is probed with RWF_NOWAIT, too. If the kernel has no
cachestat there are only the probes: they may take a partly cached range for cached, which costs one stall and causes no error.
`warm` is for worker threads: it requests a range and AHEAD_BYTES after it, and waits for the range. The kernel's own readahead is
not used: on a descriptor that the loop shares, the loop would be the one that starts it.
"""

import os

from libc.errno cimport EAGAIN, EINTR, EINVAL, ENOMEM, ENOSYS, EPERM, errno
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

cdef extern from "sys/sendfile.h" nogil:
    ssize_t sendfile(int out_fd, int in_fd, long* offset, size_t count)

cdef extern from "fcntl.h" nogil:
    int posix_fadvise(int fd, int64_t offset, int64_t size, int advice)
    int POSIX_FADV_RANDOM, POSIX_FADV_WILLNEED

cdef enum:
    PAGE_BYTES = 4096
    PROBE_STRIDE = 262144
    # The kernel reads at most its readahead limit for one POSIX_FADV_WILLNEED: 128 KiB by default.
    WARM_BYTES = 131072
    # Requested after the range that is waited for: when a consumer reads on, its next megabytes are being read already.
    AHEAD_BYTES = 2097152

cdef bint has_cachestat = True


cdef bint is_cached(int fd, int64_t position, Py_ssize_t size, bint on_their_way) noexcept nogil:
    """Whether every page of the range is in the page cache; an error counts as cached, so that the read itself reports it.
    `on_their_way` is whether some of the pages in the cache may still be waiting for the disk."""
    global has_cachestat
    cdef cachestat_range wanted
    cdef cachestat_result found
    cdef int64_t first = position // PAGE_BYTES
    cdef int64_t last = (position + size - 1) // PAGE_BYTES
    if size <= 0:
        return True
    if has_cachestat:
        wanted.off = first * PAGE_BYTES
        wanted.len = (last - first + 1) * PAGE_BYTES
        if cachestat(fd, &wanted, &found) == 0:
            return <int64_t>found.nr_cache >= last - first + 1 and (
                not on_their_way or probe(fd, position, size))
        if errno != ENOSYS and errno != EPERM:
            return True
        has_cachestat = False
    return probe(fd, position, size)


cdef bint probe(int fd, int64_t position, Py_ssize_t size) noexcept nogil:
    """Whether every PROBE_STRIDE-th byte and the last can be read without waiting; True on a file system without RWF_NOWAIT."""
    cdef int64_t at = position
    cdef uint8_t byte
    while at < position + size:
        if read_nowait(fd, &byte, 1, at) < 0 and errno == EAGAIN:
            return False
        at += PROBE_STRIDE
    return read_nowait(fd, &byte, 1, position + size - 1) >= 0 or errno != EAGAIN


cdef Py_ssize_t read_cached(int fd, uint8_t* into, Py_ssize_t size, int64_t position) noexcept nogil:
    """Read only from the page cache; return how many bytes could be read without waiting, -1 if none."""
    cdef ssize_t n
    while True:
        n = read_nowait(fd, into, size, position)
        if n >= 0 or errno != EINTR:
            return n


def warm(int fd, int64_t position, Py_ssize_t size, bint ahead=False):
    """Bring a range of a file into the page cache; with `ahead`, request the bytes after it, too. Waits without the GIL, for worker
    threads. Raises OSError."""
    cdef int64_t at = position
    cdef int64_t end = position + size
    cdef int failed = 0
    cdef int null_fd
    if size <= 0:
        return
    py_null = os.open("/dev/null", os.O_WRONLY | os.O_CLOEXEC)
    null_fd = py_null
    with nogil:
        posix_fadvise(fd, 0, 0, POSIX_FADV_RANDOM)
        while at < end + (AHEAD_BYTES if ahead else 0):
            posix_fadvise(fd, at, WARM_BYTES, POSIX_FADV_WILLNEED)
            at += WARM_BYTES
        failed = wait_for(null_fd, fd, position, end)
    os.close(null_fd)
    if failed:
        raise OSError(failed, f"cannot read ahead {size} bytes at {position}")


cdef int wait_for(int null_fd, int fd, int64_t position, int64_t end) noexcept nogil:
    """Read the range and discard it; return 0 or the errno. Sending it to /dev/null waits for the pages and copies nothing, which
    takes a tenth of the CPU time of reading them; the loop may need that core."""
    cdef long at = position
    cdef ssize_t n = 0
    cdef int error = 0
    cdef uint8_t* scratch = NULL
    while at < end:
        if scratch == NULL:
            n = sendfile(null_fd, fd, &at, end - at)
        else:
            n = pread(fd, scratch, min(WARM_BYTES, end - at), at)
            if n > 0:
                at += n
        if n == 0:
            break
        if n < 0 and errno == EINVAL and scratch == NULL:       # a file system without splice
            scratch = <uint8_t*>malloc(WARM_BYTES)
            if scratch == NULL:
                error = ENOMEM
                break
        elif n < 0 and errno != EINTR:
            error = errno
            break
    free(scratch)
    return error


def warm_path(path, int64_t position, int64_t size, bint ahead=False):
    """`warm` for a file by its path, for bytes that a lookup did not find in memory (ColdRead). Errors are ignored: the repeated
    lookup reports them."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return
    try:
        warm(fd, position, size, ahead)
    except OSError:
        pass
    finally:
        os.close(fd)


def cached(int fd, int64_t position, Py_ssize_t size):
    """`is_cached` for tests and diagnostics."""
    return bool(is_cached(fd, position, size, True))
