"""The load driver's connections: their memory, their templates, their positions, and lost connections.

Memory of a connection: its ring (initially RING_MIN slots of 24 bytes, grown if more requests are in flight, at most
RING_MAX, and FLIGHTS_MAX over all connections), its inbox (INBOX_MIN, grown to the data of one receive: INBOX_STEP, or
one response of up to FRAME_MAX), and 80 bytes for each of its templates. With a producer id, each ring slot also has a
batch header.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from libc.errno cimport errno
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t
from libc.stdio cimport snprintf
from libc.stdlib cimport calloc, free, malloc
from posix.unistd cimport close

import ssl
import struct

from bench.wire.endpoint import connect
from bench.wire.framing import exactly
from bench.wire.sequences import shift_of

from bench.wire.sequences cimport BATCH_HEADER
from bench.wire.system cimport (
    EPOLL_CLOEXEC, EPOLL_CTL_ADD, EPOLL_CTL_DEL, EPOLLIN, bench_crc32c, epoll_create1, epoll_ctl, epoll_event,
)

# size, api key 18, version 0, correlation id 0, empty client id
API_VERSIONS = struct.pack(">ihhih", 10, 18, 0, 0, 0)

cdef enum:
    GROUP = 32      # connections made without waiting: a target queues at least 50 (Kafka's socket.listen.backlog.size)


cdef class Connections:
    """Connections to one target, each with its cycle of request templates (bench.wire.protocol.Template).

    `connections[i]` is the list of templates that connection i sends in turn. All are Produce, or all are Fetch
    requests. Fetch starts at offset 0 of each partition (see `seek`) and starts over at `wrap_at[partition]`; without
    it, it follows the end of the log. `committed`: these Fetch requests use read_committed. `unanswered`: Produce with
    acks=0. `producers`: one (producer id, epoch) for each connection, which is written into each batch with the
    sequence number of its partition, starting at 0; templates then need a separate payload. `giving_up`: a connection
    whose request is refused is given up like a lost one, because the broker would refuse all later sequences, too.
    `address` is that of the target, or a list with one for each connection; with TLS, if its clients need it (see
    bench.wire.endpoint), by Python's ssl, so that the generator costs more. Raises OSError if a connection cannot be
    made. A connection that is lost later adds its unanswered requests to `errors`, at least one unless `giving_up`, and
    is named in `first_error`.
    """

    def __cinit__(self, address, connections not None, **options):
        if not 0 < len(connections) <= MAX_CONNECTIONS:
            raise ValueError(f"{len(connections)} connections; 1 to {MAX_CONNECTIONS} are possible")
        self.conns = <Conn*> calloc(len(connections), sizeof(Conn))
        if self.conns is NULL:
            raise MemoryError
        self.count = len(connections)
        self.epoll_fd = -1

    def __init__(
        self, address, connections not None, *, bint fetching=False, bint committed=False, dict wrap_at=None, bint unanswered=False,
        list producers=None, bint giving_up=False, double answer_timeout_s=30,
    ):
        cdef int i
        if producers is not None and (fetching or len(producers) != self.count):
            raise ValueError(f"{len(producers)} producers for {self.count} connections, or this driver fetches")
        self.producers, self.shifts = producers, {}
        self.addresses = list(address) if isinstance(address, list) else [address] * self.count
        if len(self.addresses) != self.count:
            raise ValueError(f"{len(self.addresses)} addresses for {self.count} connections")
        self.fetching, self.committed, self.unanswered, self.giving_up = fetching, committed, unanswered, giving_up
        self.timeout_ns = <int64_t> (answer_timeout_s * 1e9)
        self.ring_cap = RING_MIN
        while self.ring_cap < RING_MAX and self.ring_cap * 2 * self.count <= FLIGHTS_MAX:
            self.ring_cap *= 2
        self.sockets, self.kept = [None] * self.count, []
        self.epoll_fd = epoll_create1(EPOLL_CLOEXEC)    # not Python's: gevent removes it from the select module
        if self.epoll_fd < 0:
            raise OSError(errno, "epoll_create1")
        try:
            for i in range(self.count):
                self._open(i, connections[i])
                self._connect(i)
        except BaseException:
            self.close()
            raise
        self.alive = self.count
        self.seek({}, wrap_at or {})

    cdef int _open(self, int index, templates) except -1:
        cdef Conn* conn = &self.conns[index]
        cdef int i, total = 0
        cdef dict slots = {}
        cdef int32_t* slot_list
        for template in templates:
            for partition in template.partitions:
                if not 0 <= partition < PARTITIONS_MAX:
                    raise ValueError(f"partition {partition}; 0 to {PARTITIONS_MAX - 1} are possible")
                slots.setdefault(partition, len(slots))
            total += len(template.partitions)
        conn.inbox_capacity = INBOX_STEP if self.fetching else INBOX_MIN
        conn.inbox = <uint8_t*> malloc(conn.inbox_capacity)
        conn.ring_size = RING_MIN
        conn.ring = <Flight*> calloc(conn.ring_size, sizeof(Flight))
        if self.producers is not None:
            conn.producer.id, conn.producer.epoch = self.producers[index]
            conn.headers = <uint8_t*> malloc(conn.ring_size * BATCH_HEADER)
            if conn.headers is NULL:
                raise MemoryError
        conn.templates = <Template*> calloc(max(1, len(templates)), sizeof(Template))
        conn.slots = <Slot*> calloc(max(1, len(slots)), sizeof(Slot))
        # Freed with the object: the slots of all templates of this connection.
        kept = bytearray(max(1, total) * sizeof(int32_t))
        self.kept.append(kept)
        slot_list = <int32_t*> <char*> kept
        if conn.inbox is NULL or conn.ring is NULL or conn.templates is NULL or conn.slots is NULL:
            raise MemoryError
        conn.slot_count = len(slots)
        for partition, i in slots.items():
            conn.slots[i].partition = partition
        for i in range(len(templates)):
            slot_list += self._add_template(conn, i, templates[i], slots, slot_list)
        conn.template_count = len(templates)
        if not templates:
            raise ValueError(f"connection {index} has nothing to send")
        return 0

    cdef int _add_template(self, Conn* conn, int index, template, dict slots, int32_t* slot_list) except -1:
        """Add a template; returns the number of slots that it uses."""
        cdef Template* made = &conn.templates[index]
        cdef int i
        frame, payload = template.frame, template.payload
        if self.fetching:
            frame = bytes(bytearray(frame))             # the offset is patched in place: never into a shared object
        self.kept.append((frame, payload))
        made.frame = <const uint8_t*> PyBytes_AS_STRING(frame)
        made.frame_size = made.size = PyBytes_GET_SIZE(frame)
        if made.frame_size <= HEAD:
            raise ValueError(f"a frame of {made.frame_size} bytes")
        if payload:
            made.payload = <const uint8_t*> PyBytes_AS_STRING(payload)
            made.size += PyBytes_GET_SIZE(payload)
        made.records, made.batch_bytes = template.records, template.batch_bytes
        made.offset_at, made.slot_count = template.offset_at, len(template.partitions)
        if made.slot_count == 0 or (self.fetching and not (
            HEAD <= made.offset_at <= made.frame_size - 8 - (made.slot_count - 1) * FETCH_STRIDE
        )):
            raise ValueError("a template without a partition, or with offsets outside of its frame")
        if self.producers is not None:
            self._sum_records(made, payload)
        made.slots = slot_list
        for i in range(made.slot_count):
            made.slots[i] = slots[template.partitions[i]]
        return made.slot_count

    cdef int _sum_records(self, Template* made, bytes payload) except -1:
        """Precompute the parts of the checksum of the payload's batch that do not depend on its header."""
        cdef Py_ssize_t rest = made.batch_bytes - BATCH_HEADER
        cdef bytes shift
        if rest < 0 or PyBytes_GET_SIZE(payload) < made.batch_bytes:
            raise ValueError(f"a batch of {made.batch_bytes} bytes in a payload of {len(payload)}")
        shift = self.shifts.get(rest)
        if shift is None:
            shift = self.shifts[rest] = shift_of(rest)
        made.shift = <const uint32_t*> PyBytes_AS_STRING(shift)
        made.records_crc = bench_crc32c(made.payload + BATCH_HEADER, rest)
        return 0

    cdef int _connect(self, int index) except -1:
        cdef Conn* conn = &self.conns[index]
        cdef epoll_event event
        sock = connect(self.addresses[index], 30)
        self.sockets[index] = sock
        conn.is_tls = isinstance(sock, ssl.SSLSocket)
        if index % GROUP == GROUP - 1:
            _wait_for_answer(sock)
        sock.setblocking(False)
        conn.fd = sock.fileno()
        conn.dead = conn.wants_write = False
        conn.partial = conn.inbox_size = 0
        conn.answered = conn.flushed = conn.released = conn.issued
        event.events = EPOLLIN
        event.data.u32 = index
        if epoll_ctl(self.epoll_fd, EPOLL_CTL_ADD, conn.fd, &event) < 0:
            raise OSError(errno, "epoll_ctl")
        return 0

    def __dealloc__(self):
        cdef int i
        if self.conns is not NULL:
            for i in range(self.count):
                free(self.conns[i].inbox)
                free(self.conns[i].ring)
                free(self.conns[i].headers)
                free(self.conns[i].templates)
                free(self.conns[i].slots)
            free(self.conns)

    def close(self):
        """Close the connections."""
        for sock in self.sockets:
            if sock is not None:
                sock.close()
        if self.epoll_fd >= 0:
            close(self.epoll_fd)
            self.epoll_fd = -1

    def reconnect(self):
        """Make the connections that were lost again; raises OSError."""
        cdef int i
        for i in range(self.count):
            if self.conns[i].dead:
                self.sockets[i].close()
                self._connect(i)
                self.alive += 1

    def lost(self):
        """Return the numbers of the connections that are lost or given up. Not while a loop runs."""
        return [i for i in range(self.count) if self.conns[i].dead]

    def revive(self, int index, address, producer=None):
        """Make lost connection `index` again, to `address`; a loop that is not over continues with it. With producer
        ids it needs another one, (producer id, epoch), whose sequences start at 0. Not while a loop runs. Raises OSError.
        """
        cdef Conn* conn
        cdef int k
        if not 0 <= index < self.count or not self.conns[index].dead or (producer is None) != (self.producers is None):
            raise ValueError(f"connection {index} is not lost, or producer {producer} is not what it needs")
        conn = &self.conns[index]
        self.addresses[index] = address
        self.sockets[index].close()
        self._connect(index)
        self.alive += 1
        if producer is not None:
            conn.producer.id, conn.producer.epoch = self.producers[index] = producer
        for k in range(conn.slot_count):
            conn.slots[k].sequence = 0
            conn.slots[k].next_offset = conn.slots[k].sent = conn.slots[k].acknowledged = 0
        # Its next request is its first one that is not due yet: see _issue_released.
        conn.counted_from = conn.issued - max(0, self.begun - index + self.count - 1) // self.count
        self.problem[0] = 0

    def acknowledged(self):
        """Return (connection, producer id, partition, acknowledged records, records sent) for each partition of each
        connection since it has this producer id. With `giving_up` the acknowledged ones are the first. Not while a loop
        runs.
        """
        cdef int i, k
        if self.producers is None:
            raise ValueError("there are no producer ids")
        return [
            (i, self.conns[i].producer.id, self.conns[i].slots[k].partition, self.conns[i].slots[k].acknowledged,
             self.conns[i].slots[k].sent)
            for i in range(self.count) for k in range(self.conns[i].slot_count)
        ]

    # ------------------------------------------------------------------------------------------------ positions

    def seek(self, dict start not None, dict wrap_at not None):
        """Fetch from `start` (0 if it has no offset), repeatedly up to `wrap_at`, or else follow the end of the log."""
        cdef int i, k
        cdef Slot* slot
        for i in range(self.count):
            for k in range(self.conns[i].slot_count):
                slot = &self.conns[i].slots[k]
                slot.next_offset = slot.wrap_from = start.get(slot.partition, 0)
                slot.wrap_at = wrap_at.get(slot.partition, 0)

    def next_offsets(self, int partitions):
        """Return the offset after the last batch written (or the next to fetch) by partition, over all connections."""
        cdef int i, k
        cdef Slot* slot
        cdef dict found = dict.fromkeys(range(partitions), 0)
        for i in range(self.count):
            for k in range(self.conns[i].slot_count):
                slot = &self.conns[i].slots[k]
                if slot.partition < partitions:
                    found[slot.partition] = max(found[slot.partition], slot.next_offset)
        return found

    def has_reached(self, dict ends not None):
        """Return whether every live connection has fetched up to `ends` of its partitions."""
        cdef int i, k
        cdef Slot* slot
        for i in range(self.count):
            for k in range(self.conns[i].slot_count):
                slot = &self.conns[i].slots[k]
                if not self.conns[i].dead and slot.next_offset < ends.get(slot.partition, 0):
                    return False
        return True

    # ------------------------------------------------------------------------------------------------ errors

    cdef int _lose(self, Conn* conn, const char* form, const char* detail, int64_t number) noexcept nogil:
        """Give up a connection: its due, unanswered requests count as errors. `form` formats `detail` and `number`."""
        cdef epoll_event event
        cdef char what[160]
        cdef int64_t lost = conn.released - max(conn.answered, conn.counted_from)
        if conn.dead:
            return -1
        if self.problem[0] == 0:
            snprintf(what, sizeof(what), form, detail, number)
            snprintf(self.problem, sizeof(self.problem), "%s (%s, partition %d)", what,
                     "Fetch" if self.fetching else "Produce", conn.slots[0].partition)
        conn.dead = True
        self.alive -= 1
        self.outstanding -= lost
        self.errors += lost if self.giving_up else max(1, lost)
        epoll_ctl(self.epoll_fd, EPOLL_CTL_DEL, conn.fd, &event)
        return -1

    @property
    def first_error(self):
        """The first error, or None."""
        return (<bytes> self.problem).decode(errors="replace") if self.problem[0] else None


def _wait_for_answer(sock):
    """Send ApiVersions v0 and wait for the response: all earlier connections are then accepted. Raises OSError."""
    sock.sendall(API_VERSIONS)
    size = int.from_bytes(exactly(sock, 4), "big")
    if size > FRAME_MAX:
        raise OSError(f"response of {size} bytes")
    exactly(sock, size)
