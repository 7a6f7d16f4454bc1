"""The two clusters of a flow, and the records that tell how they belong together."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import NamedTuple

from broker_cy.admin import AdminClient
from broker_cy.admin.metadata import TopicPartition
from broker_cy.admin.offsets import Isolation
from broker_cy.admin.records import Start
from broker_cy.client.errors import ClientError, Failure
from broker_cy.core.errors import ErrorCode
from broker_cy.wire.records import Record
from broker_mirror.flow_run import connect
from broker_mirror.flows import Flow, FlowKind, Verdict
from broker_mirror.formats import offset_syncs
from broker_mirror.formats.fields import DamagedRecord
from broker_mirror.formats.source_offsets import ReachedOffsets
from broker_mirror.merged import Role, Side
from broker_mirror.translation import Translation


class NotOfFlow(ClientError):
    """The flow does not have the topic or group that was named; another flow of the file may have it."""


class Clusters(NamedTuple):
    """Clients of both clusters of a flow."""

    flow: Flow
    source: AdminClient
    target: AdminClient


@asynccontextmanager
async def clusters_of(flow: Flow, timeout_s: float) -> AsyncIterator[Clusters]:
    """Connect to both clusters, with the consumers' settings of the flow. Raises ClientError."""
    async with (
        connect(flow.clients[Side.SOURCE, Role.CONSUMER], timeout_s) as source,
        connect(flow.clients[Side.TARGET, Role.CONSUMER], timeout_s) as target,
    ):
        yield Clusters(flow, source, target)


async def topics_of(of: Clusters, names: Sequence[str] = ()) -> dict[str, tuple[int, int | None]]:
    """Return the topics of the source that the flow copies, with their numbers of partitions in the source and in the
    target; None for a topic that the target does not have. `names` selects some. Raises ClientError.
    """
    there = {each.name: len(each.partitions) for each in await of.source.topics.list_all()}
    remote = {each.name: len(each.partitions) for each in await of.target.topics.list_all()}
    for name in names:
        if name not in there:
            raise NotOfFlow(Failure.INVALID, f"{of.flow.pair.source} has no such topic", what=f"topic {name}")
        if (verdict := of.flow.verdict(name)) is not Verdict.COPIED:
            raise NotOfFlow(Failure.INVALID, f"{of.flow.pair} does not copy it ({verdict.value})", what=f"topic {name}")
    return {
        name: (count, remote.get(of.flow.remote_topic(name)))
        for name, count in sorted(there.items())
        if of.flow.copies_topic(name) and (not names or name in names)
    }


async def translation_of(of: Clusters) -> Translation:
    """Return the offset syncs that their topic still has; without the topic, none. A damaged one is skipped: it does
    not belong to a mirror.
    """
    found = Translation()
    if of.flow.kind is FlowKind.LINK:
        return found
    client = of.source if of.flow.syncs_side is Side.SOURCE else of.target
    async for record in records_of(client, of.flow.offset_syncs_topic):
        try:
            found.apply(offset_syncs.decode(record.key, record.value, record.headers))
        except DamagedRecord:
            continue
    return found


async def reached_of(of: Clusters) -> ReachedOffsets:
    """Return the offsets that a copy flow has committed; without their topic, none."""
    found = ReachedOffsets(of.flow.source)
    if of.flow.kind is FlowKind.LINK:
        return found
    async for record in records_of(of.target, of.flow.offsets_topic):
        try:
            found.apply(record.key, record.value)
        except DamagedRecord:
            continue
    return found


async def records_of(client: AdminClient, topic: str) -> AsyncIterator[Record]:
    """Yield the committed records that a topic has now. Raises ClientError, but not for a topic that does not exist."""
    try:
        partitions: Sequence[TopicPartition] = await client.records.partitions(topic)
    except ClientError as error:
        if error.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            return
        raise
    spans = await client.records.spans(partitions, Start.earliest(), isolation=Isolation.READ_COMMITTED)
    starts = {key: span.start for key, span in spans.items()}
    ends = {key: span.end for key, span in spans.items()}
    async with client.records.reader(starts, ends=ends, isolation=Isolation.READ_COMMITTED) as reader:
        async for chunk in reader:
            for record in chunk.records:
                yield record
