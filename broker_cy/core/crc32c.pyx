"""CRC-32C (Castagnoli), the checksum of record batches (RFC 3720, appendix B.4), in hardware if the processor supports it."""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from libc.stdint cimport uint32_t


cdef extern from "includes/crc32c_impl.h" nogil:
    ctypedef uint32_t (*bcy_crc32c_fn)(uint32_t crc, const void* data, size_t size) noexcept nogil
    ctypedef struct bcy_crc32c_implementation:
        const char* name
        bcy_crc32c_fn run
    uint32_t bcy_crc32c(uint32_t crc, const void* data, size_t size) noexcept
    const bcy_crc32c_implementation* bcy_crc32c_usable(size_t index) noexcept


cdef uint32_t crc32c(uint32_t crc, const void* p, size_t n) noexcept nogil:
    return bcy_crc32c(crc, p, n)


cdef uint32_t over_buffer(bcy_crc32c_fn run, uint32_t crc, data) except? 0:
    cdef Py_buffer view
    PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
    try:
        return run(crc, view.buf, <size_t>view.len)
    finally:
        PyBuffer_Release(&view)


def value(data not None, uint32_t crc=0):
    """CRC-32C of `data`, continuing from `crc`: value(b, value(a)) == value(a + b)."""
    return over_buffer(bcy_crc32c, crc, data)


def implementations():
    """Names of the implementations this processor can run, slowest first; `value` uses the last."""
    names = []
    cdef const bcy_crc32c_implementation* each = bcy_crc32c_usable(0)
    while each != NULL:
        names.append(each.name.decode("ascii"))
        each = bcy_crc32c_usable(len(names))
    return tuple(names)


def value_with(str implementation not None, data not None, uint32_t crc=0):
    """`value` by a named implementation, so that tests reach each one. Raises ValueError for a name not in
    `implementations()`."""
    cdef size_t index = 0
    cdef const bcy_crc32c_implementation* each = bcy_crc32c_usable(0)
    while each != NULL:
        if each.name.decode("ascii") == implementation:
            return over_buffer(each.run, crc, data)
        index += 1
        each = bcy_crc32c_usable(index)
    raise ValueError(f"CRC-32C implementation {implementation!r} is not one of {', '.join(implementations())}")
