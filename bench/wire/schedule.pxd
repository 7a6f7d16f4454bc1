"""Due times of the requests of an open loop: at a steady rate, or on a linear ramp to a rate that is then kept."""

from libc.math cimport sqrt


cdef struct Schedule:
    double start, end           # requests a second; both above 0
    double ramp_s               # 0: `end` from the beginning


cdef inline double due_s(const Schedule* plan, double number) noexcept nogil:
    """Return the seconds from the start to request `number` (from 0): when the integral of the rate reaches it."""
    cdef double of_ramp = (plan.start + plan.end) / 2 * plan.ramp_s
    if number >= of_ramp:
        return plan.ramp_s + (number - of_ramp) / plan.end
    # The root of slope/2 t^2 + start t = number in the form that neither cancels nor divides by a slope of 0.
    return 2 * number / (plan.start + sqrt(plan.start * plan.start + 2 * (plan.end - plan.start) / plan.ramp_s * number))


cdef inline double due_until(const Schedule* plan, double seconds) noexcept nogil:
    """Return the number of requests that are due within the first `seconds`."""
    if seconds >= plan.ramp_s:
        return (plan.start + plan.end) / 2 * plan.ramp_s + (seconds - plan.ramp_s) * plan.end
    return plan.start * seconds + (plan.end - plan.start) / plan.ramp_s / 2 * seconds * seconds
