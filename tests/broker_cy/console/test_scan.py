"""Scans and live tails, without a screen."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence

from broker_cy.admin import AdminClient
from broker_cy.admin.metadata import TopicPartition
from broker_cy.admin.records import Span, Start
from broker_cy.admin.topics import NewTopic
from broker_cy.console.record_filter import RecordFilter
from broker_cy.console.scan import Scan, State, Tail
from broker_cy.wire.records import Record
from tests.support.broker import BrokerProcess


async def make(
    client: AdminClient, name: str, partitions: int, records: Sequence[Record]
) -> dict[TopicPartition, Span]:
    """A topic with records, spread over its partitions in turn; its spans."""
    (await client.topics.create([NewTopic(name, partitions)])).whole()
    producer = client.records.producer()
    for partition in range(partitions):
        theirs = records[partition::partitions]
        if theirs:
            await producer.send(name, theirs, partition=partition)
    return await client.records.spans([TopicPartition(name, n) for n in range(partitions)], Start.earliest())


def test_a_search_pauses_at_a_page_and_goes_on_without_gaps(broker_cy: BrokerProcess, name: str) -> None:
    """If this fails, the second page of a search repeats or leaves out records."""

    async def job() -> None:
        async with AdminClient(broker_cy.bootstrap) as client:
            records = [Record(timestamp=n, value=b"%d" % n + b"!" * (n % 3 == 0)) for n in range(1_000)]
            scan = Scan(client, await make(client, name, 2, records), RecordFilter(value="!"), page_max=100)
            found: list[bytes | None] = []
            pages = 0
            while scan.state is not State.DONE:
                await scan.run()
                assert scan.state in (State.PAUSED, State.DONE), scan.error
                assert len(scan.rows) <= 100
                found += [row.record.value for row in scan.rows]
                scan.forget_rows()
                pages += 1
            assert sorted(found, key=str) == sorted((b"%d!" % n for n in range(0, 1_000, 3)), key=str)
            assert pages == 4
            assert (scan.records, scan.matches, scan.offsets_done) == (1_000, 334, 1_000)

    asyncio.run(job())


def test_the_newest_records_are_those_by_time_over_all_partitions(broker_cy: BrokerProcess, name: str) -> None:
    """If this fails, "Newest first" is sorted within each partition only."""

    async def job() -> None:
        async with AdminClient(broker_cy.bootstrap) as client:
            # Partition 2 has all the new records.
            records = [Record(timestamp=1_000 + n, value=b"%d" % n) for n in range(300)]
            (await client.topics.create([NewTopic(name, 3)])).whole()
            for partition in range(3):
                await client.records.producer().send(
                    name, records[partition * 100 : partition * 100 + 100], partition=partition
                )
            keys = [TopicPartition(name, n) for n in range(3)]
            scan = Scan(client, await client.records.spans(keys, Start.last(20)), newest=20)
            await scan.run()
            assert [row.record.value for row in scan.shown()] == [b"%d" % n for n in range(299, 279, -1)]
            assert {row.partition for row in scan.shown()} == {2}

    asyncio.run(job())


def test_a_scan_that_is_stopped_goes_on_where_it_was(broker_cy: BrokerProcess, name: str) -> None:
    """If this fails, a long search that was stopped has to start again."""

    async def job() -> None:
        async with AdminClient(broker_cy.bootstrap) as client:
            spans = await make(client, name, 1, [Record(value=b"%d" % n) for n in range(5_000)])
            scan = Scan(client, spans, page_max=10_000)
            task = asyncio.create_task(scan.run())
            while not scan.records:
                await asyncio.sleep(0)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            states = [scan.state]
            await scan.run()
            states.append(scan.state)
            assert states == [State.STOPPED, State.DONE]
            assert [row.record.value for row in scan.rows] == [b"%d" % n for n in range(5_000)]

    asyncio.run(job())


def test_a_tail_keeps_the_newest_and_counts_what_it_drops(broker_cy: BrokerProcess, name: str) -> None:
    """If this fails, a burst exhausts the memory, or records are dropped without a message."""

    async def job() -> None:
        async with AdminClient(broker_cy.bootstrap) as client:
            spans = await make(client, name, 2, [])
            tail = Tail(client, {key: span.start for key, span in spans.items()}, records_max=50)
            task = asyncio.create_task(tail.run())
            await client.records.producer().send(
                name, [Record(timestamp=n, value=b"%d" % n) for n in range(1_000)], partition=0
            )
            deadline = time.monotonic() + 20
            while tail.seen < 1_000 and time.monotonic() < deadline:
                await asyncio.sleep(0.01)
            assert (tail.seen, tail.matches, len(tail.ring), tail.dropped) == (1_000, 1_000, 50, 950)
            assert [row.record.value for row in tail.ring] == [b"%d" % n for n in range(950, 1_000)]
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    asyncio.run(job())


def test_a_tail_is_bounded_by_bytes_too(broker_cy: BrokerProcess, name: str) -> None:
    """If this fails, a few thousand large values exhaust the machine's memory."""

    async def job() -> None:
        async with AdminClient(broker_cy.bootstrap) as client:
            spans = await make(client, name, 1, [Record(value=b"x" * 100_000) for _ in range(40)])
            tail = Tail(client, {key: span.start for key, span in spans.items()}, bytes_max=1_000_000)
            task = asyncio.create_task(tail.run())
            deadline = time.monotonic() + 20
            while tail.seen < 40 and time.monotonic() < deadline:
                await asyncio.sleep(0.01)
            assert tail.kept_bytes <= 1_000_000
            assert len(tail.ring) == 9
            assert tail.dropped == 31
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    asyncio.run(job())
