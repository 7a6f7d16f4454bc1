"""The state that the heartbeats of one member need while nothing changes; the .pxd describes it."""

from broker_cy.coordinator.timers import OVER as _OVER
from broker_cy.coordinator.timers import Deadline, TimerKey, TimerKind
from broker_cy.core.step import Now

cdef int64_t OVER = _OVER
cdef object SESSION = TimerKind.SESSION


cdef class SteadyMember:
    def __init__(self, machine, group, str member_id not None, int64_t epoch, str instance_id, str client_id not None,
                 str client_host not None, int64_t session_timeout_ms, answer, is_due):
        self.group_id = group.group_id
        self.group_class = type(group)
        self.member_id = member_id
        self.epoch = epoch
        self.instance_id = instance_id
        self.client_id = client_id
        self.client_host = client_host
        self.session_timeout_ms = session_timeout_ms
        self.session = Deadline(OVER)
        self.session_key = TimerKey(SESSION, self.group_id, member_id)
        self.answer = answer
        self.is_due = is_due
        self.generation = machine.image.generation
        self.settings = machine.settings

    cpdef bint is_of(self, object machine) except -1:
        return <int64_t>machine.image.generation == self.generation and machine.settings is self.settings

    cpdef bint prolong(self, object machine, int64_t wall_ms, int64_t mono_ms) except -1:
        cdef dict groups = machine.groups
        cdef object group = groups.get(self.group_id)
        cdef object deadline = self.session
        cdef dict steady
        cdef int64_t epoch, until_ms, at_ms
        # It may be another group, or one of another type, and the member another one.
        if type(group) is not self.group_class:
            return False
        steady = group.steady
        if steady.get(self.member_id) is not self or not self.is_of(machine):
            return False
        epoch = group.epoch
        if (
            epoch != self.epoch
            or <int64_t>group.assignment_epoch != epoch
            or mono_ms >= <int64_t>group.refresh_at_ms
            or epoch < <int64_t>group.refresh_epoch
            or (self.is_due is not None and self.is_due(machine, group, Now(wall_ms, mono_ms)))
        ):
            return False
        until_ms = mono_ms + self.session_timeout_ms
        at_ms = deadline.at_ms
        if at_ms == OVER or until_ms < at_ms:
            self.session = machine.timers.set(self.session_key, until_ms)
        else:
            deadline.at_ms = until_ms
        return True
