"""Seeded random work of real clients on a real broker, recorded as a history.

The seed decides what each client does in which order; how the clients' steps interleave is up to the machine. All
clients are confluent-kafka's (librdkafka), each in a thread of its own.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable
from typing import Any

from confluent_kafka import Consumer, IsolationLevel, KafkaError, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from tests.history.operations import (
    Assign,
    Crash,
    Fate,
    Outcome,
    Place,
    Poll,
    Read,
    Recorder,
    Seek,
    Send,
    Transaction,
)
from tests.support.broker import Target
from tests.support.confluent import new_consumer
from tests.support.wait import until

TIMEOUT_S = 60.0
# How long one call of a client may take before it looks whether it shall end.
CALL_S = 5.0
UNANSWERED_MAX = 300
SOON: dict[str, Any] = {
    "reconnect.backoff.ms": 10,
    "reconnect.backoff.max.ms": 100,
    "retry.backoff.ms": 10,
    "retry.backoff.max.ms": 100,
    # Else, where the only broker is down, librdkafka 2.16 gives its handle up and may wait for that for ever.
    "metadata.recovery.strategy": "none",
    # Refused connections are what the test is about.
    "log_level": 2,
}


class Client(threading.Thread):
    """Steps at random until it is told to end; what fails in it fails the test."""

    def __init__(self, work: Workload, name: str) -> None:
        super().__init__(name=name, daemon=True)
        self.work = work
        self.random = random.Random(f"{work.seed} {name}")
        self.failure: BaseException | None = None
        self.steps = 0

    def run(self) -> None:
        try:
            self.begin()
            while not self.work.over.is_set():
                self.step()
                self.steps += 1
            self.end()
        except BaseException as error:
            self.failure = error

    def begin(self) -> None: ...
    def step(self) -> None: ...
    def end(self) -> None: ...


class Sender(Client):
    """What both kinds of producers share: values that are unique, and what became of them."""

    producer: Producer

    def __init__(self, work: Workload, name: str) -> None:
        super().__init__(work, name)
        self.count = 0
        # Sent and not answered: value to (partition, transaction).
        self.unanswered: dict[str, tuple[Place, str | None]] = {}

    def send(self, transaction: str | None) -> None:
        value = f"{self.name}-{self.count}"
        self.count += 1
        place = self.random.choice(self.work.places)
        self.unanswered[value] = place, transaction
        filling = b"." * self.random.choice((0, 100, 2000))
        self.producer.produce(place[0], value.encode() + b":" + filling, partition=place[1], on_delivery=self.delivered)

    def delivered(self, error: KafkaError | None, message: Message) -> None:
        value = _name(message)
        known = self.unanswered.pop(value, None)
        if known is None:  # of a transaction that was given up; it is recorded as unknown
            return
        offset = message.offset() if error is None else None
        fate = Fate.ACKED if error is None else Fate.UNKNOWN
        self.work.recorder.add(Send(value, known[0], fate, offset, known[1]))
        self.work.acked += error is None

    def give_up(self) -> None:
        """Nobody will be told any more what became of the rest."""
        for value, (place, transaction) in self.unanswered.items():
            self.work.recorder.add(Send(value, place, Fate.UNKNOWN, None, transaction))
        self.unanswered.clear()


class PlainProducer(Sender):
    """Idempotent, without transactions. It must never fail: it waits longer than any of our brokers is down."""

    def begin(self) -> None:
        settings = {"enable.idempotence": True, "linger.ms": self.random.choice((0, 2, 10)), **SOON}
        self.producer = Producer({"bootstrap.servers": self.work.broker.bootstrap, **settings})

    def step(self) -> None:
        for _ in range(self.random.randint(1, 20)):
            self.send(None)
        self.producer.poll(0.01)
        while len(self.unanswered) > UNANSWERED_MAX and not self.work.over.is_set():
            self.producer.poll(0.1)

    def delivered(self, error: KafkaError | None, message: Message) -> None:
        assert error is None, f"{self.name}: {error}"
        super().delivered(error, message)

    def end(self) -> None:
        assert self.producer.flush(TIMEOUT_S) == 0, f"{self.name} got no answer"
        del self.producer  # else it and its threads live on with its callbacks


class TransactionalProducer(Sender):
    """Commits, aborts, and is replaced in the middle by a successor with its transactional id."""

    def begin(self) -> None:
        self.transactions = 0
        self.producer = self.successor()

    def successor(self) -> Producer:
        settings = {"transactional.id": f"{self.work.topic}-{self.name}", "transaction.timeout.ms": 60_000, **SOON}
        producer = Producer({"bootstrap.servers": self.work.broker.bootstrap, **settings})
        _retry(lambda: producer.init_transactions(CALL_S), f"{self.name} to start")
        return producer

    def step(self) -> None:
        name = f"{self.name}-T{self.transactions}"
        self.transactions += 1
        self.producer.begin_transaction()
        for _ in range(self.random.randint(1, 15)):
            self.send(name)
            if self.random.random() < 0.1:
                self.producer.poll(0.01)
        choice = self.random.random()
        if choice < 0.15:
            self.replace(name)
        elif choice < 0.4:
            self.record(name, self.abort(name), None)
        else:
            began = self.work.recorder.now()
            self.record(name, self.commit(name), began)

    def record(self, name: str, outcome: Outcome, began: int | None) -> None:
        assert not self.unanswered, f"{name} is {outcome.value} with records that were not answered"
        self.work.recorder.add(Transaction(name, outcome, began))

    def commit(self, name: str) -> Outcome:
        try:
            _retry(lambda: self.producer.commit_transaction(CALL_S), f"{name} to commit")
        except KafkaException as error:
            if error.args[0].txn_requires_abort():
                return self.abort(name)
            raise
        return Outcome.COMMITTED

    def abort(self, name: str) -> Outcome:
        try:
            _retry(lambda: self.producer.abort_transaction(CALL_S), f"{name} to abort")
        except KafkaException as error:
            # The broker died before it knew of this transaction, and the client asks to abort it all the same: with the
            # old protocol Kafka too refuses that, and the producer is of no use any more.
            if error.args[0].code() != KafkaError.INVALID_TXN_STATE:
                raise
            self.give_up()
            self.producer = self.successor()
            return Outcome.UNKNOWN
        return Outcome.ABORTED

    def replace(self, name: str) -> None:
        """The transaction is the successor's to abort; the zombie may try to commit it, and must fail."""
        self.producer.poll(self.random.choice((0.0, 0.02)))
        self.give_up()
        zombie, self.producer = self.producer, self.successor()
        self.work.recorder.add(Crash(self.name))
        began = None
        outcome = Outcome.UNKNOWN
        if self.random.random() < 0.5:
            began = self.work.recorder.now()
            try:
                _retry(lambda: zombie.commit_transaction(CALL_S), "a zombie to commit")
                outcome = Outcome.COMMITTED
            except KafkaException as error:
                if not (error.args[0].fatal() or error.args[0].txn_requires_abort()):
                    raise
        self.work.recorder.add(Transaction(name, outcome, began))

    def end(self) -> None:
        self.give_up()
        del self.producer


class Reader(Client):
    """Polls, seeks, and is killed and begun anew anywhere in what has been read so far."""

    def __init__(self, work: Workload, name: str, *, committed: bool) -> None:
        super().__init__(work, name)
        self.committed = committed
        self.reached = dict.fromkeys(work.places, 0)

    def begin(self) -> None:
        self.consumer = self.work.consumer(self.name, committed=self.committed)
        start = {place: self.random.randint(0, reached) for place, reached in self.reached.items()}
        self.work.recorder.add(Assign(self.name, self.committed, start))
        self.consumer.assign([TopicPartition(*place, offset) for place, offset in start.items()])

    def step(self) -> None:
        choice = self.random.random()
        if choice < 0.03:
            self.consumer.close()
            self.work.recorder.add(Crash(self.name))
            self.begin()
        elif choice < 0.1:
            self.seek()
        else:
            poll(self.work, self.name, self.consumer, self.random.randint(1, 50), self.reached)

    def seek(self) -> None:
        place = self.random.choice(self.work.places)
        offset = self.random.randint(0, self.reached[place])
        try:
            self.consumer.seek(TopicPartition(*place, offset))
        except KafkaException as error:
            # The partition has not begun to be read: the client takes no seek then.
            if error.args[0].code() != KafkaError._STATE:
                raise
            return
        self.work.recorder.add(Seek(self.name, place, offset))

    def end(self) -> None:
        self.consumer.close()


class Workload:
    """Clients on one topic of a broker that the caller kills; `finish` gives the history."""

    def __init__(self, broker: Target, topic: str, partitions: int, seed: int) -> None:
        self.broker = broker
        self.topic = topic
        self.places: list[Place] = [(topic, partition) for partition in range(partitions)]
        self.seed = seed
        self.recorder = Recorder()
        self.over = threading.Event()
        self.acked = 0
        self.clients: list[Client] = [
            *(PlainProducer(self, f"plain{number}") for number in range(2)),
            *(TransactionalProducer(self, f"txn{number}") for number in range(3)),
            *(Reader(self, f"reader{number}", committed=number > 0) for number in range(3)),
        ]
        for client in self.clients:
            client.start()

    def consumer(self, name: str, *, committed: bool, **settings: Any) -> Consumer:
        level = "read_committed" if committed else "read_uncommitted"
        # A reset would be a seek that nobody asked for.
        soon = {key.replace(".", "_"): value for key, value in SOON.items() if "." in key}
        return new_consumer(
            self.broker.bootstrap, name, isolation_level=level, auto_offset_reset="error", **soon, **settings
        )

    def go_on(self, acks: int, steps: int) -> None:
        """Until so many more records are acknowledged and each client has made so many steps more."""
        acked, made = self.acked + acks, [client.steps + steps for client in self.clients]

        def done() -> bool:
            self.raise_failure()
            return self.acked >= acked and all(
                client.steps >= least for client, least in zip(self.clients, made, strict=True)
            )

        until(done, f"{acks} more acknowledged records and {steps} steps", TIMEOUT_S)

    def kill_broker(self) -> None:
        """SIGKILL, and start again on the same port and data."""
        self.broker.kill()
        self.recorder.add(Crash("broker"))
        self.broker.restart()

    def raise_failure(self) -> None:
        for client in self.clients:
            if client.failure is not None:
                raise AssertionError(f"{client.name} failed: {client.failure!r}") from client.failure

    def finish(self) -> None:
        """End the clients and all transactions, and read everything once more at either isolation level."""
        self.over.set()
        for client in self.clients:
            client.join(2 * TIMEOUT_S)
            self.raise_failure()
            assert not client.is_alive(), f"{client.name} did not end"
        ends = until(self.stable_ends, "the last stable offset to reach the end", TIMEOUT_S)
        for committed in (False, True):
            self.read_all(f"last-{committed}", ends, committed=committed)

    def stable_ends(self) -> dict[Place, int] | None:
        """The ends of the partitions; None while a transaction is open, or its markers are being written."""
        admin = AdminClient({"bootstrap.servers": self.broker.bootstrap})
        asked = {TopicPartition(*place): OffsetSpec.latest() for place in self.places}
        found = [
            {
                (place.topic, place.partition): result.result(TIMEOUT_S).offset
                for place, result in admin.list_offsets(asked, isolation_level=level).items()
            }
            for level in (IsolationLevel.READ_COMMITTED, IsolationLevel.READ_UNCOMMITTED)
        ]
        return found[0] if found[0] == found[1] else None

    def read_all(self, name: str, ends: dict[Place, int], *, committed: bool) -> None:
        consumer = self.consumer(name, committed=committed, enable_partition_eof=True)
        self.recorder.add(Assign(name, committed, dict.fromkeys(ends, 0)))
        consumer.assign([TopicPartition(*place, 0) for place in ends])
        at_end: set[Place] = {place for place, end in ends.items() if end == 0}
        deadline = time.monotonic() + TIMEOUT_S
        while len(at_end) < len(ends):
            assert time.monotonic() < deadline, f"{name} did not come to the end: {at_end} of {ends}"
            at_end |= poll(self, name, consumer, 500, {})
        consumer.close()


def poll(work: Workload, name: str, consumer: Consumer, count: int, reached: dict[Place, int]) -> set[Place]:
    """One poll, recorded; the partitions of which it saw the end, where the consumer tells it."""
    reads = []
    ended = set()
    for message in consumer.consume(count, 0.1):
        error = message.error()
        topic, partition, offset = message.topic(), message.partition(), message.offset()
        assert topic is not None
        assert partition is not None
        assert offset is not None
        if error is not None:
            assert error.code() == KafkaError._PARTITION_EOF, f"{name}: {error}"
            ended.add((topic, partition))
            continue
        reads.append(Read((topic, partition), offset, _name(message)))
        reached[topic, partition] = max(reached.get((topic, partition), 0), offset + 1)
    time_ended = work.recorder.now()
    places = {read.place for read in reads}
    said = {
        (position.topic, position.partition): position.offset
        for position in consumer.position([TopicPartition(*place) for place in places])
    }
    work.recorder.add(Poll(name, time_ended, tuple(reads), said))
    return ended


def _name(message: Message) -> str:
    value = message.value()
    assert value is not None
    return value.split(b":", 1)[0].decode()


def _retry(call: Callable[[], None], what: str) -> None:
    """Until it neither fails in a way that the client calls retriable, nor takes longer than it may."""
    deadline = time.monotonic() + TIMEOUT_S
    while True:
        try:
            return call()
        except KafkaException as error:
            if not error.args[0].retriable():
                raise
            if time.monotonic() > deadline:
                raise AssertionError(f"waited {TIMEOUT_S:g} s in vain for {what}") from error
