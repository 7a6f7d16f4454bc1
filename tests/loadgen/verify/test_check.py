"""Reading a run back from real brokers."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from bench.wire import protocol
from loadgen.verify.check import ends_of, verify
from loadgen.verify.ledger import ABORTED, ACKNOWLEDGED, REFUSED, Ledger
from loadgen.verify.prefix import HEADER, PREFIX
from loadgen.verify.source import Source, SourceError
from tests.support.broker import Target
from tests.support.confluent import TIMEOUT_S, failures_to

RUN = 0xC0FFEE
PARTITIONS = 2


class Writer:
    """Writes stamped records with confluent-kafka, and notes their outcomes."""

    def __init__(self, broker: Target, topic: str, **settings: Any) -> None:
        self.broker, self.topic = broker, topic
        self.producer = Producer({"bootstrap.servers": broker.bootstrap, "acks": "all", "linger.ms": 20, **settings})
        self.ledger = Ledger()
        self.errors: list[Any] = []
        with protocol.Client((broker.host, broker.port)) as client:
            client.create_topic(topic, PARTITIONS, {})
        self.addresses = ((broker.host, broker.port),)
        self.starts = ends_of(self.addresses, [topic])

    def write(
        self, producer: int, partition: int, count: int, outcome: int = ACKNOWLEDGED, header: bool = False
    ) -> None:
        track = self.ledger.track(producer, self.topic, partition)
        for _ in range(count):
            sequence = track.begin()
            track.settle(sequence, outcome)
            stamp = PREFIX.pack(RUN, producer, sequence, time.monotonic_ns())
            value, headers = (b"{}", [(HEADER, stamp)]) if header else (stamp + b"x" * 10, [])
            self.raw(value, partition, headers)

    def raw(self, value: bytes, partition: int, headers: list[tuple[str, bytes]] | None = None) -> None:
        self.producer.produce(
            self.topic, value, partition=partition, headers=dict(headers or ()), on_delivery=failures_to(self.errors)
        )

    def flush(self) -> None:
        assert self.producer.flush(TIMEOUT_S) == 0
        assert self.errors == []

    def verify(self, **options: Any) -> Any:
        return verify(self.addresses, RUN, self.starts, self.ledger.state(), **options)


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_a_sound_run_is_good(either_broker: Target, topic: str, codec: str) -> None:
    """If this fails, a run on a working cluster is reported as wrong, or because of another program's records."""
    writer = Writer(either_broker, topic, **{"compression.type": codec})
    writer.raw(b"of another program", 0)
    writer.raw(PREFIX.pack(RUN + 1, 0, 0, 0), 0)
    for partition in range(PARTITIONS):
        writer.write(1, partition, 500)
        writer.write(2, partition, 300, header=True)
        writer.write(1, partition, 100)
    writer.flush()
    found = writer.verify()
    assert found.is_good
    total = found.total
    assert (total.acknowledged, total.read, total.foreign) == (1800, 1800, 2)
    assert [each.notes for each in found.partitions] == [[], []]
    assert found.to_dict()["total"]["read"] == 1800


def test_losses_and_copies_are_found(either_broker: Target, topic: str) -> None:
    """If this fails, damaged data of a real cluster passes as good."""
    writer = Writer(either_broker, topic)
    writer.write(1, 0, 10)
    lost = writer.ledger.track(1, topic, 0)
    lost.settle(lost.begin(), ACKNOWLEDGED)
    writer.write(1, 0, 3, REFUSED)
    writer.raw(PREFIX.pack(RUN, 1, 4, 0), 0)
    writer.flush()
    found = writer.verify()
    total = found.total
    assert (total.lost, total.duplicated, total.refused_but_read, total.reordered) == (1, 1, 3, 0)
    assert found.examples("lost")[0].sequence == 10
    assert (found.examples("duplicated")[0].sequence, found.examples("duplicated")[0].offset) == (4, 13)
    assert not found.is_good


def test_aborted_records_must_not_be_read(either_broker: Target, topic: str) -> None:
    """If this fails, aborted records that a consumer receives go unnoticed, or those that it does not receive count as
    lost.
    """
    writer = Writer(either_broker, topic, **{"transactional.id": topic})
    writer.producer.init_transactions(TIMEOUT_S)
    for outcome in (ACKNOWLEDGED, ABORTED, ACKNOWLEDGED, ABORTED, ACKNOWLEDGED):
        writer.producer.begin_transaction()
        for partition in range(PARTITIONS):
            writer.write(1, partition, 5, outcome)
        if outcome == ABORTED:
            writer.flush()
            writer.producer.abort_transaction(TIMEOUT_S)
        else:
            writer.producer.commit_transaction(TIMEOUT_S)
    found = writer.verify()
    assert found.is_good
    assert (found.total.acknowledged, found.total.read) == (30, 30)
    # The same, but the producer considers committed records aborted.
    track = writer.ledger.track(1, topic, 0)
    for sequence in range(3):
        track.settle(sequence, ABORTED)
    found = writer.verify()
    assert found.total.aborted_but_read == found.total.defects == 3
    assert found.examples("aborted_but_read")[0].offset == 0


def test_an_open_transaction_is_named_and_hides_nothing(either_broker: Target, topic: str) -> None:
    """If this fails, a hanging transaction makes all records after it look lost."""
    holder = Writer(either_broker, topic, **{"transactional.id": topic})
    holder.producer.init_transactions(TIMEOUT_S)
    holder.producer.begin_transaction()
    holder.write(1, 0, 4, ABORTED)
    holder.flush()
    writer = Writer(either_broker, topic)
    writer.starts = holder.starts
    writer.ledger = holder.ledger
    writer.write(2, 0, 6)
    writer.flush()
    found = writer.verify(stable_s=0.0)
    assert found.is_good
    assert found.total.read == 10
    assert found.partitions[0].notes == ["a transaction is open from offset 0 on"]
    holder.producer.abort_transaction(TIMEOUT_S)
    found = writer.verify()
    assert found.is_good
    assert (found.total.read, found.partitions[0].notes) == (6, [])


def test_what_retention_removed_is_said(either_broker: Target, topic: str) -> None:
    """If this fails, a topic with retention makes a long run fail."""
    writer = Writer(either_broker, topic)
    writer.write(1, 0, 20)
    writer.flush()
    admin = AdminClient({"bootstrap.servers": either_broker.bootstrap})
    for future in admin.delete_records([TopicPartition(topic, 0, 12)]).values():
        future.result(TIMEOUT_S)
    found = writer.verify()
    assert found.is_good
    assert (found.total.not_checkable, found.total.read) == (12, 8)
    assert found.partitions[0].notes == ["offsets 0 to 11 were removed by retention before they were read"]


def test_it_works_under_monkey_patching(either_broker: Target, topic: str) -> None:
    """If this fails, `broker-load` cannot verify, because locust patches the process."""
    writer = Writer(either_broker, topic)
    writer.write(1, 0, 50)
    writer.flush()
    program = (
        "from gevent import monkey; monkey.patch_all()\n"
        "from loadgen.verify.check import verify\n"
        f"print(verify({writer.addresses!r}, {RUN}, {writer.starts!r}, {writer.ledger.state()!r}).total.read)\n"
    )
    root = Path(__file__).resolve().parents[3]
    run = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(root)},
        timeout=60,
        check=False,
    )
    assert (run.stdout, run.stderr) == ("50\n", "")


def test_a_cluster_that_does_not_answer_is_named() -> None:
    """If this fails, a wrong address causes a stack trace or a hang."""
    with Source((("127.0.0.1", 1),), 0.1) as cluster, pytest.raises(SourceError, match=r"127\.0\.0\.1:1.*refused"):
        cluster.leaders("t")
