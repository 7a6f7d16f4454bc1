"""The connections that sent or received data since the last look, for the samples of the metrics."""

from libc.stdint cimport int64_t

from broker_cy.connections.connection cimport Connection

from heapq import heappush, heapreplace


cdef class Activity:
    """One look at all connections, which may be taken in parts. It keeps the `limit` busiest ones: those with the most
    bytes, in the order of the connections if they have as many.
    """
    cdef Py_ssize_t limit
    cdef list heap                  # (bytes, -number, connection, requests, bytes_in, bytes_out)
    cdef int64_t least              # of the heap, once it is full
    cdef readonly Py_ssize_t count
    """Connections with activity."""
    cdef readonly int64_t newest_ms
    """When the last one of all connections was active, on the clock of `opened_ms`."""

    def __init__(self, Py_ssize_t limit):
        self.limit = limit
        self.heap = []

    def look(self, list connections not None, Py_ssize_t start, Py_ssize_t end):
        """Look at the connections from `start` to `end`. Their next look begins here."""
        cdef Connection connection
        cdef int64_t requests, bytes_in, bytes_out
        cdef Py_ssize_t i
        for i in range(start, min(end, len(connections))):
            connection = connections[i]
            if connection.last_active_ms > self.newest_ms:
                self.newest_ms = connection.last_active_ms
            requests = connection.requests - connection.seen_requests
            bytes_in = connection.bytes_in - connection.seen_bytes_in
            bytes_out = connection.bytes_out - connection.seen_bytes_out
            if requests == 0 and bytes_in == 0 and bytes_out == 0:
                continue
            connection.seen_requests = connection.requests
            connection.seen_bytes_in = connection.bytes_in
            connection.seen_bytes_out = connection.bytes_out
            self.count += 1
            if len(self.heap) < self.limit:
                heappush(self.heap, (bytes_in + bytes_out, -self.count, connection, requests, bytes_in, bytes_out))
            elif bytes_in + bytes_out > self.least:
                heapreplace(self.heap, (bytes_in + bytes_out, -self.count, connection, requests, bytes_in, bytes_out))
            else:
                continue
            self.least = self.heap[0][0]

    def busiest(self):
        """(connection, requests, bytes received, bytes sent) of each that was kept, the busiest first."""
        return [found[2:] for found in sorted(self.heap, reverse=True)]
