cdef class OrderedKeys:
    cdef list chunks
    cdef list lasts                 # the last key of each chunk
    cdef list new
    cdef Py_ssize_t count
    cdef Py_ssize_t chunk_keys
    cdef Py_ssize_t few
    cdef readonly object add
    cdef int put(self, bytes key) except -1
    cdef int order(self) except -1
    cdef int insert(self, bytes key) except -1
    cpdef object clear(self)
    cpdef object remove(self, bytes key)
    cpdef list between(self, bytes low=*, bytes high=*, bint with_high=*, bint reverse=*)
    cpdef bytes first_from(self, bytes low)
    cpdef bytes last_below(self, bytes high)


cdef class OrderedMap:
    cdef dict values
    cdef OrderedKeys keys
    cdef readonly object get
    cpdef object put(self, bytes key, value)
