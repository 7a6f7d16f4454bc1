"""Recorded records of the cluster as inputs of a runner, up to exact offsets.

Each input partition has a reader of its own, as the runner asks for one partition at a time. The records that wait in
memory are bounded: one chunk of each partition in the runner, and what its reader reads ahead.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Final

from broker_cy.admin import AdminClient, ClientError, Failure
from broker_cy.admin.fetched import Chunk
from broker_cy.admin.metadata import TopicPartition
from broker_cy.admin.offsets import Isolation
from broker_cy.admin.records import Start
from broker_cy.admin.reset import read_offsets
from broker_cy.client.quantities import parse_time
from broker_streams.kernel.partition_group import Parts as Input
from broker_streams.offline.runner import Result, Runner
from broker_streams.plan.topology import Sink, Source, Topology

# Bytes of one answer of a partition, about a chunk.
CHUNK_BYTES: Final = 256 << 10
EARLIEST: Final = "earliest"
LATEST: Final = "latest"
COMMITTED: Final = "committed"
POINT_HELP: Final = "earliest, latest, committed (by the application), a time, or a CSV file: topic,partition,offset"


async def counts_of(client: AdminClient, topology: Topology) -> dict[str, int]:
    """The partitions of the topics of the user that exist, by name."""
    wanted: set[str] = set()
    for node in topology.nodes:
        if isinstance(node, Source):
            wanted |= set(node.topics)
        elif isinstance(node, Sink) and node.topic is not None:
            wanted.add(node.topic)
    existing = await client.topics.list_all()
    return {each.name: len(each.partitions) for each in existing if each.name in wanted}


async def point(
    client: AdminClient,
    keys: Iterable[TopicPartition],
    text: str,
    *,
    group_id: str,
    isolation: Isolation,
    now_ms: Callable[[], int],
) -> dict[TopicPartition, int]:
    """Offsets of partitions at a point that a user names (POINT_HELP). Raises ClientError."""
    wanted = list(keys)
    if text == COMMITTED:
        committed = (await client.group_offsets.fetch([group_id], stable=True)).whole()[group_id]
        missing = next((key for key in wanted if key not in committed), None)
        if missing is not None and not any(key in committed for key in wanted):
            raise ClientError(Failure.INVALID, f"nothing is committed for {missing}", what=f"application {group_id}")
        # A partition from which nothing was processed has no commit.
        spans = await client.records.spans(wanted, Start.earliest(), isolation=isolation)
        return {key: committed[key].offset if key in committed else spans[key].earliest for key in wanted}
    if text.endswith(".csv"):
        if not Path(text).is_file():
            raise ClientError(Failure.INVALID, f"{text} is no file")
        return await _listed(client, wanted, text, isolation)
    if text == EARLIEST:
        start = Start.earliest()
    elif text == LATEST:
        start = Start.latest()
    else:
        try:
            start = Start.time(parse_time(text, now_ms))
        except ValueError as error:
            raise ClientError(Failure.INVALID, f"{error}; {POINT_HELP} is expected") from None
    return {key: span.start for key, span in (await client.records.spans(wanted, start, isolation=isolation)).items()}


async def _listed(
    client: AdminClient, wanted: list[TopicPartition], text: str, isolation: Isolation
) -> dict[TopicPartition, int]:
    """The offsets of a file, which the log has."""
    listed = read_offsets(Path(text))
    spans = await client.records.spans(wanted, Start.earliest(), isolation=isolation)
    for key, span in spans.items():
        if key not in listed:
            raise ClientError(Failure.INVALID, f"no offset is given for {key}", what=text)
        if not span.earliest <= listed[key] <= span.end:
            reason = f"offset {listed[key]} of {key}: the log has {span.earliest} to {span.end}"
            raise ClientError(Failure.INVALID, reason, what=text)
    return {key: listed[key] for key in wanted}


def inputs_of(chunk: Chunk) -> list[Input]:
    """Raises ClientError: records are damaged, or were deleted before they were read."""
    if chunk.damage:
        raise ClientError(Failure.REFUSED, f"records cannot be read: {chunk.damage[0]}", what=str(chunk.partition))
    if chunk.lost_from is not None:
        reason = f"records from offset {chunk.lost_from} on were deleted before they were read"
        raise ClientError(Failure.REFUSED, reason, what=str(chunk.partition))
    return [
        (record.key, record.value, record.timestamp, record.offset, tuple(record.headers)) for record in chunk.records
    ]


async def chunks(
    client: AdminClient,
    starts: Mapping[TopicPartition, int],
    ends: Mapping[TopicPartition, int],
    isolation: Isolation,
) -> AsyncIterator[Chunk]:
    """The chunks of all these partitions, in the order of each."""
    wanted = {key: at for key, at in starts.items() if at < ends[key]}
    if not wanted:
        return
    theirs = {key: ends[key] for key in wanted}
    async with client.records.reader(
        wanted, ends=theirs, isolation=isolation, partition_bytes_max=CHUNK_BYTES
    ) as reader:
        async for chunk in reader:
            yield chunk


async def fill_global_stores(client: AdminClient, runner: Runner, isolation: Isolation) -> None:
    """Read the topics of global stores to the ends that they have now. Raises ClientError, StreamsError."""
    for topic in runner.global_topics:
        keys = await client.records.partitions(topic)
        spans = await client.records.spans(keys, Start.earliest(), isolation=isolation)
        starts, ends = (
            {key: span.start for key, span in spans.items()},
            {key: span.end for key, span in spans.items()},
        )
        async for chunk in chunks(client, starts, ends, isolation):
            runner.add_global(topic, inputs_of(chunk))


async def feed(
    client: AdminClient,
    runner: Runner,
    starts: Mapping[TopicPartition, int],
    ends: Mapping[TopicPartition, int],
    take: Callable[[list[Result]], Awaitable[None]],
    *,
    isolation: Isolation,
) -> int:
    """Process all records from `starts` to `ends`; `take` gets the results. Return how many records there were.

    Raises ClientError, StreamsError.
    """
    await fill_global_stores(client, runner, isolation)
    count = 0
    async with AsyncExitStack() as stack:
        waiting: dict[TopicPartition, AsyncIterator[Chunk]] = {}
        for place in runner.inputs:
            key = TopicPartition(*place)
            found = chunks(client, {key: starts[key]}, {key: ends[key]}, isolation)
            stack.push_async_callback(found.aclose)  # type: ignore[attr-defined]  # a generator
            waiting[key] = found
        await take(runner.take())
        while wanted := runner.wanted():
            for place in wanted:
                records = await _next(waiting[TopicPartition(*place)])
                if records is None:
                    runner.finish(*place)
                else:
                    count += len(records)
                    runner.add(*place, records)
            runner.run()
            await take(runner.take())
            # The readers have their turn.
            await asyncio.sleep(0)
        runner.run()
        await take(runner.take())
    return count


async def _next(source: AsyncIterator[Chunk]) -> list[Input] | None:
    """The next records, None at the end."""
    async for chunk in source:
        if found := inputs_of(chunk):
            return found
    return None
