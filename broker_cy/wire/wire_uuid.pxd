from libc.stdint cimport uint64_t


cdef object make_uuid(uint64_t high, uint64_t low)
