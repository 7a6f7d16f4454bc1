"""Gives a new application the state that it would have after its history: changelogs, and offsets to go on from.

    seed = Seed(client, topology, settings)
    await seed.require_new()
    await seed.create_topics(tasks, repartition)
    await seed.take(changes)                 in transactions of some thousand records
    await seed.finish(offsets, texts)        the last transaction, with the offsets of all inputs

A seed that was interrupted leaves topics, and no offsets: another one deletes them. Until then, do not start the
application.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from broker_cy.admin import AdminClient, ClientError, Failure
from broker_cy.admin.metadata import TopicPartition
from broker_cy.admin.topics import NewTopic
from broker_cy.client.transaction import GroupMetadata
from broker_cy.wire.records import Record
from broker_streams.hosts.announced import announced, new_topic
from broker_streams.hosts.settings import HostSettings
from broker_streams.plan.topology import Topology
from broker_streams.records import Headers

# Records of one transaction.
TRANSACTION_RECORDS: Final = 10_000


class ChangeRecord(NamedTuple):
    """A record for a changelog."""

    topic: str
    partition: int
    key: bytes
    value: bytes | None
    timestamp: int
    headers: Headers


class Seed:
    """`topics` are those that `create_topics` made."""

    def __init__(self, client: AdminClient, topology: Topology, settings: HostSettings) -> None:
        self._client, self._topology, self._settings = client, topology, settings
        self._producer = client.transactional_producer(
            f"{settings.application_id}-seed", timeout_ms=settings.transaction_timeout_ms
        )
        self._waiting: dict[TopicPartition, list[Record]] = {}
        self._count = 0
        self.topics: tuple[str, ...] = ()
        self.written = 0

    async def require_new(self) -> None:
        """Delete what an interrupted seed has left. Raises ClientError: the application has members or committed
        offsets.
        """
        name = self._settings.application_id
        committed = (await self._client.positions.fetch([name])).whole()[name]
        group = (await self._client.groups.describe([name])).found.get(name)
        if committed or (group is not None and group.members):
            has = f"a committed offset of {min(committed)}" if committed else "members"
            raise ClientError(
                Failure.INVALID, f"it has {has}: choose another --application-id", what=f"application {name}"
            )
        existing = {each.name for each in await self._client.topics.list_all()}
        left = sorted(existing & {each.name for each in self._wanted({}, {})})
        if left:
            (await self._client.topics.delete(left)).whole()

    def _wanted(self, tasks: Mapping[int, int], repartition: Mapping[str, int]) -> Iterable[NewTopic]:
        settings = self._settings
        made = announced(
            self._topology,
            settings.application_id,
            replication_factor=settings.replication_factor,
            topic_config=settings.topic_config,
            additional_retention_ms=settings.additional_retention_ms,
        )
        for part in made.subtopologies:
            for topic in (*part.state_changelog_topics, *part.repartition_source_topics):
                yield new_topic(topic, repartition.get(topic.name, tasks.get(int(part.subtopology_id), 1)))

    async def create_topics(self, tasks: Mapping[int, int], repartition: Mapping[str, int]) -> None:
        """`tasks`: the tasks of each sub-topology; `repartition`: the partitions of repartition topics. Raises
        ClientError.
        """
        wanted = list(self._wanted(tasks, repartition))
        if wanted:
            (await self._client.topics.create(wanted)).whole()
        self.topics = tuple(each.name for each in wanted)

    async def take(self, changes: Iterable[ChangeRecord]) -> None:
        """Write changes, of one partition in their order. Raises ClientError."""
        for topic, partition, key, value, timestamp, headers in changes:
            record = Record(key=key, value=value, timestamp=timestamp, headers=headers)
            self._waiting.setdefault(TopicPartition(topic, partition), []).append(record)
            self._count += 1
            if self._count >= TRANSACTION_RECORDS:
                await self._commit({}, {})

    async def finish(self, offsets: Mapping[TopicPartition, int], texts: Mapping[TopicPartition, str]) -> None:
        """Write the rest, and commit the next offset of each input. Raises ClientError."""
        await self._commit(offsets, texts)

    async def _commit(self, offsets: Mapping[TopicPartition, int], texts: Mapping[TopicPartition, str]) -> None:
        waiting, self._waiting = self._waiting, {}
        async with self._producer.transaction():
            for key, records in waiting.items():
                await self._producer.send(key.topic, records, partition=key.partition)
            if offsets:
                await self._producer.commit_offsets(GroupMetadata(self._settings.application_id), offsets, texts)
        self.written += self._count
        self._count = 0
