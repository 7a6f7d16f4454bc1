"""Transactions of the admin client, against both clusters and in both protocols."""

from __future__ import annotations

import asyncio
import pickle
from pathlib import Path

import pytest

from broker_cy.admin import AdminClient, ClientError, transactional
from broker_cy.admin.metadata import TopicPartition
from broker_cy.admin.offsets import Isolation
from broker_cy.admin.topics import NewTopic
from broker_cy.client.errors import Failure
from broker_cy.client.group_member import MemberSettings
from broker_cy.client.transaction import V1, GroupMetadata, ProducerCore, State, WrongState
from broker_cy.core.errors import ErrorCode
from broker_cy.wire.records import Record
from tests.broker_cy.admin.conftest import SETTINGS, Run, with_client
from tests.support.broker import BrokerProcess

PARTITIONS = 2


@pytest.fixture(params=["negotiated", "version 1"])
def protocol(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """The protocol that the cluster has finalized, and the one before KIP-890."""
    if request.param == "version 1":
        monkeypatch.setattr(transactional, "client_version", lambda _: V1)


def records(*values: str) -> list[Record]:
    return [Record(timestamp=1, key=None, value=each.encode()) for each in values]


async def create(client: AdminClient, name: str) -> None:
    (await client.topics.create([NewTopic(name, PARTITIONS, 1)])).whole()


async def readable(client: AdminClient, name: str) -> list[str]:
    """The values that a reader of committed records sees."""
    keys = [TopicPartition(name, number) for number in range(PARTITIONS)]
    ends = (await client.offsets.latest(keys, isolation=Isolation.READ_COMMITTED)).whole()
    found: list[str] = []
    starts = dict.fromkeys(keys, 0)
    async with client.records.reader(starts, ends=ends, isolation=Isolation.READ_COMMITTED) as reader:
        async for chunk in reader:
            found += [(each.value or b"").decode() for each in chunk.records]
    return sorted(found)


@pytest.mark.usefixtures("protocol")
def test_a_transaction_is_committed_or_aborted_as_a_whole(run: Run, name: str) -> None:
    """If this fails, readers see a part of a transaction, or a batch of an aborted one."""

    async def job(client: AdminClient) -> None:
        await create(client, name)
        producer = client.transactional_producer(name)
        for turn in range(3):
            async with producer.transaction():
                for partition in range(PARTITIONS):
                    await producer.send(name, records(f"kept-{turn}-{partition}"), partition=partition)
            with pytest.raises(ZeroDivisionError):
                await _fail(producer, name)
        # A transaction without records needs no request.
        async with producer.transaction():
            pass
        assert producer.state is State.READY
        assert await readable(client, name) == sorted(f"kept-{turn}-{each}" for turn in range(3) for each in (0, 1))

    run(job)


async def _fail(producer: transactional.TransactionalProducer, name: str) -> None:
    async with producer.transaction():
        await producer.send(name, records("aborted"), partition=0)
        raise ZeroDivisionError


@pytest.mark.usefixtures("protocol")
def test_another_process_continues_a_transaction(run: Run, name: str) -> None:
    """If this fails, a program whose parts write in one transaction loses what its workers wrote."""

    async def job(client: AdminClient) -> None:
        await create(client, name)
        driver = client.transactional_producer(name)
        await driver.initialize()
        for turn in range(2):
            worker = client.transactional_producer(name)
            worker.resume(pickle.loads(pickle.dumps(driver.core)))
            await worker.begin()
            await worker.send(name, records(f"kept-{turn}"), partition=0)
            assert f"kept-{turn}" not in await readable(client, name)
            driver.resume(pickle.loads(pickle.dumps(worker.core)))
            await driver.commit()
        # A late worker, for which the driver does not wait any more.
        worker = client.transactional_producer(name)
        worker.resume(driver.core)
        await worker.begin()
        await worker.send(name, records("lost"), partition=0)
        await client.transactional_producer(name).initialize()
        with pytest.raises(ClientError):
            await worker.send(name, records("fenced"), partition=0)
        with pytest.raises(ClientError) as fenced:
            await driver.initialize(continues=True)
        assert fenced.value.code in (ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH)
        await driver.initialize()
        await driver.initialize(continues=True)
        # Its transactions, and those that it has aborted, are over.
        assert await readable(client, name) == ["kept-0", "kept-1"]
        with pytest.raises(ClientError, match=f"this is the producer of {name}, and the state is of other"):
            driver.resume(ProducerCore("other"))

    run(job)


@pytest.mark.usefixtures("protocol")
def test_offsets_are_a_part_of_the_transaction(run: Run, name: str) -> None:
    """If this fails, a program that copies records exactly once copies them twice or loses them (KIP-447)."""

    async def job(client: AdminClient) -> None:
        await create(client, name)
        key = TopicPartition(name, 0)
        await client.records.producer().send(name, records("a", "b"), partition=0)
        producer = client.transactional_producer(name)
        async with client.groups.consumer(MemberSettings(name), [name], commit_s=None) as consumer:
            async for chunk in consumer:
                member = consumer.member
                group = GroupMetadata(name, member.generation, member.member_id)
                async with producer.transaction():
                    await producer.send(name, [*chunk.records], partition=1)
                    await producer.commit_offsets(group, {key: chunk.next_offset})
                break
            with pytest.raises(ClientError) as refused:
                async with producer.transaction():
                    await producer.commit_offsets(group._replace(generation=group.generation + 1), {key: 7})
            assert refused.value.code is ErrorCode.ILLEGAL_GENERATION
        assert (await client.group_offsets.fetch([name], stable=True)).whole()[name][key].offset == 2
        await producer.begin()
        await producer.commit_offsets(GroupMetadata(name), {TopicPartition(name, 1): 1})
        # Others do not wait for this transaction.
        found = await client.group_offsets.fetch([name], stable=True, partitions=[key])
        assert {each: at.offset for each, at in found.whole()[name].items()} == {key: 2}
        waiting = client.with_timeout(0.5).group_offsets.fetch(
            [name], stable=True, partitions=[key._replace(partition=1)]
        )
        assert (await waiting).failed[name].code is ErrorCode.UNSTABLE_OFFSET_COMMIT
        await producer.abort()
        assert await readable(client, name) == ["a", "a", "b", "b"]

    run(job)


def test_a_second_producer_fences_the_first(run: Run, name: str) -> None:
    """If this fails, a process that was taken for dead commits beside its successor."""

    async def job(client: AdminClient) -> None:
        await create(client, name)
        first, second = client.transactional_producer(name), client.transactional_producer(name)
        await first.begin()
        await first.send(name, records("first"), partition=0)
        async with second.transaction():
            await second.send(name, records("second"), partition=0)
        with pytest.raises(ClientError) as fenced:
            await first.commit()
        assert fenced.value.code in (ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH)
        assert first.state is State.FATAL_ERROR
        with pytest.raises(WrongState, match="FATAL_ERROR"):
            await first.begin()
        assert await readable(client, name) == ["second"]

    run(job)


@pytest.mark.usefixtures("protocol")
def test_a_batch_that_is_refused_aborts_the_transaction(ours: BrokerProcess, name: str) -> None:
    """If this fails, a transaction is committed without one of its batches, or the next one is refused."""

    async def job(client: AdminClient) -> None:
        await create(client, name)
        producer = client.transactional_producer(name)
        await producer.begin()
        await producer.send(name, records("first"), partition=0)
        with pytest.raises(ClientError) as refused:
            await producer.send(name, records("x" * 2_000_000), partition=0)
        assert refused.value.code in (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE)
        assert producer.state is State.ABORTABLE_ERROR
        with pytest.raises(WrongState):
            await producer.commit()
        await producer.abort()
        async with producer.transaction():
            await producer.send(name, records("next"), partition=0)
        assert await readable(client, name) == ["next"]

    with_client(ours.bootstrap, job)


def test_a_transaction_begins_once_the_coordinator_is_back(tmp_path: Path, name: str) -> None:
    """If this fails, an application of streams ends when one broker of its cluster does."""
    broker = BrokerProcess(tmp_path, SETTINGS).start()

    async def job(client: AdminClient) -> None:
        await create(client, name)
        producer = client.transactional_producer(name)
        async with producer.transaction():
            await producer.send(name, records("first"), partition=0)
        broker.kill()
        # The client sees that its connections have ended; the next one is refused until the broker is back.
        while any(link.connection.closed is None for link in producer._caller.pool._links.values()):
            await asyncio.sleep(0.01)
        beginning = asyncio.create_task(producer.begin())
        await asyncio.to_thread(broker.start)
        await beginning
        await producer.send(name, records("next"), partition=0)
        await producer.commit()
        assert await readable(client, name) == ["first", "next"]

    try:
        with_client(broker.bootstrap, job)
    finally:
        broker.close()


def test_an_unreachable_coordinator_is_reported_in_time(name: str) -> None:
    """If this fails, a program hangs when the cluster is down."""

    async def job(client: AdminClient) -> None:
        with pytest.raises(ClientError) as failed:
            await client.transactional_producer(name).begin()
        assert failed.value.failure is Failure.UNREACHABLE

    with_client("127.0.0.1:1", job, 2.0)
