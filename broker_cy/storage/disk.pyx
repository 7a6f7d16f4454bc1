"""The system calls that write segments and indexes: they complete short writes, and return failures as errno values.

`set_write_budget` lets a test fill the disk at an exact byte; `set_read_refusals` lets it empty the page cache at an exact read;
`set_read_watcher` shows it each read that may wait for the disk; `set_write_judge` lets it fail the disk of one data directory.
`confine_reads` confines the reads of a thread that must not wait for the disk (the loop, while it looks up what a consumer
requested) to the page cache.
"""

import os

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from libc.errno cimport EAGAIN, EINTR, EIO, errno
from libc.stdint cimport int64_t, uint8_t

from broker_cy.storage.page_cache cimport read_cached

from broker_cy.storage.errors import ColdRead

cdef extern from "<sys/types.h>" nogil:
    ctypedef long off_t

cdef extern from "<sys/uio.h>" nogil:
    ssize_t c_pwritev "pwritev"(int fd, const iovec* iov, int count, off_t offset)

cdef extern from "<unistd.h>" nogil:
    ssize_t c_pwrite "pwrite"(int fd, const void* data, size_t size, off_t offset)
    ssize_t c_pread "pread"(int fd, void* data, size_t size, off_t offset)
    int c_syncfs "syncfs"(int fd)

cdef extern from *:
    """
    /* One per thread: jobs in worker threads wait for the disk while the loop does not. */
    static __thread int bc_cached_only;
    """
    int cached_only "bc_cached_only"

# Bytes that may still be written before writes fail, and the errno they fail with; below zero there is no limit.
cdef int64_t write_budget = -1
cdef int write_errno = 0


# Number of reads under confine_reads that still return EAGAIN.
cdef int64_t read_refusals = 0


# Called with the size of each read that may wait for the disk; None: no call.
cdef object read_watcher = None
cdef bint reads_are_watched = False


def set_read_watcher(watcher):
    """Let `watcher(size_bytes)` be called, in the thread that reads, for each read that is not confined to the page cache; None: no
    call. It must not raise. For tests.
    """
    global read_watcher, reads_are_watched
    read_watcher = watcher
    reads_are_watched = watcher is not None


cdef void report_read(size_t size) noexcept with gil:
    read_watcher(size)


# Called with the descriptor and the size of each write; returns the errno it fails with, or 0. None: no call.
cdef object write_judge = None
cdef bint writes_are_judged = False


def set_write_judge(judge):
    """Let `judge(fd, size_bytes)` say how each write ends before it is made: 0, or the errno that it fails with; None: no call. It must
    not raise. For tests.
    """
    global write_judge, writes_are_judged
    write_judge = judge
    writes_are_judged = judge is not None


cdef int judged(int fd, size_t size) noexcept with gil:
    return write_judge(fd, size)


def set_read_refusals(int64_t count):
    """Let the next `count` confined reads find nothing in the page cache. For tests."""
    global read_refusals
    read_refusals = count


def set_write_budget(int64_t size_bytes, int error):
    """Let the next `size_bytes` be written, then fail every write with errno `error`. -1 lifts the limit. Returns what is
    left of the limit before, with its errno, so that a simulation can change to the disk of another machine. For tests.
    """
    global write_budget, write_errno
    before = write_budget, write_errno
    write_budget = size_bytes
    write_errno = error
    return before


cdef int pwritev_all(int fd, iovec* iov, Py_ssize_t count, int64_t position) noexcept nogil:
    cdef Py_ssize_t at = 0
    cdef ssize_t written
    cdef int chunk
    while at < count:
        if write_budget >= 0 or writes_are_judged:
            # One entry per call, so that the failure occurs at the exact byte.
            written = pwrite_all(fd, iov[at].iov_base, iov[at].iov_len, position)
            if written != 0:
                return <int>written
            position += <int64_t>iov[at].iov_len
            at += 1
            continue
        chunk = <int>(count - at) if count - at < IOV_MAX else IOV_MAX
        written = c_pwritev(fd, &iov[at], chunk, position)
        if written < 0:
            if errno == EINTR:
                continue
            return errno
        if written == 0 and iov[at].iov_len != 0:
            return EIO
        position += written
        while at < count and <size_t>written >= iov[at].iov_len:
            written -= <ssize_t>iov[at].iov_len
            at += 1
        if written > 0:
            iov[at].iov_base = <uint8_t*>iov[at].iov_base + written
            iov[at].iov_len -= <size_t>written
    return 0


cdef int pwrite_all(int fd, const void* data, size_t size, int64_t position) noexcept nogil:
    global write_budget
    cdef const uint8_t* p = <const uint8_t*>data
    cdef size_t want
    cdef ssize_t written
    cdef int error
    if writes_are_judged:
        error = judged(fd, size)
        if error != 0:
            return error
    while size > 0:
        want = size
        if write_budget >= 0:
            if write_budget == 0:
                return write_errno
            if <int64_t>want > write_budget:
                want = <size_t>write_budget
        written = c_pwrite(fd, p, want, position)
        if written < 0:
            if errno == EINTR:
                continue
            return errno
        if written == 0:
            return EIO
        if write_budget >= 0:
            write_budget -= written
        p += written
        position += written
        size -= <size_t>written
    return 0


cdef int pread_all(int fd, void* out, size_t size, int64_t position, Py_ssize_t* got) noexcept nogil:
    cdef uint8_t* p = <uint8_t*>out
    cdef ssize_t n
    cdef bint wait = not cached_only
    global read_refusals
    got[0] = 0
    if not wait and read_refusals > 0:
        read_refusals -= 1
        return EAGAIN
    if wait and reads_are_watched:
        report_read(size)
    while size > 0:
        n = c_pread(fd, p, size, position) if wait else read_cached(fd, p, size, position)
        if n < 0:
            if errno == EINTR:
                continue
            if not wait and errno != EAGAIN:
                wait = True             # a file system without RWF_NOWAIT (EOPNOTSUPP), or an error that pread reports, too
                continue
            return errno
        if n == 0:
            return 0
        p += n
        position += n
        size -= <size_t>n
        got[0] += n
    return 0


cdef void confine_reads(bint on) noexcept nogil:
    global cached_only
    cached_only = on


cdef bint reads_are_confined() noexcept nogil:
    return cached_only


cpdef bytes read_whole(object path):
    cdef Py_ssize_t got = 0
    cdef int fd, error
    cdef bytes data
    py_fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    fd = py_fd
    try:
        data = PyBytes_FromStringAndSize(NULL, os.fstat(fd).st_size)
        error = pread_all(fd, PyBytes_AS_STRING(data), len(data), 0, &got)
    finally:
        os.close(fd)
    if error == EAGAIN:
        raise ColdRead(path, 0, len(data))
    if error != 0:
        raise OSError(error, os.strerror(error), path)
    return data[:got]


def sync_file(path):
    """Sync the content of a file, through a separate descriptor. Returns whether the file exists. Raises OSError."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        os.fdatasync(fd)
    finally:
        os.close(fd)
    return True


def sync_filesystem(path):
    """Sync the whole file system that contains `path` (Linux syncfs); raises OSError."""
    cdef int fd, result
    py_fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    fd = py_fd
    try:
        with nogil:
            result = c_syncfs(fd)
        if result != 0:
            raise OSError(errno, os.strerror(errno), path)
    finally:
        os.close(py_fd)
