"""The consumers of a workload, alone or in a group, and a client that deletes records while they read."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient

from tests.history.clients import CALL_S, SOON, Client, value_of
from tests.history.operations import Assign, Crash, Delete, Place, Poll, Read, Seek
from tests.support.confluent import close_consumer

if TYPE_CHECKING:
    from tests.history.workload import Workload


class Reader(Client):
    """Polls, seeks, and is closed and started again at any offset that was read so far."""

    def __init__(self, work: Workload, name: str, *, committed: bool) -> None:
        super().__init__(work, name)
        self.committed = committed
        self.reached = dict.fromkeys(work.places, 0)
        # The positions in partitions that returned records since the last assignment or seek.
        self.at: dict[Place, int] = {}

    def begin(self) -> None:
        self.consumer = self.work.consumer(self.name, committed=self.committed)
        self.at.clear()
        start = {place: self.random.randint(0, reached) for place, reached in self.reached.items()}
        self.work.recorder.add(Assign(self.name, self.committed, start))
        self.consumer.assign([TopicPartition(*place, offset) for place, offset in start.items()])

    def step(self) -> None:
        choice = self.random.random()
        if choice < 0.03:
            close_consumer(self.consumer)
            self.work.recorder.add(Crash(self.name))
            self.begin()
        elif choice < 0.1:
            self.seek()
        else:
            poll(self.work, self.name, self.consumer, self.random.randint(1, 50), self.reached, self.at)

    def seek(self) -> None:
        """Seek in a partition whose position is known to be at or after the log start: otherwise librdkafka requests
        the log start, and moves there when the response arrives even after a seek.
        """
        with self.work.deleting:
            places = [place for place, offset in self.at.items() if offset >= self.work.deleted[place]]
            if not places:
                return
            place = self.random.choice(sorted(places))
            offset = self.random.randint(0, self.reached[place])
            try:
                self.consumer.seek(TopicPartition(*place, offset))
            except KafkaException as error:
                # The client has not yet started to read the partition; it then refuses a seek.
                if error.args[0].code() != KafkaError._STATE:
                    raise
                return
            del self.at[place]
            self.work.recorder.add(Seek(self.name, place, offset))

    def end(self) -> None:
        close_consumer(self.consumer)


class Member(Client):
    """Reads as a member of a group that others join and leave, so that its partitions change."""

    def begin(self) -> None:
        self.pending: list[Read] = []
        settings = {"session_timeout_ms": 6000, "heartbeat_interval_ms": 200}
        self.consumer = self.work.consumer(f"{self.work.name}-group", committed=True, **settings)
        self.consumer.subscribe(self.work.topics, on_assign=self.assigned, on_revoke=self.revoked, on_lost=self.revoked)
        self.moved({})

    def moved(self, positions: dict[Place, int | None]) -> None:
        """Records read so far belong to the previous assignment."""
        self.note()
        self.work.recorder.add(Assign(self.name, True, positions))

    def assigned(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        if consumer is not self.consumer:  # its close was abandoned
            return
        self.moved({(each.topic, each.partition): None for each in partitions})
        self.work.rebalances += 1

    def revoked(self, consumer: Consumer, _: list[TopicPartition]) -> None:
        if consumer is self.consumer:
            self.moved({})

    def note(self) -> None:
        if self.pending:
            self.work.recorder.add(Poll(self.name, self.work.recorder.now(), tuple(self.pending)))
            self.pending.clear()

    def step(self) -> None:
        choice = self.random.random()
        if choice < 0.02:
            close_consumer(self.consumer)
            self.begin()
            return
        if choice < 0.1:
            # The next owner continues at that offset; if the commit fails (a rebalance, no broker) it reads some
            # records again.
            with suppress(KafkaException):
                self.consumer.commit(asynchronous=False)
        # One at a time, as the assignment may change between two records.
        for _ in range(self.random.randint(1, 30)):
            message = self.consumer.poll(0.02)
            if message is None:
                break
            error = message.error()
            if error is None:
                topic, partition, offset = message.topic(), message.partition(), message.offset()
                assert topic is not None
                assert partition is not None
                assert offset is not None
                self.pending.append(Read((topic, partition), offset, value_of(message)))
        self.note()

    def end(self) -> None:
        close_consumer(self.consumer)
        self.note()


class Deleter(Client):
    """Deletes old records now and then, so that log start offsets advance while the readers read."""

    def begin(self) -> None:
        self.admin = AdminClient({"bootstrap.servers": self.work.broker.bootstrap, **SOON})

    def step(self) -> None:
        self.work.over.wait(self.random.choice((0.05, 0.2)))
        place = self.random.choice(self.work.deletable)
        end = max(reader.reached[place] for reader in self.work.readers)
        deleted = self.work.deleted
        offset = deleted[place] + int((end - deleted[place]) * self.random.choice((0.1, 0.5, 1.0)))
        if offset <= deleted[place]:
            return
        with self.work.deleting:
            deleted[place] = offset
            self.work.recorder.add(Delete(place, offset, self.work.recorder.now()))
        # If the broker dies during the request, it is unknown whether the records were deleted.
        with suppress(KafkaException, TimeoutError):
            self.admin.delete_records([TopicPartition(*place, offset)], request_timeout=CALL_S)[
                TopicPartition(*place)
            ].result(CALL_S)

    def end(self) -> None:
        del self.admin


def poll(
    work: Workload, name: str, consumer: Consumer, count: int, reached: dict[Place, int], at: dict[Place, int]
) -> set[Place]:
    """Record one poll. Return the partitions whose end it reached, if the consumer reports that."""
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
        reads.append(Read((topic, partition), offset, value_of(message)))
        reached[topic, partition] = max(reached.get((topic, partition), 0), offset + 1)
        at[topic, partition] = offset + 1
    time_ended = work.recorder.now()
    places = {read.place for read in reads}
    said = {
        (position.topic, position.partition): position.offset
        for position in consumer.position([TopicPartition(*place) for place in places])
    }
    work.recorder.add(Poll(name, time_ended, tuple(reads), said))
    return ended
