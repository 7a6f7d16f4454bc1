"""The C functions that the load driver and the floor call, and their encoding of numbers."""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy
from posix.time cimport CLOCK_MONOTONIC, CLOCK_THREAD_CPUTIME_ID, clock_gettime, timespec
from posix.types cimport off_t


cdef extern from "../wire/includes/bench_crc32c.h" nogil:
    uint32_t bench_crc32c(const uint8_t* p, size_t n)
    uint32_t bench_crc32c_zeros(uint32_t crc, size_t n)

cdef extern from "<sys/uio.h>" nogil:
    struct iovec:
        void* iov_base
        size_t iov_len
    ssize_t writev(int fd, const iovec* iov, int count)

cdef extern from "<sys/socket.h>" nogil:
    enum: MSG_MORE
    ssize_t recv(int fd, void* buf, size_t n, int flags)
    ssize_t send(int fd, const void* buf, size_t n, int flags)

cdef extern from "<sys/sendfile.h>" nogil:
    ssize_t sendfile(int to, int source, off_t* offset, size_t n)

cdef extern from "<sys/prctl.h>" nogil:
    enum: PR_SET_TIMERSLACK
    int prctl(int option, unsigned long a, unsigned long b, unsigned long c, unsigned long d)

cdef extern from "<sys/epoll.h>" nogil:
    enum: EPOLLIN, EPOLLOUT, EPOLLERR, EPOLLHUP, EPOLL_CTL_ADD, EPOLL_CTL_DEL, EPOLL_CTL_MOD, EPOLL_CLOEXEC
    ctypedef union epoll_data_t:
        uint32_t u32
    struct epoll_event:
        uint32_t events
        epoll_data_t data
    int epoll_create1(int flags)
    int epoll_ctl(int epfd, int op, int fd, epoll_event* event)
    int epoll_pwait2(int epfd, epoll_event* events, int n, const timespec* timeout, const void* sigmask)

cdef extern from *:
    uint32_t swap32 "__builtin_bswap32"(uint32_t) nogil
    uint64_t swap64 "__builtin_bswap64"(uint64_t) nogil

cdef extern from *:
    """
    #define bench_load_acquire(p) __atomic_load_n((p), __ATOMIC_ACQUIRE)
    #define bench_store_release(p, v) __atomic_store_n((p), (v), __ATOMIC_RELEASE)
    """
    int64_t load_acquire "bench_load_acquire"(const int64_t* p) nogil
    void store_release "bench_store_release"(int64_t* p, int64_t v) nogil


cdef inline int64_t now_ns() noexcept nogil:
    cdef timespec t
    clock_gettime(CLOCK_MONOTONIC, &t)
    return <int64_t> t.tv_sec * 1000000000 + t.tv_nsec


cdef inline int64_t thread_cpu_ns() noexcept nogil:
    cdef timespec t
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t)
    return <int64_t> t.tv_sec * 1000000000 + t.tv_nsec


cdef inline int32_t get32(const uint8_t* p) noexcept nogil:
    cdef uint32_t v
    memcpy(&v, p, 4)
    return <int32_t> swap32(v)


cdef inline int64_t get64(const uint8_t* p) noexcept nogil:
    cdef uint64_t v
    memcpy(&v, p, 8)
    return <int64_t> swap64(v)


cdef inline void put32(uint8_t* p, int32_t value) noexcept nogil:
    cdef uint32_t v = swap32(<uint32_t> value)
    memcpy(p, &v, 4)


cdef inline void put64(uint8_t* p, int64_t value) noexcept nogil:
    cdef uint64_t v = swap64(<uint64_t> value)
    memcpy(p, &v, 8)
