cdef class Format:
    cdef int kind
    cdef object serializer
    cdef object deserializer
    cdef object write(self, object topic, object value, object headers)
    cdef object read(self, object topic, object data, object headers)


cdef Format format_of(object serde)
