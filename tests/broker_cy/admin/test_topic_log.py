"""A compacted topic as the log of a program, against real nodes: appends, restarts, compaction, lost topics."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from broker_cy.admin import AdminClient, ClientError, Failure
from broker_cy.admin.configs import AlterOp, ConfigChange, ConfigResource, ResourceType
from broker_cy.admin.fetched import Chunk
from broker_cy.admin.metadata import TopicPartition
from broker_cy.admin.topic_log import LogSettings, Loss, TopicLog
from broker_cy.admin.topics import NewTopic
from broker_cy.core.errors import ErrorCode
from broker_cy.wire.records import Record
from tests.broker_cy.admin.conftest import Run, with_client
from tests.support.broker import QUICK, BrokerProcess

# The smallest segments, and a cleaner that does not wait, so that a test sees compaction within a second.
COMPACTED = {"segment.bytes": "1048576", "min.cleanable.dirty.ratio": "0.0", "delete.retention.ms": "0"}


class Table:
    """The state of a program: the last value of each key. `offsets`: those of all records that it was given."""

    def __init__(self) -> None:
        self.values: dict[bytes, bytes] = {}
        self.offsets: list[int] = []

    def take(self, chunk: Chunk) -> None:
        for each in chunk.records:
            self.offsets.append(each.offset)
            key = each.key or b""
            if each.value is None:
                self.values.pop(key, None)
            else:
                self.values[key] = each.value


def record(key: str, value: str | None) -> Record:
    return Record(timestamp=1, key=key.encode(), value=None if value is None else value.encode())


def log_of(client: AdminClient, name: str, table: Table, settings: LogSettings | None = None) -> TopicLog:
    return client.topic_log(name, table.take, settings or LogSettings(create=NewTopic(name, 1, 1)))


async def until(condition: Callable[[], bool], what: str) -> None:
    async with asyncio.timeout(60.0):
        while not condition():
            await asyncio.sleep(0.02)
    assert condition(), what


def test_an_append_returns_after_its_record_was_read(run: Run, name: str) -> None:
    """If this fails, a program answers from a state that lacks the write that it has just confirmed."""

    async def job(client: AdminClient) -> None:
        first, second = Table(), Table()
        async with log_of(client, name, first) as log, log_of(client, name, second) as other:
            assert await log.append([record("a", "1")]) == 0
            assert first.values == {b"a": b"1"}
            assert await other.append([record("a", "2"), record("b", "3")]) == 1
            await log.read_to_end()
            assert first.values == second.values == {b"a": b"2", b"b": b"3"}
            await log.append([record("b", None)])
            with pytest.raises(ClientError, match="partition 1 does not exist"):
                await log.append([record("a", "x")], partition=1)
        again = Table()
        async with log_of(client, name, again):
            assert again.values == {b"a": b"2"}
        resource = ConfigResource(ResourceType.TOPIC, name)
        (policy,) = (await client.configs.describe([resource], names=["cleanup.policy"])).whole()[resource]
        assert policy.value == "compact"

    run(job)


def test_an_aborted_record_is_not_taken(ours: BrokerProcess, name: str) -> None:
    """If this fails, a state has writes of transactions that were aborted, and each reader another one."""

    async def job(client: AdminClient) -> None:
        table = Table()
        async with log_of(client, name, table) as log:
            producer = client.transactional_producer(name)
            await producer.begin()
            await producer.send(name, [record("a", "aborted")], partition=0)
            # A record behind the open transaction is stored, but not readable yet: the wait for it has its limit.
            async with log_of(client.with_timeout(1.0), name, Table()) as waiting:
                with pytest.raises(ClientError, match="read to offset 0 of 2 within 1 s") as late:
                    await waiting.append([record("b", "stored")])
            assert late.value.failure is Failure.TIMED_OUT
            await producer.abort()
            await log.append([record("a", "kept")])
            assert table.values == {b"a": b"kept", b"b": b"stored"}

    with_client(ours.bootstrap, job)


def test_a_log_follows_over_a_restart_of_its_node(tmp_path: Path, name: str) -> None:
    """If this fails, a program has an old state for ever after a broker was restarted, or takes records twice."""
    broker = BrokerProcess(tmp_path, QUICK)
    try:
        broker.start()

        async def job(client: AdminClient) -> None:
            table = Table()
            async with log_of(client, name, table) as log:
                await log.append([record("a", "1")])
                await asyncio.to_thread(broker.kill)
                await asyncio.to_thread(broker.restart)
                assert await log.append([record("b", "2")]) == 1
                assert table.values == {b"a": b"1", b"b": b"2"}
                assert table.offsets == [0, 1]

        with_client(broker.bootstrap, job)
    finally:
        broker.close()


def test_a_deleted_topic_ends_the_log(ours: BrokerProcess, name: str) -> None:
    """If this fails, a program keeps a state that no longer exists, or waits for ever for its own record."""

    async def job(client: AdminClient) -> None:
        async with log_of(client, name, Table()) as log:
            await log.append([record("a", "1")])
            (await client.topics.delete([name])).whole()
            failure = await asyncio.wait_for(log.failed(), 60)
            assert str(failure).endswith("the topic was deleted")
            with pytest.raises(ClientError, match="the topic was deleted"):
                await log.append([record("a", "2")])

    with_client(ours.bootstrap, job)


@pytest.mark.parametrize("records", [0, 5])
def test_a_recreated_topic_ends_the_log(ours: BrokerProcess, name: str, records: int) -> None:
    """If this fails, a program mixes the state of a deleted topic with that of its successor."""

    async def job(client: AdminClient) -> None:
        table = Table()
        async with log_of(client, name, table) as log:
            await log.append([record("a", "1"), record("b", "2")])
            async with AdminClient(ours.bootstrap) as other:
                (await other.topics.delete([name])).whole()
                (await other.topics.create([NewTopic(name, 1, 1, {"cleanup.policy": "compact"})])).whole()
                if records:
                    await other.records.producer().send(name, [record(f"n{each}", "x") for each in range(records)])
            failure = await asyncio.wait_for(log.failed(), 60)
            assert str(failure).endswith("the topic was deleted and created again")
            assert table.values == {b"a": b"1", b"b": b"2"}

    with_client(ours.bootstrap, job)


def test_a_log_is_read_after_compaction(tmp_path: Path, name: str) -> None:
    """If this fails, a follower stops at offsets that compaction removed, or a new reader gets another state."""
    broker = BrokerProcess(tmp_path, {**QUICK, "log.cleaner.backoff.ms": "50"})
    try:
        broker.start()

        async def job(client: AdminClient) -> None:
            table, settings = Table(), LogSettings(create=NewTopic(name, 1, 1, COMPACTED))
            async with log_of(client, name, table, settings) as log:
                for turn in range(30):
                    await log.append([record(f"k{turn % 3}", f"{turn:02}" * 50_000)])

                async def is_compacted() -> bool:
                    found = Table()
                    async with log_of(client, name, found):
                        assert found.values == table.values
                    return len(found.offsets) < 20

                async with asyncio.timeout(60.0):
                    while not await is_compacted():
                        await asyncio.sleep(0.05)
                assert table.offsets == list(range(30))
                assert await log.append([record("k0", "last")]) == 30
                assert table.values[b"k0"] == b"last"

        with_client(broker.bootstrap, job)
    finally:
        broker.close()


def test_a_topic_that_loses_records_is_refused_or_warned_about(ours: BrokerProcess, name: str) -> None:
    """If this fails, a program begins with a part of its state, without a word."""

    async def job(client: AdminClient) -> None:
        (await client.topics.create([NewTopic(f"{name}-delete", 1, 1)])).whole()
        for on_loss in Loss:
            with pytest.raises(ClientError, match=r"cleanup.policy is delete.*set it to compact"):
                await log_of(client, f"{name}-delete", Table(), LogSettings(on_loss=on_loss)).__aenter__()
        async with log_of(client, name, Table(), LogSettings(create=NewTopic(name, 1, 1))) as log:
            await log.append([record("a", "1"), record("b", "2")])

        async def set_policy(policy: str) -> None:
            change = ConfigChange("cleanup.policy", AlterOp.SET, policy)
            (await client.configs.alter({ConfigResource(ResourceType.TOPIC, name): [change]})).whole()

        await set_policy("delete")
        (await client.topics.delete_records({TopicPartition(name, 0): 1})).whole()
        await set_policy("compact")
        lost = f"partition {name}-0: records before offset 1 were deleted"
        with pytest.raises(ClientError, match=lost):
            await log_of(client, name, Table()).__aenter__()
        warnings: list[str] = []
        async with log_of(client, name, Table(), LogSettings(on_loss=Loss.WARN, warn=warnings.append)):
            pass
        assert warnings == [lost]

    with_client(ours.bootstrap, job)


def test_a_missing_topic_is_an_error_unless_it_may_be_created(ours: BrokerProcess, name: str) -> None:
    """If this fails, a misspelt name creates a topic, or the message does not say how to create one."""

    async def job(client: AdminClient) -> None:
        with pytest.raises(ClientError, match=r"create it with cleanup\.policy=compact") as missing:
            await log_of(client, name, Table(), LogSettings()).__aenter__()
        assert missing.value.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert name not in await client.topics.names()

    with_client(ours.bootstrap, job)


def test_a_log_of_all_records_needs_a_topic_that_deletes_none(ours: BrokerProcess, name: str) -> None:
    """If this fails, a command topic forgets statements after a week, or those of ksqlDB cannot be opened."""

    async def job(client: AdminClient) -> None:
        settings, table = LogSettings(create=NewTopic(name, 1, 1), policy="delete"), Table()
        async with log_of(client, name, table, settings) as log:
            await log.append([record("a", "1"), record("a", "2")])
        resource = ConfigResource(ResourceType.TOPIC, name)
        entries = (await client.configs.describe([resource], names=["cleanup.policy", "retention.ms"])).whole()[
            resource
        ]
        assert {each.name: each.value for each in entries} == {"cleanup.policy": "delete", "retention.ms": "-1"}
        change = ConfigChange("retention.ms", AlterOp.SET, "1000")
        (await client.configs.alter({resource: [change]})).whole()
        with pytest.raises(ClientError, match=r"retention\.ms is 1000, so that records are deleted; set it to -1"):
            await log_of(client, name, Table(), settings).__aenter__()

    with_client(ours.bootstrap, job)


def test_an_error_of_the_program_ends_the_log(ours: BrokerProcess, name: str) -> None:
    """If this fails, a record that the program cannot read is passed over, or read again for ever."""

    def take(chunk: Chunk) -> None:
        raise ZeroDivisionError

    async def job(client: AdminClient) -> None:
        async with client.topic_log(name, take, LogSettings(create=NewTopic(name, 1, 1))) as log:
            with pytest.raises(ZeroDivisionError):
                await log.append([record("a", "1")])

    with_client(ours.bootstrap, job)
