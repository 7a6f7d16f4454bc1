"""Consuming as a member of a group, against both clusters: rebalances, kills, commits."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

import pytest

from broker_cy.admin import AdminClient, ClientError, group_consumer
from broker_cy.admin.fetched import Chunk
from broker_cy.admin.group_consumer import GroupConsumer
from broker_cy.admin.metadata import TopicPartition
from broker_cy.admin.records import Start
from broker_cy.admin.topics import NewTopic
from broker_cy.client.consumer_protocol import COOPERATIVE_STICKY, RANGE
from broker_cy.client.group_member import MemberSettings
from broker_cy.core.errors import ErrorCode
from broker_cy.wire.records import Record
from tests.broker_cy.admin.conftest import Run, with_client
from tests.support.broker import BrokerProcess

PARTITIONS = 4


def settings(name: str, instance_id: str | None = None, session_ms: int = 6_000) -> MemberSettings:
    return MemberSettings(name, session_ms, 100, 30_000, instance_id)


class Reading:
    """A member that reads in a task of its own. `values`: those of the records that it got."""

    def __init__(
        self,
        client: AdminClient,
        name: str,
        assignors: Sequence[str] = (RANGE,),
        *,
        instance_id: str | None = None,
        session_ms: int = 6_000,
    ) -> None:
        of = settings(name, instance_id, session_ms)
        self.consumer: GroupConsumer = client.groups.consumer(of, [name], assignors=assignors)
        self.values: list[bytes] = []
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> Reading:
        await self.consumer.__aenter__()
        self._task = asyncio.create_task(self._read())
        return self

    async def _read(self) -> None:
        async for chunk in self.consumer:
            self.values += [each.value or b"" for each in chunk.records]

    async def stop(self, *, leave: bool | None = None) -> None:
        assert self._task is not None
        await self.consumer.close(leave=leave)
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    async def kill(self) -> None:
        """End as by SIGKILL: with neither a commit nor LeaveGroup."""
        tasks = [each for each in (self.consumer._task, self.consumer._pump, self._task) if each is not None]
        for each in tasks:
            each.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def failure(self) -> ClientError:
        """Wait for the error that ends the reading."""
        assert self._task is not None
        with pytest.raises(ClientError) as raised:
            await asyncio.wait_for(self._task, 60)
        return raised.value

    @property
    def share(self) -> int:
        """How many partitions the member reads."""
        return len(self.consumer.positions)


async def until(condition: Callable[[], bool], what: str) -> None:
    async with asyncio.timeout(60.0):
        while not condition():
            await asyncio.sleep(0.02)
    assert condition(), what


async def write(client: AdminClient, name: str, values: range) -> None:
    """Write one record for each number, to the partitions in turn."""
    producer = client.records.producer()
    for partition in range(PARTITIONS):
        mine = [Record(key=None, value=b"%d" % each, timestamp=1) for each in values if each % PARTITIONS == partition]
        await producer.send(name, mine, partition=partition)


def expected(values: range) -> set[bytes]:
    return {b"%d" % each for each in values}


async def create(client: AdminClient, name: str) -> None:
    (await client.topics.create([NewTopic(name, PARTITIONS, 1)])).whole()


async def committed(client: AdminClient, name: str) -> int:
    """The sum of the committed offsets of the group."""
    (offsets,) = (await client.group_offsets.fetch([name])).whole().values()
    return sum(each.offset for each in offsets.values())


async def first_chunk(consumer: GroupConsumer) -> Chunk:
    async with consumer:
        async for chunk in consumer:
            return chunk
    raise AssertionError("no chunk")


def test_a_member_reads_commits_and_leaves(run: Run, name: str) -> None:
    """If this fails, `consume --group` reads nothing, reads records twice, or stays in the group when it ends."""

    async def job(client: AdminClient) -> None:
        await create(client, name)
        await write(client, name, range(40))
        first = await Reading(client, name).start()
        await until(lambda: len(first.values) == 40, "all records")
        (group,) = (await client.groups.describe([name])).whole().values()
        assert [len(each.assignment) for each in group.members] == [PARTITIONS]
        await first.stop()
        assert set(first.values) == expected(range(40))
        assert await committed(client, name) == 40
        (group,) = (await client.groups.describe([name])).whole().values()
        assert (group.state, group.members) == ("Empty", ())
        await write(client, name, range(40, 44))
        async with client.groups.consumer(settings(name), [name]) as consumer:
            seen: list[Record] = []
            async for chunk in consumer:
                seen += chunk.records
                if len(seen) == 4:
                    break
        assert {each.value for each in seen} == expected(range(40, 44))

    run(job)


@pytest.mark.parametrize("assignor", [RANGE, COOPERATIVE_STICKY])
def test_members_share_a_topic_and_take_over(run: Run, name: str, assignor: str) -> None:
    """If this fails, a rebalance loses records, or the partitions of a member that leaves are read by no member."""

    async def job(client: AdminClient) -> None:
        await create(client, name)
        first = await Reading(client, name, [assignor]).start()
        await until(lambda: first.share == PARTITIONS, "all partitions")
        second = await Reading(client, name, [assignor]).start()
        await until(lambda: (first.share, second.share) == (2, 2), "two partitions each")
        assert not first.consumer.assigned & second.consumer.assigned
        await write(client, name, range(40))
        await until(lambda: len(first.values) + len(second.values) == 40, "all records")
        assert len(first.values) == len(second.values) == 20
        await first.stop()
        await until(lambda: second.share == PARTITIONS, "all partitions for the second member")
        await write(client, name, range(40, 80))
        await until(lambda: len(second.values) == 60, "all records")
        await second.stop()
        # The first member committed its positions before it left: no record was read twice.
        assert sorted(first.values + second.values) == sorted(expected(range(80)))

    run(job)


def test_a_cooperative_member_reads_on_while_another_joins(ours: BrokerProcess, name: str) -> None:
    """If this fails, each new member stops the whole group (KIP-429)."""

    async def job(client: AdminClient) -> None:
        await create(client, name)
        first = await Reading(client, name, [COOPERATIVE_STICKY]).start()
        await until(lambda: first.share == PARTITIONS, "all partitions")
        kept: list[frozenset[TopicPartition]] = []
        revoked = first.consumer.member.revoked

        def note(parts: frozenset[tuple[str, int]]) -> None:
            revoked(parts)
            kept.append(first.consumer.assigned)

        first.consumer.member.revoked = note  # type: ignore[method-assign,assignment]
        second = await Reading(client, name, [COOPERATIVE_STICKY]).start()
        await until(lambda: (first.share, second.share) == (2, 2), "two partitions each")
        # Only the partitions that moved were revoked.
        assert [len(each) for each in kept] == [2]
        await first.stop()
        await second.stop()

    with_client(ours.bootstrap, job)


def test_another_member_takes_over_from_a_killed_one(ours: BrokerProcess, name: str) -> None:
    """If this fails, the partitions of a process that was killed stay unread, or its processed records are lost."""

    async def job(client: AdminClient) -> None:
        await create(client, name)
        async with AdminClient(ours.bootstrap) as other:
            killed = await Reading(other, name, session_ms=1_000).start()
            await until(lambda: killed.share == PARTITIONS, "all partitions")
            second = await Reading(client, name).start()
            await until(lambda: (killed.share, second.share) == (2, 2), "two partitions each")
            await write(client, name, range(40))
            await until(lambda: len(killed.values) + len(second.values) == 40, "all records")
            await killed.kill()
        await until(lambda: second.share == PARTITIONS, "all partitions for the second member")
        await until(lambda: set(second.values) == expected(range(40)), "the uncommitted records again")
        await second.stop()

    with_client(ours.bootstrap, job)


def test_a_static_member_returns_to_its_partitions(ours: BrokerProcess, name: str) -> None:
    """If this fails, restarting a member with group.instance.id makes the whole group rebalance (KIP-345)."""

    async def job(client: AdminClient) -> None:
        await create(client, name)
        first = await Reading(client, name, instance_id="i-1").start()
        second = await Reading(client, name, instance_id="i-2").start()
        await until(lambda: (first.share, second.share) == (2, 2), "two partitions each")
        before, generation = second.consumer.assigned, first.consumer.member.generation
        await second.stop()
        again = await Reading(client, name, instance_id="i-2").start()
        await until(lambda: again.share == 2, "the partitions of the former member")
        assert (again.consumer.assigned, first.consumer.member.generation) == (before, generation)
        # Another process with the same instance id ends the first one.
        taker = await Reading(client, name, instance_id="i-2").start()
        assert (await again.failure()).code is ErrorCode.FENCED_INSTANCE_ID
        for each in (taker, first):
            await each.stop(leave=True)

    with_client(ours.bootstrap, job)


def test_positions_are_those_that_the_caller_marked(ours: BrokerProcess, name: str) -> None:
    """If this fails, a program that stops within a chunk skips records when it is started again."""

    async def job(client: AdminClient) -> None:
        await create(client, name)
        key = TopicPartition(name, 0)
        await client.records.producer().send(name, [Record(timestamp=1, key=None, value=b"v")] * 10, partition=0)
        async with client.groups.consumer(settings(name), [name], commit_s=None) as consumer:
            async for chunk in consumer:
                assert len(chunk.records) == 10
                consumer.mark(key, 3)
                break
            await consumer.commit()
        async with client.groups.consumer(settings(name), [name], commit_s=None) as consumer:
            async for chunk in consumer:
                assert chunk.records[0].offset == 3
                break
        # Without automatic commits, the second member committed nothing.
        assert (await client.group_offsets.fetch([name])).whole()[name][key].offset == 3

    with_client(ours.bootstrap, job)


def test_new_partitions_are_read(ours: BrokerProcess, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, records of added partitions stay unread until a member joins or leaves."""
    monkeypatch.setattr(group_consumer, "PARTITIONS_S", 0.1)

    async def job(client: AdminClient) -> None:
        await create(client, name)
        reading = await Reading(client, name).start()
        await until(lambda: reading.share == PARTITIONS, "all partitions")
        (await client.topics.add_partitions({name: PARTITIONS + 2})).whole()
        await until(lambda: reading.share == PARTITIONS + 2, "the new partitions")
        await reading.stop()

    with_client(ours.bootstrap, job)


def test_a_member_without_a_committed_offset_begins_where_it_was_told(ours: BrokerProcess, name: str) -> None:
    """If this fails, `--from latest` of a new group shows old records."""

    async def job(client: AdminClient) -> None:
        await create(client, name)
        await write(client, name, range(40))
        async with client.groups.consumer(settings(name), [name], start=Start.latest()) as consumer:
            await until(lambda: len(consumer.positions) == PARTITIONS, "all partitions")
            await write(client, name, range(40, 41))
            async for chunk in consumer:
                assert [each.value for each in chunk.records] == [b"40"]
                break

    with_client(ours.bootstrap, job)


def test_errors_say_the_group_and_the_topic(ours: BrokerProcess, name: str) -> None:
    """If this fails, a misspelt topic waits for ever, or a wrong setting is reported without its group."""

    async def job(client: AdminClient) -> None:
        with pytest.raises(ClientError) as missing:
            await first_chunk(client.groups.consumer(settings(name), [name]))
        assert (missing.value.code, missing.value.what) == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"topic {name}")
        await create(client, name)
        with pytest.raises(ClientError, match="INVALID_SESSION_TIMEOUT") as refused:
            await first_chunk(client.groups.consumer(MemberSettings(name, session_timeout_ms=10), [name]))
        assert refused.value.what == f"group {name}"
        with pytest.raises(ClientError, match="assignor 'x' is not known"):
            client.groups.consumer(settings(name), [name], assignors=["x"])

    with_client(ours.bootstrap, job)
