"""A group whose members change from the classic to the consumer protocol, and back, while records arrive."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

from tests.support.broker import Target
from tests.support.confluent import TIMEOUT_S, close_consumer, new_consumer
from tests.support.topics import create_topic
from tests.support.wait import until

PARTITIONS = 6
MEMBERS = 3
# Records between two changes; each member has to read on after every change.
ROUND = 150
MOVED = (
    KafkaError.REBALANCE_IN_PROGRESS,
    KafkaError.ILLEGAL_GENERATION,
    KafkaError.UNKNOWN_MEMBER_ID,
    KafkaError.STALE_MEMBER_EPOCH,
)
CLASSIC = {"group_protocol": "classic", "partition_assignment_strategy": "range"}
NEWER = {"group_protocol": "consumer"}


class Reader:
    """A member in a thread: commits after each record, and at the end of its work."""

    def __init__(self, bootstrap: str, topic: str, group: str, seen: Counter[bytes], **settings: Any) -> None:
        more = {} if settings["group_protocol"] == "consumer" else {"heartbeat_interval_ms": 200}
        self.consumer: Consumer = new_consumer(bootstrap, group, **settings, **more)
        self.consumer.subscribe([topic])
        self.held: list[TopicPartition] = []
        self.failure: BaseException | None = None
        self._seen = seen
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._work)
        self._thread.start()

    def _work(self) -> None:
        try:
            while not self._ends.is_set():
                message = self.consumer.poll(0.05)
                self.held = self.consumer.assignment()
                if message is None or message.error() is not None:
                    error = None if message is None else message.error()
                    # The join of a classic member ends with it when the group changes.
                    assert error is None or error.code() == KafkaError.REBALANCE_IN_PROGRESS, error
                    continue
                self._seen[message.value() or b""] += 1
                self._commit(message)
            close_consumer(self.consumer)
        except BaseException as failure:
            self.failure = failure

    def _commit(self, message: Message) -> None:
        """Wait for the commit: librdkafka 2.16 does not leave its group if it is closed while commits are under way."""
        try:
            self.consumer.commit(message=message, asynchronous=False)
        except KafkaException as error:
            # The partition is about to be another member's, which reads the record again.
            if error.args[0].code() not in MOVED:
                raise

    def end(self) -> None:
        self._ends.set()
        self._thread.join(TIMEOUT_S)
        assert not self._thread.is_alive()
        assert self.failure is None, self.failure


@pytest.fixture
def readers() -> Iterator[list[Reader]]:
    running: list[Reader] = []
    yield running
    for reader in running:
        reader.end()


@pytest.mark.timeout(300)
def test_no_record_is_lost(broker: Target, topic: str, group: str, readers: list[Reader]) -> None:
    """If this fails, an application loses records, or stops, while its instances change their protocol one by one."""
    create_topic(broker.bootstrap, topic, PARTITIONS)
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    seen: Counter[bytes] = Counter()
    sent = 0

    def send() -> None:
        nonlocal sent
        for number in range(sent, sent + ROUND):
            producer.produce(topic, b"%d" % number, partition=number % PARTITIONS)
        sent += ROUND
        assert producer.flush(TIMEOUT_S) == 0

    def held() -> list[int]:
        return [place.partition for reader in readers for place in reader.held]

    def check(what: str) -> None:
        """Each change comes amid records; then all are read, and all partitions are held."""
        send()
        until(lambda: len(seen) == sent, f"all records {what}", TIMEOUT_S)
        # Each reader notes its partitions at its own polls: a moved one is for a moment in two notes.
        until(lambda: sorted(held()) == list(range(PARTITIONS)), f"one reader of each partition {what}", TIMEOUT_S)

    for _ in range(MEMBERS):
        readers.append(Reader(broker.bootstrap, topic, group, seen, **CLASSIC))
    check("with classic members")
    for settings in (NEWER, CLASSIC):
        for number in range(MEMBERS):
            send()
            readers.pop(0).end()
            readers.append(Reader(broker.bootstrap, topic, group, seen, **settings))
            check(f"after change {number} to {settings['group_protocol']}")
    assert sorted(seen) == sorted(b"%d" % number for number in range(sent))
