"""The one gate that every request passes before its handler, whether that is written in C or in Python."""

from libc.stdint cimport int16_t

cdef enum:
    API_KEYS = 128

cdef enum:
    REFUSED = 0                     # the connection is closed; `refusal` is the reason
    ADMITTED = 1
    WITHOUT_BODY = 2                # the handler runs, with version -1 and without a request

cdef class Gate:
    cdef int16_t min_version[API_KEYS]
    cdef int16_t max_version[API_KEYS]
    cdef public object rule
    cdef readonly str refusal       # of the last request that was refused

    cdef Gate without(self, object keys)
    cdef int judge(self, int16_t key, int16_t version, str principal, str listener) except -1


cdef inline bint admits_at_once(Gate gate, int16_t key, int16_t version) noexcept:
    """Whether `judge` would return ADMITTED without calling the rule: the usual case, decided without a call."""
    return (gate.rule is None and 0 <= key < API_KEYS
            and gate.min_version[key] <= version <= gate.max_version[key])


cdef str api_name(int16_t key)
