"""A consistent cut of an application: offsets up to which its inputs are processed, and the ends of what it wrote.

Offsets and results are committed together. The cut holds if no commit came between two looks at the offsets, no
transaction was open on the topics in between, and no record waits in a repartition topic.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from broker_cy.admin import AdminClient, ClientError, Failure
from broker_cy.admin.metadata import TopicPartition
from broker_cy.admin.offsets import Isolation
from broker_cy.admin.records import Start
from broker_streams.offline.history import chunks

# An application that commits all the time has no such moment.
PATIENCE_S: Final = 30.0
_PAUSE_S: Final = 0.2


class Cut(NamedTuple):
    """`committed`: the next offset of each input; `ends`: the offsets behind the last results."""

    committed: dict[TopicPartition, int]
    ends: dict[TopicPartition, int]


async def consistent_cut(
    client: AdminClient, group_id: str, outputs: Iterable[TopicPartition], repartition: Iterable[TopicPartition] = ()
) -> Cut:
    """`repartition`: the partitions of the application's repartition topics.

    Raises ClientError: the application commits all the time, has committed nothing, or was stopped with records in
    repartition topics.
    """
    keys, internal = list(outputs), list(repartition)
    waiting = 0
    try:
        async with asyncio.timeout(PATIENCE_S):
            while True:
                before = await committed_offsets(client, group_id)
                stable = (await client.offsets.latest(keys, isolation=Isolation.READ_COMMITTED)).whole()
                ends = (await client.offsets.latest(keys)).whole()
                if stable == ends and await committed_offsets(client, group_id) == before:
                    waiting = await waiting_records(client, internal, before)
                    if not waiting:
                        return Cut(before, dict(ends))
                await asyncio.sleep(_PAUSE_S)
    except TimeoutError:
        if waiting:
            reason = f"{waiting} records wait in its repartition topics: let it run until it has processed them"
        else:
            reason = f"it committed all the time for {PATIENCE_S:g} s, or a transaction stays open: stop it first"
        raise ClientError(Failure.REFUSED, reason, what=f"application {group_id}") from None


async def waiting_records(
    client: AdminClient, keys: list[TopicPartition], committed: Mapping[TopicPartition, int]
) -> int:
    """The records of repartition topics behind the committed offsets; markers of transactions do not count."""
    if not keys:
        return 0
    spans = await client.records.spans(keys, Start.earliest(), isolation=Isolation.READ_COMMITTED)
    starts = {key: max(committed.get(key, 0), span.earliest) for key, span in spans.items()}
    ends = {key: span.end for key, span in spans.items()}
    count = 0
    async for chunk in chunks(client, starts, ends, Isolation.READ_COMMITTED):
        count += len(chunk.records)
    return count


async def committed_offsets(client: AdminClient, group_id: str) -> dict[TopicPartition, int]:
    found = (await client.group_offsets.fetch([group_id], stable=True)).whole()[group_id]
    if not found:
        raise ClientError(Failure.INVALID, "it has committed nothing", what=f"application {group_id}")
    return {key: each.offset for key, each in found.items()}
