"""Schemas of a running registry, records that were written with them, and positions of groups."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from broker_cy.admin import AdminClient
from broker_cy.admin.metadata import TopicPartition
from broker_cy.wire.records import Record
from broker_registry.schema_types.base import Kind, ParseSettings
from broker_registry.schema_types.parsers import PARSERS
from tests.broker_registry.operations.support import record_of
from tests.support.registry import RegistryProcess
from tests.support.topics import create_topic

OLD = record_of("x:int")
TWO = record_of("x:int", "y:int=0")
# Without a default: new readers cannot read records of OLD.
BAD = record_of("x:int", "y:int")
FIRST_MS = 1_700_000_000_000


def framed(schema_id: int, text: str, value: object) -> bytes:
    """Return the bytes of an Avro value as a serializer writes them."""
    return b"\0" + schema_id.to_bytes(4) + PARSERS[Kind.AVRO](text, (), ParseSettings()).encode(value)


def registered(registry: RegistryProcess, subject: str, *texts: str) -> list[int]:
    """Register versions that need not be compatible, and return their ids. The level is BACKWARD then."""
    registry.call("PUT", f"/config/{subject}", {"compatibility": "NONE"})
    found = [registry.register(subject, text).body["id"] for text in texts]
    registry.call("PUT", f"/config/{subject}", {"compatibility": "BACKWARD"})
    return found


def new_topic(bootstrap: str, name: str, partitions: int = 1) -> None:
    """Create a topic that keeps records, whose timestamps are old."""
    create_topic(bootstrap, name, partitions, {"retention.ms": "-1"})


def produce(bootstrap: str, topic: str, values: Iterable[bytes | None], partition: int = 0) -> None:
    """Append records, a millisecond apart."""

    async def run() -> None:
        records = [Record(0, FIRST_MS + at, None, value, ()) for at, value in enumerate(values)]
        async with AdminClient(bootstrap) as client:
            await client.records.producer().send_batch(TopicPartition(topic, partition), records)

    _run(run())


def commit(bootstrap: str, topic: str, group: str, offset: int, partition: int = 0) -> None:
    async def run() -> None:
        async with AdminClient(bootstrap) as client:
            (await client.positions.alter(group, {TopicPartition(topic, partition): offset})).whole()

    _run(run())


def _run(job: Any) -> None:
    """Run a coroutine, also if a loop runs in this thread."""
    with ThreadPoolExecutor(1) as pool:
        pool.submit(asyncio.run, job).result()
