"""Users that measure end-to-end latency: `probe`. Each operation writes a record to the next partition, and reads it
back.

The reader has its own connection, and already waits for the record when it arrives, like a consumer. Its start offset
is requested on the writer's connection right before the record is sent, and brokers answer in order. The operation
Probe lasts from the time at which the record was due until it was read.
"""

from __future__ import annotations

import time

import gevent
from typing_extensions import Buffer

from broker_cy.client.payload.values import ValueSource
from broker_cy.client.transaction import produce_message
from broker_cy.core.errors import WireError
from broker_cy.wire import codec, messages
from broker_cy.wire.api_keys import ApiKey
from broker_cy.wire.records import Record, decode_batches, encode_batch
from loadgen.engines.base import ACKS
from loadgen.engines.outcomes import outcome_of
from loadgen.net.cluster import (
    FETCH_BY_NAME,
    LATEST,
    LIST_OFFSETS_BY_NAME,
    PRODUCE_BY_NAME,
    RETRY_S,
    Cluster,
    Refused,
    check,
    error_name,
    offsets_request,
)  # fmt: skip
from loadgen.net.connection import Connection, NetError
from loadgen.users.base import LoadUser
from loadgen.users.fetching import PAYLOAD_BYTES_MAX, fetch_request
from loadgen.users.settings import Fetching, Probing, settings_of
from loadgen.verify.ledger import ACKNOWLEDGED, REFUSED, UNKNOWN
from loadgen.verify.prefix import HEADER, PREFIX, prefix_bytes, stamp_of

NS_PER_MS = 1_000_000
# The fetch settings of a probe: immediate answers with little data.
_READING = Fetching(max_wait_ms=500, max_bytes=1 << 20, isolation="read_uncommitted")


class Probe(LoadUser):
    """One record at a time."""

    abstract = True
    writer: Cluster
    reader: Cluster

    def connect(self) -> None:
        work = self.shared.work
        self._topic = work.scenario.topic.name
        self._producer = work.producer_id(self.number)
        self._acks = ACKS[self.spec.acks]
        self._timeout_s = work.scenario.timeout_s
        payload = self.spec.payload
        before_bytes = prefix_bytes(payload, is_stamped=True)
        source = ValueSource(payload, work.scenario.seed, now=time.time, prefix_bytes=before_bytes)
        self._values = source.cursor(self._producer)
        self.writer, self.reader = self.new_cluster(), self.new_cluster()
        found = self.writer.partitions(self._topic)
        self.reader.partitions(self._topic)
        wanted = settings_of(Probing, self.spec).partitions
        self._partitions = [each.number for each in found][: wanted or None]
        for each in found:
            self.writer.node(each.leader)
            self.reader.node(each.leader)
        # Users begin at different partitions.
        self._at = self.place
        # The sequences of its records, which are tracked only in verified runs.
        self._numbers = [0] * len(found)

    def perform(self, due_ns: int) -> None:
        self._at += 1
        partition = self._partitions[self._at % len(self._partitions)]
        ledger = self.load.ledger
        track = None if ledger is None else ledger.track(self._producer, self._topic, partition)
        sequence = self._numbers[partition] if track is None else track.begin()
        self._numbers[partition] = sequence + 1
        sent_ns = time.monotonic_ns()
        outcome, name = REFUSED, ""
        try:
            connection = self.writer.leader(self._topic, partition)
        except (NetError, Refused) as error:
            name = error.name
        else:
            reading = gevent.spawn(self._read, connection, partition, sequence)
            try:
                # The reader sends its first request before the writer.
                gevent.sleep(0)
                outcome, name = self._write(connection, partition, sequence, due_ns)
                if not name:
                    name = reading.get()
            finally:
                reading.kill()
        if track is not None:
            track.settle(sequence, outcome)
        if not name:
            self.meter("Probe").done(due_ns, sent_ns, self._read_ns)
            return
        self.meter("Probe").failed(name, due_ns, sent_ns, time.monotonic_ns())
        self.writer.forget(self._topic)
        self.reader.forget(self._topic)
        gevent.sleep(RETRY_S)

    def _write(self, connection: Connection, partition: int, sequence: int, due_ns: int) -> tuple[int, str]:
        """Send the record; returns its outcome and the name of the error, "" for none."""
        stamp = PREFIX.pack(self.load.plan.run, self._producer, sequence, due_ns)
        value, now_ms = self._values.next(), time.time_ns() // NS_PER_MS
        if not self.spec.payload.takes_prefix:
            record = Record(timestamp=now_ms, value=value, headers=[(HEADER, stamp)])
        else:
            record = Record(timestamp=now_ms, value=stamp + value)
        request = produce_message(
            (self._topic, partition), encode_batch([record]), int(self._timeout_s * 1000), acks=self._acks
        )
        meter, sent_ns = self.meter("Produce"), time.monotonic_ns()
        try:
            if self._acks == 0:
                version = connection.version(ApiKey.PRODUCE, "Produce", PRODUCE_BY_NAME)
                connection.send_only(ApiKey.PRODUCE, version, codec.encode(request, version))
                return UNKNOWN, ""
            answer = connection.call(request, messages.ProduceResponse, at_most=PRODUCE_BY_NAME)
        except NetError as error:
            meter.failed(error.name, due_ns, sent_ns, time.monotonic_ns())
            return UNKNOWN if error.sent else REFUSED, error.name
        code = answer.responses[0].partition_responses[0].error_code
        outcome = outcome_of(code)
        if outcome == ACKNOWLEDGED:
            meter.done(due_ns, sent_ns, time.monotonic_ns(), 1, len(record.value or b""))
            return outcome, ""
        meter.failed(error_name(code), due_ns, sent_ns, time.monotonic_ns())
        return outcome, error_name(code)

    def _read(self, writer: Connection, partition: int, sequence: int) -> str:
        """Read until the record arrives, at most for the request timeout; returns the name of an error."""
        until_s = time.monotonic() + self._timeout_s
        meter = self.meter("Fetch")
        try:
            request = offsets_request(self._topic, [partition], LATEST)
            found = writer.call(request, messages.ListOffsetsResponse, at_most=LIST_OFFSETS_BY_NAME)
            part = found.topics[0].partitions[0]
            check(part.error_code, "ListOffsets")
            at = part.offset
            while time.monotonic() < until_s:
                sent_ns = time.monotonic_ns()
                connection = self.reader.leader(self._topic, partition)
                fetch = fetch_request(self._topic, {partition: at}, _READING, _READING.max_wait_ms)
                answer = connection.call(fetch, messages.FetchResponse, at_most=FETCH_BY_NAME)
                now_ns = time.monotonic_ns()
                check(answer.error_code, "Fetch")
                data = answer.responses[0].partitions[0]
                check(data.error_code, "Fetch")
                at, records, is_found = self._look(data.records or b"", at, sequence)
                if records:
                    meter.done(sent_ns, sent_ns, now_ns, records, len(data.records or b""))
                if is_found:
                    self._read_ns = now_ns
                    return ""
        except (NetError, Refused) as error:
            return error.name
        except WireError:
            return "CORRUPT_ANSWER"
        return "REQUEST_TIMED_OUT"

    def _look(self, data: Buffer, at: int, sequence: int) -> tuple[int, int, bool]:
        """Return the next offset, the number of records in `data`, and whether ours is among them. Raises WireError."""
        count = 0
        is_found = False
        ours = (self.load.plan.run, self._producer, sequence)
        for batch in decode_batches(data):
            at = max(at, batch.last_offset + 1)
            if batch.is_control:
                continue
            count += batch.count
            for record in batch.records(PAYLOAD_BYTES_MAX):
                stamp = stamp_of(record.value, record.headers)
                is_found |= stamp is not None and stamp[:3] == ours
        return at, count, is_found

    def disconnect(self) -> None:
        for each in ("writer", "reader"):
            if hasattr(self, each):
                getattr(self, each).close()
