"""The records of one partition of a task, and the loop that processes them."""

from collections import deque

from cpython.list cimport PyList_GET_ITEM, PyList_GET_SIZE

from broker_cy.wire.record cimport Record as Input
from broker_streams.kernel.formats cimport format_of
from broker_streams.kernel.forward cimport Due, Moment, Spread, as_forward
from broker_streams.record cimport Record, new_record

from broker_streams.kernel.entry import ConsumedRecord, InvalidTimestamp

cdef enum:
    NO_TIMESTAMP = -1


cdef class RecordQueue:
    """A `head_input` without a `head` was skipped: only its offset counts."""

    def __init__(self, topic, partition, entry):
        self.topic = topic
        self.partition = partition
        self.node = entry.node
        self.forward = as_forward(entry.forward)
        self.key = format_of(entry.key)
        self.value = format_of(entry.value)
        self.extract = entry.extract
        self.refuse = entry.refuse
        self.skip = entry.skip
        self.chunks = deque()
        self.current = []
        self.at = self.count = 0
        self.time_ms = self.partition_time_ms = NO_TIMESTAMP
        self.consumed = -1
        self.latency = Spread()

    def __len__(self):
        return self.count + (self.head_input is not None)

    def add(self, inputs):
        cdef list chunk = [
            each if type(each) is Input else Input(each[3], each[2], each[0], each[1], each[4]) for each in inputs
        ]
        if chunk:
            self.chunks.append(chunk)
            self.count += len(chunk)
        if self.head_input is None:
            self.advance()

    cdef Input next_input(self):
        # The first record that was added and not taken; None: there is none.
        cdef Input found
        if self.at == PyList_GET_SIZE(self.current):
            if self.count == 0:
                return None
            self.current = self.chunks.popleft()
            self.at = 0
        found = <Input>PyList_GET_ITEM(self.current, self.at)
        self.at += 1
        self.count -= 1
        return found

    cdef int forget_head(self) except -1:
        self.head = None
        self.head_input = None
        self.time_ms = NO_TIMESTAMP
        return 0

    cdef int advance(self) except -1:
        # Forget the head, and make the next input that can be read the head; without one, the last that cannot.
        cdef Input found = None
        cdef Input last = None
        cdef long long timestamp
        cdef object taken
        if self.time_ms > self.partition_time_ms:
            self.partition_time_ms = self.time_ms
        while True:
            found = self.next_input()
            if found is None:
                break
            last = found
            try:
                key = self.key.read(self.topic, found.key, found.headers)
                value = self.value.read(self.topic, found.value, found.headers)
            except Exception as error:
                self.forget_head()
                self.refuse(self.topic, self.partition, found, error)
                continue
            timestamp = found.timestamp
            taken = timestamp
            if self.extract is not None:
                self.forget_head()
                taken = self.extracted(found, key, value)
                timestamp = taken
                if timestamp < 0:
                    self.skip()
                    continue
            elif timestamp < 0:
                self.forget_head()
                raise InvalidTimestamp(
                    f"record {self.topic}-{self.partition} at offset {found.offset} has timestamp {timestamp}:"
                    " set default.timestamp.extractor to one that takes negative timestamps"
                )
            self.head = new_record(key, value, taken, found.headers)
            self.time_ms = timestamp
            self.head_input = found
            return 0
        self.forget_head()
        self.head_input = last
        return 0

    cdef long long extracted(self, Input found, object key, object value) except? -2:
        place = f"record {self.topic}-{self.partition} at offset {found.offset}"
        record = ConsumedRecord(
            self.topic, self.partition, found.offset, found.timestamp, key, value, found.headers
        )
        try:
            timestamp = self.extract(record, self.partition_time_ms)
        except InvalidTimestamp as error:
            raise InvalidTimestamp(f"{place} has timestamp {found.timestamp}: {error}") from None
        except Exception as error:
            raise InvalidTimestamp(f"the timestamp extractor failed for {place}: {error}") from error
        if not isinstance(timestamp, int):
            raise InvalidTimestamp(f"the timestamp extractor returned {timestamp!r} for {place}; it returns ms")
        try:
            return timestamp
        except OverflowError:
            raise InvalidTimestamp(
                f"the timestamp extractor returned {timestamp!r} for {place}; it returns ms in 64 bits"
            ) from None

    cdef int process_head(self, Moment moment) except -1:
        # The head moves on first: an input behind it that cannot be read is reported at once, as in Kafka.
        cdef Input found = self.head_input
        cdef Record record = self.head
        cdef long long timestamp = self.time_ms
        self.advance()
        if record is not None:
            if timestamp > moment.stream_time_ms:
                moment.stream_time_ms = timestamp
            moment.lateness.add(moment.stream_time_ms - timestamp)
            moment.timestamp = record.timestamp
            moment.headers = record.headers
            moment.topic = self.topic
            moment.partition = self.partition
            moment.offset = found.offset
            moment.input = found
            self.forward.take(record)
            self.latency.add(moment.system_time_ms - timestamp)
        self.consumed = found.offset
        return 0

    def process(self, Moment moment not None):
        """Process the head. The caller knows that there is one."""
        self.process_head(moment)

    def run(self, Moment moment not None, Due stream_time not None, punctuate, long long limit):
        """Process at most `limit` records; return how many. `punctuate` is called when `stream_time` is
        due.
        """
        cdef long long left = limit
        while left > 0 and self.head_input is not None:
            left -= 1
            self.process_head(moment)
            if stream_time.due_ms <= moment.stream_time_ms:
                punctuate()
        return limit - left

    def clear(self):
        self.chunks.clear()
        self.current = []
        self.at = self.count = 0
        self.forget_head()
        self.partition_time_ms = NO_TIMESTAMP
