"""Transactional copiers of a cluster whose brokers are disturbed: consume, produce, and commit the offsets with it."""

from __future__ import annotations

import random
import threading
import time
from contextlib import suppress
from dataclasses import replace
from typing import Self

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

from tests.history.cluster_clients import API_TIMEOUT_S, QUIET, TIMEOUT_S, Client, reads_of
from tests.history.operations import Fate, Outcome, Place, Recorder, Send, Transaction
from tests.support.confluent import close_consumer

COPIED_MAX = 200
STUCK_S = 10.0
"""The longest duration of send_offsets_to_transaction before the copier is replaced, whatever its timeout."""


class Abandoned(Exception):
    """A successor has replaced this copier."""


class Copier(Client):
    """Copies one topic to another, exactly once: its offsets are part of its transactions.

    librdkafka 2.16 may wait forever in send_offsets_to_transaction, whatever its timeout, when the group's coordinator
    is no longer in the metadata (confluentinc/librdkafka issues 5511 and 5456): it stops sending requests. Then a
    successor with the same transactional id takes over, as if an operator had started one.
    """

    group = "copier"
    """The group of its offsets."""

    def __init__(
        self, servers: str, recorder: Recorder, source: str, target: str, partitions: int, name: str = "copier"
    ) -> None:
        """`name` is also its transactional id."""
        super().__init__(name, servers, recorder)
        self.since_s = time.monotonic()
        # Once this is set, under the lock, later responses to the copier are not recorded.
        self.abandoned = False
        self.lock = threading.Lock()
        self.source, self.target, self.partitions = source, target, partitions
        self.random = random.Random(1)
        # The largest number of records of a transaction.
        self.copied_max = COPIED_MAX
        self.count = 0
        self.aborts = 0
        self.attempts = 0
        self.copied = 0
        self.failed = False
        self.unanswered: dict[str, Send] = {}
        self.consumer = Consumer(
            {
                "bootstrap.servers": servers,
                "group.id": self.group,
                "isolation.level": "read_committed",
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                # A member whose copier is replaced while its coordinator moves may be unable to leave the group
                # cleanly.
                "session.timeout.ms": 10_000,
                **QUIET,
            }
        )
        self.begin()
        self.producer: Producer | None = None

    def begin(self) -> None:
        """Choose the partitions to copy."""
        self.consumer.assign([TopicPartition(self.source, partition, 0) for partition in range(self.partitions)])

    def started(self) -> Producer:
        if self.producer is None:
            self.producer = Producer({"bootstrap.servers": self.servers, "transactional.id": self.name, **QUIET})
            self.retried("init_transactions", self.producer.init_transactions)
            self.rewind()
        return self.producer

    @property
    def is_stuck(self) -> bool:
        return self.doing.startswith("send_offsets") and time.monotonic() - self.since_s > STUCK_S

    def successor(self) -> Self:
        """Abandon this copier, and return another one, not started, that takes over."""
        with self.lock:
            self.abandoned = True
        for send in self.unanswered.values():
            self.recorder.add(send)
        self.recorder.add(Transaction(f"{self.name}-T{self.count - 1}", Outcome.UNKNOWN, self.recorder.now()))
        close_consumer(self.consumer)
        other = type(self)(self.servers, self.recorder, self.source, self.target, self.partitions, self.name)
        other.count, other.attempts, other.aborts = self.count, self.attempts, self.aborts
        other.copied, other.progress, other.copied_max = self.copied, self.progress, self.copied_max
        return other

    def retried(self, what: str, call: object, *arguments: object) -> None:
        deadline = time.monotonic() + TIMEOUT_S
        self.doing, self.since_s = what, time.monotonic()
        while True:
            try:
                call(*arguments, API_TIMEOUT_S)  # type: ignore[operator]
                if self.abandoned:
                    raise Abandoned
                self.doing = ""
                return
            except KafkaException as error:
                if self.abandoned:
                    raise Abandoned from error
                if not error.args[0].retriable():
                    raise
                self.doing = f"{what}: {error}"
                self.errors.append(self.doing)
                if time.monotonic() > deadline:
                    raise AssertionError(f"{what} was not done in {TIMEOUT_S:g} s: {error}") from error

    def delivered(self, error: KafkaError | None, message: Message) -> None:
        value = message.value()
        assert value is not None
        with self.lock:
            if self.abandoned:
                return
            send = self.unanswered.pop(value.decode())
            self.failed |= error is not None
            self.recorder.add(send if error else replace(send, fate=Fate.ACKED, offset=message.offset()))

    def step(self) -> None:
        producer = self.started()
        self.doing = "reading"
        # Taken before the records are read: after a rebalance other members may read them again, and the commit fails.
        membership, is_member = self.consumer.consumer_group_metadata(), self.is_member
        reads = reads_of(self.name, self.consumer.consume(self.random.randint(1, self.copied_max), 0.2), self.errors)
        if not reads:
            return
        if not is_member:
            # Otherwise the offsets would be accepted as those of a consumer without a group.
            self.rewind()
            return
        name = f"{self.name}-T{self.count}"
        self.count += 1
        producer.begin_transaction()
        outcome, began = Outcome.ABORTED, None
        try:
            offsets: dict[Place, int] = {}
            for read in reads:
                value, place = f"{self.name}.{self.attempts}/{read.value}", (self.target, read.place[1])
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
            self.errors.append(f"transaction: {error}")
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

    @property
    def is_member(self) -> bool:
        """Whether it can commit the records that it reads next."""
        return True

    def rewind(self) -> None:
        """Go to the committed offsets: the records read since then were not copied."""
        self.doing = "rewinding"
        deadline = time.monotonic() + TIMEOUT_S
        while True:
            with suppress(KafkaException):
                found = self.consumer.committed(self.consumer.assignment(), API_TIMEOUT_S)
                if all(each.error is None for each in found):
                    self.go([TopicPartition(each.topic, each.partition, max(each.offset, 0)) for each in found])
                    return
            assert time.monotonic() < deadline, "the committed offsets could not be read"

    def go(self, places: list[TopicPartition]) -> None:
        """Continue reading there. Raises KafkaException if the caller has to retry."""
        self.consumer.assign(places)

    def end(self) -> None:
        close_consumer(self.consumer)
        self.producer = None


class GroupCopier(Copier):
    """Copies the partitions that its group assigns to it. A copier that is no longer a member cannot commit
    (KIP-447).
    """

    group = "copiers"

    def begin(self) -> None:
        self.consumer.subscribe([self.source])

    @property
    def is_member(self) -> bool:
        return bool(self.consumer.memberid())

    def go(self, places: list[TopicPartition]) -> None:
        # The client refuses to seek in a partition that it has not started to read. Records that a poll returned are
        # read again.
        try:
            for place in places:
                self.consumer.seek(place)
        except KafkaException:
            self.consumer.poll(0.05)
            raise
