"""The topics of an application: how many partitions they have, and whether they are still the same ones."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Final
from uuid import UUID

from broker_cy.admin import AdminClient, ClientError
from broker_streams.kernel.errors import StreamsError
from broker_streams.plan.topology import Sink, Source, Topology

# Topics of results that are not there are waited for so long, and looked for after this pause.
SINKS_S: Final = 5.0
PAUSE_S: Final = 0.1


class Topics:
    """`look` learns of changes; until then everything is as before."""

    def __init__(self, client: AdminClient, topology: Topology, application_id: str) -> None:
        self._client = client
        named = [topic for node in topology.nodes if isinstance(node, Source) for topic in node.topics]
        # Offsets and state belong to these topics, and not to others with their names.
        self._kept = {topology.decorated(topic, application_id) for topic in named}
        for part in topology.subtopologies():
            changelogs = (topology.changelog(store, application_id) for store in part.stores)
            self._kept |= {topic for topic in changelogs if topic is not None}
        sinks = {node.topic for node in topology.nodes if isinstance(node, Sink) and isinstance(node.topic, str)}
        self._sinks = sorted(topology.decorated(topic, application_id) for topic in sinks)
        self._names = sorted(self._kept.union(self._sinks))
        self._failed: dict[str, ClientError] = {}
        self._counts: dict[str, int] = {}
        self._ids: dict[str, UUID] = {}

    def partitions(self, topic: str) -> int:
        """0 for a topic that does not exist, or that the coordinator has not made yet."""
        return self._counts.get(topic, 0)

    async def look(self) -> None:
        """Raises StreamsError: a topic was deleted, and there is another one with its name."""
        with suppress(ClientError):
            described = await self._client.topics.describe(self._names)
            self._failed = described.failed
            for name, topic in described.found.items():
                if name in self._kept and self._ids.setdefault(name, topic.topic_id) != topic.topic_id:
                    raise StreamsError(
                        f"topic {name} was deleted and created again while the application ran: its records, and the"
                        " state that depends on them, are gone"
                    )
                self._counts[name] = len(topic.partitions)

    async def look_for_sinks(self) -> None:
        """The same, until all topics of results are known: tasks choose partitions by their numbers. Raises
        ClientError: one does not exist, or may not be described.
        """
        loop = asyncio.get_running_loop()
        until_s = loop.time() + SINKS_S
        while True:
            await self.look()
            for error in (self._failed[name] for name in self._sinks if name in self._failed):
                # A broker may not know a new topic yet.
                if not error.retriable or loop.time() >= until_s:
                    raise error
            if all(self.partitions(name) for name in self._sinks):
                return
            await asyncio.sleep(PAUSE_S)
