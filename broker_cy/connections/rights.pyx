"""The allowed operations of a connection's client, for the handlers in C. Other handlers use their RequestContext."""

from broker_cy.connections.current_leader cimport topic_with_id

from broker_cy.core.text import java_text
from broker_cy.security.acls import CLUSTER_NAME, Operation, ResourceType

cdef object TOPIC = ResourceType.TOPIC
cdef object CLUSTER = ResourceType.CLUSTER
cdef object TRANSACTIONAL_ID = ResourceType.TRANSACTIONAL_ID
cdef enum:
    CLUSTER_ACTION = 1 << 9
    NO_TOPIC = -1
    PRODUCE_KEY = 0

assert READ == 1 << Operation.READ and WRITE == 1 << Operation.WRITE and CLUSTER_ACTION == 1 << Operation.CLUSTER_ACTION


cdef Rights rights_of(AnswerQueue connection):
    """The rights of the client on a broker with an authorizer, under the current ACLs."""
    cdef Rights rights = connection.rights
    if rights is None or rights.principal is not connection.principal:
        # The first request, or the first after another authentication.
        rights = Rights.__new__(Rights)
        rights.server = connection.server
        rights.principal = connection.principal
        rights.host = connection.client_host
        rights.epoch = -1
        connection.rights = rights
    rights.renew()
    return rights


cdef class Rights:
    cdef int renew(self) except -1:
        """Forget decisions of earlier ACLs."""
        cdef int64_t epoch = -1
        if self.authorizer is None and self.server.authorization.is_loaded:
            self.authorizer = self.server.authorization.authorizer
        if self.authorizer is not None:
            epoch = self.authorizer.epoch
        if epoch != self.epoch or epoch < 0:
            self.epoch = epoch
            self.masks = {}
            self.cluster_mask = -1
        return 0

    cdef int of_topic(self, bytes name, int wanted) except -1:
        """The mask of operations that the client may perform. `wanted` is the bit of the current one."""
        cdef int found
        known = self.masks.get(name)
        if known is None:
            found = self.server.authorization.mask(self.principal, self.host, TOPIC, java_text(name))
            self.keep(name, found)
        else:
            found = known
        if found & wanted and not (found >> MASK_BITS) & wanted:
            self.saw(name, found, wanted, java_text(name))
        return found & ((1 << MASK_BITS) - 1)

    cdef int of_topic_id(self, bytes topic_id, int wanted) except? -2:
        """As `of_topic`; NO_TOPIC for an unknown id. An id never gets another name."""
        cdef int found
        known = self.masks.get(topic_id)
        topic = None
        if known is None:
            topic = topic_with_id(self.server, topic_id)
            if topic is None:
                return NO_TOPIC
            found = self.server.authorization.mask(self.principal, self.host, TOPIC, topic.name)
            self.keep(topic_id, found)
        else:
            found = known
        if found & wanted and not (found >> MASK_BITS) & wanted:
            if topic is None:
                topic = topic_with_id(self.server, topic_id)
            if topic is not None:
                self.saw(topic_id, found, wanted, topic.name)
        return found & ((1 << MASK_BITS) - 1)

    cdef int saw(self, bytes key, int found, int wanted, str name) except -1:
        """Note the first use of a right on this connection, in this epoch."""
        cdef int operation = 0
        while not wanted >> operation & 1:
            operation += 1
        self.server.authorization.saw(self.principal, self.host, operation, TOPIC, name)
        self.keep(key, found | wanted << MASK_BITS)
        return 0

    def keep(self, bytes key, int mask):
        if len(self.masks) >= MASKS_MAX and key not in self.masks:
            self.masks.clear()
        self.masks[key] = mask

    cdef bint may_act_for_cluster(self) except *:
        """Whether the client is a broker, or as trusted as one."""
        if self.cluster_mask < 0:
            self.cluster_mask = self.server.authorization.mask(self.principal, self.host, CLUSTER, CLUSTER_NAME)
            if self.cluster_mask & CLUSTER_ACTION:
                self.server.authorization.saw(self.principal, self.host, Operation.CLUSTER_ACTION, CLUSTER, CLUSTER_NAME)
        return self.cluster_mask & CLUSTER_ACTION != 0

    cdef bint may_write_as(self, str transactional_id) except *:
        mask = self.server.authorization.mask(self.principal, self.host, TRANSACTIONAL_ID, transactional_id)
        if mask & WRITE:
            self.server.authorization.saw(self.principal, self.host, Operation.WRITE, TRANSACTIONAL_ID, transactional_id)
            return True
        self.server.authorization.denied(self.principal, self.host, PRODUCE_KEY, Operation.WRITE, TRANSACTIONAL_ID, transactional_id)
        return False

    cdef int refused(self, int16_t key, int operation, bytes topic, bint by_id) except -1:
        """Log that a topic was refused."""
        found = topic_with_id(self.server, topic) if by_id else None
        # A topic that was just deleted has no name.
        name = topic.hex() if by_id and found is None else found.name if by_id else java_text(topic)
        self.server.authorization.denied(self.principal, self.host, key, Operation(operation), TOPIC, name)
        return 0
