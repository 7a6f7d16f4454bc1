"""Batches of a query against a broker, without Spark: tasks in several processes, their inputs, clocks and state."""

from __future__ import annotations

import asyncio
import random
import time
from pathlib import Path
from typing import Any

import pytest

from broker_cy.admin import AdminClient
from broker_cy.wire.records import Record
from broker_streams import (
    JoinWindows,
    Processor,
    ProcessorContext,
    PunctuationType,
    StreamsBuilder,
    StreamsError,
    records,
)
from broker_streams.hosts.embedded.host import EmbeddedHost
from broker_streams.hosts.settings import HostSettings
from broker_streams.hosts.spark import shipped
from broker_streams.hosts.spark.query import QueryError
from broker_streams.hosts.spark.worker import Worker
from broker_streams.plan.topology import TopologyError
from tests.broker_streams.hosts.spark.counting import (
    KEYS,
    PARTITIONS,
    WAIT_S,
    config_of,
    counted,
    counts,
    create,
    expected,
    write,
)
from tests.broker_streams.hosts.spark.without_spark import Driver, committed, driver
from tests.support.broker import BrokerProcess


def test_a_task_goes_on_in_another_process(broker: BrokerProcess) -> None:
    """If this fails, a task that comes to another worker continues with old state."""

    async def job() -> None:
        name = "moves"
        async with AdminClient(broker.bootstrap, timeout_s=WAIT_S) as client:
            await create(client, f"{name}-in", f"{name}-out")
            async with driver(client, counts(name), config_of(broker, name), random.Random(3)) as running:
                for turn in range(6):
                    await write(client, f"{name}-in", turn * 10, 10)
                    await running.drain()
                assert await counted(client, f"{name}-out") == expected(60)

    asyncio.run(job())


def test_a_worker_deletes_the_state_of_tasks_that_went_away(broker: BrokerProcess, tmp_path: Path) -> None:
    """If this fails, workers of a cluster keep the state of each task that they ever had, until the disk is full."""

    async def job() -> None:
        name = "leaves"
        config = config_of(broker, name, state_dir=str(tmp_path))
        directory = tmp_path / name
        async with AdminClient(broker.bootstrap, timeout_s=WAIT_S) as client:
            await create(client, f"{name}-in", f"{name}-out")
            async with driver(client, counts(name), config) as running:
                one, other = running.workers
                await asyncio.to_thread(other.close)
                quick = {**config, "state.cleanup.delay.ms": 1}
                other = Worker(shipped.unpacked(shipped.packed(shipped.Shipped(running.topology, quick))))
                running.workers = [one]
                await write(client, f"{name}-in", 0, 20)
                await running.drain()
                had = {path.name for path in directory.iterdir()}
                assert had == {"1_0", "1_1"}
                # Another process has the first sub-topology only, and leaves the files that are in use.
                running.workers = [other]
                await write(client, f"{name}-in", 20, 10)
                assert await running.batch(running.queries[0])
                assert {path.name for path in directory.iterdir()} == had
                one._leave(time.time_ns() // 1_000_000 + one._settings.state_cleanup_delay_ms - int(WAIT_S) * 1_000)
                assert one._kept.keys() == {(0, 0), (0, 1), (1, 0), (1, 1)}
                one._leave(time.time_ns() // 1_000_000 + one._settings.state_cleanup_delay_ms + 1)
                assert one._kept == {}
                written = 30
                async with asyncio.timeout(WAIT_S):
                    while any(directory.iterdir()):
                        await write(client, f"{name}-in", written, 10)
                        written += 10
                        await running.batch(running.queries[0])
                await running.drain()
                assert await counted(client, f"{name}-out") == expected(written)
                running.workers = [one, other]

    asyncio.run(job())


def test_an_error_of_a_function_ends_the_application_and_nothing_is_written(broker: BrokerProcess) -> None:
    """If this fails, an application on Spark hides the error of its function, or loses the record."""

    def fails(value: str) -> str:
        raise RuntimeError(f"cannot take {value}")

    async def job() -> None:
        name = "fails"
        builder = StreamsBuilder()
        builder.stream(f"{name}-in").map_values(fails).to(f"{name}-out")
        async with AdminClient(broker.bootstrap, timeout_s=WAIT_S) as client:
            await create(client, f"{name}-in", f"{name}-out")
            await write(client, f"{name}-in", 0, 1)
            async with driver(client, builder.build().plan, config_of(broker, name)) as running:
                with pytest.raises(StreamsError, match="cannot take w0"):
                    await running.batch(running.queries[0])
                assert running.queries[0].failure is not None
                assert await counted(client, f"{name}-out") == {}

    asyncio.run(job())


def joined(name: str) -> Any:
    builder = StreamsBuilder()
    left, right = builder.stream(f"{name}-left"), builder.stream(f"{name}-right")
    left.left_join(right, lambda one, other: f"{one}+{other}", JoinWindows.of("1s")).to(f"{name}-out")
    return builder.build().plan


def test_two_inputs_are_processed_in_the_order_of_their_timestamps(broker: BrokerProcess) -> None:
    """If this fails, a join on Spark gives other results than with Kafka Streams."""

    async def job() -> None:
        name = "joined"
        async with AdminClient(broker.bootstrap, timeout_s=WAIT_S) as client:
            await create(client, f"{name}-left", f"{name}-right", f"{name}-out")
            producer = client.records.producer()
            for side, delay_ms in (("left", 0), ("right", 300)):
                made = [
                    Record(timestamp=at * 1_000 + delay_ms, key=b"a", value=f"{side[0]}{at}".encode())
                    for at in range(20)
                ]
                await producer.send(f"{name}-{side}", made)
            async with driver(client, joined(name), config_of(broker, name), random.Random(5)) as running:
                (query,) = running.queries
                # The right side is behind when a batch ends between its records: the task waits for it.
                while await running.batch(query, rows_max=14):
                    pass
                found = await committed(client, f"{name}-out", PARTITIONS, lambda each: each.value.decode())
            (values,) = [each for each in found if each]
            assert values == [
                pair for at in range(20) for pair in ([] if at == 0 else [f"l{at}+r{at - 1}"]) + [f"l{at}+r{at}"]
            ]

    asyncio.run(job())


def test_a_global_table_is_read_by_each_worker(broker: BrokerProcess, tmp_path: Path) -> None:
    """If this fails, tasks on Spark join with a global table that lacks rows, or each worker reads all of it again."""

    async def job() -> None:
        name = "globe"
        builder = StreamsBuilder()
        names = builder.global_table(f"{name}-names")
        orders = builder.stream(f"{name}-in")
        orders.join(names, lambda key, value: value, lambda order, found: f"{order}={found}").to(f"{name}-out")
        async with AdminClient(broker.bootstrap, timeout_s=WAIT_S) as client:
            await create(client, f"{name}-names", f"{name}-in", f"{name}-out")
            rows = [Record(timestamp=1, key=b"w%d" % each, value=b"n%d" % each) for each in range(KEYS)]
            await client.records.producer().send(f"{name}-names", rows)
            config = config_of(broker, name, state_dir=str(tmp_path))
            async with driver(client, builder.build().plan, config, random.Random(2)) as running:
                for turn in range(4):
                    await write(client, f"{name}-in", turn * 10, 10)
                    await running.drain()
                    # Later records see later rows.
                    rows = [Record(timestamp=1, key=b"w0", value=b"m%d" % turn)]
                    await client.records.producer().send(f"{name}-names", rows)
                found = await committed(client, f"{name}-out", PARTITIONS, lambda each: each.value.decode())
            rest = [f"w{each}=n{each}" for each in range(1, KEYS) for _ in range(8)]
            zero = [f"w0={each}" for each in ("n0", "m0", "m1", "m2") for _ in range(2)]
            assert sorted(each for values in found for each in values) == sorted(rest + zero)
            async with driver(client, builder.build().plan, config, random.Random(2)) as running:
                await write(client, f"{name}-in", 0, 10)
                await running.drain()
                found = await committed(client, f"{name}-out", PARTITIONS, lambda each: each.value.decode())
                assert sum(each == "w0=m3" for values in found for each in values) == 2
                # The rows that the driver before had not planned with.
                assert max(each._globals.read for each in running.workers) <= 2

    asyncio.run(job())


class Ticking(Processor):
    """Tells the times at which its clock calls it."""

    def init(self, context: ProcessorContext) -> None:
        super().init(context)
        context.schedule(100, PunctuationType.WALL_CLOCK_TIME, self.tick)

    def tick(self, now_ms: int) -> None:
        self.context.forward(records.Record("tick", str(now_ms), now_ms))

    def process(self, record: records.Record) -> None:
        self.context.forward(record)


def test_punctuations_of_the_clock_keep_their_interval(broker: BrokerProcess, monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, a task calls a punctuation at each batch, or never, as each batch may be in another process."""

    async def job() -> None:
        name = "clock"
        builder = StreamsBuilder()
        builder.stream(f"{name}-in").process(Ticking).to(f"{name}-out")
        clock = [1_000]
        async with AdminClient(broker.bootstrap, timeout_s=WAIT_S) as client:
            await create(client, f"{name}-in", f"{name}-out")
            await client.records.producer().send(f"{name}-in", [Record(timestamp=1, value=b"x")], partition=0)
            made = Driver(client, builder.build().plan, config_of(broker, name), random.Random(4))
            (query,) = made.queries
            query._now_ms = lambda: clock[0]
            try:
                await made.begin()
                ran = []
                for now_ms in (1_050, 1_060, 1_100, 1_150, 1_199, 1_201, 1_420, 1_430):
                    clock[0] = now_ms
                    ran.append(await made.batch(query))
            finally:
                await made.close()
            found = await committed(client, f"{name}-out", PARTITIONS, lambda each: each.value.decode())
            # Batches run for records, and when a punctuation is due.
            assert ran == [True, False, True, False, False, True, True, False]
            # Both tasks have a clock, also the one without records.
            assert sorted(each for values in found for each in values) == [
                *("1100" for _ in range(PARTITIONS)),
                *("1201" for _ in range(PARTITIONS)),
                *("1420" for _ in range(PARTITIONS)),
                "x",
            ]

    asyncio.run(job())


def test_the_topics_of_an_application_are_checked(broker: BrokerProcess) -> None:
    """If this fails, an application waits for ever for a topic that does not exist, or runs with another number of
    partitions than its state has.
    """

    async def job() -> None:
        name = "topics"
        async with AdminClient(broker.bootstrap, timeout_s=WAIT_S) as client:
            with pytest.raises(TopologyError, match=f"reads topics that do not exist: {name}-in"):
                async with driver(client, counts(name), config_of(broker, name)):
                    pass
            await create(client, f"{name}-in", f"{name}-out")
            async with driver(client, counts(name), config_of(broker, name)) as running:
                assert [len(query._tasks) for query in running.queries] == [PARTITIONS, PARTITIONS]
                (await client.topics.add_partitions({f"{name}-in": PARTITIONS + 1})).whole()
                query = running.queries[0]
                query._counts_due_s = 0.0
                with pytest.raises(QueryError, match=f"topic {name}-in has 3 partitions now"):
                    await query.latest(await query.first(), None)
            with pytest.raises(TopologyError, match=r"has 2 partitions, and the application needs 3: reset the"):
                async with driver(client, counts(name), config_of(broker, name)):
                    pass

    asyncio.run(job())


def test_a_query_that_reads_what_is_there_ends(broker: BrokerProcess) -> None:
    """If this fails, Trigger.AvailableNow never ends while records arrive."""

    async def job() -> None:
        name = "held"
        async with AdminClient(broker.bootstrap, timeout_s=WAIT_S) as client:
            await create(client, f"{name}-in", f"{name}-out")
            await write(client, f"{name}-in", 0, 20)
            async with driver(client, counts(name), config_of(broker, name)) as running:
                query = running.queries[0]
                await query.hold()
                await write(client, f"{name}-in", 20, 20)
                while await running.batch(query, rows_max=6):
                    pass
                assert query.figures.records == 20
                # The next query ends with what the first one has written, whose transactions are over.
                await query.settle()
                await running.queries[1].hold()
                while await running.batch(running.queries[1]):
                    pass
                await query.hold()
                assert not await running.batch(query)
                assert await counted(client, f"{name}-out") == expected(20)

    asyncio.run(job())


def test_the_queries_of_a_driver_take_turns(broker: BrokerProcess) -> None:
    """If this fails, many queries keep as many Python processes of Spark, or one that failed keeps others waiting."""

    async def job() -> None:
        name, turns = "turns", asyncio.Semaphore(1)
        async with AdminClient(broker.bootstrap, timeout_s=WAIT_S) as client:
            await create(client, f"{name}-in", f"{name}-out")
            await write(client, f"{name}-in", 0, 20)
            async with driver(client, counts(name), config_of(broker, name)) as running:
                first, second = running.queries
                first.turns = second.turns = turns
                await first.latest(await first.first(), None)
                waiting = asyncio.create_task(second.latest(await second.first(), None))
                async with asyncio.timeout(WAIT_S):
                    while not turns._waiters:
                        await asyncio.sleep(0.01)
                    assert not waiting.done()
                    # The run of the first one fails.
                    first.give_turn_back()
                    await waiting
                second.give_turn_back()
                await running.drain()
                assert not turns.locked()
                assert await counted(client, f"{name}-out") == expected(20)

    asyncio.run(job())


def test_both_hosts_go_on_where_the_other_one_stopped(broker: BrokerProcess) -> None:
    """If this fails, an application that moves to Spark, or back, loses its counts, or counts records twice."""

    async def job() -> None:
        name = "hosts"
        config = config_of(broker, name, commit_interval_ms=20)
        async with AdminClient(broker.bootstrap, timeout_s=WAIT_S) as client:
            await create(client, f"{name}-in", f"{name}-out")
            for turn in range(4):
                await write(client, f"{name}-in", turn * 20, 20)
                if turn % 2 == 0:
                    async with driver(client, counts(name), config) as running:
                        await running.drain()
                    continue
                host = EmbeddedHost(client, counts(name), HostSettings.of(config))
                task = asyncio.create_task(host.run())
                async with asyncio.timeout(WAIT_S):
                    while sum(map(len, (await counted(client, f"{name}-out")).values())) < turn * 20 + 20:
                        assert not task.done()
                        await asyncio.sleep(0.05)
                host.stop()
                await task
            assert await counted(client, f"{name}-out") == expected(80)

    asyncio.run(job())


def test_an_application_that_runs_on_the_other_host_is_refused(broker: BrokerProcess) -> None:
    """If this fails, an application that runs on both hosts writes its results twice, without a word."""

    async def job() -> None:
        name = "both"
        config = config_of(broker, name, commit_interval_ms=20)
        async with AdminClient(broker.bootstrap, timeout_s=WAIT_S) as client:
            await create(client, f"{name}-in", f"{name}-out")
            async with driver(client, counts(name), config) as running:
                host = EmbeddedHost(client, counts(name), HostSettings.of(config))
                task = asyncio.create_task(host.run())
                try:
                    async with asyncio.timeout(WAIT_S):
                        while not host.tasks.active:
                            await asyncio.sleep(0.05)
                    query = running.queries[0]
                    query._counts_due_s = 0.0
                    with pytest.raises(StreamsError, match="group both has 1 members: the application runs on the"):
                        await query.latest(await query.first(), None)
                    with pytest.raises(StreamsError, match="end it first"):
                        async with driver(client, counts(name), config):
                            pass
                    host.stop()
                    await task
                finally:
                    task.cancel()
                    await asyncio.gather(task, return_exceptions=True)

    asyncio.run(job())
