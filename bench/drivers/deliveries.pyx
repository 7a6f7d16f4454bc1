"""Counters of confluent-kafka's records: acknowledgements by delivery report, arrivals by consumer.

A callback written in Python costs as much as producing the record; these cost about as much as creating librdkafka's
message object for them. Every record has its own report: failures are counted individually, and none is inferred.
"""

cimport cython
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.stdint cimport int64_t
from libc.string cimport memcpy
from posix.time cimport CLOCK_MONOTONIC, clock_gettime, timespec

from bench.measuring.histogram cimport Histogram

cdef enum:
    STAMP = 8                   # bytes of a value: the time its record was due, int64 in this host's byte order
    PARTITION_EOF = -191        # librdkafka's RD_KAFKA_RESP_ERR__PARTITION_EOF: an event, not a failure

STAMP_BYTES = STAMP             # for code that creates values


cdef inline int64_t now_ns() noexcept nogil:
    """Return the same as time.monotonic_ns()."""
    cdef timespec now
    clock_gettime(CLOCK_MONOTONIC, &now)
    return <int64_t> now.tv_sec * 1000000000 + now.tv_nsec


cdef class Deliveries:
    """Acknowledgements, failures and latencies of the records of one run of one producer."""

    def __cinit__(self, int64_t key_bytes):
        self.key_bytes = key_bytes
        self.latency = Histogram()

    def take_latency(self):
        """Return the latencies since the last call."""
        taken = self.latency
        self.latency = Histogram()
        return taken


@cython.final
@cython.freelist(4096)
cdef class Delivery:
    """The delivery report of records that were due at the same time; call it as confluent-kafka's on_delivery."""

    def __cinit__(self, Deliveries owner not None, int64_t due_ns):
        self.owner = owner
        self.due_ns = due_ns

    def __call__(self, error, message):
        cdef Deliveries owner = self.owner
        if error is not None:
            owner.errors += 1
            if owner.first_error is None:
                owner.first_error = error.str()
            return
        owner.latency.record(now_ns() - self.due_ns)
        owner.acked += 1
        owner.acked_bytes += len(message) + owner.key_bytes


cdef bytes stamped(bytes value, int64_t due_ns):
    cdef bytes made = PyBytes_FromStringAndSize(PyBytes_AS_STRING(value), PyBytes_GET_SIZE(value))
    memcpy(PyBytes_AS_STRING(made), &due_ns, STAMP)    # these bytes are not shared yet
    return made


def mark(list messages, list due_ns, Deliveries owner, bint stamp):
    """Give each message (a dict for produce_batch) a report with its own due time; `stamp`: write it into the value.

    Raises ValueError if there are fewer times than messages, or a value has no room for the stamp.
    """
    cdef dict message
    cdef bytes value
    cdef int64_t due
    cdef Py_ssize_t number
    if len(due_ns) < len(messages):
        raise ValueError(f"{len(messages)} messages, but {len(due_ns)} due times")
    for number in range(len(messages)):
        message = messages[number]
        due = due_ns[number]
        message["callback"] = Delivery(owner, due)
        if stamp:
            value = message["value"]
            if len(value) < STAMP:
                raise ValueError(f"a value of {len(value)} bytes has no room for its due time ({STAMP} bytes)")
            message["value"] = stamped(value, due)


def stamp_all(list messages, int64_t due_ns):
    """Write one due time into the values of all messages; raises ValueError if a value has no room for it."""
    cdef dict message
    cdef bytes value
    for message in messages:
        value = message["value"]
        if len(value) < STAMP:
            raise ValueError(f"a value of {len(value)} bytes has no room for its due time ({STAMP} bytes)")
        message["value"] = stamped(value, due_ns)


cdef class Arrivals:
    """Records that one consumer received in one run; with `stamps`, how long after its due time each record arrived."""

    def __cinit__(self, bint stamps, int64_t key_bytes):
        self.stamps = stamps
        self.key_bytes = key_bytes
        self.end_to_end = Histogram()

    def take(self, list messages):
        """Count the messages of one poll. Returns the partitions whose end was reached.

        A record whose value holds no due time counts as an error: the topic contains records of another program.
        """
        cdef int64_t due, now = now_ns()
        cdef bytes value
        ends = []
        for message in messages:
            error = message.error()
            if error is not None:
                if error.code() == PARTITION_EOF:
                    ends.append(message.partition())
                else:
                    self.fail(error.str())
                continue
            found = message.value()
            self.records += 1
            if found is None:
                if self.stamps:
                    self.fail("a record without a value: it is not from this run")
                continue
            value = found
            self.bytes += len(value) + self.key_bytes
            if not self.stamps:
                continue
            if len(value) < STAMP:
                self.fail(f"a value of {len(value)} bytes contains no due time: it is not from this run")
                continue
            memcpy(&due, PyBytes_AS_STRING(value), STAMP)
            self.end_to_end.record(now - due)
        return ends

    def fail(self, str text):
        """Count a failure."""
        self.errors += 1
        if self.first_error is None:
            self.first_error = text
