"""The producers of a workload: plain ones, transactional ones that are replaced, and one whose records are refused."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from tests.history.clients import CALL_S, SOON, TIMEOUT_S, UNANSWERED_MAX, UNSURE, Client, value_of
from tests.history.operations import Crash, Fate, Outcome, Place, Send, Transaction

if TYPE_CHECKING:
    from tests.history.workload import Workload


# Number of distinct keys, so that records of a compacted partition supersede each other.
KEYS = 8


class Sender(Client):
    """The base of all producers: unique values, and the fate of each record."""

    producer: Producer

    def __init__(self, work: Workload, name: str) -> None:
        super().__init__(work, name)
        self.count = 0
        # Records that were sent and not yet answered, by value.
        self.unanswered: dict[str, Send] = {}

    def send(self, transaction: str | None) -> None:
        self.send_to(self.random.choice(self.work.places), self.random.choice((0, 100, 2000)), transaction)

    def send_to(self, place: Place, filling_bytes: int, transaction: str | None = None, *, keyed: bool = True) -> None:
        value = f"{self.name}-{self.count}"
        self.count += 1
        key = f"k{self.random.randrange(KEYS)}" if keyed else None
        self.producer.produce(
            place[0], value.encode() + b":" + b"." * filling_bytes, key, partition=place[1], on_delivery=self.delivered
        )
        # Not before the call: a record that the client did not accept is not part of the history.
        self.unanswered[value] = Send(value, place, Fate.UNKNOWN, None, transaction, key)

    def delivered(self, error: KafkaError | None, message: Message) -> None:
        value = value_of(message)
        known = self.unanswered.pop(value, None)
        if known is None:  # of an abandoned transaction; it is recorded as unknown
            return
        offset = message.offset() if error is None else None
        self.work.recorder.add(replace(known, fate=self.fate(error), offset=offset))
        self.work.acked += error is None

    def fate(self, error: KafkaError | None) -> Fate:
        """The fate that a response means; an earlier response to a retried request may have been another."""
        return Fate.ACKED if error is None else Fate.UNKNOWN

    def give_up(self) -> None:
        """Record everything unanswered as unknown; its responses can no longer arrive."""
        for send in self.unanswered.values():
            self.work.recorder.add(send)
        self.unanswered.clear()


class PlainProducer(Sender):
    """Idempotent, without transactions. It must never fail, as its timeout is longer than any restart."""

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
        del self.producer  # otherwise its callbacks keep the producer and its threads alive


class RefusedProducer(Sender):
    """Never retries, and sends some records that the broker must refuse. An explicit error means that the record was
    not written.
    """

    def begin(self) -> None:
        settings = {"enable.idempotence": False, "retries": 0, "linger.ms": self.random.choice((0, 2)), **SOON}
        self.producer = Producer({"bootstrap.servers": self.work.broker.bootstrap, **settings})

    def step(self) -> None:
        for _ in range(self.random.randint(1, 10)):
            choice = self.random.random()
            if choice < 0.2:
                self.send_to(self.random.choice(self.work.places), 2 * self.work.limit_bytes)
            elif choice < 0.4:
                self.send_to(self.random.choice(self.work.compacted), 0, keyed=False)
            else:
                self.send(None)
        assert self.producer.flush(TIMEOUT_S) == 0, f"{self.name} got no answer"

    def fate(self, error: KafkaError | None) -> Fate:
        if error is not None and error.code() > 0 and error.code() not in UNSURE:
            self.work.refused += 1
            return Fate.REFUSED
        return super().fate(error)

    def end(self) -> None:
        del self.producer


class TransactionalProducer(Sender):
    """Commits, aborts, and is replaced during a transaction by a successor with its transactional id."""

    def begin(self) -> None:
        self.transactions = 0
        self.failed = 0
        self.producer = self.successor()

    def successor(self) -> Producer:
        settings = {"transactional.id": f"{self.work.name}-{self.name}", "transaction.timeout.ms": 60_000, **SOON}
        producer = Producer({"bootstrap.servers": self.work.broker.bootstrap, **settings})
        _retry(lambda: producer.init_transactions(CALL_S), f"{self.name} to start")
        return producer

    def step(self) -> None:
        name = f"{self.name}-T{self.transactions}"
        self.transactions += 1
        kills, failed = self.work.kills, self.failed
        self.producer.begin_transaction()
        is_open = self.fill(name)
        choice = self.random.random()
        if choice < 0.15:
            self.replace(name)
        elif choice < 0.4 or not is_open:
            self.record(name, self.abort(name), None)
        else:
            began = self.work.recorder.now()
            self.record(name, self.commit(name), began)
        if self.work.kills > kills and self.failed > failed:
            # When a transaction is aborted, librdkafka 2.16 drops the batches that wait to be sent again, and gives
            # their sequence numbers to the next records under the same epoch, although the broker may have written
            # those batches. The next records are then out of order, which is fatal, or are even taken for the dropped
            # ones, and acknowledged. This also happens with Kafka (tests/compat/test_cut_connections.py).
            self.producer = self.successor()

    def fill(self, name: str) -> bool:
        """Send the records of a transaction. Return whether it is still open: once the client learns that the
        transaction failed, it accepts no more records, and requires an abort.
        """
        try:
            for _ in range(self.random.randint(1, 15)):
                self.send(name)
                if self.random.random() < 0.1:
                    self.producer.poll(0.01)
        except KafkaException as error:
            if error.args[0].code() != KafkaError._STATE:
                raise
            return False
        return True

    def delivered(self, error: KafkaError | None, message: Message) -> None:
        self.failed += error is not None
        super().delivered(error, message)

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
            # The broker died before it learned of this transaction, and the client sends the abort nevertheless: with
            # the old protocol, Kafka also refuses that, and the producer is no longer usable.
            if error.args[0].code() != KafkaError.INVALID_TXN_STATE:
                raise
            self.give_up()
            self.producer = self.successor()
            return Outcome.UNKNOWN
        return Outcome.ABORTED

    def replace(self, name: str) -> None:
        """Start a successor, which aborts the transaction; the zombie may try to commit it, and must fail."""
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


def _retry(call: Callable[[], None], what: str) -> None:
    """Repeat the call while it fails with a retriable error, for TIMEOUT_S at most."""
    deadline = time.monotonic() + TIMEOUT_S
    while True:
        try:
            return call()
        except KafkaException as error:
            if not error.args[0].retriable():
                raise
            if time.monotonic() > deadline:
                raise AssertionError(f"{what} did not come within {TIMEOUT_S:g} s") from error
