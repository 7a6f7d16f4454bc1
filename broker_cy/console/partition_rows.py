"""The partitions of a topic with the facts of all requests about them, as the consoles show them."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from broker_cy.admin import AdminClient
from broker_cy.admin.metadata import TopicPartition
from broker_cy.admin.segments import segments_of
from broker_cy.console.feed_values import PartitionRow

if TYPE_CHECKING:
    import ssl
    from pathlib import Path


async def partition_rows(
    client: AdminClient, topic: str, token_file: Path | None, tls: ssl.SSLContext | None
) -> tuple[PartitionRow, ...]:
    """Read them now; `token_file` and `tls` are for the listeners with metrics. Raises ClientError."""
    info = (await client.topics.describe([topic])).whole()[topic]
    keys = [TopicPartition(topic, part.partition) for part in info.partitions]
    starts, ends, disks, segments = await asyncio.gather(
        client.offsets.earliest(keys),
        client.offsets.latest(keys),
        client.log_dirs.describe(topics=[topic]),
        segments_of(client.caller, topic, token_file, tls),
    )
    on_disk = {
        replica.partition: (replica.size_bytes, directory.path)
        for directories in disks.found.values()
        for directory in directories
        for replica in directory.replicas
    }
    await asyncio.sleep(0)
    return tuple(
        PartitionRow(
            part.partition,
            part.leader_id,
            part.leader_epoch,
            part.replicas,
            part.in_sync_replicas,
            starts.found.get(key),
            ends.found.get(key),
            on_disk.get(part.partition, (None, ""))[0],
            on_disk.get(part.partition, (None, ""))[1],
            segments.get(part.partition),
        )
        for key, part in zip(keys, info.partitions, strict=True)
    )
