from broker_streams.kernel.forward cimport Moment
from broker_streams.kernel.stores.ordered cimport OrderedKeys


cdef class Entry:
    cdef readonly object value              # bytes, or None
    cdef readonly Py_ssize_t size_bytes
    cdef readonly object timestamp
    cdef readonly object headers
    cdef object topic                       # None: no record wrote it
    cdef object partition
    cdef long long offset


cdef class Node:
    cdef bytes key
    cdef Entry entry
    cdef Node older
    cdef Node newer
    cdef bint is_dirty
    cdef Node changed_before
    cdef Node changed_after


cdef class Cache:
    cdef public long long max_bytes
    cdef public long long size_bytes


cdef class StoreCache:
    cdef Cache cache
    cdef Moment task
    cdef object flush_entry
    cdef dict nodes
    cdef OrderedKeys keys
    cdef Node oldest
    cdef Node newest
    cdef Node first_changed
    cdef Node last_changed
    cpdef Entry get(self, bytes key)
    cpdef int put(self, bytes key, value) except -1
    cdef Entry written(self, Py_ssize_t key_bytes, object value)
    cdef int keep(self, bytes key, Entry entry, bint is_dirty) except -1
    cdef int unlink(self, Node node) except -1
    cdef int link(self, Node node) except -1
    cdef int unlink_changed(self, Node node) except -1
    cdef int link_changed(self, Node node) except -1
    cdef int evict(self) except -1
    cdef int write(self, Node evicted) except -1
    cdef int forget(self, bytes key, Entry entry) except -1
