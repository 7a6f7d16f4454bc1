"""Transactions of batches against a broker: crashes of driver and workers at each step, and wrong commits."""

from __future__ import annotations

import asyncio
import pickle
import random
from contextlib import suppress

import pytest

from broker_cy.admin import AdminClient, ClientError, transactional
from broker_cy.admin.metadata import TopicPartition
from broker_cy.client.transaction import V1, WrongState
from broker_streams import (
    StreamsError,
)
from broker_streams.hosts.spark import progress
from broker_streams.hosts.spark.query import QueryError
from tests.broker_streams.hosts.spark.counting import (
    WAIT_S,
    config_of,
    counted,
    counts,
    crash,
    create,
    expected,
    write,
)
from tests.broker_streams.hosts.spark.without_spark import STEPS, Crash, driver
from tests.support.broker import BrokerProcess
from tests.support.kafka_peer import KafkaPeer


@pytest.fixture(params=["negotiated", "version 1"])
def protocol(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """The protocol that the cluster has finalized, and the one before KIP-890."""
    if request.param == "version 1":
        monkeypatch.setattr(transactional, "client_version", lambda _: V1)


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
                # Processed records are deleted from the repartition topic.
                assert await running.drain() == 0

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
