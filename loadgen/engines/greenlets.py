"""The engine `gevent`: each user is a separate client with one request in flight, like a service that waits for each
acknowledgement.

An idempotent user sends a batch again, under the same sequence, until its outcome is known or the request timeout has
passed; other users never do. A record without key and codec is sent from a Template.
"""

from __future__ import annotations

import time

import gevent

from broker_cy.client.payload.keys import KeySource
from broker_cy.client.payload.values import ValueSource
from broker_cy.client.transaction import produce_message
from broker_cy.core.errors import WireError
from broker_cy.wire import codec
from broker_cy.wire.api_keys import ApiKey
from broker_cy.wire.records import Record, encode_batch
from loadgen.engines.base import ACKS, CODECS, EngineError, Work
from loadgen.engines.outcomes import RETRIABLE, outcome_of
from loadgen.engines.template import Template, produce_code
from loadgen.net.cluster import PRODUCE_BY_NAME, RETRY_S, Cluster, Refused, error_name
from loadgen.net.connection import Connection, NetError
from loadgen.verify.ledger import ACKNOWLEDGED, REFUSED, UNKNOWN, Track
from loadgen.verify.prefix import HEADER, PREFIX, prefix_bytes

_NO_IDENTITY = (-1, -1)
_SEQUENCE_MASK = 0x7FFFFFFF
NS_PER_MS = 1_000_000


class GeventEngine:
    """Engine of one kind of users in one process."""

    def __init__(self, work: Work) -> None:
        self.work = work
        spec, seed = work.spec, work.scenario.seed
        before_bytes = prefix_bytes(spec.payload, is_stamped=work.ledger is not None)
        self.values = ValueSource(spec.payload, seed, now=time.time, prefix_bytes=before_bytes)
        self.keys = KeySource(spec.keys, seed, work.partitions)
        self._senders: dict[int, Sender] = {}

    def prepare(self) -> None:
        """See Engine. Each user connects itself."""

    def connect(self, user: int) -> None:
        """Open the connections of a user. Raises EngineError."""
        sender = Sender(self, user)
        try:
            sender.connect()
        except (NetError, Refused) as error:
            sender.close()
            raise EngineError(str(error)) from None
        self._senders[user] = sender

    def produce(self, user: int) -> None:
        """Send records until the pacer ends."""
        send, take = self._senders[user].send, self.work.pacer.take
        while (due_ns := take()) is not None:
            send(due_ns)

    def settle(self, timeout_s: float) -> None:
        """Each user waits for its answers itself."""

    def close(self) -> None:
        """Close all connections."""
        for each in self._senders.values():
            each.close()
        self._senders.clear()


class _Batch:
    """The records of one operation."""

    __slots__ = ("data", "due_ns", "first", "partition", "sent_ns", "size_bytes", "track")

    def __init__(self, partition: int, track: Track | None, first: int, due_ns: int) -> None:
        self.partition, self.track, self.first, self.due_ns = partition, track, first, due_ns
        self.sent_ns = 0
        self.size_bytes = 0
        self.data: list[Record] | None = None  # None: sent from a template


class Sender:
    """One producing client."""

    def __init__(self, engine: GeventEngine, user: int) -> None:
        work = self._work = engine.work
        spec = self._spec = work.spec
        self._topic = work.scenario.topic.name
        self._cluster = Cluster(work.bootstrap, f"broker-load-{spec.name}-{user}", work.scenario.timeout_s)
        self._producer = work.producer_id(user)
        self._values = engine.values.cursor(self._producer)
        self._keys = engine.keys.cursor(self._producer)
        ledger = work.ledger
        self._tracks = [
            None if ledger is None else ledger.track(self._producer, self._topic, partition)
            for partition in range(work.partitions)
        ]
        self._acks = ACKS[spec.acks]
        self._is_plain = (
            spec.records == 1
            and spec.codec == "none"
            and spec.keys.kind == "none"
            and spec.payload.kind == "fixed"
            and self._acks != 0
        )
        self._templates: dict[int, Template] = {}
        self._identity = _NO_IDENTITY
        self._sequences = [0] * work.partitions
        self._timeout_ms = int(work.scenario.timeout_s * 1000)

    def connect(self) -> None:
        """Find the leaders, connect to them, and get a producer id. Raises NetError and Refused."""
        for partition in self._cluster.partitions(self._topic):
            self._cluster.node(partition.leader)
        if self._spec.idempotent:
            self._new_identity()

    def close(self) -> None:
        """Close the connections."""
        self._cluster.close()

    def _new_identity(self) -> None:
        self._identity = self._cluster.producer_id(self._timeout_ms)
        self._sequences = [0] * len(self._sequences)
        self._templates.clear()

    def send(self, due_ns: int) -> None:
        """Send the records of one operation, and note their outcome."""
        batch = self._batch(due_ns)
        batch.sent_ns = time.monotonic_ns()
        records = self._spec.records
        error, outcome = self._attempt(batch)
        if outcome != ACKNOWLEDGED and self._spec.idempotent:
            error, outcome = self._again(batch, error, outcome)
        now_ns = time.monotonic_ns()
        if (track := batch.track) is not None:
            for sequence in range(batch.first, batch.first + records):
                track.settle(sequence, outcome)
        if not error:
            self._work.meter.done(due_ns, batch.sent_ns, now_ns, records, batch.size_bytes)
            self._sequences[batch.partition] = (self._sequences[batch.partition] + records) & _SEQUENCE_MASK
        else:
            self._work.meter.failed(error, due_ns, batch.sent_ns, now_ns)
            self._recover()

    def _batch(self, due_ns: int) -> _Batch:
        """Create the records of an operation, and begin their sequences."""
        spec = self._spec
        key, partition = self._keys.next()
        track = self._tracks[partition]
        first = track.begin() if track is not None else 0
        batch = _Batch(partition, track, first, due_ns)
        if self._is_plain:
            return batch
        now_ms = time.time_ns() // NS_PER_MS
        batch.data = []
        for at in range(spec.records):
            # All records of a request go to one partition, so they share the key that chose it.
            sequence = first if at == 0 or track is None else track.begin()
            record = self._record(key, sequence, due_ns, now_ms, stamped=track is not None)
            batch.size_bytes += len(record.value or b"") + len(key or b"")
            batch.data.append(record)
        return batch

    def _record(self, key: bytes | None, sequence: int, due_ns: int, now_ms: int, *, stamped: bool) -> Record:
        value = self._values.next()
        if not stamped:
            return Record(timestamp=now_ms, key=key, value=value)
        stamp = PREFIX.pack(self._work.run, self._producer, sequence, due_ns)
        if not self._spec.payload.takes_prefix:
            return Record(timestamp=now_ms, key=key, value=value, headers=[(HEADER, stamp)])
        return Record(timestamp=now_ms, key=key, value=stamp + value)

    def _attempt(self, batch: _Batch) -> tuple[str, int]:
        """Send a batch once; returns the error's name, "" for none, and the outcome."""
        code: int | None
        try:
            connection = self._cluster.leader(self._topic, batch.partition)
            if batch.data is None:
                code = self._send_template(connection, batch)
            else:
                code = self._send_encoded(connection, batch, batch.data)
        except NetError as error:
            return error.name, UNKNOWN if error.sent else REFUSED
        except Refused as error:
            return error.name, REFUSED
        except WireError:
            return "CORRUPT_ANSWER", UNKNOWN
        if code is None:
            return "", UNKNOWN
        outcome = outcome_of(code)
        return ("" if outcome == ACKNOWLEDGED else error_name(code)), outcome

    def _send_template(self, connection: Connection, batch: _Batch) -> int:
        template = self._templates.get(batch.partition)
        if template is None or template.connection is not connection:
            template = self._templates[batch.partition] = Template(
                connection,
                self._topic,
                batch.partition,
                self._values.next(),
                stamp=None if batch.track is None else (self._work.run, self._producer),
                identity=self._identity,
                version=connection.version(ApiKey.PRODUCE, "Produce", PRODUCE_BY_NAME),
                acks=self._acks,
                timeout_ms=self._timeout_ms,
            )
        batch.size_bytes = template.value_bytes
        template.fill(batch.first, batch.due_ns, self._sequences[batch.partition])
        return template.send()

    def _send_encoded(self, connection: Connection, batch: _Batch, records: list[Record]) -> int | None:
        """Return the error code, or None with acks=0."""
        version = connection.version(ApiKey.PRODUCE, "Produce", PRODUCE_BY_NAME)
        data = encode_batch(
            records,
            codec=CODECS[self._spec.codec],
            producer_id=self._identity[0],
            producer_epoch=self._identity[1],
            base_sequence=self._sequences[batch.partition] if self._spec.idempotent else -1,
        )
        request = produce_message((self._topic, batch.partition), data, self._timeout_ms, acks=self._acks)
        body = codec.encode(request, version)
        if self._acks == 0:
            connection.send_only(ApiKey.PRODUCE, version, body)
            return None
        return produce_code(version, connection.exchange(ApiKey.PRODUCE, version, body))

    def _again(self, batch: _Batch, error: str, outcome: int) -> tuple[str, int]:
        """Repeat a batch under its sequence until its outcome is certain (KIP-98), or the timeout has passed."""
        until_ns = batch.sent_ns + self._timeout_ms * NS_PER_MS
        may_be_there = outcome == UNKNOWN
        while error in _MAY_SUCCEED and time.monotonic_ns() < until_ns:
            self._work.book.count("retries")
            self._cluster.forget(self._topic)
            gevent.sleep(RETRY_S)
            error, outcome = self._attempt(batch)
            if outcome == ACKNOWLEDGED:
                return error, outcome
            may_be_there |= outcome == UNKNOWN
        return error, UNKNOWN if may_be_there else outcome

    def _recover(self) -> None:
        """Find the leaders again after a failure, and wait, so that an unavailable cluster is not polled in a tight
        loop.
        """
        self._cluster.forget(self._topic)
        gevent.sleep(RETRY_S)
        if self._spec.idempotent:
            # The broker expects the sequence of the abandoned batch, or the one after it.
            try:
                self._new_identity()
            except (NetError, Refused):
                self._work.book.count("no producer id")


# Errors after which an idempotent batch is sent again.
_MAY_SUCCEED = frozenset(
    {
        "DISCONNECTED",
        "CONNECTION_FAILED",
        "TIMED_OUT",
        "BROKER_NOT_AVAILABLE",
        *(code.name for code in RETRIABLE),
    }
)
