"""The heartbeat of a member with nothing new that comes again, byte for byte, from the same client.

The request has not changed, and its fields have been checked. Everything else may have changed since, and is asked here:
the state of the coordinator, the rights of the client, the group and the member.
"""

cimport cython
from libc.stdint cimport int64_t

from broker_cy.coordinator.modern.steady_member cimport SteadyMember

from broker_cy.coordinator_services.coordinator_runtime import LoadState
from broker_cy.security.acls import Operation, ResourceType

cdef object ACTIVE = LoadState.ACTIVE
cdef object READ = Operation.READ
cdef object GROUP = ResourceType.GROUP


@cython.final
cdef class RepeatedHeartbeat:
    cdef object broker
    cdef str principal
    cdef str client_host
    cdef object groups              # coordinator_services.group_service.GroupService
    cdef object runtime
    cdef object machine
    cdef object clock
    cdef SteadyMember member
    cdef int64_t partition_count

    def __init__(self, ctx, runtime, SteadyMember member not None):
        self.broker = ctx.broker
        self.principal = ctx.principal
        self.client_host = ctx.client_host
        self.groups = self.broker.groups
        self.clock = self.broker.clock
        self.runtime = runtime
        self.machine = runtime.machine
        self.member = member
        self.partition_count = self.groups.partition_count

    def still_stands(self):
        cdef object authorization = self.broker.authorization
        cdef object runtime = self.runtime
        cdef str group_id = self.member.group_id
        # A runtime that was closed never becomes active again.
        if (
            runtime.state is not ACTIVE
            or runtime.is_writing
            or <int64_t>self.groups.partition_count != self.partition_count
        ):
            return False
        # A client without the right is not noted here: the handler notes it.
        if (
            authorization is not None
            and not authorization.mask(self.principal, self.client_host, GROUP, group_id) >> READ & 1
        ):
            return False
        wall_ms, mono_ms = self.clock.both_ms()
        if not self.member.prolong(self.machine, wall_ms, mono_ms):
            return False
        if authorization is not None:
            authorization.saw(self.principal, self.client_host, READ, GROUP, group_id)
        return True
