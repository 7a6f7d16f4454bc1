"""The lag of a flow, read from both clusters: no process has to run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from broker_cy.admin import AdminClient, ClientError
from broker_cy.admin.metadata import TopicPartition
from broker_cy.admin.offsets import Isolation
from broker_cy.admin.reader import Reader
from broker_cy.core.errors import ErrorCode
from broker_mirror.copy.positions import committed_positions
from broker_mirror.flow_run import connect
from broker_mirror.flows import Flow
from broker_mirror.formats.source_offsets import CONNECTOR
from broker_mirror.merged import Role, Side
from broker_mirror.status import PartitionLag

LOOK_BYTES: Final = 64 << 10
"""Bytes of a partition in one answer, while the first record of each is looked for."""


async def lag_of(flow: Flow) -> list[PartitionLag]:
    """Return the partitions of a flow. Raises ClientError."""
    source = connect(flow.clients[Side.SOURCE, Role.CONSUMER])
    target = connect(flow.clients[Side.TARGET, Role.ADMIN])
    async with source, target:
        topics = await source.topics.list_all()
        copied = [topic for topic in topics if flow.copies_topic(topic.name)]
        keys = [TopicPartition(topic.name, part.partition) for topic in copied for part in topic.partitions]
        starts, ends = await source.offsets.earliest(keys), await source.offsets.latest(keys)
        try:
            committed = await committed_positions(target, flow.offsets_topic, flow.source, CONNECTOR)
        except ClientError as error:
            if error.code is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                raise
            committed = {}
        begins = {**starts.found, **{key: each.offset for key, each in committed.items()}}
        lags = {key: max(0, end - begins[key]) for key, end in ends.found.items() if key in begins}
        for key in await without_records(source, {key: begins[key] for key, lag in lags.items() if lag}, ends.found):
            lags[key] = 0
    return [
        PartitionLag(
            str(flow.pair),
            key.topic,
            key.partition,
            committed[key].offset if key in committed else None,
            ends.found.get(key),
            lags.get(key),
        )
        for key in keys
    ]


async def without_records(
    client: AdminClient, begins: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int]
) -> set[TopicPartition]:
    """Return those of the partitions that have only markers and aborted records between `begins` and `ends`: a flow
    commits the offset of its last record, and nothing for what follows. A partition with an open transaction is not
    among them. Reading ends at the first record of each, so aborted records bound it. Raises ClientError.
    """
    stable = (await client.offsets.latest(begins, isolation=Isolation.READ_COMMITTED)).found if begins else {}
    found = {key for key in begins if stable.get(key, -1) >= ends[key]}
    left = set(found)
    async with Reader(
        client.caller,
        {key: begins[key] for key in found},
        ends={key: ends[key] for key in found},
        isolation=Isolation.READ_COMMITTED,
        partition_bytes_max=LOOK_BYTES,
    ) as reader:
        async for chunk in reader:
            if chunk.records or chunk.damage:
                found.discard(chunk.partition)
            if chunk.partition not in found or chunk.next_offset >= ends[chunk.partition]:
                left.discard(chunk.partition)
            if not left:
                break
    return found
