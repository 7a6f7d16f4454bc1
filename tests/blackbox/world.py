"""Executes the acts of a plan against a running broker and enters the responses into the model."""

from __future__ import annotations

import random
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from confluent_kafka import KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    OffsetSpec,
    ResourceType,
)

from tests.blackbox import acts
from tests.blackbox.acts import LIMIT_BYTES, Act
from tests.blackbox.clients import SENDERS, TIMEOUT_S, ClientFailed, Sender
from tests.blackbox.model import End, Fate, Partition, Sent, Topic, Transaction
from tests.support.broker import Target

CALL_S = 5.0
# The client sends the leader epoch that it remembers, and a restart of the broker begins a new one, as in Kafka.
STALE = frozenset(
    {KafkaError.FENCED_LEADER_EPOCH, KafkaError.UNKNOWN_LEADER_EPOCH, KafkaError.NOT_LEADER_FOR_PARTITION}
)


class World:
    """The state that all lanes share: the broker, its expected contents, and the acts so far."""

    def __init__(self, broker: Target) -> None:
        self.broker = broker
        self.topics: dict[str, Topic] = {}
        self.acts: dict[str, list[str]] = defaultdict(list)
        """The acts on each topic name since its last creation, for a report."""
        self.acked = 0


class Lane(threading.Thread):
    """Executes the acts of one lane in a round. No other lane uses its topics."""

    def __init__(self, world: World, number: int, turn: int, todo: Sequence[Act]) -> None:
        super().__init__(name=f"lane{number}", daemon=True)
        self.world = world
        self.number = number
        self.turn = turn
        self.todo = todo
        self.senders = 0
        self.failure: BaseException | None = None
        self.admin = AdminClient({"bootstrap.servers": world.broker.bootstrap, "log_level": 2})

    def run(self) -> None:
        try:
            for act in self.todo:
                if isinstance(act, acts.Create):
                    self.world.acts[act.topic].clear()
                self.world.acts[act.topic].append(f"round {self.turn}: {act}")
                self.do(act)
        except BaseException as error:
            self.failure = error

    def do(self, act: Act) -> None:
        match act:
            case acts.Create():
                self.create(act)
            case acts.Delete():
                self.delete(act)
            case acts.Trim():
                self.trim(act)
            case acts.Configure():
                self.configure(act)
            case acts.Grow():
                self.grow(act)
            case acts.Produce():
                self.produce(act)
            case acts.Transact():
                self.transact(act)
            case acts.Refuse():
                self.refuse(act)

    # ---- administration; each request is repeated until it is known to be done ----

    def until_done(self, ask: Callable[[], Any], done_before: int | None = None) -> Any:
        """Return what `ask` returns. The code `done_before` means that an earlier attempt, whose response was lost,
        succeeded.
        """
        deadline = time.monotonic() + TIMEOUT_S
        asked_before = False
        while True:
            try:
                return ask()
            except KafkaException as error:
                code = error.args[0].code()
                if code == done_before and asked_before:
                    return None
                is_stale = code in STALE
                # Only after an error of the client itself is the broker's action unknown.
                if code > 0 and not error.args[0].retriable() and not is_stale:
                    raise
                if time.monotonic() > deadline:
                    raise
                if is_stale:
                    with suppress(KafkaException):
                        self.admin.list_topics(timeout=CALL_S)
                asked_before = True

    def create(self, act: acts.Create) -> None:
        new = NewTopic(act.topic, act.partitions, 1, config=dict(act.config))
        self.until_done(
            lambda: self.admin.create_topics([new], request_timeout=CALL_S)[act.topic].result(),
            KafkaError.TOPIC_ALREADY_EXISTS,
        )
        topic = Topic([Partition() for _ in range(act.partitions)])
        topic.compacted = _compacts(act.config)
        self.world.topics[act.topic] = topic

    def delete(self, act: acts.Delete) -> None:
        self.until_done(
            lambda: self.admin.delete_topics([act.topic], request_timeout=CALL_S)[act.topic].result(),
            KafkaError.UNKNOWN_TOPIC_OR_PART,
        )
        del self.world.topics[act.topic]

    def trim(self, act: acts.Trim) -> None:
        place = TopicPartition(act.topic, act.partition)
        latest = self.until_done(lambda: self.latest(place))
        partition = self.world.topics[act.topic].partitions[act.partition]
        offset = partition.start + round((latest - partition.start) * act.share)
        asked = TopicPartition(act.topic, act.partition, offset)
        try:
            answer = self.until_done(lambda: self.admin.delete_records([asked], request_timeout=CALL_S)[place].result())
        except KafkaException as error:
            raise AssertionError(
                f"DeleteRecords up to {asked}, after ListOffsets said {latest.offset}: {error}"
            ) from error
        assert answer.low_watermark == offset, f"DeleteRecords up to {asked} answered {answer.low_watermark}"
        partition.start = offset

    def latest(self, place: TopicPartition) -> int:
        """Return the end of a partition. If the connection breaks, librdkafka reports success without an offset."""
        asked = self.admin.list_offsets({place: OffsetSpec.latest()}, request_timeout=CALL_S)
        found: int = asked[place].result().offset
        if found < 0:
            raise KafkaException(KafkaError(KafkaError._TRANSPORT))
        return found

    def configure(self, act: acts.Configure) -> None:
        entries = [
            ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET) for name, value in act.config.items()
        ]
        resource = ConfigResource(ResourceType.TOPIC, act.topic, incremental_configs=entries)
        # Before the request is sent: the cleaner may run before the response arrives.
        self.world.topics[act.topic].compacted |= _compacts(act.config)
        self.until_done(
            lambda: self.admin.incremental_alter_configs([resource], request_timeout=CALL_S)[resource].result()
        )

    def grow(self, act: acts.Grow) -> None:
        new = NewPartitions(act.topic, act.partitions)
        self.until_done(
            lambda: self.admin.create_partitions([new], request_timeout=CALL_S)[act.topic].result(),
            KafkaError.INVALID_PARTITIONS,
        )
        self.world.topics[act.topic].partitions.append(Partition())

    # ---- producers ----

    def sender(self, client: str, codec: str, *, idempotent: bool, transactional_id: str | None = None) -> Sender:
        deadline = time.monotonic() + TIMEOUT_S
        while True:
            try:
                return SENDERS[client](
                    self.world.broker.bootstrap, codec, idempotent=idempotent, transactional_id=transactional_id
                )
            except ClientFailed as error:
                if time.monotonic() > deadline:
                    raise AssertionError(f"{client} does not start: {error}") from error

    def records(
        self, act: acts.Produce | acts.Transact, count: int, draw: random.Random, transaction: Transaction | None = None
    ) -> list[tuple[int, Sent]]:
        """Make new records for random partitions, recorded as of unknown fate."""
        partitions = self.world.topics[act.topic].partitions
        made = []
        for _ in range(count):
            partition = draw.randrange(len(partitions))
            key = b"k%d" % draw.randrange(act.keys)
            sent = self.record(key, act.value_bytes if isinstance(act, acts.Produce) else 100, transaction)
            if isinstance(act, acts.Produce) and draw.random() < act.tombstones:
                sent.value = None
            partitions[partition].sent[sent.id] = sent
            made.append((partition, sent))
        return made

    def new_sender(self) -> None:
        self.senders += 1
        self.sent = 0

    def record(self, key: bytes | None, value_bytes: int, transaction: Transaction | None = None) -> Sent:
        name = f"{self.number}.{self.turn}.{self.senders}.{self.sent}"
        self.sent += 1
        # Half of it is compressible.
        filling = random.Random(name).randbytes(value_bytes // 2) + b"." * (value_bytes - value_bytes // 2)
        sender = self.turn * 1000 + self.senders
        return Sent(name, key, name.encode() + b":" + filling, sender, self.sent, transaction)

    def produce(self, act: acts.Produce) -> None:
        self.new_sender()
        records = self.records(act, act.count, random.Random(act.seed))
        sender = self.sender(act.client, act.codec, idempotent=act.idempotent)
        self.send(sender, act.topic, records)
        sender.close()

    def send(self, sender: Sender, topic: str, records: list[tuple[int, Sent]]) -> bool:
        """Return whether all records are acknowledged."""
        try:
            sender.send(topic, records)
        except ClientFailed:
            return False
        finally:
            self.world.acked += sum(sent.fate is Fate.ACKED for _, sent in records)
        return all(sent.fate is Fate.ACKED for _, sent in records)

    def transact(self, act: acts.Transact) -> None:
        draw = random.Random(act.seed)
        settings: dict[str, Any] = {"idempotent": True, "transactional_id": f"lane{self.number}-{act.client}"}
        sender = self.sender(act.client, act.codec, **settings)
        for count, commit in act.ends:
            self.new_sender()
            transaction = Transaction()
            self.world.topics[act.topic].transactions.append(transaction)
            records = self.records(act, count, draw, transaction)
            try:
                # Until a commit is requested, the transaction can only be aborted.
                transaction.end = End.ABORTED
                sender.begin()
                if not self.send(sender, act.topic, records):
                    raise ClientFailed("not all records were acknowledged")
                if commit:
                    transaction.end = End.UNKNOWN
                sender.end(commit)
                if commit:
                    transaction.end = End.COMMITTED
            except ClientFailed:
                # Its successor ends the transaction that it left open.
                sender.close()
                sender = self.sender(act.client, act.codec, **settings)
                break
        sender.close()

    def refuse(self, act: acts.Refuse) -> None:
        draw = random.Random(act.seed)
        partitions = self.world.topics[act.topic].partitions
        self.new_sender()
        for number in range(act.count):
            bad = draw.random() < 0.5 or number == 0
            size = LIMIT_BYTES * 2 if bad and not act.keyless else 50
            sent = self.record(None if bad and act.keyless else b"k", size)
            partition = draw.randrange(len(partitions))
            partitions[partition].sent[sent.id] = sent
            sender = self.sender(act.client, "none", idempotent=False)
            self.send(sender, act.topic, [(partition, sent)])
            sender.close()
            assert not bad or sent.fate is not Fate.ACKED, f"{sent.id} was acknowledged, and it must be refused"


def _compacts(config: Mapping[str, str]) -> bool:
    return "compact" in config.get("cleanup.policy", "delete")
