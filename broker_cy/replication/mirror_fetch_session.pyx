"""The fetch session of mirrors with one leader of another cluster (KIP-227): that of a follower, asked as a consumer.

A consumer has no replica id and no broker epoch, so the source answers with committed records only, and counts no
acknowledgement. Topics have their ids in the source cluster. Versions 13 to 17 of Fetch have topic ids, and the same answers.
"""

from libc.stdint cimport int64_t

from broker_cy.replica.partition cimport Partition
from broker_cy.replication.fetch_session_handler cimport FetchSessionHandler

cdef enum:
    # Below, the replica id is a field of its own, in front of the others.
    REPLICA_STATE_VERSION = 15
    CONSUMER = -1
    # The tagged fields at the end of a follower's request: their number, and the replica with its tag and size.
    FOLLOWER_END_BYTES = 16

cdef bytes CONSUMER_BEGIN = (CONSUMER).to_bytes(4, signed=True)
cdef bytes CONSUMER_END = b"\0"


cdef class MirrorFetchSession(FetchSessionHandler):
    """`mirrors` gives each partition its replica.mirror.Mirror, and `version` is that of Fetch on this connection."""
    cdef dict mirrors
    cdef public int version

    def __init__(self, config, throttle, dict mirrors):
        super().__init__(CONSUMER, config, throttle)
        self.mirrors = mirrors

    def request(self, int64_t broker_epoch, int64_t now_ms):
        cdef bytes body = FetchSessionHandler.request(self, broker_epoch, now_ms)
        if body is None:
            return None
        body = body[:-FOLLOWER_END_BYTES] + CONSUMER_END
        return body if self.version >= REPLICA_STATE_VERSION else CONSUMER_BEGIN + body

    cdef object topic_id_of(self, Partition partition):
        return self.mirrors[partition].topic_id

    cdef object ask(self, key):
        cdef Partition partition = self.partitions.get(key)
        self.unwritten.discard(key)
        if partition is None or key in self.paused or partition.closed or partition.offline is not None:
            return None
        if not partition.replica.is_clean():
            self.unwritten.add(key)
        ask = self.mirrors[partition].ask(partition.replica, partition.log.epochs)
        if self.is_exceeded and ask is not None:
            self.held.add(key)
            return None
        return ask
