from broker_streams.kernel.stores.cache cimport Entry, StoreCache


cdef class KeyRows:
    cdef StoreCache rows
    cdef public object _cache
    cdef public object _below
    # Gets key, new value, old value, and the record of the change as Entry.
    cdef public object listener
    cdef public bint send_old_values
    cdef object row(self, bytes key)
    cdef int keep(self, bytes key, object value) except -1
    cpdef object flush_entry(self, bytes key, Entry entry)
