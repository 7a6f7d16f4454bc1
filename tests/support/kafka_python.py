"""Shared helpers of the tests with kafka-python: create, take, values."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from kafka import KafkaAdminClient, KafkaConsumer

TIMEOUT_S = 60.0
MakeConsumer = Callable[..., KafkaConsumer]


def create(
    admin: KafkaAdminClient, topic: str, partitions: int = 1, configs: dict[str, str] | None = None
) -> dict[str, Any]:
    spec = {"num_partitions": partitions, "replication_factor": 1, "configs": configs or {}}
    made: dict[str, Any] = admin.create_topics({topic: spec}, wait_for_metadata=True)["topics"][0]
    return made


def take(consumer: KafkaConsumer, count: int) -> list[Any]:
    records: list[Any] = []
    deadline = time.monotonic() + TIMEOUT_S
    while len(records) < count:
        assert time.monotonic() < deadline, f"only {len(records)} of {count} records came"
        for batch in consumer.poll(500, max_records=count - len(records)).values():
            records += batch
    return records


def values(records: list[Any]) -> list[bytes | None]:
    return [record.value for record in records]
