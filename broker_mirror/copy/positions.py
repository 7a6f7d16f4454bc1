"""The committed offsets of a flow, read from the target; and the topics of the flow's own records."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from broker_cy.admin import AdminClient
from broker_cy.admin.metadata import TopicPartition
from broker_cy.admin.offsets import EARLIEST, LATEST, Isolation
from broker_cy.admin.reader import Reader
from broker_cy.admin.topics import NewTopic
from broker_cy.client.errors import ClientError
from broker_cy.core.errors import ErrorCode
from broker_cy.core.java_duration import duration_ms
from broker_mirror.formats.fields import DamagedRecord
from broker_mirror.formats.source_offsets import TopicIds, decode_ids, decode_key, decode_offset

COMPACT: Final = {"cleanup.policy": "compact"}
_BY_DURATION: Final = "by_duration:"


class Position(NamedTuple):
    """A committed position: the next offset to copy, and the ids that both topics had."""

    offset: int
    ids: TopicIds


async def ensure_topic(client: AdminClient, name: str, partitions: int, replication_factor: int) -> int:
    """Create a compacted topic unless it exists; returns its number of partitions. Raises ClientError."""
    found, failed = await client.caller.metadata.refresh([name], client.caller.deadline())
    if name not in found:
        if failed[name].code is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            raise failed[name]
        wanted = NewTopic(name, partitions, replication_factor, COMPACT)
        for error in (await client.topics.create([wanted])).failed.values():
            if error.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
                raise error
        attempt = 1
        deadline = client.caller.deadline()
        while name not in found or not found[name].partitions:
            found, failed = await client.caller.metadata.refresh([name], client.caller.deadline())
            if name not in found and not await deadline.back_off(attempt):
                raise failed[name]
            attempt += 1
    return len(found[name].partitions)


async def committed_positions(
    client: AdminClient, topic: str, cluster: str, connector: str
) -> dict[TopicPartition, Position]:
    """Return the committed position of each partition of the source `cluster`. Raises ClientError.

    Records up to the high watermark are read, and open transactions of others are waited for: one of them may stand
    before the flow's own last commit.
    """
    found, failed = await client.caller.metadata.refresh([topic], client.caller.deadline())
    for error in failed.values():
        raise error
    keys = [TopicPartition(topic, each.partition) for each in found[topic].partitions]
    starts = (await client.offsets.earliest(keys)).whole()
    ends = (await client.offsets.latest(keys)).whole()
    positions: dict[TopicPartition, Position] = {}
    async with Reader(client.caller, starts, ends=ends, isolation=Isolation.READ_COMMITTED) as reader:
        async for chunk in reader:
            for record in chunk.records:
                try:
                    partition = decode_key(record.key)
                    if partition is None or (partition.cluster, partition.connector) != (cluster, connector):
                        continue
                    offset = decode_offset(record.value)
                except DamagedRecord:
                    # Another program's record: Connect skips it too.
                    continue
                key = TopicPartition(partition.topic, partition.partition)
                if offset is None:
                    positions.pop(key, None)
                else:
                    positions[key] = Position(offset + 1, decode_ids(record.headers))
    return positions


async def starts(
    client: AdminClient, partitions: Iterable[TopicPartition], reset: str, now_ms: int
) -> tuple[dict[TopicPartition, int], dict[TopicPartition, ClientError]]:
    """Return where partitions without a committed offset begin, by auto.offset.reset, and the failures."""
    keys = list(partitions)
    if not keys:
        return {}, {}
    if reset.startswith(_BY_DURATION):
        since_ms = max(0, now_ms - duration_ms(reset.removeprefix(_BY_DURATION)))
        outcome = await client.offsets.at(dict.fromkeys(keys, since_ms))
    else:
        outcome = await client.offsets.at(dict.fromkeys(keys, LATEST if reset == "latest" else EARLIEST))
    found = {key: each.offset for key, each in outcome.found.items() if each.offset is not None}
    # No record is recent enough.
    late = [key for key in outcome.found if key not in found]
    ends = await client.offsets.latest(late) if late else None
    if ends is not None:
        found |= ends.found
    return found, {**outcome.failed, **(ends.failed if ends is not None else {})}
