from libc.stdint cimport int64_t


cdef class SteadyMember:
    """The state that the heartbeats of one member need while nothing changes. It follows from the member, and from the
    settings of the group at the `generation` of the metadata.
    """
    cdef readonly str group_id
    cdef readonly str member_id
    cdef readonly int64_t epoch
    cdef readonly str instance_id
    cdef readonly str client_id
    cdef readonly str client_host   # without the slash
    cdef readonly object answer     # shared by all heartbeats: it must not be changed
    cdef type group_class
    cdef int64_t generation
    cdef object settings            # coordinator.settings.GroupSettings
    cdef object session             # timers.Deadline
    cdef object session_key         # timers.TimerKey
    cdef int64_t session_timeout_ms
    # (machine, group, now): whether a heartbeat begins something else; None: it does not.
    cdef object is_due

    cpdef bint is_of(self, object machine) except -1
    cpdef bint prolong(self, object machine, int64_t wall_ms, int64_t mono_ms) except -1
