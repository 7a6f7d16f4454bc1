"""A broker with a share group of librdkafka that holds records."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from confluent_kafka import AcknowledgeType, Message, ShareConsumer

from bench.launch.nodes import free_ports
from tests.support.broker import Target, new_target
from tests.support.confluent import TIMEOUT_S, send
from tests.support.topics import create_topic

TOPIC, GROUP = "orders", "checkout"
LIMIT = 3


@contextmanager
def holding(directory: Path, lock_s: int = 30) -> Iterator[Target]:
    """A broker whose share group holds two records of four for `lock_s`: one was accepted, and one rejected."""
    settings = {
        "brokercy.metrics.listener": f"127.0.0.1:{free_ports(1)[0]}",
        "group.share.min.heartbeat.interval.ms": "200",
        "group.share.heartbeat.interval.ms": "200",
        "group.share.delivery.count.limit": str(LIMIT),
        "group.share.record.lock.duration.ms": str(lock_s * 1000),
        "group.share.max.record.lock.duration.ms": str(max(lock_s, 60) * 1000),
    }
    target = new_target(directory, settings)
    consumer: ShareConsumer | None = None
    try:
        target.start()
        create_topic(target.bootstrap, TOPIC, 1)
        consumer = ShareConsumer(
            {
                "bootstrap.servers": target.bootstrap,
                "client.id": "till",
                "group.id": GROUP,
                "share.acknowledgement.mode": "explicit",
            }
        )
        consumer.subscribe([TOPIC])
        _take(target, consumer)
        yield target
    finally:
        if consumer is not None:
            consumer.close()
        target.close()


def _take(target: Target, consumer: ShareConsumer) -> None:
    """Get records until four of one poll arrived, and acknowledge the first two."""
    deadline = time.monotonic() + TIMEOUT_S
    found: list[Message] = []
    # The group begins at the end of the log, once the member has its partitions.
    while not found:
        assert time.monotonic() < deadline
        send(target, TOPIC, [b"a", b"b", b"c", b"d"])
        found = list(consumer.poll(1.0))
    consumer.acknowledge(found[0], AcknowledgeType.ACCEPT)
    consumer.acknowledge(found[1], AcknowledgeType.REJECT)
    assert all(error is None for error in consumer.commit_sync(TIMEOUT_S).values())
