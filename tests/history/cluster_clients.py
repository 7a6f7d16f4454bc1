"""Clients of a cluster whose brokers are disturbed: a steady producer, members of a group, and a transactional copier.

Each is a thread with a client of confluent-kafka in its default settings, except what is stated. Everything that it
does is recorded for tests/history/checker.py. None of them may meet a fatal error.
"""

from __future__ import annotations

import random
import threading
import time
from contextlib import suppress
from dataclasses import replace

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

from tests.history.operations import Assign, Fate, Outcome, Place, Poll, Read, Recorder, Send, Transaction
from tests.support.confluent import close_consumer

CALL_S = 5.0
TIMEOUT_S = 90.0
RATE = 150
"""Records a second."""
COPIED_MAX = 200
STUCK_S = 10.0
"""How long send_offsets_to_transaction, with a timeout of CALL_S, may take before the copier is replaced."""
COMMIT_EACH = 5
"""Polls of a member between two commits."""
# Broken connections are expected here.
QUIET = {"log_level": 2}


class Client(threading.Thread):
    """Makes steps until it is over; an exception in it fails the test."""

    def __init__(self, name: str, servers: str, recorder: Recorder) -> None:
        super().__init__(name=name, daemon=True)
        self.servers = servers
        self.recorder = recorder
        self.over = threading.Event()
        self.failure: BaseException | None = None
        self.progress = 0
        self.doing = ""

    def run(self) -> None:
        try:
            while not self.over.is_set():
                self.step()
            self.end()
        except BaseException as error:
            self.failure = error

    def finish(self) -> None:
        self.over.set()
        self.join(TIMEOUT_S)
        self.check()
        assert not self.is_alive(), f"{self.name} did not end"

    def check(self) -> None:
        if self.failure is not None:
            raise AssertionError(f"{self.name} failed: {self.failure!r}") from self.failure

    def step(self) -> None: ...
    def end(self) -> None: ...


class SteadyProducer(Client):
    """Idempotent, acks=all, at a steady rate, to all partitions in turn."""

    def __init__(self, servers: str, recorder: Recorder, places: list[Place]) -> None:
        super().__init__("steady", servers, recorder)
        self.places = places
        self.sent = 0
        self.acked: dict[Place, int] = dict.fromkeys(places, 0)
        self.last_ack_s: dict[Place, float] = dict.fromkeys(places, time.monotonic())
        # The longest time without an acknowledgement, since it was last reset.
        self.gap_s: dict[Place, float] = dict.fromkeys(places, 0.0)
        self.unanswered: dict[str, Send] = {}
        self.due_s = time.monotonic()
        self.producer = Producer({"bootstrap.servers": servers, "enable.idempotence": True, "linger.ms": 0, **QUIET})

    def step(self) -> None:
        value, place = f"r{self.sent}", self.places[self.sent % len(self.places)]
        self.unanswered[value] = Send(value, place, Fate.UNKNOWN)
        self.producer.produce(place[0], value.encode(), partition=place[1], on_delivery=self.delivered)
        self.sent += 1
        self.due_s += 1 / RATE
        self.producer.poll(max(self.due_s - time.monotonic(), 0))

    def delivered(self, error: KafkaError | None, message: Message) -> None:
        value = message.value()
        assert value is not None
        send = self.unanswered.pop(value.decode())
        # The delivery timeout is five minutes: longer than any disturbance.
        assert error is None, f"{send}: {error}"
        self.recorder.add(replace(send, fate=Fate.ACKED, offset=message.offset()))
        now = time.monotonic()
        self.gap_s[send.place] = max(self.gap_s[send.place], now - self.last_ack_s[send.place])
        self.last_ack_s[send.place] = now
        self.acked[send.place] += 1
        self.progress += 1

    def end(self) -> None:
        assert self.producer.flush(TIMEOUT_S) == 0, "the producer got no answer"
        del self.producer


class Member(Client):
    """Reads as one of the members of a group, and commits what it has read."""

    def __init__(self, name: str, servers: str, recorder: Recorder, topic: str, group: str) -> None:
        super().__init__(name, servers, recorder)
        self.group = group
        self.seen: set[str] = set()
        self.committed: dict[Place, int] = {}
        self.polls = 0
        self.consumer = Consumer(
            {
                "bootstrap.servers": servers,
                "group.id": group,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                **QUIET,
            }
        )
        recorder.add(Assign(name, True, {}))
        self.consumer.subscribe([topic], on_assign=self.assigned, on_revoke=self.revoked, on_lost=self.revoked)

    def assigned(self, _: Consumer, partitions: list[TopicPartition]) -> None:
        self.recorder.add(Assign(self.name, True, {(each.topic, each.partition): None for each in partitions}))

    def revoked(self, _: Consumer, __: list[TopicPartition]) -> None:
        self.recorder.add(Assign(self.name, True, {}))

    def step(self) -> None:
        reads = reads_of(self.name, self.consumer.consume(100, 0.1))
        if reads:
            self.recorder.add(Poll(self.name, self.recorder.now(), tuple(reads)))
            self.seen.update(read.value for read in reads)
        self.polls += 1
        if self.polls % COMMIT_EACH == 0:
            self.commit()

    def commit(self) -> None:
        try:
            done = self.consumer.commit(asynchronous=False) or []
        except KafkaException as error:
            if error.args[0].fatal():
                raise
            return
        for each in done:
            if each.error is None and each.offset >= 0:
                place = each.topic, each.partition
                assert each.offset >= self.committed.get(place, 0), f"{self.name} committed {each} after more"
                self.committed[place] = each.offset
        self.progress += 1

    def end(self) -> None:
        self.commit()
        close_consumer(self.consumer)


class Watcher(Client):
    """Asks for the committed offsets of a group again and again: none may ever go back."""

    def __init__(self, servers: str, recorder: Recorder, places: list[Place], group: str) -> None:
        super().__init__(f"watcher-{group}", servers, recorder)
        self.places = places
        self.known: dict[Place, int] = {}
        self.consumer = Consumer({"bootstrap.servers": servers, "group.id": group, **QUIET})

    def step(self) -> None:
        self.look()
        self.over.wait(0.3)

    def look(self) -> None:
        try:
            found = self.consumer.committed([TopicPartition(*place) for place in self.places], CALL_S)
        except KafkaException as error:
            if error.args[0].fatal():
                raise
            return
        for each in found:
            if each.error is not None:
                continue
            place = each.topic, each.partition
            before = self.known.get(place, -1)
            offset = max(each.offset, -1)
            assert offset >= before, f"{self.name}: the committed offset of {place} went from {before} to {offset}"
            self.known[place] = offset
        self.progress += 1

    def end(self) -> None:
        self.consumer.close()


class Abandoned(Exception):
    """A successor has taken the place of this copier."""


class Copier(Client):
    """Copies one topic to another, exactly once: its offsets are part of its transactions.

    librdkafka 2.16 may wait for ever in send_offsets_to_transaction, whatever its timeout, when the coordinator of the
    group is no longer in the metadata (confluentinc/librdkafka issues 5511 and 5456): it sends nothing any more. A
    successor with the same transactional id then takes over, as an operator would start one.
    """

    def __init__(self, servers: str, recorder: Recorder, source: str, target: str, partitions: int) -> None:
        super().__init__("copier", servers, recorder)
        self.since_s = time.monotonic()
        self.abandoned = False
        self.source, self.target, self.partitions = source, target, partitions
        self.random = random.Random(1)
        self.count = 0
        self.aborts = 0
        self.attempts = 0
        self.copied = 0
        self.failed = False
        self.unanswered: dict[str, Send] = {}
        self.consumer = Consumer(
            {
                "bootstrap.servers": servers,
                "group.id": "copier",
                "isolation.level": "read_committed",
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                **QUIET,
            }
        )
        self.consumer.assign([TopicPartition(source, partition, 0) for partition in range(partitions)])
        self.producer: Producer | None = None

    def started(self) -> Producer:
        if self.producer is None:
            self.producer = Producer({"bootstrap.servers": self.servers, "transactional.id": "copier", **QUIET})
            self.retried("init_transactions", self.producer.init_transactions)
            self.rewind()
        return self.producer

    @property
    def is_stuck(self) -> bool:
        return self.doing.startswith("send_offsets") and time.monotonic() - self.since_s > STUCK_S

    def successor(self) -> Copier:
        """Abandon this copier, and return another one, not started, that takes over."""
        self.abandoned = True
        for send in self.unanswered.values():
            self.recorder.add(send)
        self.recorder.add(Transaction(f"T{self.count - 1}", Outcome.UNKNOWN, self.recorder.now()))
        other = Copier(self.servers, self.recorder, self.source, self.target, self.partitions)
        other.count, other.attempts, other.aborts = self.count, self.attempts, self.aborts
        other.copied, other.progress = self.copied, self.progress
        return other

    def retried(self, what: str, call: object, *arguments: object) -> None:
        deadline = time.monotonic() + TIMEOUT_S
        self.doing, self.since_s = what, time.monotonic()
        while True:
            try:
                call(*arguments, CALL_S)  # type: ignore[operator]
                if self.abandoned:
                    raise Abandoned
                self.doing = ""
                return
            except KafkaException as error:
                if not error.args[0].retriable():
                    raise
                self.doing = f"{what}: {error}"
                if time.monotonic() > deadline:
                    raise AssertionError(f"{what} was not done in {TIMEOUT_S:g} s: {error}") from error

    def delivered(self, error: KafkaError | None, message: Message) -> None:
        value = message.value()
        assert value is not None
        send = self.unanswered.pop(value.decode())
        self.failed |= error is not None
        self.recorder.add(send if error else replace(send, fate=Fate.ACKED, offset=message.offset()))

    def step(self) -> None:
        producer = self.started()
        self.doing = "reading"
        membership = self.consumer.consumer_group_metadata()
        reads = reads_of(self.name, self.consumer.consume(self.random.randint(1, COPIED_MAX), 0.2))
        if not reads:
            return
        name = f"T{self.count}"
        self.count += 1
        producer.begin_transaction()
        outcome, began = Outcome.ABORTED, None
        try:
            offsets: dict[Place, int] = {}
            for read in reads:
                value, place = f"{self.attempts}/{read.value}", (self.target, read.place[1])
                self.attempts += 1
                producer.produce(place[0], value.encode(), partition=place[1], on_delivery=self.delivered)
                self.unanswered[value] = Send(value, place, Fate.UNKNOWN, None, name)
                offsets[read.place] = read.offset + 1
            done = [TopicPartition(*place, offset) for place, offset in offsets.items()]
            self.retried("send_offsets", producer.send_offsets_to_transaction, done, membership)
            if self.random.random() >= 0.1:
                began = self.recorder.now()
                self.retried("commit", producer.commit_transaction)
                outcome = Outcome.COMMITTED
                self.copied += len(reads)
                self.progress += 1
        except KafkaException as error:
            if not error.args[0].txn_requires_abort() and error.args[0].code() != KafkaError._STATE:
                raise
        if outcome is Outcome.ABORTED:
            self.retried("abort", producer.abort_transaction)
            self.aborts += 1
        assert not self.unanswered, f"{name} ended with records that were not answered"
        self.recorder.add(Transaction(name, outcome, began))
        if outcome is Outcome.ABORTED:
            if self.failed:
                # See TransactionalProducer.step in tests/history/producers.py: a defect of librdkafka 2.16.
                self.failed, self.producer = False, None
            self.rewind()

    def rewind(self) -> None:
        """Seek to the committed offsets: the records read since then were not copied."""
        self.doing = "rewinding"
        deadline = time.monotonic() + TIMEOUT_S
        while True:
            with suppress(KafkaException):
                found = self.consumer.committed(self.consumer.assignment(), CALL_S)
                if all(each.error is None for each in found):
                    break
            assert time.monotonic() < deadline, "the committed offsets could not be read"
        self.consumer.assign([TopicPartition(each.topic, each.partition, max(each.offset, 0)) for each in found])

    def end(self) -> None:
        close_consumer(self.consumer)
        self.producer = None


def reads_of(name: str, messages: list[Message]) -> list[Read]:
    reads = []
    for message in messages:
        error = message.error()
        if error is not None:
            assert not error.fatal(), f"{name}: {error}"
            continue
        topic, partition, offset, value = message.topic(), message.partition(), message.offset(), message.value()
        assert topic is not None
        assert partition is not None
        assert offset is not None
        assert value is not None
        reads.append(Read((topic, partition), offset, value.decode()))
    return reads
