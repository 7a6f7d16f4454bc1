"""The engine `librdkafka`: the behaviour of most real clients. One confluent_kafka.Producer serves all users of a
process.

Users hand records over and do not wait for each: librdkafka fills batches from all of them. With a rate, a user waits
only while librdkafka's queue is full; without one, while it has `in_flight` operations without a report. A native
thread serves the reports and records their times; the hub counts them, so that no call of librdkafka blocks it.

A verified producer that is not idempotent does not retry: its retries would look like duplicates and reordering by the
cluster.
"""

from __future__ import annotations

import sys
import time
from collections import deque
from typing import Any, Final, NamedTuple

import gevent
from gevent.event import Event
from gevent.threadpool import ThreadPool

from broker_cy.client.address import Address
from broker_cy.client.errors import ClientError
from broker_cy.client.payload.keys import KeyCursor, KeySource
from broker_cy.client.payload.values import Values, ValueSource
from broker_cy.core.errors import ErrorCode
from loadgen.engines.base import EngineError, Work
from loadgen.net import login as logins
from loadgen.net.cluster import error_name
from loadgen.verify.ledger import ACKNOWLEDGED, REFUSED, UNKNOWN, Track
from loadgen.verify.prefix import HEADER, PREFIX, prefix_bytes

# The largest batch_bytes.
MESSAGE_BYTES_MAX: Final = 100_000_000
# Records of all users that librdkafka queues.
QUEUE_MAX: Final = 100_000
# The time before a user retries a full queue.
FULL_S: Final = 0.002
# The time that the thread waits for reports before it checks whether it should end.
POLL_S: Final = 0.1
# The thread needs the interpreter's lock for each report. With Python's switch interval of 5 ms it would get the lock
# 200 times a second while users are busy.
SWITCH_S: Final = 0.0001
# Reports that the hub counts before it serves sockets and timers again.
TAKEN_AT_ONCE: Final = 500
# The wait after a purge for the reports of the purged records.
PURGED_S: Final = 1.0
# Codes after which a record is certainly not in the log: it was not sent, or the broker checks it before its append.
_LOCAL_REFUSALS: Final = frozenset({-186, -188, -190})  # _INVALID_ARG, _UNKNOWN_TOPIC, _UNKNOWN_PARTITION
_REFUSALS: Final = frozenset({
    ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE, ErrorCode.INVALID_RECORD, ErrorCode.INVALID_TIMESTAMP,
    ErrorCode.INVALID_TOPIC_EXCEPTION, ErrorCode.INVALID_REQUIRED_ACKS, ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
    ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT, ErrorCode.POLICY_VIOLATION,
})  # fmt: skip


class LibrdkafkaEngine:
    """Engine of one kind of users in one process."""

    def __init__(self, work: Work) -> None:
        self._work, spec, seed = work, work.spec, work.scenario.seed
        before_bytes = prefix_bytes(spec.payload, is_stamped=work.ledger is not None)
        self._values = ValueSource(spec.payload, seed, now=time.time, prefix_bytes=before_bytes)
        self._keys = KeySource(spec.keys, seed, work.partitions)
        self._producer: Any = None
        self._failure: type[Exception] = Exception  # confluent_kafka's, once it is imported
        self._done: deque[_Report] = deque()
        self._users: dict[int, _User] = {}
        self._thread: ThreadPool | None = None
        self._wake: Any = None
        self._is_closing = False
        self._switch_s = 0.0

    def prepare(self) -> None:
        """Create the producer, and find the topic. Raises EngineError."""
        work, name = self._work, self._work.spec.name
        try:
            from confluent_kafka import KafkaException, Producer
        except ImportError as error:
            raise EngineError(
                f"{name}: the engine librdkafka needs confluent-kafka: pip install confluent-kafka ({error})"
            ) from None
        self._failure = KafkaException
        self._thread = ThreadPool(1)
        try:
            self._producer = Producer(settings_of(work))
            # This runs in the thread, because it blocks.
            self._thread.spawn(self._producer.list_topics, work.scenario.topic.name, work.scenario.timeout_s).get()
        except (KafkaException, ValueError) as error:
            self.close()
            raise EngineError(f"{name}: {error}") from error
        self._wake = gevent.get_hub().loop.async_()
        self._wake.start(self._take)
        self._switch_s = sys.getswitchinterval()
        sys.setswitchinterval(min(self._switch_s, SWITCH_S))
        self._thread.spawn(self._poll)

    def connect(self, user: int) -> None:
        """Users share the producer's connections."""
        number = self._work.producer_id(user)
        self._users[user] = _User(self._work, number, self._values.cursor(number), self._keys.cursor(number))

    def produce(self, user: int) -> None:
        """Hand records over until the pacer ends."""
        pacer, mine = self._work.pacer, self._users[user]
        limit = QUEUE_MAX if pacer.profile is not None else self._work.spec.options["in_flight"]
        while (due_ns := pacer.take()) is not None:
            self._send(mine, due_ns)
            while mine.open >= limit:
                mine.has_room.clear()
                mine.has_room.wait()
            if pacer.profile is None and not mine.taken % TAKEN_AT_ONCE:
                gevent.sleep(0)  # a closed loop never waits for the pacer, so other users must get a turn

    def settle(self, timeout_s: float) -> None:
        """Wait for the reports; records without one after `timeout_s` are purged, and UNKNOWN."""
        self._wait(timeout_s)
        if self._open() and self._producer is not None:
            self._producer.purge(in_queue=True, in_flight=True, blocking=False)
            self._wait(PURGED_S)

    def _wait(self, timeout_s: float) -> None:
        until_s = time.monotonic() + timeout_s
        while self._open() and time.monotonic() < until_s:
            gevent.sleep(FULL_S)

    def _open(self) -> int:
        return sum(each.open for each in self._users.values())

    def close(self) -> None:
        """Abandon records without a report, and end the thread."""
        self._is_closing = True
        if self._producer is not None:
            self._producer.purge(in_queue=True, in_flight=True, blocking=False)
        if self._thread is not None:
            self._thread.join()
            self._thread.kill()
            self._thread = None
        if self._wake is not None:
            self._wake.stop()
            self._wake.close()
            self._wake = None
            sys.setswitchinterval(self._switch_s)
        self._producer = None

    # ------------------------------------------------------------------------------------------------ sending

    def _send(self, user: _User, due_ns: int) -> None:
        """Hand over the records of one operation."""
        operation = _Operation(self._done, user, due_ns, self._work.spec.records)
        user.open += 1
        user.taken += 1
        for record in user.records(due_ns):
            report = _Report(operation, record.track, record.sequence)
            operation.size_bytes += len(record.value) + len(record.key or b"")
            error = self._hand_over(record, report)
            if error is not None:
                # The error is handled as if librdkafka had reported it.
                report.refused = error
                report.now_ns = time.monotonic_ns()
                self._count(report)

    def _hand_over(self, record: _Made, report: _Report) -> str | None:
        """Pass a record to librdkafka, waiting while its queue is full; returns the error if librdkafka rejects it."""
        topic = self._work.scenario.topic.name
        until_s: float | None = None
        while True:
            try:
                self._producer.produce(
                    topic, record.value, record.key, record.partition, report, headers=record.headers
                )
                return None
            except BufferError:
                until_s = until_s or time.monotonic() + self._work.scenario.timeout_s
                if time.monotonic() > until_s:
                    return "QUEUE_FULL"
                gevent.sleep(FULL_S)
            except self._failure as error:
                return name_of(error.args[0])

    # ------------------------------------------------------------------------------------------------ reports

    def _poll(self) -> None:
        """Serve the reports; runs in the thread."""
        while not self._is_closing:
            if self._producer.poll(POLL_S):
                self._wake.send()
        self._producer.poll(0)

    def _take(self) -> None:
        """Count the reports; called by the hub."""
        for _ in range(min(len(self._done), TAKEN_AT_ONCE)):
            self._count(self._done.popleft())
        if self._done:
            self._wake.send()

    def _count(self, report: _Report) -> None:
        operation = report.operation
        name, outcome = report.verdict(self._work.spec.acks == "0")
        if report.track is not None:
            report.track.settle(report.sequence, outcome)
        operation.error = operation.error or name
        operation.left -= 1
        if operation.left:
            return
        user, meter = operation.user, self._work.meter
        if operation.error:
            meter.failed(operation.error, operation.due_ns, operation.sent_ns, report.now_ns)
        else:
            meter.done(
                operation.due_ns, operation.sent_ns, report.now_ns, self._work.spec.records, operation.size_bytes
            )
        user.open -= 1
        user.has_room.set()


class _Made(NamedTuple):
    """One record, and its place in the ledger."""

    partition: int
    key: bytes | None
    value: bytes
    headers: list[tuple[str, bytes]] | None
    track: Track | None
    sequence: int


class _User:
    """One user: its sequences, values and keys."""

    def __init__(self, work: Work, producer: int, values: Values, keys: KeyCursor) -> None:
        self._work, self._producer, self._values, self._keys = work, producer, values, keys
        self._tracks = [
            None if work.ledger is None else work.ledger.track(self._producer, work.scenario.topic.name, partition)
            for partition in range(work.partitions)
        ]
        self.open = 0  # operations without a report
        self.taken = 0
        self.has_room = Event()

    def records(self, due_ns: int) -> list[_Made]:
        """Create the records of one operation."""
        work = self._work
        made: list[_Made] = []
        for _ in range(work.spec.records):
            key, partition = self._keys.next()
            value, track, sequence = self._values.next(), self._tracks[partition], 0
            headers = None
            if track is not None:
                sequence = track.begin()
                stamp = PREFIX.pack(work.run, self._producer, sequence, due_ns)
                if not work.spec.payload.takes_prefix:
                    headers = [(HEADER, stamp)]
                else:
                    value = stamp + value
            made.append(_Made(partition, key, value, headers, track, sequence))
        return made


class _Operation:
    """The records that were due at one time."""

    __slots__ = ("done", "due_ns", "error", "left", "sent_ns", "size_bytes", "user")

    def __init__(self, done: deque[_Report], user: _User, due_ns: int, records: int) -> None:
        self.done, self.user, self.due_ns, self.left = done, user, due_ns, records
        self.sent_ns = time.monotonic_ns()
        self.size_bytes = 0
        self.error = ""


class _Report:
    """The delivery report of one record; called by librdkafka's thread."""

    __slots__ = ("error", "now_ns", "operation", "refused", "sequence", "track")

    def __init__(self, operation: _Operation, track: Track | None, sequence: int) -> None:
        self.operation, self.track, self.sequence = operation, track, sequence
        self.error: Any = None
        self.refused = ""
        self.now_ns = 0

    def __call__(self, error: Any, message: Any) -> None:
        self.now_ns = time.monotonic_ns()
        self.error = error
        self.operation.done.append(self)

    def verdict(self, is_unanswered: bool) -> tuple[str, int]:
        """Return the error's name, "" for none, and the outcome."""
        if self.refused:
            return self.refused, REFUSED
        if self.error is None:
            return "", UNKNOWN if is_unanswered else ACKNOWLEDGED
        code = self.error.code()
        return name_of(self.error), REFUSED if code in _REFUSALS or code in _LOCAL_REFUSALS else UNKNOWN


def settings_of(work: Work) -> dict[str, Any]:
    """Return librdkafka's settings for a scenario's users. Raises EngineError."""
    spec = work.spec
    timeout_ms = int(work.scenario.timeout_s * 1000)
    if spec.idempotent and spec.acks != "all":
        raise EngineError(f'{spec.name}: an idempotent producer needs acks = "all", not {spec.acks!r}')
    settings = {
        "bootstrap.servers": ",".join(str(Address(*each)) for each in work.bootstrap),
        "client.id": f"broker-load-{spec.name}",
        "acks": spec.acks,
        "compression.type": spec.codec,
        "enable.idempotence": spec.idempotent,
        "linger.ms": min(spec.options["linger_ms"], timeout_ms),
        "batch.size": spec.options["batch_bytes"],
        "message.max.bytes": MESSAGE_BYTES_MAX,
        "queue.buffering.max.messages": QUEUE_MAX,
        "delivery.timeout.ms": timeout_ms,
        # Failures are counted by their reports; lines on stderr would break the display.
        "log_level": 0,
    }  # fmt: skip
    if work.ledger is not None and not spec.idempotent:
        settings["retries"] = 0
    try:
        settings |= logins.librdkafka_settings()
    except ClientError as error:
        raise EngineError(f"{spec.name}: {error}") from None
    return settings


def name_of(error: Any) -> str:
    """Return Kafka's name of a KafkaError, or librdkafka's for its own."""
    code: int = error.code()
    return error_name(code) if code > 0 else str(error.name())
