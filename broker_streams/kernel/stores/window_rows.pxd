from broker_streams.kernel.stores.cache cimport Entry, StoreCache


cdef class WindowRows:
    cdef StoreCache rows
    cdef public object _cache
    cdef public object _below
    cdef readonly long long interval_ms
    cdef readonly bint by_time
    cdef public long long latest_ms
    # Gets key and start of the window, new value, old value, and its Entry.
    cdef public object listener
    cdef public bint send_old_values
    cdef bytes cache_key(self, bytes key, long long start_ms)
    cdef object row(self, bytes key, bytes cache_key, long long start_ms)
    cpdef object flush_entry(self, bytes cache_key, Entry entry)
    cdef int keep(self, bytes cache_key, object value, long long start_ms) except -1
