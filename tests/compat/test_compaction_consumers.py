"""Consumers of a topic that is compacted while they read, and the cleaner's settings in a running broker."""

from __future__ import annotations

import re
import threading
import time
from pathlib import Path

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

from tests.support.broker import Target
from tests.support.confluent import close_consumer, new_consumer
from tests.support.topics import create_topic
from tests.support.wait import until

TIMEOUT_S = 90.0
BROKER_SETTINGS = {"log.cleaner.backoff.ms": "20"}
KEYS = 40
# Records of a segment, and how many are sent before each cleaning.
SEGMENT = 50
ROUND = 6 * SEGMENT
CLEANINGS = 6
SEGMENT_MS = 1_000
COMPACTED = {
    "cleanup.policy": "compact",
    "min.cleanable.dirty.ratio": "0.01",
    "segment.ms": str(SEGMENT_MS),
    "delete.retention.ms": "0",
    # A reader of a replaced segment must no longer need its name.
    "file.delete.delay.ms": "0",
    "index.interval.bytes": "200",
}


def cleaned_offset(broker: Target, topic: str) -> int:
    """Return the offset up to which the cleaner's checkpoint says the log is clean; -1 before its first cleaning."""
    path = Path(broker.data_dir) / "cleaner-offset-checkpoint"
    found = re.search(rf"^{topic} 0 (\d+)$", path.read_text(), re.MULTILINE) if path.exists() else None
    return int(found.group(1)) if found else -1


class Reader(threading.Thread):
    """Reads a partition from its beginning to `end` repeatedly until it is stopped; then once more."""

    def __init__(self, broker: Target, topic: str, name: str) -> None:
        super().__init__(daemon=True)
        self.broker, self.topic, self.group = broker, topic, name
        self.end = threading.Event()
        # For each pass: the records, and the end of the log after the last of them was read.
        self.passes: list[tuple[list[tuple[int, bytes | None, bytes | None]], int]] = []
        self.problem: BaseException | None = None

    def run(self) -> None:
        try:
            while not self.end.is_set():
                self.passes.append(self.read())
            self.passes.append(self.read())
        except BaseException as error:
            self.problem = error

    def read(self) -> tuple[list[tuple[int, bytes | None, bytes | None]], int]:
        """Return (offset, key, value) of the records up to the current end, and the log end offset afterwards."""
        consumer = new_consumer(
            self.broker.bootstrap, self.group, enable_partition_eof=True, fetch_message_max_bytes=2_000
        )
        try:
            consumer.assign([TopicPartition(self.topic, 0, OFFSET_BEGINNING)])
            seen = self.records(consumer, self.log_end(consumer))
            return seen, self.log_end(consumer)
        finally:
            close_consumer(consumer)

    def log_end(self, consumer: Consumer) -> int:
        _, end = consumer.get_watermark_offsets(TopicPartition(self.topic, 0), TIMEOUT_S)
        return int(end)

    def records(self, consumer: Consumer, end: int) -> list[tuple[int, bytes | None, bytes | None]]:
        seen: list[tuple[int, bytes | None, bytes | None]] = []
        deadline = time.monotonic() + TIMEOUT_S
        while consumer.position([TopicPartition(self.topic, 0)])[0].offset < end:
            assert time.monotonic() < deadline, f"only {len(seen)} records came before offset {end}"
            for message in consumer.consume(100, 0.2):
                error = message.error()
                if error is not None:
                    assert error.name() == "_PARTITION_EOF", error
                    return seen
                offset = message.offset()
                assert offset is not None
                seen.append((offset, message.key(), message.value()))
        return seen


def test_readers_lose_nothing_while_segments_are_replaced(broker: Target) -> None:
    """If this fails, a consumer of a compacted topic misses a record that was not superseded, gets one twice or out of
    order, or fails when the segment that it reads is removed.
    """
    create_topic(broker.bootstrap, "swapped", config=COMPACTED)
    readers = [Reader(broker, "swapped", f"reader-{number}") for number in range(2)]
    for reader in readers:
        reader.start()
    producer = Producer({"bootstrap.servers": broker.bootstrap, "linger.ms": "0", "batch.num.messages": "5"})
    first_ms = int(time.time() * 1000) - 3_600_000
    sent: list[bytes] = []
    for _ in range(CLEANINGS):
        for _ in range(ROUND):
            key = b"key-%d" % (len(sent) * 7 % KEYS)
            timestamp = first_ms + len(sent) // SEGMENT * 2 * SEGMENT_MS
            producer.produce("swapped", b"%d" % len(sent), key, partition=0, timestamp=timestamp)
            sent.append(key)
            if len(sent) % SEGMENT == 0:
                assert producer.flush(TIMEOUT_S) == 0
        active = len(sent) - SEGMENT
        until(lambda end=active: cleaned_offset(broker, "swapped") == end, "the end of a cleaning", TIMEOUT_S)  # type: ignore[misc]
    for reader in readers:
        reader.end.set()
    for reader in readers:
        reader.join(TIMEOUT_S)
        assert not reader.is_alive()
        assert reader.problem is None, reader.problem
    newest = {key: offset for offset, key in enumerate(sent)}
    for reader in readers:
        for seen, log_end in reader.passes:
            offsets = [offset for offset, _, _ in seen]
            assert offsets == sorted(set(offsets)), "twice, or out of order"
            assert all((key, value) == (sent[at], b"%d" % at) for at, key, value in seen)
            # Skipped records were superseded: by a record that was read, or by one that was produced after the last
            # record that was read (and which may have superseded all records of its key in between).
            there = set(offsets)
            newest_of_key = {sent[at]: at for at in offsets}
            if offsets:
                newest_of_key.update({sent[at]: at for at in range(offsets[-1] + 1, log_end)})
            for at in range(offsets[-1] if offsets else 0):
                if at not in there:
                    assert newest_of_key.get(sent[at], -1) > at, f"record {at}, not superseded at {log_end}, is missing"
        last, _ = reader.passes[-1]
        assert {key: at for at, key, _ in last} == newest
        assert len(last) <= KEYS + SEGMENT


@pytest.fixture
def set_broker(broker: Target) -> object:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})

    def alter(**settings: str) -> None:
        entries = [
            ConfigEntry(f"log.cleaner.{name.replace('_', '.')}", value, incremental_operation=AlterConfigOpType.SET)
            for name, value in settings.items()
        ]
        resource = ConfigResource(ResourceType.BROKER, "1", incremental_configs=entries)
        for future in admin.incremental_alter_configs([resource]).values():
            future.result(TIMEOUT_S)

    return alter


def test_the_cleaner_follows_its_settings_while_it_runs(broker: Target, set_broker: object) -> None:
    """If this fails, changes to the throttle, threads or memory of a running broker take effect at the next start, or
    never.
    """
    assert callable(set_broker)
    set_broker(io_max_bytes_per_second="1")
    create_topic(broker.bootstrap, "slow", config=COMPACTED)
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    first_ms = int(time.time() * 1000) - 3_600_000
    for number in range(200):
        producer.produce("slow", b"v", b"%d" % (number % 5), partition=0, timestamp=first_ms + number // 50 * 2_000)
        if number % 50 == 49:
            assert producer.flush(TIMEOUT_S) == 0
    directory = Path(broker.data_dir) / "slow-0"
    # The cleaner has started or is about to: at one byte per second it would take hours.
    until(lambda: len(list(directory.glob("*.log"))) == 4, "segments", TIMEOUT_S)
    set_broker(threads="2", dedupe_buffer_size=str(8 << 20), backoff_ms="10")
    assert cleaned_offset(broker, "slow") == -1
    set_broker(io_max_bytes_per_second="1.0E9")
    until(lambda: cleaned_offset(broker, "slow") == 150, "the end of the cleaning", TIMEOUT_S)
    set_broker(threads="1")
