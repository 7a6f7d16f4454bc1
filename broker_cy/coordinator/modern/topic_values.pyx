"""Looks at all topics of a member, in C: a member may have 10,000, and one turn of the loop takes several of these looks."""

from cpython.dict cimport PyDict_DelItem, PyDict_GetItemWithError, PyDict_Next, PyDict_SetItem, PyDict_Size
from cpython.list cimport PyList_GET_ITEM, PyList_GET_SIZE
from cpython.long cimport PyLong_AsUnsignedLongLongMask, PyLong_FromVoidPtr
from cpython.object cimport Py_LE, PyObject, PyObject_RichCompareBool
from libc.stdint cimport uint64_t
from libc.stdlib cimport free, malloc, qsort

from broker_cy.wire.layout cimport get_slot, slot_offset

from uuid import UUID as PyUUID

cdef extern from "Python.h":
    PyObject* PyDict_SetDefault(object mapping, object key, object value) except NULL

cdef Py_ssize_t INT = slot_offset(PyUUID, "int")


cdef inline dict as_dict(object mapping):
    return <dict>mapping if type(mapping) is dict else dict(mapping)


cdef struct Place:
    # The number of an id, and its index in the list.
    uint64_t high
    uint64_t low
    Py_ssize_t at


cdef int order_of(const void* first, const void* second) noexcept nogil:
    cdef const Place* one = <const Place*>first
    cdef const Place* two = <const Place*>second
    if one.high != two.high:
        return -1 if one.high < two.high else 1
    if one.low != two.low:
        return -1 if one.low < two.low else 1
    return 0


cdef list sorted_ids(list ids):
    cdef list found = []
    cdef Py_ssize_t size = PyList_GET_SIZE(ids), i
    cdef object number
    cdef Place* places = <Place*>malloc(size * sizeof(Place))
    if places == NULL:
        raise MemoryError(f"no memory for the order of {size} ids")
    try:
        for i in range(size):
            number = get_slot(<object>PyList_GET_ITEM(ids, i), INT)
            places[i].high = PyLong_AsUnsignedLongLongMask(number >> 64)
            places[i].low = PyLong_AsUnsignedLongLongMask(number)
            places[i].at = i
        qsort(places, size, sizeof(Place), order_of)
        for i in range(size):
            found.append(<object>PyList_GET_ITEM(ids, places[i].at))
    finally:
        free(places)
    return found


def in_order(topic_ids):
    cdef list ids = list(topic_ids)
    cdef object topic_id, number, before = None
    cdef bint is_ordered = True
    cdef Py_ssize_t i
    for i in range(PyList_GET_SIZE(ids)):
        topic_id = <object>PyList_GET_ITEM(ids, i)
        if not isinstance(topic_id, PyUUID):
            raise TypeError(f"a uuid.UUID is expected, not a {type(topic_id).__qualname__}")
        if is_ordered:
            number = get_slot(topic_id, INT)
            is_ordered = before is None or PyObject_RichCompareBool(before, number, Py_LE)
            before = number
    return ids if is_ordered else sorted_ids(ids)


def of_each(values, make):
    cdef list found = []
    # Each value, which stays alive, with its result, by the address of the value.
    cdef dict made = {}
    cdef object value, address, before = None, result = None
    cdef tuple known
    cdef bint has_before = False
    for value in values:
        # Neighbours often are one object.
        if not has_before or value is not before:
            address = PyLong_FromVoidPtr(<void*>value)
            known = made.get(address)
            if known is None:
                known = made[address] = (value, make(value))
            before, result = known
            has_before = True
        found.append(result)
    return found


def added_to(before, after):
    cdef dict first = as_dict(before), second = as_dict(after)
    cdef Py_ssize_t at = 0, in_second = 0
    cdef PyObject* key = NULL
    cdef PyObject* value = NULL
    cdef PyObject* other_key = NULL
    cdef PyObject* other = NULL
    cdef list found
    if PyDict_Size(second) < PyDict_Size(first):
        return None
    while PyDict_Next(first, &at, &key, &value):
        if not PyDict_Next(second, &in_second, &other_key, &other) or key != other_key or value != other:
            return None
    found = []
    while PyDict_Next(second, &in_second, &other_key, &other):
        found.append((<object>other_key, <object>other))
    return found


def has_other_epochs(before, after):
    cdef dict first = as_dict(before), second = as_dict(after)
    cdef Py_ssize_t at = 0, in_second = 0
    cdef PyObject* key = NULL
    cdef PyObject* value = NULL
    cdef PyObject* other_key = NULL
    cdef PyObject* other = NULL
    cdef PyObject* last = NULL
    cdef PyObject* last_other = NULL
    # The new value of each old one, by the address of the latter.
    cdef dict pairs = {}
    cdef object address, known
    if PyDict_Size(first) != PyDict_Size(second):
        return False
    while PyDict_Next(first, &at, &key, &value):
        if not PyDict_Next(second, &in_second, &other_key, &other) or key != other_key:
            return False
        if value == last and other == last_other:
            continue
        address = PyLong_FromVoidPtr(<void*>value)
        known = pairs.get(address)
        if known is None:
            if (<object>value).keys() != (<object>other).keys():
                return False
            pairs[address] = <object>other
        elif <PyObject*>known != other:
            return False
        last, last_other = value, other
    return True


def other_values(held, others):
    cdef dict first = as_dict(held), second = as_dict(others), found = {}
    cdef list both = []
    cdef Py_ssize_t at = 0, in_second = 0
    cdef PyObject* key = NULL
    cdef PyObject* value = NULL
    cdef PyObject* other_key = NULL
    cdef PyObject* other = NULL
    cdef PyObject* known = NULL
    cdef bint has_more = PyDict_Next(second, &in_second, &other_key, &other)
    while PyDict_Next(first, &at, &key, &value):
        # Most have their topics in the same order: then nothing is looked up.
        if has_more and other_key == key:
            known = other
            has_more = PyDict_Next(second, &in_second, &other_key, &other)
        else:
            known = PyDict_GetItemWithError(second, <object>key)
        if known == value:
            continue
        found[<object>key] = <object>value
        if known != NULL:
            both.append(<object>key)
    return found, both


def incomplete(target, assigned):
    cdef dict wanted = as_dict(target), held = as_dict(assigned)
    # Not a list of pairs: they take the garbage collector 4 ms.
    cdef list topic_ids = [], parts = []
    cdef Py_ssize_t at = 0
    cdef PyObject* topic_id = NULL
    cdef PyObject* partitions = NULL
    cdef PyObject* has = NULL
    cdef bint has_any = PyDict_Size(held) > 0
    while PyDict_Next(wanted, &at, &topic_id, &partitions):
        if has_any:
            has = PyDict_GetItemWithError(held, <object>topic_id)
        if has == NULL or len(<object>has) < len(<object>partitions):
            topic_ids.append(<object>topic_id)
            parts.append(<object>partitions)
    return topic_ids, parts


cdef tuple kept_part(object current, object partitions):
    """The part of a topic's partitions that is kept, and the rest, None for nothing; and both arguments, to keep them alive."""
    if current.keys() <= partitions:
        return current, None, current, partitions
    kept = {partition: at for partition, at in current.items() if partition in partitions}
    if not kept:
        return None, current, current, partitions
    return kept, {partition: at for partition, at in current.items() if partition not in kept}, current, partitions


def kept_of(assigned, target):
    cdef dict mapping = as_dict(assigned), wanted = as_dict(target), kept = {}, gone = {}
    # By the addresses of both values.
    cdef dict parts = {}
    cdef object address
    cdef tuple known = None
    cdef PyObject* topic_id = NULL
    cdef PyObject* current = NULL
    cdef PyObject* partitions = NULL
    cdef PyObject* last = NULL
    cdef PyObject* last_partitions = NULL
    cdef Py_ssize_t at = 0
    while PyDict_Next(mapping, &at, &topic_id, &current):
        partitions = PyDict_GetItemWithError(wanted, <object>topic_id)
        if partitions == NULL:
            gone[<object>topic_id] = <object>current
            continue
        if current != last or partitions != last_partitions:
            address = (PyLong_FromVoidPtr(current), PyLong_FromVoidPtr(partitions))
            known = parts.get(address)
            if known is None:
                known = parts[address] = kept_part(<object>current, <object>partitions)
            last, last_partitions = current, partitions
        if known[0] is not None:
            kept[<object>topic_id] = known[0]
        if known[1] is not None:
            gone[<object>topic_id] = known[1]
    return kept, gone


def count(dict counts not None, names, long change):
    cdef object name
    cdef PyObject* known
    cdef long number
    for name in names:
        known = PyDict_GetItemWithError(counts, name)
        number = change if known == NULL else <object>known + change
        if number:
            counts[name] = number
        else:
            del counts[name]


def own(dict owners not None, str member_id not None, held):
    # The member's own value by its partitions, and the value with what the others have: with the objects that it follows from,
    # which stay alive, by their addresses.
    cdef dict mine = {}, merged = {}
    cdef object topic_id, partitions, address
    cdef dict new = None
    cdef PyObject* last = NULL
    cdef PyObject* before = NULL
    cdef tuple known
    cdef Py_ssize_t added = 0
    for topic_id, partitions in held:
        if <PyObject*>partitions != last:
            address = PyLong_FromVoidPtr(<void*>partitions)
            known = mine.get(address)
            if known is None:
                known = mine[address] = (partitions, dict.fromkeys(partitions, member_id))
            new = known[1]
            last = <PyObject*>partitions
        before = PyDict_SetDefault(owners, topic_id, new)
        if before == <PyObject*>new:
            added += PyDict_Size(new)
            continue
        address = (PyLong_FromVoidPtr(before), PyLong_FromVoidPtr(<void*>new))
        known = merged.get(address)
        if known is None:
            known = merged[address] = (<object>before, {**<dict>before, **new})
        added += PyDict_Size(known[1]) - PyDict_Size(known[0])
        owners[topic_id] = known[1]
    return added


def disown(dict owners not None, str member_id not None, held):
    cdef dict mapping = as_dict(held)
    # The rest of an owner's value, with the objects that it follows from, which stay alive, by their addresses.
    cdef dict rests = {}
    cdef object address, gone
    cdef dict rest = None
    cdef PyObject* topic_id = NULL
    cdef PyObject* partitions = NULL
    cdef PyObject* before = NULL
    cdef PyObject* last = NULL
    cdef PyObject* last_before = NULL
    cdef tuple known
    cdef Py_ssize_t at = 0, removed = 0
    while PyDict_Next(mapping, &at, &topic_id, &partitions):
        before = PyDict_GetItemWithError(owners, <object>topic_id)
        if before == NULL:
            continue
        if before != last_before or partitions != last:
            address = (PyLong_FromVoidPtr(before), PyLong_FromVoidPtr(partitions))
            known = rests.get(address)
            if known is None:
                gone = <object>partitions
                rest = {each: of for each, of in (<dict>before).items() if of != member_id or each not in gone}
                known = rests[address] = (<object>before, rest)
            rest = known[1]
            last_before, last = before, partitions
        removed += PyDict_Size(<object>before) - PyDict_Size(rest)
        if rest:
            PyDict_SetItem(owners, <object>topic_id, rest)
        else:
            PyDict_DelItem(owners, <object>topic_id)
    return removed
