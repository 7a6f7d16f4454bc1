"""See fetch_session_handler.pxd. The partitions that one follower fetches from one leader, and the requests and answers of their
fetch session (KIP-227).

A pure state: no connection, no clock. A request has only the partitions whose position has changed since the last
one; the leader knows the others. A partition with unwritten records is taken out of the session, because its fetch offset would
acknowledge them. The leader then answers soon, with or without records. A throttled partition (KIP-73) is also taken out, until
its rate allows the next fetch.

Two requests may be on their way: a leader that holds the first one would otherwise not learn of a newly fetched partition. Answers
come in the order of the requests, so the older of two is judged by the leader's session before the newer one.

Requests are written and answers read here, because a follower does both for each batch; the codec of `wire` is the oracle.
"""

cimport cython
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from libc.stdint cimport int16_t, int32_t, int64_t, uint8_t

from broker_cy.core.cursor cimport Cursor
from broker_cy.core.writer cimport Writer
from broker_cy.replica.partition cimport Partition
from broker_cy.replica.replica cimport FOLLOWER
from broker_cy.wire.fetch_response cimport FetchedPart, FetchResponseView
from broker_cy.wire.produce cimport TopicSpan

from broker_cy.core.errors import ErrorCode
from broker_cy.replica import following

cdef enum:
    VERSION = 17
    NEW_SESSION = 0
    EPOCH_MAX = 0x7FFFFFFF
    TOPIC_ID_BYTES = 16
    KEY_BYTES = 20
    REPLICA_STATE_TAG = 1
    REPLICA_STATE_BYTES = 13
    # The wait of a fetch that leaves out records that are not on disk yet (flush.messages): it delays the next fetch no longer than a
    # sync does.
    UNWRITTEN_WAIT_MS = 5

# Answers after which a session has to begin again.
SESSION_ENDED = (
    ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
    ErrorCode.INVALID_FETCH_SESSION_EPOCH,
    ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR,
)

cdef FetchResponseView _view = FetchResponseView()


@cython.final
cdef class Fetched:
    """An answer for one partition, and its request (following.Ask). `diverging` is (epoch, end offset), or None; `records` is a part
    of the answer, or None.
    """
    cdef readonly Partition partition
    cdef readonly object asked
    cdef readonly int16_t error_code
    cdef readonly int64_t high_watermark
    cdef readonly int64_t log_start_offset
    cdef readonly object diverging
    cdef readonly object records


cdef bytes key_of(const uint8_t* topic_id, int32_t index):
    """Topic id and partition index as bytes, which are cheap to sort and to hash."""
    cdef bytes key = PyBytes_FromStringAndSize(<const char*>topic_id, KEY_BYTES)
    cdef uint8_t* at = <uint8_t*>PyBytes_AS_STRING(key) + TOPIC_ID_BYTES
    at[0] = <uint8_t>(index >> 24)
    at[1] = <uint8_t>(index >> 16)
    at[2] = <uint8_t>(index >> 8)
    at[3] = <uint8_t>index
    return key


cdef class FetchSessionHandler:
    def __init__(self, int32_t node_id, config, throttle):
        self.node_id = node_id
        self.config = config
        self.throttle = throttle
        self.session_id = 0
        self.epoch = NEW_SESSION
        self.in_flight = self.stale = 0
        self.overtaken = {}
        self.partitions = {}
        self.keys = {}
        self.asked = {}
        self.starts = {}
        self.changed = set()
        self.paused = set()
        self.forgotten = set()
        self.unwritten = set()
        self.held = set()
        self.high = {}
        self.writer = Writer()

    @property
    def is_empty(self):
        return not self.partitions

    def has(self, Partition partition not None):
        """Whether it is fetched, or paused."""
        return partition in self.keys

    def add(self, Partition partition not None):
        """Fetch a partition, or fetch it again after `pause`. A topic created again has another id."""
        cdef bytes topic_id
        cdef object key = self.keys.get(partition)
        if key is None:
            # Four bytes more, which key_of replaces.
            topic_id = self.topic_id_of(partition).bytes + b"\0\0\0\0"
            key = self.keys[partition] = key_of(<const uint8_t*>PyBytes_AS_STRING(topic_id), partition.index)
        self.keys.pop(self.partitions.get(key), None)
        self.partitions[key] = partition
        self.keys[partition] = key
        self.paused.discard(key)
        self.changed.add(key)

    def pause(self, Partition partition not None):
        """Do not fetch a partition until `add`."""
        key = self.keys.get(partition)
        if key is not None:
            self.paused.add(key)
            self.changed.add(key)

    def remove(self, Partition partition not None):
        key = self.keys.pop(partition, None)
        if key is not None:
            del self.partitions[key]
            self.changed.add(key)
            self.paused.discard(key)
            self.held.discard(key)
            self.unwritten.discard(key)
            self.high.pop(key, None)

    def note(self, Partition partition not None):
        """The position of a partition may have changed. Returns whether it is not fetched yet."""
        key = self.keys.get(partition)
        if key is None:
            return False
        self.changed.add(key)
        return key not in self.asked

    @property
    def may_overtake(self):
        """Whether a request may be made while one is on its way: the leader has the session, so the request has only changes."""
        return self.in_flight == 1 and self.session_id != 0

    def restart(self):
        """The connection is a new one, or all answers of this one were dropped: no answer will come."""
        self.in_flight = 0
        self.begin_again()

    cdef int begin_again(self) except -1:
        """The leader no longer has the session."""
        self.stale = self.in_flight
        self.overtaken.clear()
        self.session_id = 0
        self.epoch = NEW_SESSION
        self.asked.clear()
        self.starts.clear()
        self.forgotten.clear()
        self.changed.update(self.partitions)
        return 0

    # ---- requests ----

    def request(self, int64_t broker_epoch, int64_t now_ms):
        """The bytes of the next request, or None if no partition can be fetched now. Nothing may be on its way, unless `may_overtake`."""
        cdef Writer out = self.writer
        cdef list wanted = self.take_changes(now_ms)
        cdef list forgotten
        if not self.asked:
            return None
        forgotten = sorted(self.forgotten)
        self.forgotten.clear()
        config = self.config
        out.pos = 0
        wait_ms = config["replica.fetch.wait.max.ms"]
        out.i32(min(wait_ms, UNWRITTEN_WAIT_MS) if self.unwritten else wait_ms)
        out.i32(config["replica.fetch.min.bytes"])
        out.i32(config["replica.fetch.response.max.bytes"])
        out.i8(0)                       # isolation_level: a follower reads everything
        out.i32(self.session_id)
        out.i32(self.epoch)
        if self.epoch != NEW_SESSION:
            self.epoch = 1 if self.epoch == EPOCH_MAX else self.epoch + 1
        self.in_flight += 1
        self.put_wanted(out, wanted)
        put_forgotten(out, forgotten)
        out.uvarint(1)                  # rack_id: ""
        out.uvarint(1)                  # tagged fields
        out.uvarint(REPLICA_STATE_TAG)
        out.uvarint(REPLICA_STATE_BYTES)
        out.i32(self.node_id)
        out.i64(broker_epoch)
        out.i8(0)
        return PyBytes_FromStringAndSize(<const char*>out.buf, out.pos)

    cdef list take_changes(self, int64_t now_ms):
        """Bring `asked` up to date. Returns the keys whose entry the leader does not have, in their order."""
        cdef list wanted = []
        self.hold(now_ms)
        for key in sorted(self.changed) if len(self.changed) > 1 else self.changed:
            ask, before = self.ask(key), self.asked.get(key)
            if self.in_flight and ask != before:
                self.overtaken[key] = before
            if ask is None:
                if before is not None:
                    del self.asked[key]
                    del self.starts[key]
                    self.forgotten.add(key)
            elif before != ask or self.starts[key] != self.start_of(key):
                self.asked[key] = ask
                self.starts[key] = self.start_of(key)
                self.forgotten.discard(key)
                wanted.append(key)
        self.changed.clear()
        return wanted

    cdef int put_wanted(self, Writer out, list wanted) except -1:
        cdef Partition partition
        cdef list spans = topics_of(wanted)
        cdef bytes key
        cdef Py_ssize_t begin, end
        self.share_bytes = self.config["replica.fetch.max.bytes"]
        out.uvarint(len(spans) + 1)
        for begin, end in spans:
            out.raw(PyBytes_AS_STRING(wanted[begin]), TOPIC_ID_BYTES)
            out.uvarint(end - begin + 1)
            for key in wanted[begin:end]:
                partition = <Partition>self.partitions[key]
                leader_epoch, offset, last_fetched_epoch = self.asked[key]
                out.i32(partition.index)
                out.i32(leader_epoch)
                out.i64(offset)
                out.i32(last_fetched_epoch)
                out.i64(self.starts[key])
                out.i32(self.share_bytes)
                out.i8(0)
            out.i8(0)
        return 0

    cdef object start_of(self, key):
        return (<Partition>self.partitions[key]).log.log_start_offset

    cdef object ask(self, key):
        cdef Partition partition = self.partitions.get(key)
        self.unwritten.discard(key)
        if partition is None or key in self.paused or partition.closed or partition.offline is not None:
            return None
        ask = following.ask(partition.replica, partition.log.epochs)
        if ask is None and partition.replica.role == FOLLOWER and not partition.replica.sync_lost:
            self.unwritten.add(key)
        if self.is_exceeded and ask is not None and self.waits(key, partition, ask):
            self.held.add(key)
            return None
        return ask

    cdef object topic_id_of(self, Partition partition):
        return partition.topic_id

    cdef bint waits(self, key, Partition partition, ask) except *:
        """Whether the throttle is for this replica: neither in the in-sync set, nor about to join it."""
        in_sync = partition.assigned is not None and self.node_id in partition.assigned.isr
        has_all = ask.offset >= self.high.get(key, ask.offset + 1)
        return not in_sync and not has_all and self.throttle.lists(partition.topic, partition.index)

    cdef int hold(self, int64_t now_ms) except -1:
        """Take the partitions out that the throttle holds, or fetch them again."""
        cdef Partition partition
        self.is_exceeded = self.throttle.is_exceeded(now_ms)
        self.changed.update(self.held)
        self.held.clear()
        if self.is_exceeded:
            for key in self.asked:
                partition = self.partitions.get(key)
                if partition is not None and self.throttle.lists(partition.topic, partition.index):
                    self.changed.add(key)
        return 0

    def held_ms(self, int64_t now_ms):
        """The time until partitions can be fetched that were held at the last request; None if none was."""
        return self.throttle.wait_ms(now_ms) if self.held else None

    # ---- answers ----

    def take(self, body):
        """Note an answer: (its error code, [Fetched] of the partitions that are still fetched). Raises WireError."""
        cdef list found
        _view.parse(Cursor(body), VERSION)
        self.in_flight -= 1
        if self.stale:
            self.stale -= 1
            return 0, []
        if _view.error != 0 or _view.session_id == 0:
            # Without a session, each request names all partitions.
            found = [] if _view.error != 0 else self.parts(body)
            self.begin_again()
            return _view.error, found
        self.session_id = _view.session_id
        if self.epoch == NEW_SESSION:
            self.epoch = 1
        found = self.parts(body)
        self.overtaken.clear()
        return 0, found

    cdef list parts(self, body):
        cdef TopicSpan* topic
        cdef FetchedPart* part
        cdef Fetched one
        cdef int32_t i, k
        cdef const uint8_t[::1] whole = body
        cdef Py_ssize_t at
        cdef list found = []
        for i in range(_view.topic_count):
            topic = &_view.topics[i]
            for k in range(topic.first, topic.first + topic.count):
                part = &_view.partitions[k]
                # key_of may read beyond the id: the bytes after it in an answer are longer than an index.
                key = key_of(topic.name, part.index)
                partition = self.partitions.get(key)
                ask = self.overtaken[key] if key in self.overtaken else self.asked.get(key)
                if partition is None or ask is None or key in self.paused:
                    continue
                if part.error == 0:
                    self.high[key] = part.high_watermark
                one = Fetched.__new__(Fetched)
                one.partition = partition
                one.asked = ask
                one.error_code = part.error
                one.high_watermark = part.high_watermark
                one.log_start_offset = part.log_start_offset
                if part.diverging_epoch >= 0:
                    one.diverging = (part.diverging_epoch, part.diverging_end_offset)
                if part.size:
                    at = part.records - &whole[0]
                    one.records = body[at:at + part.size]
                found.append(one)
        return found


cdef list topics_of(list keys):
    """(begin, end) of the keys of each topic, which are next to each other."""
    cdef list spans = []
    cdef Py_ssize_t begin = 0, at
    for at in range(1, len(keys) + 1):
        if at == len(keys) or (<bytes>keys[at])[:TOPIC_ID_BYTES] != (<bytes>keys[begin])[:TOPIC_ID_BYTES]:
            spans.append((begin, at))
            begin = at
    return spans


cdef int put_forgotten(Writer out, list forgotten) except -1:
    cdef list spans = topics_of(forgotten)
    cdef Py_ssize_t begin, end
    cdef bytes key
    out.uvarint(len(spans) + 1)
    for begin, end in spans:
        out.raw(PyBytes_AS_STRING(forgotten[begin]), TOPIC_ID_BYTES)
        out.uvarint(end - begin + 1)
        for key in forgotten[begin:end]:
            out.raw(PyBytes_AS_STRING(key) + TOPIC_ID_BYTES, KEY_BYTES - TOPIC_ID_BYTES)
        out.i8(0)
    return 0
