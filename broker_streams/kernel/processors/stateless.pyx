"""Processors of the steps without a store.

They pass records on with the timestamp and the headers that they got, and except for a branch they have no child to
choose. The functions of the step are called with Python objects; the way from node to node is in C.
"""

from broker_streams.kernel.forward cimport Forward, Node, as_forward
from broker_streams.record cimport Record, new_record

from broker_streams.kernel.operators import operator
from broker_streams.plan.steps import stateless as steps
from broker_streams.plan.steps import tables as table_steps


cdef class Filter(Node):
    cdef object predicate
    cdef bint negate

    def __init__(self, step):
        self.predicate = step.predicate.call
        self.negate = step.negate

    cdef int take(self, Record record) except -1:
        cdef bint found = self.predicate(record.key, record.value)
        if found != self.negate:
            self.children.take(record)
        return 0


cdef class FilterNullKey(Node):
    def __init__(self, step):
        pass

    cdef int take(self, Record record) except -1:
        if record.key is not None:
            self.children.take(record)
        return 0


cdef class Map(Node):
    cdef object mapper

    def __init__(self, step):
        self.mapper = step.mapper.call

    cdef int take(self, Record record) except -1:
        cdef tuple found = pair(self.mapper(record.key, record.value))
        self.children.take(new_record(found[0], found[1], record.timestamp, record.headers))
        return 0


cdef class FlatMap(Node):
    cdef object mapper

    def __init__(self, step):
        self.mapper = step.mapper.call

    cdef int take(self, Record record) except -1:
        cdef tuple found
        pairs = self.mapper(record.key, record.value)
        if pairs is None:
            raise TypeError("a mapper of flat_map returned None; it returns an iterable of (key, value)")
        for each in pairs:
            found = pair(each)
            self.children.take(new_record(found[0], found[1], record.timestamp, record.headers))
        return 0


cdef class SelectKey(Node):
    cdef object mapper

    def __init__(self, step):
        self.mapper = step.mapper.call

    cdef int take(self, Record record) except -1:
        key = self.mapper(record.key, record.value)
        self.children.take(new_record(key, record.value, record.timestamp, record.headers))
        return 0


cdef class MapValues(Node):
    cdef object mapper
    cdef bint with_key

    def __init__(self, step):
        self.mapper = step.mapper.call
        self.with_key = step.with_key

    cdef int take(self, Record record) except -1:
        value = self.mapper(record.key, record.value) if self.with_key else self.mapper(record.value)
        self.children.take(new_record(record.key, value, record.timestamp, record.headers))
        return 0


cdef class FlatMapValues(Node):
    cdef object mapper
    cdef bint with_key

    def __init__(self, step):
        self.mapper = step.mapper.call
        self.with_key = step.with_key

    cdef int take(self, Record record) except -1:
        values = self.mapper(record.key, record.value) if self.with_key else self.mapper(record.value)
        for value in values:
            self.children.take(new_record(record.key, value, record.timestamp, record.headers))
        return 0


cdef class Branch(Node):
    """A record goes to one child only: the first whose predicate is true."""

    cdef object step
    cdef list predicates
    cdef list branches
    cdef Forward default

    def __init__(self, step):
        self.step = step

    def init(self, context):
        """Raises LookupError: a branch of the step is no child."""
        Node.init(self, context)
        step = self.step
        self.predicates = [each.call for each, _ in step.children]
        self.branches = [as_forward(context.child(name)) for _, name in step.children]
        self.default = None if step.default is None else as_forward(context.child(step.default))

    cdef int take(self, Record record) except -1:
        cdef Py_ssize_t index = 0
        for predicate in self.predicates:
            if predicate(record.key, record.value):
                (<Forward>self.branches[index]).take(record)
                return 0
            index += 1
        if self.default is not None:
            self.default.take(record)
        return 0


cdef class PassThrough(Node):
    def __init__(self, step):
        pass

    cdef int take(self, Record record) except -1:
        self.children.take(record)
        return 0


cdef class TableToStream(Node):
    def __init__(self, step):
        pass

    cdef int take(self, Record record) except -1:
        self.children.take(new_record(record.key, record.value.new, record.timestamp, record.headers))
        return 0


cdef class Peek(Node):
    cdef object action
    cdef bint forwards

    def __init__(self, step):
        self.action = step.action.call
        self.forwards = step.forwards

    cdef int take(self, Record record) except -1:
        self.action(record.key, record.value)
        if self.forwards:
            self.children.take(record)
        return 0


cdef class Print(Node):
    cdef object write
    cdef object label
    cdef object mapper

    def __init__(self, step):
        self.write = step.write.call
        self.label = step.label
        self.mapper = key_and_value if step.mapper is None else step.mapper.call

    cdef int take(self, Record record) except -1:
        self.write(f"[{self.label}]: {self.mapper(record.key, record.value)}")
        return 0


def key_and_value(key, value):
    return f"{key}, {value}"


cdef tuple pair(object found):
    # Raises TypeError: a mapper returned something else than a pair of key and value.
    if type(found) is tuple and len(found) == 2:
        return found
    try:
        key, value = found
    except (TypeError, ValueError):
        raise TypeError(f"a mapper returned {found!r}; it returns (key, value)") from None
    return key, value


operator(steps.Filter)(Filter)
operator(steps.FilterNullKey)(FilterNullKey)
operator(steps.Map)(Map)
operator(steps.FlatMap)(FlatMap)
operator(steps.SelectKey)(SelectKey)
operator(steps.MapValues)(MapValues)
operator(steps.FlatMapValues)(FlatMapValues)
operator(steps.Branch)(Branch)
operator(steps.PassThrough)(PassThrough)
operator(steps.Peek)(Peek)
operator(table_steps.TableToStream)(TableToStream)
operator(steps.Print)(Print)
