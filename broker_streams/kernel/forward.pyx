"""The way of a record from node to node of a task: calls in C, with Python only where a node is Python.

A Forward is such a call. `take` is its form in C, and Python calls the object. Nodes whose code is in C (`Node`) call
each other without a Python object for arguments or results.
"""

from libc.limits cimport LLONG_MAX, LLONG_MIN

from broker_streams.record cimport Record

from broker_streams.kernel.errors import FailedProcessing
from broker_streams.records import NO_HEADERS, RecordMetadata


cdef class Spread:
    """Values since the begin: how many, their total, and the least and the largest one since `take`."""

    def __cinit__(self):
        self.forget()

    cdef forget(self):
        self.least, self.most = LLONG_MAX, LLONG_MIN

    cdef int add(self, long long value) except -1:
        self.count += 1
        self.total += value
        if value < self.least:
            self.least = value
        if value > self.most:
            self.most = value
        return 0

    def take(self):
        """The least and the largest value since the last call; None: there was none."""
        found = None if self.least > self.most else (self.least, self.most)
        self.forget()
        return found


cdef class Moment:
    """The part of the state of a task that changes with each record."""

    def __cinit__(self):
        self.lateness = Spread()
        self.stream_time_ms = -1
        self.timestamp = -1
        self.headers = NO_HEADERS

    @property
    def metadata(self):
        """The place of the input record that is processed now; None outside one: in a punctuation."""
        return None if self.topic is None else RecordMetadata(self.topic, self.partition, self.offset)

    @metadata.setter
    def metadata(self, place):
        self.topic = None
        if place is not None:
            self.topic, self.partition, self.offset = place


cdef class Due:
    """A time from which on there is something to do."""


cdef class Forward:
    """A call with one argument, a Record."""

    cdef int take(self, Record record) except -1:
        raise NotImplementedError

    def __call__(self, Record record not None):
        self.take(record)


cdef class Calls(Forward):
    """A call in Python."""

    cdef object call

    def __cinit__(self, call):
        self.call = call

    cdef int take(self, Record record) except -1:
        self.call(record)
        return 0


cdef class ToAll(Forward):
    """Calls one after the other."""

    cdef tuple calls

    def __cinit__(self, tuple calls not None):
        self.calls = calls

    cdef int take(self, Record record) except -1:
        for call in self.calls:
            (<Forward>call).take(record)
        return 0


cdef class Stamped(Forward):
    """Passes records on whose timestamp and headers stores and caches below shall see."""

    cdef Moment moment
    cdef Forward children

    def __cinit__(self, Moment moment not None, children):
        self.moment = moment
        self.children = as_forward(children)

    cdef int take(self, Record record) except -1:
        cdef Moment moment = self.moment
        timestamp, headers = moment.timestamp, moment.headers
        moment.timestamp, moment.headers = record.timestamp, record.headers
        try:
            self.children.take(record)
        finally:
            moment.timestamp, moment.headers = timestamp, headers
        return 0


cdef class Guard(Forward):
    """A processor: an error in it, or in a sink below it, goes to `failures`."""

    cdef Forward inner
    cdef object node
    cdef object failures

    def __cinit__(self, node, Forward inner not None, failures):
        self.node = node
        self.inner = inner
        self.failures = failures

    cdef int take(self, Record record) except -1:
        try:
            self.inner.take(record)
        except FailedProcessing:
            raise
        except Exception as error:
            self.failures.processing(self.node, record, error)
        return 0


cdef class Latency(Forward):
    """A node without children: the time from the timestamp of a record until the node has processed it."""

    cdef Forward inner
    cdef Moment moment
    cdef Spread spread

    def __cinit__(self, Forward inner not None, Moment moment not None, Spread spread not None):
        self.inner = inner
        self.moment = moment
        self.spread = spread

    cdef int take(self, Record record) except -1:
        cdef long long timestamp = record.timestamp
        self.inner.take(record)
        self.spread.add(self.moment.system_time_ms - timestamp)
        return 0


cdef class Node(Forward):
    """A processor whose `take` is in C; for all others it looks like a Processor.

    `children` passes a record with the timestamp and headers of the one that is processed to all children.
    """

    def init(self, context):
        self.context = context
        self.children = as_forward(context.forward_all)

    def process(self, Record record not None):
        self.take(record)

    def close(self):
        """Called once after the last record."""


cdef Forward as_forward(object call):
    return <Forward>call if isinstance(call, Forward) else Calls(call)


def to_all(calls):
    """One call in place of several, which it makes in their order."""
    cdef tuple found = tuple([as_forward(call) for call in calls])
    return found[0] if len(found) == 1 else ToAll(found)


def stamped(moment, children):
    """A call that passes a record on, and shows its timestamp and headers in `moment` meanwhile."""
    return Stamped(moment, children)


def guarded(node, processor, failures):
    """The call of a processor, whose errors go to `failures.processing(node, record, error)`."""
    return Guard(node, processor if isinstance(processor, Node) else Calls(processor.process), failures)


def measured(call, moment, spread):
    """The call of a node without children; `spread` takes the latencies of its records in ms."""
    return Latency(as_forward(call), moment, spread)
