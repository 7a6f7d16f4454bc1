"""Global stores of an instance: copies of whole topics, which every task may read."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

from broker_cy.admin import AdminClient
from broker_cy.admin.metadata import TopicPartition
from broker_cy.admin.offsets import Isolation
from broker_cy.admin.reader import Reader
from broker_cy.admin.records import Start
from broker_streams.hosts.settings import HostSettings
from broker_streams.kernel.build import build_global
from broker_streams.plan.topology import Source, Topology


class GlobalStores:
    """`fill` comes before any task begins, `follow` goes on beside them. Both change stores under `turn`, the lock of
    the tasks.
    """

    def __init__(
        self,
        client: AdminClient,
        topology: Topology,
        settings: HostSettings,
        isolation: Isolation,
        now_ms: Callable[[], int],
        turn: asyncio.Lock,
    ) -> None:
        self._client, self._topology, self._isolation = client, topology, isolation
        self._now_ms, self._turn = now_ms, turn
        self._task: Any = build_global(topology, settings.task)
        self._positions: dict[TopicPartition, int] = {}

    @property
    def stores(self) -> Mapping[str, Any]:
        return {} if self._task is None else self._task.stores

    def __bool__(self) -> bool:
        """Whether the topology has global stores."""
        return self._task is not None

    async def fill(self) -> None:
        """Read the topics to their ends. Raises ClientError."""
        keys = [key for topic in self._topics() for key in await self._client.records.partitions(topic)]
        spans = await self._client.records.spans(keys, Start.earliest(), isolation=self._isolation)
        self._positions = {key: span.start for key, span in spans.items()}
        wanted = {key: span for key, span in spans.items() if span.start < span.end}
        if wanted:
            starts = {key: span.start for key, span in wanted.items()}
            ends = {key: span.end for key, span in wanted.items()}
            async with self._client.records.reader(starts, ends=ends, isolation=self._isolation) as reader:
                await self._take(reader)

    async def follow(self) -> None:
        """Read on for ever. Raises ClientError."""
        async with self._client.records.reader(self._positions, isolation=self._isolation) as reader:
            await self._take(reader)

    async def _take(self, reader: Reader) -> None:
        async for chunk in reader:
            async with self._turn:
                # The task has one queue for all partitions of a topic: each record has its turn at once.
                for record in chunk.records:
                    self._task.add(chunk.partition.topic, 0, [record])
                    self._task.run(self._now_ms())
                self._positions[chunk.partition] = chunk.next_offset

    def _topics(self) -> list[str]:
        names = self._topology.global_nodes
        return [
            topic
            for node in self._topology.nodes
            if isinstance(node, Source) and node.name in names
            for topic in node.topics
        ]
