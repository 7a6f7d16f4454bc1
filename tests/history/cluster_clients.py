"""Clients of a cluster whose brokers are disturbed: a steady producer, and members of a group.

Each is a thread with a confluent-kafka client with default settings, except where stated. All its operations are
recorded for tests/history/checker.py. None of them may get a fatal error.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from dataclasses import replace

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

from tests.history.operations import Assign, Fate, Place, Poll, Read, Recorder, Send
from tests.support.confluent import close_consumer

# default.api.timeout.ms and retry.backoff.ms of Kafka's clients.
API_TIMEOUT_S = 60.0
RETRY_S = 0.1
TIMEOUT_S = 90.0
RATE = 150
"""Records a second."""
COMMIT_EACH = 5
"""Polls of a member between two commits."""
# Broken connections are expected here.
QUIET = {"log_level": 2}


class Client(threading.Thread):
    """Makes steps until the test is over; an exception in it fails the test."""

    def __init__(self, name: str, servers: str, recorder: Recorder) -> None:
        super().__init__(name=name, daemon=True)
        self.servers = servers
        self.recorder = recorder
        self.over = threading.Event()
        self.failure: BaseException | None = None
        self.progress = 0
        self.doing = ""
        # Errors that the client reported but recovered from.
        self.errors: list[str] = []

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
    """Idempotent, acks=all, at a steady rate, to all partitions in turn, unless `settings` say otherwise."""

    def __init__(
        self,
        servers: str,
        recorder: Recorder,
        places: list[Place],
        settings: Mapping[str, str | int] | None = None,
    ) -> None:
        super().__init__("steady", servers, recorder)
        self.places = places
        self.sent = 0
        self.acked: dict[Place, int] = dict.fromkeys(places, 0)
        self.last_ack_s: dict[Place, float] = dict.fromkeys(places, time.monotonic())
        # The longest time without an acknowledgement, since it was last reset.
        self.gap_s: dict[Place, float] = dict.fromkeys(places, 0.0)
        self.unanswered: dict[str, Send] = {}
        self.due_s = time.monotonic()
        # While this is set, no more records are sent.
        self.paused = threading.Event()
        own = {"enable.idempotence": True, "linger.ms": 0, **QUIET, **(settings or {})}
        self.producer = Producer({"bootstrap.servers": servers, **own})

    def reset_gaps(self) -> None:
        """Measure the time without an acknowledgement from now on."""
        self.last_ack_s = dict.fromkeys(self.places, time.monotonic())
        self.gap_s = dict.fromkeys(self.places, 0.0)

    def step(self) -> None:
        if self.paused.is_set():
            self.producer.poll(0.02)
            self.due_s = time.monotonic()
            return
        value, place = f"r{self.sent}", self.places[self.sent % len(self.places)]
        self.unanswered[value] = Send(value, place, Fate.UNKNOWN)
        self.producer.produce(place[0], value.encode(), partition=place[1], on_delivery=self.delivered)
        self.sent += 1
        self.due_s += 1 / RATE
        # A poll ends with the first acknowledgement.
        while (wait_s := self.due_s - time.monotonic()) > 0:
            self.producer.poll(wait_s)

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
    """Reads as one of the members of a group, and commits the offsets that it has read."""

    def __init__(
        self,
        name: str,
        servers: str,
        recorder: Recorder,
        topic: str,
        group: str,
        settings: Mapping[str, str | int] | None = None,
    ) -> None:
        """`settings` replace those of the consumer."""
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
                **(settings or {}),
            }
        )
        recorder.add(Assign(name, True, {}))
        self.consumer.subscribe([topic], on_assign=self.assigned, on_revoke=self.revoked, on_lost=self.revoked)

    def assigned(self, _: Consumer, partitions: list[TopicPartition]) -> None:
        self.recorder.add(Assign(self.name, True, {(each.topic, each.partition): None for each in partitions}))

    def revoked(self, _: Consumer, __: list[TopicPartition]) -> None:
        self.recorder.add(Assign(self.name, True, {}))

    def step(self) -> None:
        reads = reads_of(self.name, self.read(), self.errors)
        if reads:
            self.recorder.add(Poll(self.name, self.recorder.now(), tuple(reads)))
            self.seen.update(read.value for read in reads)
        self.polls += 1
        if self.polls % COMMIT_EACH == 0:
            self.commit()

    def read(self) -> list[Message]:
        return self.consumer.consume(100, 0.1)

    def commit(self) -> None:
        try:
            done = self.send_commit()
        except KafkaException as error:
            if error.args[0].fatal():
                raise
            if error.args[0].code() != KafkaError._NO_OFFSET:
                self.errors.append(f"commit: {error}")
            return
        for each in done:
            if each.error is not None:
                self.errors.append(f"commit: {each}")
            elif each.offset >= 0:
                place = each.topic, each.partition
                assert each.offset >= self.committed.get(place, 0), f"{self.name} committed {each} after more"
                self.committed[place] = each.offset
        self.progress += 1

    def send_commit(self) -> list[TopicPartition]:
        """Return the committed offsets. Raises KafkaException.

        While a coordinator loads its offsets, it answers with an error, which librdkafka returns to the user after some
        retries. Kafka's own consumer retries for 60 s in all, as is done here.
        """
        deadline = time.monotonic() + API_TIMEOUT_S
        while True:
            try:
                return list(self.consumer.commit(asynchronous=False) or ())
            except KafkaException as error:
                loads = error.args[0].code() == KafkaError.COORDINATOR_LOAD_IN_PROGRESS
                if not loads or time.monotonic() + RETRY_S > deadline:
                    raise
                time.sleep(RETRY_S)

    def end(self) -> None:
        self.commit()
        close_consumer(self.consumer)


class ConsumerMember(Member):
    """The same with group.protocol=consumer (KIP-848): partitions come and go one by one."""

    def __init__(self, name: str, servers: str, recorder: Recorder, topic: str, group: str) -> None:
        self.held: set[Place] = set()
        super().__init__(name, servers, recorder, topic, group, {"group.protocol": "consumer"})

    def assigned(self, _: Consumer, partitions: list[TopicPartition]) -> None:
        self._hold(self.held | {(each.topic, each.partition) for each in partitions})

    def revoked(self, _: Consumer, partitions: list[TopicPartition]) -> None:
        self._hold(self.held - {(each.topic, each.partition) for each in partitions})

    def read(self) -> list[Message]:
        """One record: several may come from before and after a revocation, whose callback runs meanwhile."""
        message = self.consumer.poll(0.1)
        return [] if message is None else [message]

    def _hold(self, held: set[Place]) -> None:
        self.held = held
        self.recorder.add(Assign(self.name, True, dict.fromkeys(sorted(held))))


class Watcher(Client):
    """Repeatedly requests the committed offsets of a group: none may ever go back."""

    def __init__(self, servers: str, recorder: Recorder, places: list[Place], group: str) -> None:
        super().__init__(f"watcher-{group}", servers, recorder)
        self.places = places
        self.known: dict[Place, int] = {}
        self.consumer = Consumer({"bootstrap.servers": servers, "group.id": group, **QUIET})

    def step(self) -> None:
        self.look()
        self.over.wait(0.1)

    def look(self) -> None:
        try:
            found = self.ask()
        except KafkaException as error:
            if error.args[0].fatal():
                raise
            self.errors.append(f"committed: {error}")
            return
        for each in found:
            if each.error is not None:
                self.errors.append(f"committed: {each}")
                continue
            place = each.topic, each.partition
            before = self.known.get(place, -1)
            offset = max(each.offset, -1)
            assert offset >= before, f"{self.name}: the committed offset of {place} went from {before} to {offset}"
            self.known[place] = offset
        self.progress += 1

    def ask(self) -> list[TopicPartition]:
        """Return the committed offsets, from a coordinator that may move meanwhile. Raises KafkaException.

        The former coordinator answers NOT_COORDINATOR. librdkafka 2.16 returns the first such answer of OffsetFetch to
        its user, and only then looks for the new coordinator; Kafka's own consumer asks the new one, for 60 s in all,
        as is done here. Offsets in an open transaction are requested until it ends (KIP-447).
        """
        deadline = time.monotonic() + API_TIMEOUT_S
        while True:
            try:
                left_s = deadline - time.monotonic()
                return list(self.consumer.committed([TopicPartition(*place) for place in self.places], left_s))
            except KafkaException as error:
                moved = error.args[0].code() == KafkaError.NOT_COORDINATOR
                if not moved or time.monotonic() + RETRY_S > deadline:
                    raise
                self.over.wait(RETRY_S)

    def end(self) -> None:
        self.consumer.close()


def reads_of(name: str, messages: list[Message], errors: list[str] | None = None) -> list[Read]:
    """The records among the messages. Errors that are not fatal are added to `errors`."""
    reads = []
    for message in messages:
        error = message.error()
        if error is not None:
            assert not error.fatal(), f"{name}: {error}"
            if errors is not None:
                errors.append(f"poll: {error}")
            continue
        topic, partition, offset, value = message.topic(), message.partition(), message.offset(), message.value()
        assert topic is not None
        assert partition is not None
        assert offset is not None
        assert value is not None
        reads.append(Read((topic, partition), offset, value.decode()))
    return reads
