"""An application that counts words over a repartition topic, and its results, for tests of batches."""

from __future__ import annotations

import asyncio
from typing import Any

from broker_cy.admin import AdminClient
from broker_cy.admin.topics import NewTopic
from broker_cy.wire.records import Record
from broker_streams import (
    LONG,
    STRING,
    StreamsBuilder,
)
from broker_streams.hosts.spark.query import Query
from tests.broker_streams.hosts.spark.without_spark import Driver, committed
from tests.support.broker import BrokerProcess
from tests.support.kafka_peer import KafkaPeer

PARTITIONS = 2
KEYS = 5
# Members of the embedded host hear of tasks soon.
WAIT_S = 60.0


def config_of(broker: BrokerProcess | KafkaPeer, name: str, **changed: Any) -> dict[str, Any]:
    given = {
        "application.id": name,
        "bootstrap.servers": broker.bootstrap,
        "statestore.cache.max.bytes": 0,
        "default.key.serde": STRING,
        "default.value.serde": STRING,
        "transaction.timeout.ms": 60_000,
    }
    return given | {key.replace("_", "."): value for key, value in changed.items()}


def counts(name: str) -> Any:
    """The number of records of each value, over a repartition topic and a store."""
    builder = StreamsBuilder()
    grouped = builder.stream(f"{name}-in").group_by(lambda key, value: value)
    grouped.count().to_stream().to(f"{name}-out", value=LONG)
    return builder.build().plan


async def create(client: AdminClient, *names: str) -> None:
    (await client.topics.create([NewTopic(each, PARTITIONS, 1) for each in names])).whole()


async def write(client: AdminClient, topic: str, first: int, count: int) -> None:
    made = [Record(timestamp=at, key=b"k%d" % at, value=f"w{at % KEYS}".encode()) for at in range(first, first + count)]
    await client.records.producer().send(topic, made)


async def counted(client: AdminClient, topic: str) -> dict[str, list[int]]:
    """The committed counts of each word, in their order."""
    found: dict[str, list[int]] = {}
    for theirs in await committed(client, topic, PARTITIONS, lambda each: (each.key, int.from_bytes(each.value))):
        for key, count in theirs:
            found.setdefault(key.decode(), []).append(count)
    return found


def expected(written: int) -> dict[str, list[int]]:
    return {f"w{key}": list(range(1, len(range(key, written, KEYS)) + 1)) for key in range(KEYS)}


async def crash(running: Driver, query: Query, step: str) -> None:
    """Run batches until one has results: the first may not see those of another query yet."""
    async with asyncio.timeout(WAIT_S):
        while True:
            await running.batch(query, crash_at=step)
