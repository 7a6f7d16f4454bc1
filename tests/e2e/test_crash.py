"""kill -9 and SIGTERM at any moment: afterwards every acknowledged record is stored once, and nothing else."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest

from tests.support.acked import (
    AckedProducer,
    Address,
    batch,
    check_idempotent,
    check_plain,
    fetch,
    init_producer_id,
    read_partition,
)
from tests.support.broker import Target
from tests.support.raw_wire import (
    CREATE_TOPICS,
    FETCH,
    FIND_COORDINATOR,
    METADATA,
    Connection,
    array,
    i8,
    i16,
    i32,
    i64,
    produce,
    send_request,
    string,
)
from tests.support.topics import create_topic
from tests.support.wait import until

OFFSET_COMMIT, OFFSET_FETCH = 8, 9
TOPIC = "trusted"
CLEAN_MARK = ".kafka_cleanshutdown"
# Small segments and flushes, so that kills fall into rolls, flushes and checkpoints too.
SETTINGS = {
    "log.segment.bytes": str(1 << 20),
    "log.flush.interval.ms": "50",
    "log.flush.offset.checkpoint.interval.ms": "200",
    "offsets.topic.num.partitions": "2",
    "metadata.log.max.record.bytes.between.snapshots": "2000",
}


@dataclass
class OtherWork:
    """Creates topics and commits offsets in turn, until the connection breaks."""

    address: Callable[[], Address]
    topic: str
    topics: list[str] = field(default_factory=list)
    tried: int = 0
    committed: int = -1
    sent: int = -1

    def run(self) -> None:
        """Work until the broker has ended."""
        try:
            with Connection(self.address(), 10) as connection:
                connection.ask(FIND_COORDINATOR, 0, string(f"group-{self.topic}"))
                while True:
                    self._create(connection)
                    for _ in range(20):
                        self._commit(connection)
        except (OSError, EOFError):
            return

    def _create(self, connection: Connection) -> None:
        name = f"{self.topic}-made-{self.tried}"
        self.tried += 1
        topic = string(name) + i32(1) + i16(1) + array([]) + array([])
        reader = connection.ask(CREATE_TOPICS, 2, array([topic]) + i32(10_000) + i8(0))
        reader.i32()
        assert (reader.i32(), reader.string()) == (1, name)
        if reader.i16() == 0:
            self.topics.append(name)

    def _commit(self, connection: Connection) -> None:
        self.sent += 1
        body = string(f"group-{self.topic}") + i32(-1) + string("") + i64(-1)
        body += array([string(self.topic) + array([i32(0) + i64(self.sent) + string("")])])
        reader = connection.ask(OFFSET_COMMIT, 2, body)
        assert (reader.i32(), reader.string(), reader.i32(), reader.i32()) == (1, self.topic, 1, 0)
        if reader.i16() == 0:
            self.committed = self.sent

    def check(self) -> None:
        """Check that everything that was acknowledged is stored."""
        with Connection(self.address()) as connection:
            reader = connection.ask(METADATA, 1, array([string(name) for name in self.topics]))
            for _ in range(reader.i32()):
                reader.i32(), reader.string(), reader.i32(), reader.string()
            reader.i32()
            count = reader.i32()
            assert count == len(self.topics)
            for _ in range(count):
                error, name = reader.i16(), reader.string()
                assert error == 0, f"topic {name} is lost: {error}"
                reader.i8()
                for _ in range(reader.i32()):
                    reader.i16(), reader.i32(), reader.i32()
                    for _ in range(2):
                        reader.take(4 * reader.i32())
            if self.committed >= 0:
                connection.ask(FIND_COORDINATOR, 0, string(f"group-{self.topic}"))
                found = until(lambda: self._stored(connection), "the group is loaded")
                assert self.committed <= found - 1 <= self.sent

    def _stored(self, connection: Connection) -> int:
        """Return the committed offset plus one; 0 while the group is loading."""
        reader = connection.ask(
            OFFSET_FETCH, 1, string(f"group-{self.topic}") + array([string(self.topic) + array([i32(0)])])
        )
        assert (reader.i32(), reader.string(), reader.i32(), reader.i32()) == (1, self.topic, 1, 0)
        offset = reader.i64()
        reader.string()
        return offset + 1 if reader.i16() == 0 else 0


class Load:
    """Two producers of each kind, each with its own partition, and other work."""

    def __init__(self, broker: Target, topic: str = "crash") -> None:
        self.broker = broker
        self.topic = topic
        create_topic(broker.bootstrap, topic, 4)
        self.producers = []
        # By partition: all acknowledged records below this offset have been checked.
        self.checked = [0] * 4
        for partition in range(4):
            producer_id = init_producer_id(self.address()) if partition % 2 else -1
            self.producers.append(
                AckedProducer(
                    self.address,
                    topic,
                    partition,
                    name=f"p{partition}",
                    producer_id=producer_id,
                    value_bytes=100 if partition < 2 else 2000,
                )
            )
        self.other = OtherWork(self.address, topic)
        for producer in self.producers:
            producer.start()

    def address(self) -> Address:
        return self.broker.host, self.broker.port

    def work(self, count: int) -> threading.Thread:
        """Wait until each producer has `count` more acknowledged records."""
        other = threading.Thread(target=self.other.run, daemon=True)
        other.start()
        for producer in self.producers:
            producer.wait_for(count)
        return other

    def check(self) -> None:
        """Check, while the producers work, the records acknowledged since the last check."""
        for partition, producer in enumerate(self.producers):
            start = self.checked[partition]
            acked = {number: offset for number, offset in producer.acked.copy().items() if offset >= start}
            self.checked[partition] = max(acked.values(), default=start)
            records = dict(read_partition(self.address(), self.topic, partition, start))
            for number, offset in acked.items():
                assert records.get(offset) == producer.value(number), f"record {number} at offset {offset} is not there"
        self.other.check()

    def finish(self) -> None:
        """End the producers and check everything."""
        for producer in self.producers:
            producer.stop()
        for partition, producer in enumerate(self.producers):
            records = read_partition(self.address(), self.topic, partition)
            assert [offset for offset, _ in records] == list(range(len(records))), "offsets with gaps"
            (check_idempotent if partition % 2 else check_plain)(producer, records)
            assert producer.errors == []
        self.other.check()
        assert "traceback" not in self.broker.stderr()


def crash_again_and_again(broker: Target, topic: str, rounds: int, seed: int) -> None:
    choose = random.Random(seed)
    load = Load(broker, topic)
    for _ in range(rounds):
        other = load.work(choose.randint(1, 60))
        broker.kill()
        other.join(30)
        assert not (broker.data_dir / CLEAN_MARK).exists()
        broker.restart()
        load.check()
    load.finish()


def test_killed_again_and_again(make_broker: Callable[..., Target]) -> None:
    """If this fails, a kill of the process loses acknowledged records, duplicates those of idempotent producers, or
    loses topics and offsets.
    """
    crash_again_and_again(make_broker(SETTINGS), "crash", rounds=4, seed=0)


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_killed_two_hundred_times(make_broker: Callable[..., Target]) -> None:
    """Repeat the test for rare interleavings."""
    broker = make_broker(SETTINGS)
    for seed in range(40):
        crash_again_and_again(broker, f"crash-{seed}", rounds=5, seed=seed)


@pytest.mark.full
def test_killed_while_it_recovers(make_broker: Callable[..., Target]) -> None:
    """If this fails, a broker that is killed again before it is ready loses records that survived the first kill."""
    broker = make_broker(SETTINGS)
    load = Load(broker)
    load.work(200)
    broker.kill()
    for delay_s in (0.05, 0.15, 0.25, 0.35, 0.5):
        child = broker.launch()  # type: ignore[attr-defined]
        threading.Event().wait(delay_s)
        child.kill()
    broker.restart()
    load.check()
    load.finish()


@pytest.mark.full
def test_stopped_under_load(make_broker: Callable[..., Target]) -> None:
    """If this fails, an orderly restart loses records, breaks idempotent producers, or requires a recovery."""
    broker = make_broker(SETTINGS)
    load = Load(broker)
    for _ in range(3):
        other = load.work(50)
        with Connection(load.address(), 60) as waiting:
            # A client that waits for data that never comes must not delay the stop.
            body = i32(-1) + i32(60_000) + i32(1_000_000_000) + i32(2_000_000_000) + i8(0) + i32(0) + i32(-1)
            asked = array([string(load.topic) + array([i32(0) + i32(-1) + i64(0) + i64(-1) + i32(2_000_000_000)])])
            send_request(waiting.sock, FETCH, 11, body + asked + array([]) + string(""))
            assert broker.stop() == 0
        other.join(30)
        assert (broker.data_dir / CLEAN_MARK).exists()
        stopped = broker.stderr()
        assert "event=stopped" in stopped
        assert "traceback" not in stopped
        assert "level=error" not in stopped
        broker.restart()
        load.check()
        assert "truncated the damaged end" not in broker.stderr()
        assert "level=warning" not in broker.stderr()
    load.finish()


def test_a_clean_stop_is_trusted(make_broker: Callable[..., Target]) -> None:
    """If this fails, every start reads all of the logs: 10 GB take half a minute instead of none."""
    broker = make_broker()
    create_topic(broker.bootstrap, TOPIC)
    with Connection((broker.host, broker.port)) as connection:
        for number in range(20):
            assert produce(connection, {TOPIC: {0: batch(b"%d" % number + bytes(1000))}})[TOPIC, 0].error == 0
    assert broker.stop() == 0
    # In the records of the first batch: a recovery would find it, and cut it off with everything after it.
    log = broker.data_dir / f"{TOPIC}-0" / f"{0:020d}.log"
    data = bytearray(log.read_bytes())
    data[65] ^= 0xFF
    log.write_bytes(data)
    broker.restart()
    with Connection((broker.host, broker.port)) as connection:
        error, high_watermark, _ = fetch(connection, TOPIC, 0, 20)
        assert (error, high_watermark) == (0, 20)
    assert "truncated the damaged end" not in broker.stderr()
