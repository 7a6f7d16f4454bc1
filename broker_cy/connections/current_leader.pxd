from libc.stdint cimport int16_t, int32_t

from broker_cy.core.writer cimport Writer
from broker_cy.connections.answers cimport AnswerQueue, ServerCore

# The committed TopicImage of a topic, by its UTF-8 name, or by the 16 bytes of its id; None if it does not exist.
cdef object topic_named(ServerCore server, bytes name)
cdef object topic_with_id(ServerCore server, bytes topic_id)

# The error of a partition that this broker does not have, of a topic that exists: others may have it.
cdef int16_t absent_error(object topic, int32_t index) except? -1

# (leader, leader epoch) of a partition, and the leader's address on the client's listener added to `leaders`, a dict from node
# id to (host, port, rack).
cdef tuple current_leader(AnswerQueue connection, object topic, int32_t index, dict leaders)

# An array of NodeEndpoint, of {node id: (host, port, rack)}.
cdef int put_endpoints(Writer out, dict leaders) except -1

# The tagged fields of a whole answer: tag 0, NodeEndpoints, if `leaders` is not empty.
cdef int put_leaders(Writer out, dict leaders) except -1
