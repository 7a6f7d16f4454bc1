from libc.stdint cimport uint8_t, uint32_t

# The hash of n bytes by which Kafka's clients place keys.
cdef uint32_t murmur2_of(const uint8_t* p, Py_ssize_t n) noexcept nogil
