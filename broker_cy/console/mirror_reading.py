"""The requests behind the pages of mirrors: to the processes of broker-mirror, and to the cluster itself."""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final

from broker_cy.admin import AdminClient
from broker_cy.admin.group_values import GroupListing
from broker_cy.admin.metadata import TopicInfo, TopicPartition
from broker_cy.admin.mirror_links import LinkPartition, MirrorTopic, link_partitions, mirror_topics, topics_of
from broker_cy.admin.offsets import MAX_TIMESTAMP
from broker_cy.client.clusters import ClusterEntry
from broker_cy.client.errors import ClientError
from broker_cy.client.mirror_status import MirrorStatus, ask
from broker_cy.console.mirrors import MirrorFlows, Reading, flows_of

PROCESS_S: Final = 4.0
"""The time limit for one process: flows of the others are shown without it."""
PAUSE_S: Final = 30.0
"""How often brokers are asked for mirrors while there are none: each request that a login may not send is an event."""
LOOK_S: Final = 60.0
"""How often all topics are searched for mirrors, if no broker reports those that it leads."""
_HEARTBEATS: Final = "heartbeats"
HEARTBEATS_MAX: Final = 100
"""Topics of heartbeats whose newest record is looked up: one for each source."""


class MirrorReader:
    """Reads the flows into a cluster. `topics` and `groups` return the present ones, and may raise ClientError."""

    def __init__(
        self,
        entry: ClusterEntry,
        client: AdminClient,
        tls: ssl.SSLContext | None,
        topics: Callable[[], Awaitable[Sequence[TopicInfo]]],
        groups: Callable[[], Awaitable[Sequence[GroupListing]]],
    ) -> None:
        self._entry, self._client, self._tls = entry, client, tls
        self._topics, self._groups = topics, groups
        # The mirror topics that were found last, and the loop times of the last question and of the last search.
        self._links: Sequence[MirrorTopic] = ()
        self._asked_at_s = self._looked_at_s = float("-inf")

    async def read(self) -> MirrorFlows:
        """Raises ClientError if the cluster does not answer."""
        (statuses, failed), topics = await asyncio.gather(self._statuses(), self._topics())
        partitions = {topic.name: len(topic.partitions) for topic in topics}
        groups, heartbeats, (links, parts) = await asyncio.gather(
            self._listed(), self._newest_heartbeats(partitions), self._link_topics(partitions)
        )
        return flows_of(
            Reading(int(time.time() * 1000), statuses, failed, groups, partitions.keys(), heartbeats, links, parts)
        )

    def forget(self) -> None:
        """Search all topics for mirrors with the next look: settings have changed."""
        self._asked_at_s = self._looked_at_s = float("-inf")

    async def _statuses(self) -> tuple[dict[str, MirrorStatus], dict[str, str]]:
        answers = await asyncio.gather(
            *(ask(address, PROCESS_S) for address in self._entry.mirrors), return_exceptions=True
        )
        found: dict[str, MirrorStatus] = {}
        failed: dict[str, str] = {}
        for address, answer in zip(self._entry.mirrors, answers, strict=True):
            if isinstance(answer, ClientError):
                failed[str(address)] = answer.reason
            elif isinstance(answer, BaseException):
                raise answer
            else:
                found[str(address)] = answer
        return found, failed

    async def _listed(self) -> Sequence[GroupListing]:
        try:
            return await self._groups()
        except ClientError:
            # A login may see topics and no groups.
            return ()

    async def _newest_heartbeats(self, topics: Mapping[str, int]) -> dict[str, int]:
        """Return the times of the newest heartbeats that were copied, by topic."""
        copied = [name for name in topics if name.endswith(f".{_HEARTBEATS}")][:HEARTBEATS_MAX]
        if not copied:
            return {}
        try:
            found = (await self._client.offsets.at({TopicPartition(name, 0): MAX_TIMESTAMP for name in copied})).found
        except ClientError:
            return {}
        return {key.topic: each.timestamp_ms for key, each in found.items() if each.timestamp_ms is not None}

    async def _link_topics(
        self, topics: Mapping[str, int]
    ) -> tuple[Sequence[MirrorTopic], Mapping[TopicPartition, LinkPartition]]:
        now_s = asyncio.get_running_loop().time()
        if not self._links and now_s - self._asked_at_s < PAUSE_S:
            return (), {}
        self._asked_at_s = now_s
        reported = await link_partitions(self._client.caller, self._entry.metrics_token_file, self._tls)
        if reported is not None:
            self._links = topics_of(reported.values(), topics)
            return self._links, reported
        if now_s - self._looked_at_s >= LOOK_S:
            found = await mirror_topics(self._client.configs, topics)
            self._links, self._looked_at_s = [each for each in found if each.link is not None], now_s
        return self._links, {}
