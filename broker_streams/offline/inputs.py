"""Recorded records as inputs of a runner, up to exact offsets.

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
from broker_cy.admin.metadata import TopicPartition
from broker_cy.admin.records import Start
from broker_cy.admin.reset import read_offsets
from broker_cy.client.quantities import parse_time
from broker_streams.kernel.partition_group import Parts as Input
from broker_streams.offline.history import History
from broker_streams.offline.runner import Result, Runner
from broker_streams.plan.topology import Sink, Source, Topology

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
    history: History,
    keys: Iterable[TopicPartition],
    text: str,
    *,
    group_id: str,
    now_ms: Callable[[], int],
) -> dict[TopicPartition, int]:
    """Offsets of partitions at a point that a user names (POINT_HELP). Raises ClientError."""
    wanted = list(keys)
    if text == COMMITTED:
        committed = (await history.client.group_offsets.fetch([group_id], stable=True)).whole()[group_id]
        missing = next((key for key in wanted if key not in committed), None)
        if missing is not None and not any(key in committed for key in wanted):
            raise ClientError(Failure.INVALID, f"nothing is committed for {missing}", what=f"application {group_id}")
        # A partition from which nothing was processed has no commit.
        spans = await history.spans(wanted, Start.earliest())
        return {key: committed[key].offset if key in committed else spans[key].earliest for key in wanted}
    if text.endswith(".csv"):
        if not Path(text).is_file():
            raise ClientError(Failure.INVALID, f"{text} is no file")
        return await _listed(history, wanted, text)
    if text == EARLIEST:
        start = Start.earliest()
    elif text == LATEST:
        start = Start.latest()
    else:
        try:
            start = Start.time(parse_time(text, now_ms))
        except ValueError as error:
            raise ClientError(Failure.INVALID, f"{error}; {POINT_HELP} is expected") from None
    return {key: span.start for key, span in (await history.spans(wanted, start)).items()}


async def _listed(history: History, wanted: list[TopicPartition], text: str) -> dict[TopicPartition, int]:
    """The offsets of a file, which the log has."""
    listed = read_offsets(Path(text))
    spans = await history.spans(wanted, Start.earliest())
    for key, span in spans.items():
        if key not in listed:
            raise ClientError(Failure.INVALID, f"no offset is given for {key}", what=text)
        if not span.earliest <= listed[key] <= span.end:
            reason = f"offset {listed[key]} of {key}: the log has {span.earliest} to {span.end}"
            raise ClientError(Failure.INVALID, reason, what=text)
    return {key: listed[key] for key in wanted}


async def fill_global_stores(history: History, runner: Runner) -> None:
    """Read the topics of global stores to the ends that they have now. Raises ClientError, StreamsError."""
    for topic in runner.global_topics:
        keys = await history.client.records.partitions(topic)
        for key, span in (await history.spans(keys, Start.earliest())).items():
            async for records in history.records(key, span.start, span.end):
                runner.add_global(topic, records)


async def feed(
    history: History,
    runner: Runner,
    starts: Mapping[TopicPartition, int],
    ends: Mapping[TopicPartition, int],
    take: Callable[[list[Result]], Awaitable[None]],
) -> int:
    """Process all records from `starts` to `ends`; `take` gets the results. Return how many records there were.

    Raises ClientError, StreamsError.
    """
    await fill_global_stores(history, runner)
    count = 0
    async with AsyncExitStack() as stack:
        waiting: dict[TopicPartition, AsyncIterator[list[Input]]] = {}
        for place in runner.inputs:
            key = TopicPartition(*place)
            found = history.records(key, starts[key], ends[key])
            stack.push_async_callback(found.aclose)
            waiting[key] = found
        await take(runner.take())
        while wanted := runner.wanted():
            for place in wanted:
                records = await anext(waiting[TopicPartition(*place)], None)
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
