"""The current leader in Produce and Fetch answers (KIP-951): a client that asked the wrong broker learns from the error itself
which is the right one, without a Metadata request.
"""

from uuid import UUID

from broker_cy.core.errors import ErrorCode
from broker_cy.core.text import java_text

cdef int16_t NOT_LEADER_OR_FOLLOWER = ErrorCode.NOT_LEADER_OR_FOLLOWER
cdef int16_t UNKNOWN_TOPIC_OR_PARTITION = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
cdef enum:
    NO_LEADER = -1
    NO_EPOCH = -1


cdef object topic_named(ServerCore server, bytes name):
    return server.broker.image.topics.by_name(java_text(name))


cdef object topic_with_id(ServerCore server, bytes topic_id):
    return server.broker.image.topics.by_id(UUID(bytes=topic_id))


cdef int16_t absent_error(object topic, int32_t index) except? -1:
    return NOT_LEADER_OR_FOLLOWER if index in topic.partitions else UNKNOWN_TOPIC_OR_PARTITION


cdef tuple current_leader(AnswerQueue connection, object topic, int32_t index, dict leaders):
    partition = topic.partitions.get(index) if topic is not None else None
    if partition is None:
        return NO_LEADER, NO_EPOCH          # deleted meanwhile
    broker = connection.server.broker.image.brokers.get(partition.leader)
    endpoint = broker.listeners.get(connection.listener) if broker is not None and not broker.fenced else None
    if endpoint is not None:
        leaders[partition.leader] = (endpoint.host, endpoint.port, broker.rack)
    return partition.leader, partition.leader_epoch


cdef int put_endpoints(Writer out, dict leaders) except -1:
    out.uvarint(len(leaders) + 1)
    for node_id, (host, port, rack) in leaders.items():
        out.i32(node_id)
        out.compact_nullable_string(host)
        out.i32(port)
        out.compact_nullable_string(rack)
        out.i8(0)
    return 0


cdef int put_leaders(Writer out, dict leaders) except -1:
    cdef Writer field
    if not leaders:
        return out.i8(0)
    field = Writer()
    put_endpoints(field, leaders)
    out.i8(1)
    out.i8(0)
    out.uvarint(field.pos)
    return out.raw(field.buf, field.pos)
