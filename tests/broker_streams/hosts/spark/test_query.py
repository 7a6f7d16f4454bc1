"""Batches of a query against a broker, with crashes of driver and workers at each step, without Spark."""

from __future__ import annotations

import asyncio
import pickle
import random
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from broker_cy.admin import AdminClient, ClientError, transactional
from broker_cy.admin.metadata import TopicPartition
from broker_cy.admin.topics import NewTopic
from broker_cy.client.transaction import V1, WrongState
from broker_cy.wire.records import Record
from broker_streams import (
    LONG,
    STRING,
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
from broker_streams.hosts.spark import progress
from broker_streams.hosts.spark.query import Query, QueryError
from broker_streams.plan.topology import TopologyError
from tests.broker_streams.brokers import SETTINGS
from tests.broker_streams.hosts.spark.without_spark import STEPS, Crash, Driver, committed, driver
from tests.support.broker import BrokerProcess
from tests.support.kafka_peer import KafkaPeer

PARTITIONS = 2
KEYS = 5
# Members of the embedded host hear of tasks soon.
WAIT_S = 60.0


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    made = BrokerProcess(tmp_path_factory.mktemp("spark-broker"), SETTINGS)
    try:
        yield made.start()
    finally:
        made.close()


@pytest.fixture(params=["negotiated", "version 1"])
def protocol(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """The protocol that the cluster has finalized, and the one before KIP-890."""
    if request.param == "version 1":
        monkeypatch.setattr(transactional, "client_version", lambda _: V1)


def config_of(broker: BrokerProcess | KafkaPeer, name: str, **changed: Any) -> dict[str, Any]:
    given = {
        "application.id": name,
        "bootstrap.servers": broker.bootstrap,
        "statestore.cache.max.bytes": 0,
        "default.key.serde": STRING,
        "default.value.serde": STRING,
        "transaction.timeout.ms": 60_000,
    }
    return given | {key.replace("_", "."): value for key, value in changed.items()}


def counts(name: str) -> Any:
    """The number of records of each value, over a repartition topic and a store."""
    builder = StreamsBuilder()
    grouped = builder.stream(f"{name}-in").group_by(lambda key, value: value)
    grouped.count().to_stream().to(f"{name}-out", value=LONG)
    return builder.build().plan


async def create(client: AdminClient, *names: str) -> None:
    (await client.topics.create([NewTopic(each, PARTITIONS, 1) for each in names])).whole()


async def write(client: AdminClient, topic: str, first: int, count: int) -> None:
    made = [Record(timestamp=at, key=b"k%d" % at, value=f"w{at % KEYS}".encode()) for at in range(first, first + count)]
    await client.records.producer().send(topic, made)


async def counted(client: AdminClient, topic: str) -> dict[str, list[int]]:
    """The committed counts of each word, in their order."""
    found: dict[str, list[int]] = {}
    for theirs in await committed(client, topic, PARTITIONS, lambda each: (each.key, int.from_bytes(each.value))):
        for key, count in theirs:
            found.setdefault(key.decode(), []).append(count)
    return found


def expected(written: int) -> dict[str, list[int]]:
    return {f"w{key}": list(range(1, len(range(key, written, KEYS)) + 1)) for key in range(KEYS)}


async def crash(running: Driver, query: Query, step: str) -> None:
    """Run batches until one has results: the first may not see those of another query yet."""
    async with asyncio.timeout(WAIT_S):
        while True:
            await running.batch(query, crash_at=step)


@pytest.mark.usefixtures("protocol")
def test_a_crash_at_each_step_counts_each_record_once(broker: BrokerProcess, request: pytest.FixtureRequest) -> None:
    """If this fails, a driver that is killed in a batch loses records, or counts them twice."""

    async def job() -> None:
        name = f"crash-{abs(hash(request.node.name)) % 10_000}"
        config, chance = config_of(broker, name), random.Random(1)
        async with AdminClient(broker.bootstrap, timeout_s=WAIT_S) as client:
            await create(client, f"{name}-in", f"{name}-out")
            written = 0
            for turn, step in enumerate((*STEPS, *STEPS)):
                await write(client, f"{name}-in", written, 20)
                written += 20
                async with driver(client, counts(name), config, chance) as running:
                    # First in the sub-topology before the repartition topic, then in the one behind it.
                    query = running.queries[turn // len(STEPS)]
                    if turn >= len(STEPS):
                        await running.batch(running.queries[0])
                    with pytest.raises(Crash):
                        await crash(running, query, step)
            async with driver(client, counts(name), config, chance) as running:
                await running.drain()
                assert await counted(client, f"{name}-out") == expected(written)
                # What is processed is deleted from the repartition topic.
                assert await running.drain() == 0

    asyncio.run(job())


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


def test_a_writer_of_a_former_driver_cannot_write(broker: BrokerProcess) -> None:
    """If this fails, a worker that hung while the driver was replaced writes its results a second time."""

    async def job() -> None:
        name = "zombie"
        config = config_of(broker, name)
        async with AdminClient(broker.bootstrap, timeout_s=WAIT_S) as client:
            await create(client, f"{name}-in", f"{name}-out")
            await write(client, f"{name}-in", 0, 20)
            async with driver(client, counts(name), config) as former:
                query = former.queries[0]
                start = await query.first()
                planned = await query.plan(start, await query.latest(start, None))
                async with driver(client, counts(name), config) as running:
                    for each in planned:
                        with pytest.raises(ClientError):
                            await former.carry_out(pickle.loads(each))
                    await running.drain()
                    for each in planned:
                        with pytest.raises(ClientError):
                            await former.carry_out(pickle.loads(each))
                    # The former driver cannot decide anything either, and does not begin again.
                    with pytest.raises((ClientError, WrongState)):
                        await query._decide([])
                    assert query._topics is not None
                    with pytest.raises(StreamsError, match="another driver runs application zombie now"):
                        await query.begin(query._topics)
                    await write(client, f"{name}-in", 20, 10)
                    await running.drain()
                    assert await counted(client, f"{name}-out") == expected(30)

    asyncio.run(job())


def test_a_batch_is_decided_by_its_record(broker: BrokerProcess) -> None:
    """If this fails, the progress topic tells something else about a batch than what was committed."""

    async def job() -> None:
        name = "record"
        async with AdminClient(broker.bootstrap, timeout_s=WAIT_S) as client:
            await create(client, f"{name}-in", f"{name}-out")
            await write(client, f"{name}-in", 0, 20)
            async with driver(client, counts(name), config_of(broker, name)) as running:
                assert await progress.last(client, f"{name}-0") is None
                await running.drain()
                await write(client, f"{name}-in", 20, 5)
                await running.drain()
            for query, topics in ((f"{name}-0", ["repartition"]), (f"{name}-1", ["changelog", "out"])):
                found = await progress.last(client, query)
                assert found is not None
                assert found.query == query
                assert sorted(topic.rpartition("-")[2] for topic in found.written) == topics
                # The second query may see the results of two tasks in two batches.
                assert (found.batch, found.records) == (1, 5) or query == f"{name}-1"
                group = (await client.group_offsets.fetch([name])).whole()[name]
                assert found.offsets
                for topic, partition, offset in found.offsets:
                    assert group[TopicPartition(topic, partition)].offset == offset

    asyncio.run(job())


def test_another_batch_than_the_planned_one_is_refused(broker: BrokerProcess) -> None:
    """If this fails, a batch is committed without the results of a task, or twice."""

    async def job() -> None:
        name = "other"
        async with AdminClient(broker.bootstrap, timeout_s=WAIT_S) as client:
            await create(client, f"{name}-in", f"{name}-out")
            await write(client, f"{name}-in", 0, 20)
            async with driver(client, counts(name), config_of(broker, name)) as running:
                query = running.queries[0]
                start = await query.first()
                end = await query.latest(start, None)
                works = await query.plan(start, end)
                # Spark may ask for the plan of a batch again.
                assert await query.plan(start, end) == works
                other = {**end, "offsets": {**end["offsets"], f"{name}-in": {"0": 1, "1": 1}}}
                with pytest.raises(QueryError, match="is open, and Spark plans another one"):
                    await query.plan(start, other)
                done = [pickle.dumps(await running.carry_out(pickle.loads(each))) for each in works]
                with pytest.raises(QueryError, match="has other tasks than the driver has planned"):
                    await query.commit(0, [done[:1]])
                with pytest.raises(QueryError, match="lacks the result of a task"):
                    await query.commit(0, [done, None])
                await query.commit(0, [done])
                # A commit that Spark repeats changes nothing.
                await query.commit(0, [done])
                assert query.figures.batches == 1

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


@pytest.mark.full
def test_a_crash_at_each_step_on_kafka(live_kafka: KafkaPeer) -> None:
    """If this fails, applications on Spark are exact on brokers of this project only."""

    async def job() -> None:
        name = "spark-on-kafka"
        config, chance, written = config_of(live_kafka, name), random.Random(1), 0
        async with AdminClient(live_kafka.bootstrap, timeout_s=WAIT_S) as client:
            await create(client, f"{name}-in", f"{name}-out")
            for step in STEPS:
                await write(client, f"{name}-in", written, 20)
                written += 20
                async with driver(client, counts(name), config, chance) as running:
                    await running.batch(running.queries[0])
                    with pytest.raises(Crash):
                        await crash(running, running.queries[1], step)
            async with driver(client, counts(name), config, chance) as running:
                await running.drain()
            assert await counted(client, f"{name}-out") == expected(written)

    asyncio.run(job())


@pytest.mark.soak
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("seed", range(10))
def test_many_crashes(broker: BrokerProcess, seed: int) -> None:
    """The same as a crash at each step, a hundred times in each of ten orders."""

    async def job() -> None:
        name, chance = f"many-{seed}", random.Random(seed)
        config = config_of(broker, name)
        async with AdminClient(broker.bootstrap, timeout_s=WAIT_S) as client:
            await create(client, f"{name}-in", f"{name}-out")
            written = 0
            for _ in range(100):
                await write(client, f"{name}-in", written, 10)
                written += 10
                async with driver(client, counts(name), config, chance) as running:
                    for _ in range(chance.randrange(3)):
                        await running.batch(chance.choice(running.queries))
                    for query in running.queries:
                        with suppress(Crash):
                            await running.batch(query, crash_at=chance.choice(STEPS))
            async with driver(client, counts(name), config, chance) as running:
                await running.drain()
            assert await counted(client, f"{name}-out") == expected(written)

    asyncio.run(job())
