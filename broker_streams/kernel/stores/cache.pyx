"""The cache of a task: it keeps back changes of rows until a commit, or until it is full.

The order in which changes leave the cache decides the order of results, so it is Kafka's (ThreadCache, NamedCache):
- a commit writes the changed rows of a store in the order of their last change;
- a put beyond the bound evicts the row of the same store that was not used for the longest time; if that row was
  changed, it is written first, and all other changed rows of the store after it.
"""

cimport cython

from broker_streams.kernel.forward cimport Moment
from broker_streams.kernel.stores.ordered cimport OrderedKeys

from broker_streams.records import NO_HEADERS, RecordMetadata

cdef enum:
    # Kafka's estimate of an entry: three references of a list node, a flag, timestamp, offset and partition.
    ENTRY_BYTES = 24 + 1 + 20


@cython.freelist(64)
cdef class Entry:
    """A row and the record that wrote it. A row that was read has no such record; its timestamp is -1."""

    @property
    def metadata(self):
        """The place of the input record; None: it was written outside of one, or read."""
        return None if self.topic is None else RecordMetadata(self.topic, self.partition, self.offset)


cdef class Node:
    """The place of a row in two lists: that of use, and that of changes."""


cdef class Cache:
    """The rows that all stores of a task keep back: at most `max_bytes` by Kafka's estimate."""

    def __init__(self, long long max_bytes):
        self.max_bytes = max_bytes
        self.size_bytes = 0


cdef Py_ssize_t headers_bytes(object headers) except -1:
    # Java counts UTF-16 units of a name.
    cdef Py_ssize_t size = 0
    for name, value in headers:
        size += len(name.encode("utf-16-le")) // 2 + (0 if value is None else len(value))
    return size


cdef class StoreCache:
    """The rows of one store. `flush_entry` writes a changed row to the store below and passes the change on."""

    def __init__(self, Cache cache not None, Moment task not None, flush_entry):
        self.cache = cache
        self.task = task
        self.flush_entry = flush_entry
        self.nodes = {}
        self.keys = OrderedKeys()

    cdef int unlink(self, Node node) except -1:
        if node.older is None:
            self.oldest = node.newer
        else:
            node.older.newer = node.newer
        if node.newer is None:
            self.newest = node.older
        else:
            node.newer.older = node.older
        node.older = node.newer = None
        return 0

    cdef int link(self, Node node) except -1:
        # The row that was used last is the newest one.
        node.older = self.newest
        if self.newest is None:
            self.oldest = node
        else:
            self.newest.newer = node
        self.newest = node
        return 0

    cdef int unlink_changed(self, Node node) except -1:
        if node.changed_before is None:
            self.first_changed = node.changed_after
        else:
            node.changed_before.changed_after = node.changed_after
        if node.changed_after is None:
            self.last_changed = node.changed_before
        else:
            node.changed_after.changed_before = node.changed_before
        node.changed_before = node.changed_after = None
        node.is_dirty = False
        return 0

    cdef int link_changed(self, Node node) except -1:
        node.changed_before = self.last_changed
        if self.last_changed is None:
            self.first_changed = node
        else:
            self.last_changed.changed_after = node
        self.last_changed = node
        node.is_dirty = True
        return 0

    cpdef Entry get(self, bytes key):
        """The row, which counts as used; None: there is none."""
        found = self.nodes.get(key)
        if found is None:
            return None
        cdef Node node = <Node>found
        if node is not self.newest:
            self.unlink(node)
            self.link(node)
        return node.entry

    cdef Entry written(self, Py_ssize_t key_bytes, object value):
        # A row that the record writes which is processed now.
        cdef Moment task = self.task
        cdef Entry entry = Entry.__new__(Entry)
        entry.value = value
        entry.size_bytes = ENTRY_BYTES + key_bytes
        entry.timestamp = task.timestamp
        entry.headers = task.headers
        if value is not None:
            entry.size_bytes += len(value)
        if task.topic is not None:
            entry.topic = task.topic
            entry.partition = task.partition
            entry.offset = task.offset
            entry.size_bytes += len(task.topic)
        if entry.headers:
            entry.size_bytes += headers_bytes(entry.headers)
        return entry

    cpdef int put(self, bytes key, value) except -1:
        """Keep a change of the record that is processed now. None: the row was deleted."""
        return self.keep(key, self.written(len(key), value), True)

    def put_read(self, bytes key not None, bytes value not None):
        """Keep a row that was read from the store below."""
        cdef Entry entry = Entry.__new__(Entry)
        entry.value = value
        entry.size_bytes = ENTRY_BYTES + len(key) + len(value)
        entry.timestamp = -1
        entry.headers = NO_HEADERS
        self.keep(key, entry, False)

    cdef int keep(self, bytes key, Entry entry, bint is_dirty) except -1:
        cdef Node node
        found = self.nodes.get(key)
        if found is None:
            node = Node.__new__(Node)
            node.key = key
            self.nodes[key] = node
            self.keys.put(key)
            self.cache.size_bytes += entry.size_bytes
            self.link(node)
        else:
            node = <Node>found
            self.cache.size_bytes += entry.size_bytes - node.entry.size_bytes
            if node is not self.newest:
                self.unlink(node)
                self.link(node)
        node.entry = entry
        if is_dirty:
            if node.is_dirty:
                self.unlink_changed(node)
            self.link_changed(node)
        while self.cache.size_bytes > self.cache.max_bytes and self.oldest is not None:
            self.evict()
        return 0

    cdef int evict(self) except -1:
        cdef Node node = self.oldest
        self.unlink(node)
        del self.nodes[node.key]
        self.keys.remove(node.key)
        self.cache.size_bytes -= node.entry.size_bytes
        if node.is_dirty:
            self.unlink_changed(node)
            self.write(node)
        return 0

    def flush(self):
        """Write all changed rows."""
        if self.first_changed is not None:
            self.write(None)

    cdef int write(self, Node evicted) except -1:
        cdef Node node = self.first_changed
        cdef Entry entry
        cdef Moment task = self.task
        cdef list changed = [] if evicted is None else [(evicted.key, evicted.entry)]
        while node is not None:
            changed.append((node.key, node.entry))
            self.unlink_changed(node)
            node = self.first_changed
        timestamp, headers, topic, partition, offset = task.timestamp, task.headers, task.topic, task.partition, task.offset
        try:
            for key, each in changed:
                entry = <Entry>each
                task.timestamp, task.headers = entry.timestamp, entry.headers
                task.topic, task.partition, task.offset = entry.topic, entry.partition, entry.offset
                self.flush_entry(key, entry)
        finally:
            task.timestamp, task.headers = timestamp, headers
            task.topic, task.partition, task.offset = topic, partition, offset
        for key, each in changed:
            if (<Entry>each).value is None:
                self.forget(key, each)
        return 0

    cdef int forget(self, bytes key, Entry entry) except -1:
        # A deleted row, unless it was evicted or a listener wrote it again meanwhile.
        cdef Node node
        found = self.nodes.get(key)
        if found is None:
            return 0
        node = <Node>found
        if node.entry is entry:
            self.unlink(node)
            del self.nodes[key]
            self.keys.remove(key)
            self.cache.size_bytes -= entry.size_bytes
        return 0

    def items(self, low=None, high=None, with_high=True, reverse=False):
        """Rows from `low` to `high`; None as a value: the row was deleted. A row that is evicted meanwhile is left out.

        Each row counts as used, as it does for Kafka.
        """
        cdef Entry entry
        for key in self.keys.between(low, high, with_high, reverse):
            entry = self.get(key)
            if entry is not None:
                yield key, entry.value

    def first_from(self, bytes low not None):
        return self.keys.first_from(low)

    def last_below(self, bytes high not None):
        return self.keys.last_below(high)

    def clear(self):
        """Forget all rows, changed ones too."""
        cdef Node node
        for node in self.nodes.values():
            self.cache.size_bytes -= node.entry.size_bytes
            node.older = node.newer = node.changed_before = node.changed_after = None
        self.nodes.clear()
        self.keys.clear()
        self.oldest = self.newest = self.first_changed = self.last_changed = None

    def __len__(self):
        return len(self.nodes)
