"""The error codes in a response, wherever its structure has them, for the error counters, which count as Kafka's do."""

from libc.stdint cimport int16_t

from broker_cy.metrics.requests cimport RequestMetrics

from broker_cy.schemas import tables

# By class of response: its plan, or None if it has no error codes.
cdef dict _plans = {}


cdef int count_errors(RequestMetrics metrics, int16_t key, object response) except -1:
    """Count every error code of the response but NONE."""
    cdef object kind = type(response)
    cdef object plan = _plans.get(kind, kind)
    if plan is kind:
        spec = tables.load(kind.__name__)
        plan = _plans[kind] = plan_of(spec, spec.root)
    return 0 if plan is None else walk(metrics, key, response, <tuple>plan)


cdef int walk(RequestMetrics metrics, int16_t key, object value, tuple plan) except -1:
    cdef object attribute, found, element, entry
    cdef int16_t code
    for attribute in <tuple>plan[0]:
        code = getattr(value, attribute)
        if code:
            metrics.error(key, code)
    for entry in <tuple>plan[1]:
        found = getattr(value, (<tuple>entry)[0])
        if type(found) is list:
            for element in <list>found:
                walk(metrics, key, element, <tuple>(<tuple>entry)[1])
        elif found is not None:
            walk(metrics, key, found, <tuple>(<tuple>entry)[1])
    return 0


def plan_of(spec, struct):
    """(attributes that are error codes, [(attribute, the plan of its structures)]), or None without error codes."""
    codes = tuple(each.attribute for each in struct.fields if each.name == "ErrorCode" and not each.is_array)
    below = []
    for each in struct.fields:
        if each.type in spec.structs:
            plan = plan_of(spec, spec.structs[each.type])
            if plan is not None:
                below.append((each.attribute, plan))
    return (codes, tuple(below)) if codes or below else None
