"""Applications with bad input: the text with which one ends, and its records."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from broker_cy.admin import AdminClient, ClientError
from broker_cy.admin.metadata import TopicPartition
from broker_cy.admin.offsets import Isolation
from broker_streams import StreamsBuilder, StreamsError
from broker_streams.hosts.embedded.host import EmbeddedHost
from tests.broker_streams.hosts.test_embedded import (
    PARTITIONS,
    WAIT_S,
    settings,
)
from tests.support.broker import BrokerProcess

ABORT_MS = 200


def run(broker: BrokerProcess, job: Callable[[AdminClient], Awaitable[None]]) -> None:
    async def whole() -> None:
        async with asyncio.timeout(WAIT_S), AdminClient(broker.bootstrap, timeout_s=10) as client:
            await job(client)

    asyncio.run(whole())


async def ends(client: AdminClient, topology: Any, name: str, **changed: Any) -> str:
    """The text with which an application ends."""
    with pytest.raises((StreamsError, ClientError)) as failed:
        await EmbeddedHost(client, topology, settings(name, **changed)).run()
    return str(failed.value)


async def records_of(client: AdminClient, topic: str) -> list[Any]:
    keys = [TopicPartition(topic, number) for number in range(PARTITIONS)]
    ends_at = (await client.offsets.latest(keys, isolation=Isolation.READ_COMMITTED)).whole()
    found: list[Any] = []
    reader = client.records.reader(dict.fromkeys(keys, 0), ends=ends_at, isolation=Isolation.READ_COMMITTED)
    async with reader:
        async for chunk in reader:
            found += chunk.records
    return found


def passed_on(name: str, **options: Any) -> Any:
    builder = StreamsBuilder()
    builder.stream(f"{name}-in", **options).to(f"{name}-out")
    return builder.build()
