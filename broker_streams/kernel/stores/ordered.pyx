"""Keys in the order of their unsigned bytes, and a map of them: the memory below all stores.

A new key waits in a list until an iteration needs the order, because most stores are written far more often than they
are iterated. Ordered keys lie in chunks, so a key in the middle moves few others.
"""

from bisect import insort

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from cpython.list cimport PyList_GET_ITEM, PyList_GET_SIZE
from libc.string cimport memcmp

# Keys of a chunk; a chunk of twice as many is split.
CHUNK = 512
# This many waiting keys are inserted one by one; more of them are sorted together with a large part of all keys.
FEW = 64


cdef inline bint is_below(bytes one, bytes other):
    cdef Py_ssize_t size = PyBytes_GET_SIZE(one), other_size = PyBytes_GET_SIZE(other)
    cdef int order = memcmp(PyBytes_AS_STRING(one), PyBytes_AS_STRING(other), <size_t>min(size, other_size))
    return order < 0 or (order == 0 and size < other_size)


cdef Py_ssize_t left_of(list keys, bytes key) except -1:
    # The number of keys below `key`.
    cdef Py_ssize_t low = 0, high = PyList_GET_SIZE(keys), middle
    while low < high:
        middle = (low + high) // 2
        if is_below(<bytes?>(<object>PyList_GET_ITEM(keys, middle)), key):
            low = middle + 1
        else:
            high = middle
    return low


cdef Py_ssize_t right_of(list keys, bytes key) except -1:
    # The number of keys that are not above `key`.
    cdef Py_ssize_t low = 0, high = PyList_GET_SIZE(keys), middle
    while low < high:
        middle = (low + high) // 2
        if is_below(key, <bytes?>(<object>PyList_GET_ITEM(keys, middle))):
            high = middle
        else:
            low = middle + 1
    return low


cdef object last_of(list keys):
    return keys[PyList_GET_SIZE(keys) - 1]


cdef class OrderedKeys:
    """A set of keys. The caller adds a key that is absent, and removes a key that is present."""

    def __init__(self, Py_ssize_t chunk_keys=CHUNK, Py_ssize_t few=FEW):
        self.chunk_keys, self.few = chunk_keys, few
        self.chunks = []
        self.lasts = []
        self.count = 0
        self.new = []
        # Adds a key: the append of the waiting list, without a call in between.
        self.add = self.new.append

    cdef int put(self, bytes key) except -1:
        self.new.append(key)
        return 0

    def add_all(self, keys):
        """Add keys that are absent."""
        self.new.extend(keys)

    cpdef object clear(self):
        self.chunks.clear()
        self.lasts.clear()
        self.new.clear()
        self.count = 0

    cdef int order(self) except -1:
        # Take the waiting keys into the chunks.
        cdef list new = self.new
        cdef Py_ssize_t size = PyList_GET_SIZE(new)
        if size > self.few and size * 8 > self.count:
            keys = sorted([key for chunk in self.chunks for key in chunk] + new)
            self.chunks = [keys[at : at + self.chunk_keys] for at in range(0, len(keys), self.chunk_keys)]
            self.lasts = [last_of(chunk) for chunk in self.chunks]
        else:
            for key in new:
                self.insert(key)
        self.count += size
        new.clear()
        return 0

    cdef int insert(self, bytes key) except -1:
        cdef list lasts = self.lasts, chunk
        cdef Py_ssize_t at
        if not lasts:
            self.chunks.append([key])
            lasts.append(key)
            return 0
        at = left_of(lasts, key)
        if at == PyList_GET_SIZE(lasts):
            at -= 1
            lasts[at] = key
            chunk = self.chunks[at]
            chunk.append(key)
        else:
            chunk = self.chunks[at]
            insort(chunk, key)
        if PyList_GET_SIZE(chunk) > 2 * self.chunk_keys:
            self.chunks.insert(at + 1, chunk[self.chunk_keys:])
            del chunk[self.chunk_keys:]
            lasts.insert(at, last_of(chunk))
        return 0

    cpdef object remove(self, bytes key):
        cdef Py_ssize_t at
        cdef list chunk
        if self.new:
            self.order()
        at = left_of(self.lasts, key)
        chunk = self.chunks[at]
        del chunk[left_of(chunk, key)]
        self.count -= 1
        if not chunk:
            del self.chunks[at]
            del self.lasts[at]
        elif self.lasts[at] == key:
            self.lasts[at] = last_of(chunk)

    cpdef list between(self, bytes low=None, bytes high=None, bint with_high=True, bint reverse=False):
        """A copy of the keys from `low` to `high` in their order; None: no bound."""
        cdef list lasts, chunk, keys = []
        cdef Py_ssize_t first, last, at, begin, end
        if self.new:
            self.order()
        lasts = self.lasts
        first = left_of(lasts, low) if low is not None else 0
        last = PyList_GET_SIZE(lasts) - 1
        if high is not None:
            last = min(left_of(lasts, high), last)
        for at in range(first, last + 1):
            chunk = self.chunks[at]
            begin = left_of(chunk, low) if low is not None and at == first else 0
            end = PyList_GET_SIZE(chunk)
            if high is not None and at == last:
                end = right_of(chunk, high) if with_high else left_of(chunk, high)
            keys += chunk[begin:end] if begin or end < PyList_GET_SIZE(chunk) else chunk
        if reverse:
            keys.reverse()
        return keys

    cpdef bytes first_from(self, bytes low):
        """The first key that is not below `low`."""
        cdef Py_ssize_t at
        cdef list chunk
        if self.new:
            self.order()
        at = left_of(self.lasts, low)
        if at == PyList_GET_SIZE(self.lasts):
            return None
        chunk = self.chunks[at]
        return chunk[left_of(chunk, low)]

    cpdef bytes last_below(self, bytes high):
        """The last key below `high`."""
        cdef Py_ssize_t at, index
        cdef list chunk
        if self.new:
            self.order()
        at = left_of(self.lasts, high)
        if at < PyList_GET_SIZE(self.lasts):
            chunk = self.chunks[at]
            index = left_of(chunk, high)
            if index:
                return chunk[index - 1]
        return self.lasts[at - 1] if at else None

    def __iter__(self):
        return iter(self.between())

    def __len__(self):
        return self.count + PyList_GET_SIZE(self.new)


cdef class OrderedMap:
    """Values by keys. An iteration is a snapshot: it shows what the map held when it began."""

    def __init__(self):
        self.values = {}
        self.keys = OrderedKeys()
        # The value of a key, or None: the lookup of the dictionary, without a call in between.
        self.get = self.values.get

    cpdef object put(self, bytes key, value):
        """Set the value of a key; None removes the key."""
        if value is not None:
            if key not in self.values:
                self.keys.put(key)
            self.values[key] = value
        elif key in self.values:
            del self.values[key]
            self.keys.remove(key)

    def put_all(self, rows):
        for key, value in rows.items():
            self.put(key, value)

    def items(self, low=None, high=None, with_high=True, reverse=False):
        """Pairs from `low` to `high`; None: no bound."""
        cdef dict values = self.values
        return iter([(key, values[key]) for key in self.keys.between(low, high, with_high, reverse)])

    def clear(self):
        self.values.clear()
        self.keys.clear()

    def __len__(self):
        return len(self.values)

    def estimate(self):
        return len(self.values)
