from libc.stdint cimport uint32_t

# CRC-32C of the `n` bytes at `p`, continuing from `crc` (0 starts; a finished value continues). Runs the fastest implementation
# of this processor.
cdef uint32_t crc32c(uint32_t crc, const void* p, size_t n) noexcept nogil
