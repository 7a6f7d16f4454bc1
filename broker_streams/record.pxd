cdef class Record:
    cdef readonly object key
    cdef readonly object value
    cdef readonly object timestamp      # an int, in ms
    cdef readonly object headers


cdef inline Record new_record(object key, object value, object timestamp, object headers):
    # The constructor without its arguments as Python objects in a tuple.
    cdef Record made = Record.__new__(Record)
    made.key = key
    made.value = value
    made.timestamp = timestamp
    made.headers = headers
    return made
