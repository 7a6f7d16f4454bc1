"""A share group of confluent-kafka, while the leader of one of its partitions is killed and starts again."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from confluent_kafka import KafkaError, Message, Producer, ShareConsumer

from broker_cy.core.errors import ErrorCode
from tests.compat.test_confluent_share import configure
from tests.support.cluster import cluster, create_topic, topics
from tests.support.wait import until

SETTINGS = {
    "share.coordinator.state.topic.num.partitions": "6",
    "group.share.min.record.lock.duration.ms": "1000",
    "group.share.record.lock.duration.ms": "5000",
    "group.share.min.heartbeat.interval.ms": "500",
    "group.share.heartbeat.interval.ms": "500",
    "offsets.topic.num.partitions": "2",
    "offsets.topic.replication.factor": "3",
    "min.insync.replicas": "2",
}
GROUP, TOPIC, WAIT_S = "readers", "orders", 90.0


class Reader:
    """A consumer on a thread of its own; counts the deliveries of each value."""

    def __init__(self, bootstrap: str) -> None:
        self.counts: dict[bytes | None, int] = {}
        self.consumer = ShareConsumer({"bootstrap.servers": bootstrap, "group.id": GROUP, "log_level": 0})
        self.consumer.subscribe([TOPIC])
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._read)
        self._thread.start()

    def _read(self) -> None:
        while not self._stop.is_set():
            for message in self.consumer.poll(0.2):
                if message.error() is None:
                    self.counts[message.value()] = self.counts.get(message.value(), 0) + 1

    def close(self) -> None:
        self._stop.set()
        self._thread.join()
        self.consumer.close()


@pytest.mark.full
def test_a_share_group_survives_the_end_of_a_leader(tmp_path: Path) -> None:
    """If this fails, a share group loses records when a broker dies, or gets most of them twice."""
    acked: list[bytes | None] = []

    def delivered(error: KafkaError | None, message: Message) -> None:
        if error is None:
            acked.append(message.value())

    with cluster(tmp_path, settings=SETTINGS) as nodes:
        bootstrap = ",".join(node.bootstrap for node in nodes)
        assert create_topic(nodes[0].port, TOPIC, 3, 3) is ErrorCode.NONE
        configure(cast(Any, SimpleNamespace(bootstrap=bootstrap)), GROUP, "share.auto.offset.reset", "earliest")
        readers = [Reader(bootstrap) for _ in range(3)]
        producer = Producer({"bootstrap.servers": bootstrap, "acks": "all", "log_level": 0})
        sent = 0

        def produce_for(seconds: float) -> None:
            nonlocal sent
            end_s = time.monotonic() + seconds
            while time.monotonic() < end_s:
                for _ in range(20):
                    producer.produce(TOPIC, b"%d" % sent, on_delivery=delivered)
                    sent += 1
                producer.poll(0.1)

        try:
            until(lambda: produce_for(0.5) is None and all(reader.counts for reader in readers), "records", WAIT_S)  # type: ignore[func-returns-value]
            victim = topics(nodes[0].port)[TOPIC].partitions[0].leader_id
            nodes[victim - 1].kill()
            produce_for(6.0)
            nodes[victim - 1].restart()
            produce_for(6.0)
            assert producer.flush(WAIT_S) == 0
            until(lambda: set(acked) <= set().union(*(reader.counts for reader in readers)), "all records", WAIT_S)
        finally:
            for reader in readers:
                reader.close()
        deliveries = sum(sum(reader.counts.values()) for reader in readers)
        assert len(acked) == sent
        # Records that were in flight when the leader died come again.
        assert deliveries - sent < sent // 4, f"{deliveries} deliveries of {sent} records"
